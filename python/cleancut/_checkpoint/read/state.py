"""The rows of one version of a store, assembled from frames."""

from dataclasses import dataclass, field

from cleancut._format.frame.frame import Frame
from cleancut._format.frame.identity import Family
from cleancut.errors import CleancutError

LIST_WITHOUT_START = "a list in a base begins with a merge, so that its first values are missing"


@dataclass
class State:
    """All live rows of a store at one version; starts as version 0, the empty store.

    Attributes:
        version: the state version.
        version_id: its id; None at version 0.
        families: the column families by id.
        rows: for each family id, the values of each key, oldest first, all in UnsafeRow form. A key
            of a family that is not multi-valued has one.
        inexact: the reason why it also has rows of other partitions; None if it does not.
    """

    version: int = 0
    version_id: str | None = None
    families: dict[int, Family] = field(default_factory=dict)
    rows: dict[int, dict[bytes, list[bytes]]] = field(default_factory=dict)
    inexact: CleancutError | None = None

    @property
    def keys(self) -> int:
        """The number of live keys."""
        return sum(len(rows) for rows in self.rows.values())

    def apply(self, frame: Frame) -> None:
        """Advances the state to the version of a frame.

        Args:
            frame: a snapshot, if the state is at version 0, or a changelog of its version and id.

        Raises:
            CorruptedError: CLEANCUT_FRAME_CORRUPTED; the state must not be used any more.
        """
        if frame.identity.families:
            self.families = {family.family_id: family for family in frame.identity.families}
            self.rows = {number: self.rows.get(number, {}) for number in self.families}
        is_base = frame.identity.name.kind == "base"
        for family_id, key, value, is_merge in frame.records():
            rows = self.rows.get(family_id)
            if rows is None:
                raise frame.request.damaged(f"a record is of family {family_id}, which is unknown")
            if value is None:
                rows.pop(key, None)
            elif not is_merge:
                rows[key] = [value]
            elif not self.families[family_id].is_multi_valued:
                raise frame.request.damaged(f"a merge in family {family_id}, which has no lists")
            elif is_base and key not in rows:
                raise frame.request.damaged(LIST_WITHOUT_START)
            else:
                rows.setdefault(key, []).append(value)
        if self.inexact is None and self.keys != frame.keys:
            raise frame.request.damaged(
                f"the store has {self.keys} live keys after it, and its trailer says {frame.keys}"
            )
        values = sum(len(values) for rows in self.rows.values() for values in rows.values())
        if is_base and values != frame.record_count:
            raise frame.request.damaged("it holds a key more than once")
        self.version, self.version_id = frame.identity.name.version, frame.identity.name.version_id
