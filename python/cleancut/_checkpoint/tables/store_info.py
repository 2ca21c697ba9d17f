"""Descriptions of state stores, column families and frames."""

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
        latest_version: the latest of these versions.
        bytes: size of all its required frames.
        referenced_bytes: size of the frames of other stores that its snapshot references in the
            last cut, in bytes. Stores that divide a frame have equal shares of it. 0 if the store
            has rows of its own, None if the size cannot be read.
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
        name: Spark's name of the family, for example that of a state variable of
            `transformWithState`.
        keys: number of live keys.
        is_multi_valued: whether a key has a list of values.
        is_internal: whether Spark uses it internally (timers, times to live).
        encoding: Spark's name of the encoding of its rows.
    """

    name: str
    keys: int = field(metadata=BARS)
    is_multi_valued: bool
    is_internal: bool
    encoding: str


@dataclass(frozen=True, repr=False)
class FrameInfo(Brief):
    """One frame that was read completely and is intact.

    Attributes:
        operator: Spark's operator id.
        partition: Spark's partition id.
        store: Spark's name of the store.
        version: the state version after the frame.
        id: the id of that version.
        kind: "changelog" (the changes of one epoch) or "snapshot" (all live rows).
        parent_version: the version that a changelog applies to; None for a snapshot.
        parent_id: the id of that version; None for a snapshot, and if the parent is version 0.
        codec: compression of the blocks.
        blocks: number of blocks.
        records: number of puts, merges and removes.
        keys: number of live keys of the store at this version.
        raw_bytes: size of the records.
        stored_bytes: size of the records as they are stored.
        file_bytes: size of the whole frame.
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
    """Describes a store by its files of level 0 and its chains in the cuts.

    Args:
        history: the history of the store.
        referred: the stores that reference frames of other stores, each with the size of these
            frames; None if it cannot be read.
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
    """Describes the families of a store over its partitions, ordered by id."""
    by_name: dict[str, FamilyInfo] = {}
    for state in states:
        for family in state.families.values():
            before = by_name.get(family.name)
            by_name[family.name] = FamilyInfo(
                name=family.name,
                keys=len(state.rows[family.family_id]) + (before.keys if before else 0),
                is_multi_valued=family.is_multi_valued,
                is_internal=family.is_internal,
                encoding=family.encoding,
            )
    yield from by_name.values()


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
