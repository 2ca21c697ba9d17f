"""What a base has that refers to others: the rows of chains of other stores, or some of them.

docs/FORMAT.md, *A base that refers to others*.
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
from cleancut._unsafe_rows.encoded import Cell
from cleancut._unsafe_rows.rows import Struct
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of
from cleancut._unsafe_rows.stored_cells import stored_cells
from cleancut.errors import CleancutError, error_of

Wanted = Callable[[bytes], bool]

# Rows of a block that is put together here.
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class ReferredBase:
    """Such a base as it is read for its rows, in the place of a frame.

    Attributes:
        request: which frame it is.
        header: what its own header says.
        sources: what it refers to.
    """

    request: FrameRequest
    header: Identity
    sources: Sequence[LiveState]
    is_base = True

    @cached_property
    def identity(self) -> Identity:
        """What the header would say if the rows were its own."""
        families: dict[str, Family] = {}
        for source in self.sources:
            join(families, source.families, self.header.spread)
        return replace(self.header, families=tuple(families.values()))

    @property
    def keys(self) -> int:
        """The number of its keys, once its blocks were read."""
        return int(vars(self)["_keys"])

    def blocks(self) -> Iterator[Block]:
        """Its rows. Raises as those of a frame do."""
        records = self._records()
        while chunk := list(islice(records, _BLOCK_ROWS)):
            yield Block(0, 0, chunk)

    def blocks_from_the_end(self) -> Iterator[Block]:
        """The same, the last first."""
        return iter(list(self.blocks())[::-1])

    def blocks_of(self, family: int, key: bytes) -> Iterator[Block]:
        """The rows of one key."""
        for source in self.sources:
            for of in source.families:
                own = self._own(of)
                if own is None or own[0].family_id != family:
                    continue
                # The key may be in no source, so its partition may be any.
                if wanted(self.header, of)(key):
                    values = enumerate(source.values(of, key))
                    yield Block(0, 0, [Record(family, key, of, at > 0) for at, of in values])

    def _records(self) -> Iterator[Record]:
        keys = 0
        for source in self.sources:
            own = {of.family_id: self._own(of) for of in source.families}
            # The values of a list need not come one after the other.
            begun: set[tuple[int, bytes]] = set()
            for family_id, key, value in source.all_rows():
                known = own.get(family_id)
                if known is None or not known[1](key):
                    continue
                is_merge = known[0].is_multi_valued and (family_id, key) in begun
                if known[0].is_multi_valued:
                    begun.add((family_id, key))
                keys += not is_merge
                yield Record(known[0].family_id, key, value, is_merge)
        vars(self)["_keys"] = keys

    def _own(self, of: Family) -> tuple[Family, Wanted] | None:
        """The family that one of a source becomes here, and which of its keys do."""
        found = next((own for own in self.identity.families if own.name == of.name), None)
        return None if found is None else (found, wanted(self.header, of, self.request))


def fill(state: State, frame: Frame, sources: Iterable[State]) -> None:
    """Makes an empty state that of a base which refers to others.

    Where it cannot be told to which partition keys belong, the state has the rows of the sources
    whole, and says so.

    Args:
        state: at version 0.
        frame: the base.
        sources: what its sources lead to.
    """
    families: dict[str, Family] = {}
    for source in sources:
        join(families, source.families.values(), frame.identity.spread)
        state.inexact = state.inexact or source.inexact
        for of in source.families.values():
            own = families.get(of.name)
            if own is None:
                continue
            rows = state.rows.setdefault(own.family_id, {})
            try:
                is_wanted = wanted(frame.identity, of, frame.request)
            except CleancutError as error:
                state.inexact, is_wanted = error, lambda _: True
            for key, values in source.rows[of.family_id].items():
                if is_wanted(key):
                    if key in rows:
                        raise frame.request.damaged("two of its sources have the same key")
                    rows[key] = values
    state.families = {of.family_id: of for of in families.values()}
    state.version, state.version_id = frame.identity.name.version, frame.identity.name.version_id


def join(into: dict[str, Family], families: Iterable[Family], spread: Spread | None) -> None:
    """Adds the families of a source: the first keep their ids, and each further one has the next.

    Args:
        into: those that there are, by their names.
        families: of the source.
        spread: says which are left out, if any are.
    """
    is_first = not into
    for of in sorted(families, key=lambda of: of.family_id):
        if of.name in into or (spread is not None and of.name not in spread.keys):
            continue
        number = max((own.family_id for own in into.values()), default=-1) + 1
        into[of.name] = of if is_first else replace(of, family_id=number)


def wanted(identity: Identity, family: Family, request: FrameRequest | None = None) -> Wanted:
    """Which keys of a family of a source a base has.

    Args:
        identity: of the base.
        family: of the source.
        request: of the base, if all keys that follow are in the source. The returned function then
            raises CLEANCUT_FRAME_CORRUPTED for a key that no base with this source would have.

    Raises:
        RequestError: CLEANCUT_COLUMN_UNREADABLE, it cannot be told.
    """
    spread = identity.spread
    if spread is None:
        return lambda _: True
    columns = [tuple(place) for place in spread.keys[family.name]]
    if family.encoding != UNSAFE_ROW:
        raise _untold(family, f"the state encoding {family.encoding}")
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
        partition, own = partition_of(cells, spread.partitions), identity.store.partition
        if request is not None and (partition - own) % spread.source_partitions:
            raise request.damaged(
                f"a key of partition {partition} of {spread.partitions} is in a source that has "
                f"rows of partition {own}: no store would have it"
            )
        return partition == own

    return is_wanted


def _require(row: Struct, place: tuple[int, ...]) -> None:
    """Raises ValueError where there is no such column."""
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


def _untold(family: Family, kind: str) -> CleancutError:
    return error_of(
        "CLEANCUT_COLUMN_UNREADABLE",
        column=f"key of the family {family.name}",
        type=kind,
        reason="the state was rescaled by reference, and this package cannot tell the partition "
        "of such a key; let the query run until its stores have bases of their own, or read it "
        "through Spark",
    )
