"""What a checkpoint tells about its state stores, their column families and their frames."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._brief import Brief
from cleancut._checkpoint.read.history import StoreHistory
from cleancut._checkpoint.read.state import State
from cleancut._display.tables import BARS, rank
from cleancut._format.frame.frame import Codec, Frame
from cleancut._format.layout import FRAME_KINDS, FrameKind, StoreId


@dataclass(frozen=True, repr=False)
class StoreInfo(Brief):
    """One state store of a query.

    Attributes:
        operator: Spark's operator id.
        partition: Spark's partition id.
        store: Spark's name of the store.
        versions: the versions that have a frame, ascending.
        latest_version: the last of them.
        bytes: the size of all its frames that a version needs.
        referenced_bytes: the size of what its base refers to in the last cut, in bytes; of what
            stores divide among them, its share. 0 where it has rows of its own, None where that
            cannot be read.
    """

    operator: int
    partition: int
    store: str
    versions: tuple[int, ...]
    latest_version: int
    bytes: int = field(metadata=BARS)
    referenced_bytes: int | None = field(default=0, metadata=BARS | rank(1))


@dataclass(frozen=True, repr=False)
class FamilyInfo(Brief):
    """One column family of a state store, over all partitions.

    Attributes:
        name: Spark's name: of a state variable of `transformWithState`, say.
        keys: the number of its live keys.
        is_multi_valued: whether a key has a list of values.
        is_internal: whether Spark keeps its own books there (timers, times to live).
        encoding: Spark's name of the encoding of its rows.
    """

    name: str
    keys: int = field(metadata=BARS)
    is_multi_valued: bool
    is_internal: bool
    encoding: str


@dataclass(frozen=True, repr=False)
class FrameInfo(Brief):
    """One frame, read whole and found sound.

    Attributes:
        operator: Spark's operator id.
        partition: Spark's partition id.
        store: Spark's name of the store.
        version: the state version after the frame.
        id: the id of that version.
        kind: "changelog" (the changes of one epoch) or "snapshot" (all live rows).
        parent_version: the version that a delta applies to; None in a base.
        parent_id: the id of that version; None in a base and where the parent is version 0.
        codec: how the blocks are stored.
        blocks: the number of blocks.
        records: the number of puts, merges and removes.
        keys: the number of live keys of the store at this version.
        raw_bytes: the size of the records.
        stored_bytes: the size of the records as they are stored.
        file_bytes: the size of the whole frame.
    """

    operator: int
    partition: int
    store: str
    version: int
    id: str = field(metadata=rank(8))
    kind: FrameKind
    parent_version: int | None = field(metadata=rank(7))
    parent_id: str | None = field(metadata=rank(9))
    codec: Codec = field(metadata=rank(6))
    blocks: int = field(metadata=rank(5))
    records: int
    keys: int
    raw_bytes: int = field(metadata=rank(3))
    stored_bytes: int = field(metadata=rank(4))
    file_bytes: int = field(metadata=BARS)


def store_info(history: StoreHistory, referred: Mapping[StoreId, int] | None) -> StoreInfo:
    """Describes a store by what level 0 has of it and by its chains in the cuts.

    Args:
        history: what there is of it.
        referred: the stores that refer to others, each with the size of that; None where it cannot
            be read.
    """
    sizes = () if history.files is None else history.files.listing.sizes.values()
    placed = {frame for chain in history.chains.values() for frame in chain}
    return StoreInfo(
        operator=history.store.operator,
        partition=history.store.partition,
        store=history.store.store,
        versions=history.versions,
        latest_version=history.versions[-1],
        bytes=sum(sizes) + sum(frame.length for frame in placed),
        referenced_bytes=None if referred is None else referred.get(history.store, 0),
    )


def family_infos(states: Iterable[State]) -> Iterator[FamilyInfo]:
    """Describes the families of a store by its partitions, in the order of their ids."""
    found: dict[str, FamilyInfo] = {}
    for state in states:
        for family in state.families.values():
            before = found.get(family.name)
            found[family.name] = FamilyInfo(
                name=family.name,
                keys=len(state.rows[family.family_id]) + (before.keys if before else 0),
                is_multi_valued=family.is_multi_valued,
                is_internal=family.is_internal,
                encoding=family.encoding,
            )
    yield from found.values()


def frame_info(frame: Frame) -> FrameInfo:
    """Describes a frame that was read."""
    identity = frame.identity
    return FrameInfo(
        operator=identity.store.operator,
        partition=identity.store.partition,
        store=identity.store.store,
        version=identity.name.version,
        id=identity.name.version_id,
        kind=FRAME_KINDS[identity.name.kind],
        parent_version=identity.parent_version,
        parent_id=identity.parent_id,
        codec=frame.codec,
        blocks=len(frame.blocks),
        records=frame.record_count,
        keys=frame.keys,
        raw_bytes=sum(block.raw_bytes for block in frame.blocks),
        stored_bytes=sum(block.stored_bytes for block in frame.blocks),
        file_bytes=frame.size_bytes,
    )
