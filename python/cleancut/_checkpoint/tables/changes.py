"""The difference between two versions of an operator's state.

If the newer version continues the frames of the older one, only keys of the changelogs in between
can differ, and memory holds these keys only. Otherwise (a snapshot came between, the state was
created again, or the number of partitions differs) memory holds the older version: one partition at
a time if both versions have the same partitions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Literal, NamedTuple

import pyarrow as pa

from cleancut._brief import Brief
from cleancut._checkpoint.read.history import CutVersion, History, StoredVersion
from cleancut._checkpoint.tables.batches import BATCH_ROWS, unreadable
from cleancut._display.tables import rank
from cleancut._format.frame.identity import UNSAFE_ROW, Family
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import error_of

ChangeKind = Literal["added", "changed", "removed"]


@dataclass(frozen=True, repr=False)
class DiffInfo(Brief):
    """The number of keys of one column family that differ between two states.

    Attributes:
        operator: Spark's operator id.
        store: Spark's name of the store.
        family: Spark's name of the column family.
        added: number of keys that only the later state has.
        changed: number of keys that both states have, with different values.
        removed: number of keys that only the earlier state has.
        bytes: growth of the rows in bytes; negative if they have shrunk.
        partitions: number of partitions with a key that differs.
    """

    operator: int
    store: str
    family: str
    added: int
    changed: int
    removed: int
    bytes: int
    partitions: int = field(metadata=rank(1))


class Change(NamedTuple):
    """A key whose values differ, in UnsafeRow form.

    Attributes:
        key: the key.
        before: its earlier values, in order; empty if it did not exist.
        after: its later values, in order; empty if it does not exist.
        partition: its partition in the later state, or in the earlier one if it was removed.
    """

    key: bytes
    before: Sequence[bytes]
    after: Sequence[bytes]
    partition: int

    @property
    def kind(self) -> ChangeKind:
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"

    @property
    def growth(self) -> int:
        """Growth of the key and its values in bytes."""

        def size(values: Sequence[bytes]) -> int:
            return sum(map(len, values)) + len(self.key) * bool(values)

        return size(self.after) - size(self.before)


def changes(
    before: StoredVersion, after: StoredVersion, only: str | None = None
) -> Iterator[tuple[str, Change]]:
    """The keys that differ and the names of their families, partition by partition.

    Args:
        before: the earlier state.
        after: the later one.
        only: the name of the one family to compare; None is all families of both states.

    Raises:
        CorruptedError: a frame is corrupted, misplaced or missing.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    for group in _groups(before, after):
        touched = _touched(before, after, group)
        names = [only] if only is not None else _names(before, after, group)
        for family in names:
            keys = None if touched is None else touched.get(family, set())
            if keys is None or keys:
                yield from (
                    (family, change) for change in _compared(before, after, group, family, keys)
                )


class _Group(NamedTuple):
    """Partitions of two states that are compared with each other."""

    before: Sequence[int]
    after: Sequence[int]


def _groups(before: StoredVersion, after: StoredVersion) -> list[_Group]:
    """Each partition separately, unless a key may have moved to another one."""
    if before.partitions != after.partitions:
        return [_Group(before.partitions, after.partitions)]
    return [_Group([partition], [partition]) for partition in after.partitions]


def _families(version: StoredVersion, partitions: Sequence[int]) -> dict[str, Family]:
    return {family.name: family for state in version.live(partitions) for family in state.families}


def _names(before: StoredVersion, after: StoredVersion, group: _Group) -> list[str]:
    return sorted(_families(before, group.before) | _families(after, group.after))


def _compared(
    before: StoredVersion,
    after: StoredVersion,
    group: _Group,
    family: str,
    touched: set[bytes] | None,
) -> Iterator[Change]:
    old = _rows(before, group.before, family, touched)
    for key, (values, partition) in _rows(after, group.after, family, touched).items():
        had, _ = old.pop(key, ((), 0))
        if had != values:
            yield Change(key, had, values, partition)
    for key, (values, partition) in old.items():
        yield Change(key, values, (), partition)


def _rows(
    version: StoredVersion, partitions: Sequence[int], family: str, only: set[bytes] | None
) -> dict[bytes, tuple[tuple[bytes, ...], int]]:
    values_by_key: dict[bytes, tuple[tuple[bytes, ...], int]] = {}
    for state in version.live(partitions):
        match = next((candidate for candidate in state.families if candidate.name == family), None)
        for key, value in () if match is None else state.rows(match):
            if only is None or key in only:
                values, _ = values_by_key.get(key, ((), 0))
                values_by_key[key] = ((*values, value), state.store.partition)
    return values_by_key


def _touched(
    before: StoredVersion, after: StoredVersion, group: _Group
) -> dict[str, set[bytes]] | None:
    """The keys of the changelogs in between, by family; None if there are other frames."""
    if not isinstance(before, CutVersion) or not isinstance(after, CutVersion):
        return None
    if group.before != group.after or len(group.after) != 1:
        return None
    (partition,) = group.after
    chain, last = after.chains[partition], before.chains[partition][-1].name
    versions = [(frame.name.version, frame.name.version_id) for frame in chain]
    if (last.version, last.version_id) not in versions:
        return None
    further = chain[versions.index((last.version, last.version_id)) + 1 :]
    names = {known.family_id: name for name, known in _families(after, group.after).items()}
    keys: dict[str, set[bytes]] = {name: set() for name in names.values()}
    parts = after.reader.read(further)
    for placed in further:
        frame = after.reader.frame(placed, parts, after.cut.ref)
        # If a family was added or removed, its rows changed with it.
        if frame.identity.families:
            return None
        for record in frame.records():
            if record.family_id in names:
                keys[names[record.family_id]].add(record.key)
    return keys


def summed(
    operator: int, store: str, before: StoredVersion, after: StoredVersion
) -> Iterator[DiffInfo]:
    """Counts the differences in each family of one operator's stores of one name."""
    counts: dict[str, Counter[ChangeKind]] = defaultdict(Counter)
    growth, partitions = Counter[str](), defaultdict[str, set[int]](set)
    for family, change in changes(before, after):
        counts[family][change.kind] += 1
        growth[family] += change.growth
        partitions[family].add(change.partition)
    for family, counted in sorted(counts.items()):
        yield DiffInfo(
            operator,
            store,
            family,
            added=counted["added"],
            changed=counted["changed"],
            removed=counted["removed"],
            bytes=growth[family],
            partitions=len(partitions[family]),
        )


def change_reader(
    history: History, before: StoredVersion, after: StoredVersion, family: str
) -> pa.RecordBatchReader:
    """The keys of a family that differ, as batches.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_COLUMN_UNREADABLE.
    """
    old, new = (_find_family(version, family) for version in (before, after))
    known = new or old
    if known is None:
        names = sorted(
            {name for version in (before, after) for name in _families(version, version.partitions)}
        )
        raise history.not_found(f"column family {family}", f"families {', '.join(names)}")
    # A state that does not have the family yet has no rows to read.
    of_before, of_after = _Values(old or known), _Values(known)
    key = struct_of(known.key_schema, "key")
    schema = pa.schema(
        [
            ("change", pa.string()),
            ("key", key.arrow),
            ("before", of_before.arrow),
            ("after", of_after.arrow),
            ("partition", pa.int32()),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        differing = (change for _, change in changes(before, after, family))
        while chunk := list(islice(differing, BATCH_ROWS)):
            try:
                columns = [
                    pa.array([item.kind for item in chunk], pa.string()),
                    key.decode_rows([item.key for item in chunk]),
                    of_before.decoded([item.before for item in chunk]),
                    of_after.decoded([item.after for item in chunk]),
                    pa.array([item.partition for item in chunk], pa.int32()),
                ]
            except MisfitError as error:
                raise error_of(
                    "CLEANCUT_ROW_CORRUPTED",
                    directory=history.location,
                    version=after.version,
                    detail=error,
                ) from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _find_family(version: StoredVersion, family: str) -> Family | None:
    """The family as the first partition has it that does; later ones are not read."""
    states = version.live(version.partitions)
    return next(
        (candidate for state in states for candidate in state.families if candidate.name == family),
        None,
    )


class _Values:
    """Decodes the values of keys: a value or a list; null if the key does not exist."""

    def __init__(self, family: Family) -> None:
        if family.encoding != UNSAFE_ROW:
            raise unreadable(family)
        self._struct = struct_of(family.value_schema, "value")
        self._is_list = family.is_multi_valued

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self._struct.arrow) if self._is_list else self._struct.arrow

    def decoded(self, values: Sequence[Sequence[bytes]]) -> pa.Array:
        flat = self._struct.decode_rows([value for item in values for value in item])
        if self._is_list:
            ends = list(accumulate(map(len, values), initial=0))
            # A null starts at the offset of the next list.
            offsets = [end if item else None for end, item in zip(ends, values, strict=False)]
            return pa.ListArray.from_arrays(pa.array([*offsets, ends[-1]], pa.int32()), flat)
        places = accumulate((bool(item) for item in values), initial=0)
        at = [place if item else None for place, item in zip(places, values, strict=False)]
        return flat.take(pa.array(at, pa.int64()))
