"""What differs between two versions of an operator's state.

Where the newer version goes on from the frames of the older one, only the keys that the deltas in
between name can differ, and nothing else is kept in memory. Elsewhere (a base has come between, the
state was made anew, or has other partitions) the older version is held whole, a partition at a time
where both have the same partitions.
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
    """How the rows of one column family differ between two states.

    Attributes:
        operator: Spark's operator id.
        store: Spark's name of the store.
        family: Spark's name of the column family.
        added: keys that only the later state has.
        changed: keys that both have, with other values.
        removed: keys that only the earlier state has.
        bytes: by how much the rows have grown, in bytes; negative where they have shrunk.
        partitions: how many have a key that differs.
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
    """A key whose values differ; in UnsafeRow form.

    Attributes:
        key: the key.
        before: the values that it had, in their order; none where it was not there.
        after: those that it has.
        partition: of the later state, or of the earlier where it was removed.
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
        """In bytes of the key and its values."""

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
        only: the name of the one family to compare; None is all that either has.

    Raises:
        CorruptedError: a frame is damaged, misplaced or missing.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    for group in _groups(before, after):
        touched = _touched(before, after, group)
        names = [only] if only is not None else _names(before, after, group)
        for family in names:
            keys = None if touched is None else touched.get(family, set())
            if keys is None or keys:
                yield from ((family, of) for of in _compared(before, after, group, family, keys))


class _Group(NamedTuple):
    """Partitions of two states that are compared with each other."""

    before: Sequence[int]
    after: Sequence[int]


def _groups(before: StoredVersion, after: StoredVersion) -> list[_Group]:
    """Each partition by itself, unless a key may have gone to another one."""
    if before.partitions != after.partitions:
        return [_Group(before.partitions, after.partitions)]
    return [_Group([partition], [partition]) for partition in after.partitions]


def _families(version: StoredVersion, partitions: Sequence[int]) -> dict[str, Family]:
    return {of.name: of for state in version.live(partitions) for of in state.families}


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
    found: dict[bytes, tuple[tuple[bytes, ...], int]] = {}
    for state in version.live(partitions):
        own = next((of for of in state.families if of.name == family), None)
        for key, value in () if own is None else state.rows(own):
            if only is None or key in only:
                values, _ = found.get(key, ((), 0))
                found[key] = ((*values, value), state.store.partition)
    return found


def _touched(
    before: StoredVersion, after: StoredVersion, group: _Group
) -> dict[str, set[bytes]] | None:
    """The keys that the deltas in between name, by family; None where there are not only deltas."""
    if not isinstance(before, CutVersion) or not isinstance(after, CutVersion):
        return None
    if group.before != group.after or len(group.after) != 1:
        return None
    (partition,) = group.after
    chain, last = after.chains[partition], before.chains[partition][-1].name
    versions = [(of.name.version, of.name.version_id) for of in chain]
    if (last.version, last.version_id) not in versions:
        return None
    further = chain[versions.index((last.version, last.version_id)) + 1 :]
    names = {of.family_id: name for name, of in _families(after, group.after).items()}
    keys: dict[str, set[bytes]] = {name: set() for name in names.values()}
    parts = after.reader.read(further)
    for placed in further:
        frame = after.reader.frame(placed, parts, after.cut.ref)
        # Families that come and go take their rows with them.
        if frame.identity.families:
            return None
        for record in frame.records():
            if record.family_id in names:
                keys[names[record.family_id]].add(record.key)
    return keys


def summed(
    operator: int, store: str, before: StoredVersion, after: StoredVersion
) -> Iterator[DiffInfo]:
    """What differs in each family of one operator's stores of one name, where anything does."""
    counts: dict[str, Counter[ChangeKind]] = defaultdict(Counter)
    growth, partitions = Counter[str](), defaultdict[str, set[int]](set)
    for family, change in changes(before, after):
        counts[family][change.kind] += 1
        growth[family] += change.growth
        partitions[family].add(change.partition)
    for family, found in sorted(counts.items()):
        yield DiffInfo(
            operator,
            store,
            family,
            added=found["added"],
            changed=found["changed"],
            removed=found["removed"],
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
            {of for version in (before, after) for of in _families(version, version.partitions)}
        )
        raise history.not_found(f"column family {family}", f"families {', '.join(names)}")
    # Where one state does not have it yet, nothing has to be read there.
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
        found = (change for _, change in changes(before, after, family))
        while chunk := list(islice(found, BATCH_ROWS)):
            try:
                columns = [
                    pa.array([of.kind for of in chunk], pa.string()),
                    key.decode_rows([of.key for of in chunk]),
                    of_before.decoded([of.before for of in chunk]),
                    of_after.decoded([of.after for of in chunk]),
                    pa.array([of.partition for of in chunk], pa.int32()),
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
    """As the first partition has it that does; no further one is read."""
    states = version.live(version.partitions)
    return next((of for state in states for of in state.families if of.name == family), None)


class _Values:
    """Decodes what keys have: a value, or a list of them; null where a key is not there."""

    def __init__(self, family: Family) -> None:
        if family.encoding != UNSAFE_ROW:
            raise unreadable(family)
        self._struct = struct_of(family.value_schema, "value")
        self._is_list = family.is_multi_valued

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self._struct.arrow) if self._is_list else self._struct.arrow

    def decoded(self, values: Sequence[Sequence[bytes]]) -> pa.Array:
        flat = self._struct.decode_rows([value for own in values for value in own])
        if self._is_list:
            ends = list(accumulate(map(len, values), initial=0))
            # A null begins where the next list does.
            offsets = [end if own else None for end, own in zip(ends, values, strict=False)]
            return pa.ListArray.from_arrays(pa.array([*offsets, ends[-1]], pa.int32()), flat)
        places = accumulate((bool(own) for own in values), initial=0)
        at = [place if own else None for place, own in zip(places, values, strict=False)]
        return flat.take(pa.array(at, pa.int64()))
