"""Reads snapshots that reference chains of other stores, or a part of their rows.

docs/FORMAT.md, *Reference*.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from cleancut._checkpoint.read.live_rows import LiveState
from cleancut._checkpoint.read.state import State
from cleancut._format.frame.frame import Block, Frame, FrameRequest
from cleancut._format.frame.identity import UNSAFE_ROW, Family, Identity, Spread
from cleancut._format.frame.records import Record
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.encoder import Cell
from cleancut._unsafe_rows.rows import Struct
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of
from cleancut._unsafe_rows.stored_cells import stored_cells
from cleancut.errors import CleancutError, error_of

Wanted = Callable[[bytes], bool]

# Maximum number of rows in an assembled block.
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class ReferredBase:
    """A snapshot whose rows are read from the chains that it references.

    Attributes:
        request: the identity that the frame must have.
        header: the identity in its own header.
        sources: the states that it references.
    """

    request: FrameRequest
    header: Identity
    sources: Sequence[LiveState]
    is_base = True

    @cached_property
    def identity(self) -> Identity:
        """The identity of a snapshot that contained the rows itself."""
        families: dict[str, Family] = {}
        for source in self.sources:
            join(families, source.families, self.header.spread)
        return replace(self.header, families=tuple(families.values()))

    @property
    def keys(self) -> int:
        """The number of its keys, available after its blocks were read."""
        return int(vars(self)["_keys"])

    def blocks(self) -> Iterator[Block]:
        """The rows. Raises as the blocks of a frame do."""
        records = self._records()
        while chunk := list(islice(records, _BLOCK_ROWS)):
            yield Block(0, 0, chunk)

    def blocks_from_the_end(self) -> Iterator[Block]:
        """The rows in reverse order."""
        return iter(list(self.blocks())[::-1])

    def blocks_of(self, family: int, key: bytes) -> Iterator[Block]:
        """The rows of one key."""
        for source in self.sources:
            for source_family in source.families:
                match = self._own(source_family)
                if match is None or match[0].family_id != family:
                    continue
                # The key may be in no source, so every partition is possible.
                if wanted(self.header, source_family)(key):
                    values = enumerate(source.values(source_family, key))
                    yield Block(0, 0, [Record(family, key, value, at > 0) for at, value in values])

    def _records(self) -> Iterator[Record]:
        keys = 0
        for source in self.sources:
            targets = {
                source_family.family_id: self._own(source_family)
                for source_family in source.families
            }
            # The values of a list may be interleaved with other keys.
            begun: set[tuple[int, bytes]] = set()
            for family_id, key, value in source.all_rows():
                known = targets.get(family_id)
                if known is None or not known[1](key):
                    continue
                is_merge = known[0].is_multi_valued and (family_id, key) in begun
                if known[0].is_multi_valued:
                    begun.add((family_id, key))
                keys += not is_merge
                yield Record(known[0].family_id, key, value, is_merge)
        vars(self)["_keys"] = keys

    def _own(self, family: Family) -> tuple[Family, Wanted] | None:
        """The family that a source's family becomes here, and the filter of its keys."""
        match = next(
            (candidate for candidate in self.identity.families if candidate.name == family.name),
            None,
        )
        return None if match is None else (match, wanted(self.header, family, self.request))


def fill(state: State, frame: Frame, sources: Iterable[State]) -> None:
    """Fills an empty state with the rows of a snapshot that references others.

    If the partition of keys cannot be computed, the state gets all rows of the sources and its
    `inexact` is set.

    Args:
        state: a state at version 0.
        frame: the snapshot.
        sources: the states that it references.
    """
    families: dict[str, Family] = {}
    for source in sources:
        join(families, source.families.values(), frame.identity.spread)
        state.inexact = state.inexact or source.inexact
        for source_family in source.families.values():
            target = families.get(source_family.name)
            if target is None:
                continue
            rows = state.rows.setdefault(target.family_id, {})
            try:
                is_wanted = wanted(frame.identity, source_family, frame.request)
            except CleancutError as error:
                state.inexact, is_wanted = error, lambda _: True
            for key, values in source.rows[source_family.family_id].items():
                if is_wanted(key):
                    if key in rows:
                        raise frame.request.damaged("two of its sources have the same key")
                    rows[key] = values
    state.families = {source_family.family_id: source_family for source_family in families.values()}
    state.version, state.version_id = frame.identity.name.version, frame.identity.name.version_id


def join(into: dict[str, Family], families: Iterable[Family], spread: Spread | None) -> None:
    """Adds the families of a source. The first source keeps its ids; new families get the next ids.

    Args:
        into: the families so far, by name.
        families: the families of the source.
        spread: lists the families to include; None includes all.
    """
    is_first = not into
    for family in sorted(families, key=lambda family: family.family_id):
        if family.name in into or (spread is not None and family.name not in spread.keys):
            continue
        number = max((existing.family_id for existing in into.values()), default=-1) + 1
        into[family.name] = family if is_first else replace(family, family_id=number)


def wanted(identity: Identity, family: Family, request: FrameRequest | None = None) -> Wanted:
    """The filter of a source family's keys that a snapshot includes.

    Args:
        identity: identity of the snapshot.
        family: a family of the source.
        request: request of the snapshot, if all keys are read from the source. The filter then
            raises CLEANCUT_FRAME_CORRUPTED for a key that no snapshot of this source would include.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE, the partition of keys cannot be computed.
    """
    spread = identity.spread
    if spread is None:
        return lambda _: True
    columns = [tuple(place) for place in spread.keys[family.name]]
    if family.encoding != UNSAFE_ROW:
        raise _unknown_partition(family, f"the state encoding {family.encoding}")
    key = struct_of(family.key_schema, "key")
    for place in columns:
        _require(key, place)

    def is_wanted(row: bytes) -> bool:
        try:
            cells = [_at(stored_cells(key, row), place) for place in columns]
        except (MisfitError, IndexError) as error:
            raise error_of(
                "CLEANCUT_ROW_CORRUPTED",
                directory=str(identity),
                version=identity.name.version,
                detail=error,
                operator=identity.store.operator,
                partition=identity.store.partition,
                store=identity.store.store,
            ) from error
        partition, own_partition = partition_of(cells, spread.partitions), identity.store.partition
        if request is not None and (partition - own_partition) % spread.source_partitions:
            raise request.damaged(
                f"a key of partition {partition} of {spread.partitions} is in a source that has "
                f"rows of partition {own_partition}: no store would have it"
            )
        return partition == own_partition

    return is_wanted


def _require(row: Struct, place: tuple[int, ...]) -> None:
    """Raises ValueError if there is no such column."""
    at, *rest = place
    if at >= len(row.fields):
        raise ValueError(f"no column {at}")
    column = row.fields[at].column
    if not rest:
        return
    if not isinstance(column, Struct):
        raise ValueError(f"column {at} is no row")
    _require(column, tuple(rest))


def _at(cells: Sequence[Cell], place: tuple[int, ...]) -> Cell:
    at, *rest = place
    return _at(cells[at].fields, tuple(rest)) if rest else cells[at]


def _unknown_partition(family: Family, kind: str) -> CleancutError:
    return error_of(
        "CLEANCUT_COLUMN_UNREADABLE",
        column=f"key of the family {family.name}",
        type=kind,
        reason="the state was rescaled by reference, and this package cannot compute the partition "
        "of such a key. Run the query until its stores have their own snapshots, or read the state "
        "through Spark",
    )
