"""The live rows of one version of a store, found from its newest frame back.

A newer frame overrides older ones, key by key. So memory holds one changelog at a time and the keys
that changed since the snapshot, and the snapshot is read in portions. A caller that stops early has
read only the frames that lead to the rows so far.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cleancut._checkpoint.read.state import LIST_WITHOUT_START
from cleancut._format.frame.frame import Block, FrameRequest
from cleancut._format.frame.identity import Family, Identity
from cleancut._format.frame.records import Record
from cleancut._format.layout import StoreId

Row = tuple[bytes, bytes]


class LiveFrame(Protocol):
    """A frame, or a snapshot whose rows are read from the frames that it references."""

    @property
    def request(self) -> FrameRequest:
        """The identity that the frame must have."""

    @property
    def identity(self) -> Identity:
        """The identity in its header."""

    @property
    def is_base(self) -> bool: ...

    @property
    def keys(self) -> int:
        """The number of live keys after the frame, available after its blocks were read."""

    def blocks(self) -> Iterator[Block]:
        """All blocks in order."""

    def blocks_from_the_end(self) -> Iterator[Block]:
        """All blocks in reverse order."""

    def blocks_of(self, family: int, key: bytes) -> Iterator[Block]:
        """The blocks of a snapshot that may contain a key."""


@dataclass(frozen=True)
class LiveState:
    """One version of one store.

    Attributes:
        store: the store.
        place: the object that errors about its rows name.
        version: the state version.
        newest_first: its frames, each read when it is reached.
    """

    store: StoreId
    place: str
    version: int
    newest_first: Iterator[LiveFrame]
    _found: list[LiveFrame] = field(default_factory=list)

    @cached_property
    def families(self) -> Sequence[Family]:
        """All column families. Reads headers only, back to the first one that lists families."""
        return next(
            (frame.identity.families for frame in self._frames() if frame.identity.families), ()
        )

    def rows(self, family: Family) -> Iterator[Row]:
        """The rows of a family, each a key and a value; a list's values keep their order.

        Raises:
            CorruptedError: a frame is corrupted, misplaced or missing, or the number of keys is
                wrong.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        for family_id, key, value in self.all_rows():
            if family_id == family.family_id:
                yield key, value

    def all_rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The rows of all families, each with its family id; raises as `rows` does."""
        fold = _Fold(self.families)
        for frame in self._frames():
            yield from fold.rows_of(frame)
        yield from fold.rest()
        newest = self._found[0]
        if fold.live != newest.keys:
            detail = f"the store has {fold.live} live keys after it"
            raise newest.request.damaged(f"{detail}, and its trailer says {newest.keys}")

    def values(self, family: Family, key: bytes) -> list[bytes]:
        """The values of one key, in the order of a list's values; empty if it does not exist.

        Of a snapshot with an index only the blocks are read that may contain the key.

        Raises:
            CorruptedError: a frame is corrupted, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        wanted = (family.family_id, key)
        # Collected from the newest to the oldest.
        values: list[bytes] = []
        for frame in self._frames():
            families = {item.family_id for item in frame.identity.families}
            if families and family.family_id not in families:
                break
            if frame.is_base:
                blocks = list(frame.blocks_of(family.family_id, key))[::-1]
            else:
                blocks = list(frame.blocks_from_the_end())
            newer = len(values)
            for record in (item for block in blocks for item in reversed(block.records)):
                if record[:2] != wanted:
                    continue
                if record.value is not None:
                    values.append(record.value)
                if not record.is_merge:
                    return values[::-1]
            if frame.is_base and len(values) > newer:
                raise frame.request.damaged(LIST_WITHOUT_START)
        return values[::-1]

    def _frames(self) -> Iterator[LiveFrame]:
        at = 0
        while True:
            if at == len(self._found):
                frame = next(self.newest_first, None)
                if frame is None:
                    return
                self._found.append(frame)
            yield self._found[at]
            at += 1


class _Fold:
    """The changes of each key in newer frames.

    Attributes:
        live: the number of live keys so far, over all families.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self.live = 0
        self._lists = {family.family_id for family in families if family.is_multi_valued}
        # By family: keys that are resolved; merged values to append to an older value.
        self._said: dict[int, set[bytes]] = {family.family_id: set() for family in families}
        self._behind: dict[int, dict[bytes, list[bytes]]] = {
            family_id: {} for family_id in self._said
        }
        self._in_base: set[tuple[int, bytes]] = set()

    def rows_of(self, frame: LiveFrame) -> Iterator[tuple[int, bytes, bytes]]:
        """The rows that an older frame adds to those of the newer frames."""
        if frame.is_base:
            self._forget_families_but(frame.identity.families)
            for block in frame.blocks():
                yield from self._base_rows(block.records, frame)
        else:
            blocks = frame.blocks_from_the_end()
            self._forget_families_but(frame.identity.families)
            for block in blocks:
                yield from self._delta_rows(reversed(block.records), frame)

    def rest(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Merged values of keys that are in the snapshot, or that had no value before."""
        for family_id, behind in self._behind.items():
            for key, values in behind.items():
                self.live += (family_id, key) not in self._in_base
                yield from ((family_id, key, value) for value in reversed(values))

    def _forget_families_but(self, families: Sequence[Family]) -> None:
        """Drops families that a frame does not list: rows from before their removal are gone."""
        if families:
            there = {family.family_id for family in families}
            self._said = {
                family_id: said for family_id, said in self._said.items() if family_id in there
            }

    def _base_rows(
        self, records: Iterable[Record], frame: LiveFrame
    ) -> Iterator[tuple[int, bytes, bytes]]:
        for family_id, key, value, is_merge in records:
            said = self._said.get(family_id)
            if said is None or key in said or value is None:
                continue
            if not is_merge:
                self.live += 1
            # For other keys, the number of live keys shows whether each has a put.
            if key in self._behind[family_id]:
                if is_merge and (family_id, key) not in self._in_base:
                    raise frame.request.damaged(LIST_WITHOUT_START)
                self._in_base.add((family_id, key))
            yield family_id, key, value

    def _delta_rows(
        self, records: Iterable[Record], frame: LiveFrame
    ) -> Iterator[tuple[int, bytes, bytes]]:
        for family_id, key, value, is_merge in records:
            said = self._said.get(family_id)
            if said is None or key in said:
                continue
            behind = self._behind[family_id]
            if is_merge and value is not None:
                if family_id not in self._lists:
                    raise frame.request.damaged(
                        f"a merge in family {family_id}, which has no lists"
                    )
                behind.setdefault(key, []).append(value)
                continue
            said.add(key)
            values = behind.pop(key, [])
            if value is not None:
                values.append(value)
            self.live += bool(values)
            yield from ((family_id, key, item) for item in reversed(values))
