"""Descriptions of cuts, savepoints and their content."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from cleancut._brief import Brief
from cleancut._checkpoint.read.cut_reader import chain_bytes
from cleancut._checkpoint.read.epoch_info import EpochInfo, epoch_info
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._display import charts, html, tables
from cleancut._display.info_list import InfoList
from cleancut._display.tables import BARS, class_name, rank
from cleancut._format.ages import moment
from cleancut._format.chains import Chain
from cleancut._format.cut.channels import ShuffleInputInfo, operator_cuts
from cleancut._format.cut.costs import Costs
from cleancut._format.layout import FRAME_KINDS, FrameKind, StoreId
from cleancut._format.spark.log_entries import (
    next_watermark_of,
    offsets_of,
    provider_of,
    watermark_of,
)
from cleancut._provider import PROVIDER_CLASS

# Labels of the timings in a cut; FORMAT.md describes them.
_PHASES = {
    "epochMs": "epoch took",
    "sourceMs": "source took",
    "planMs": "planning took",
    "mapMs": "map side took",
    "stateMs": "state operators took",
    "sinkMs": "sink took",
    "sealMs": "seal took",
    "gateMs": "commit took",
    "collectMs": "collecting frames took",
    "ownerMs": "ownership check took",
    "offsetsMs": "reading offsets took",
    "previousCutMs": "previous cut took",
}


@dataclass(frozen=True, repr=False)
class CutInfo(Brief):
    """One cut: a committed epoch, and references to the state after it.

    Attributes:
        epoch: Spark's batch id.
        version: the state version of all stores, `epoch + 1`.
        generation: generation of the driver that wrote it; each run of the query has a higher one.
        run_id: Spark's id of the run.
        written: time at which it was written, in UTC.
        mode: "unaligned" if the cut has in-flight rows, else "aligned".
        stores: number of state stores.
        frames: number of frames that make up their state.
        segments: number of objects that contain these frames.
        bytes: size of these frames.
        provider: Spark's name of the provider class, if it is not Cleancut's: such a cut has no
            state. None if it is Cleancut's or unknown.
    """

    epoch: int
    version: int = field(metadata=rank(4))
    generation: int = field(metadata=rank(3))
    run_id: str = field(metadata=rank(5))
    written: datetime
    mode: str
    stores: int
    frames: int = field(metadata=rank(1))
    segments: int = field(metadata=rank(2))
    bytes: int = field(metadata=BARS)
    provider: str | None = field(default=None, metadata={"cell": class_name} | rank(6))

    @classmethod
    def _chart_(cls, infos: Sequence["CutInfo"]) -> str:
        """A timeline of the cuts, with their sizes."""
        unaligned = sum(info.mode == "unaligned" for info in infos)
        what = (
            f"{len(infos)} cuts, of epochs {tables.ranges([info.epoch for info in infos])}, "
            f"by when they were written (UTC); the largest has {max(info.bytes for info in infos)} "
            f"bytes. Unaligned, and marked by a dot: {unaligned or 'none'}."
        )
        return html.figure(charts.timeline([info._mark() for info in infos], what), what)

    def _mark(self) -> charts.Mark:
        return charts.Mark(
            at=self.written,
            size=self.bytes,
            group=f"generation {self.generation}",
            is_other=self.mode == "unaligned",
            text=f"epoch {self.epoch}, {self.written:%H:%M:%S}, {self.bytes} bytes, {self.mode}",
        )


@dataclass(frozen=True, repr=False)
class SavepointInfo(Brief):
    """A cut that is retained under a name.

    Attributes:
        name: name of the savepoint.
        epoch: Spark's batch id.
        version: the state version of all stores, `epoch + 1`.
        written: time at which the cut was written, in UTC.
        stores: number of state stores.
    """

    name: str
    epoch: int
    version: int
    written: datetime
    stores: int


@dataclass(frozen=True, repr=False)
class FrameLocation(Brief):
    """A frame that a cut references.

    Attributes:
        kind: "changelog" (the changes of one epoch) or "snapshot" (all live rows).
        version: the state version after the frame.
        id: the id of that version of the store.
        segment: name of the object that contains it, below the root.
        offset: its first byte in that object.
        length: its length in bytes.
        crc: CRC-32 of its bytes.
    """

    kind: FrameKind
    version: int
    id: str
    segment: str
    offset: int
    length: int
    crc: int


class ChainInfo(tuple[FrameLocation, ...]):
    """The frames that make up one version of a store, oldest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ChainInfo({self})"

    def __str__(self) -> str:
        snapshots = [frame.version for frame in self if frame.kind == "snapshot"]
        changelogs = [frame.version for frame in self if frame.kind == "changelog"]
        parts = [f"snapshot {version}" for version in snapshots]
        parts += [f"changelogs {tables.ranges(changelogs)}"] if changelogs else []
        return ", ".join(parts)


@dataclass(frozen=True, repr=False)
class StoreCutInfo(Brief):
    """One state store in a cut.

    Attributes:
        operator: Spark's operator id.
        partition: Spark's partition id.
        store: Spark's name of the store.
        id: the id of the version.
        chain: the frames that make up the version.
        bytes: size of these frames.
        referenced_bytes: size of the frames of other stores that its snapshot references, in bytes.
            Stores that divide a frame have equal shares of it. 0 if the store has rows of its own,
            None if the size cannot be read.
    """

    operator: int
    partition: int
    store: str
    id: str = field(metadata=rank(1))
    chain: ChainInfo
    bytes: int = field(metadata=BARS)
    referenced_bytes: int | None = field(default=0, metadata=BARS | rank(2))


@dataclass(frozen=True, repr=False)
class CutDetails(Brief):
    """The content of a cut.

    Attributes:
        path: full path of the object.
        info: the description that `Checkpoint.cuts` returns.
        query_id: Spark's id of the query, if it is known.
        token: random token that identifies the driver's attempt to write the cut of this epoch.
        watermark_ms: the watermark of the epoch, in milliseconds since 1970; None without a
            watermark, and before the first event time.
        next_watermark_ms: the watermark of the next epoch, in milliseconds since 1970, or None.
        offsets: the end offset of each source, by its number, or by its name if Spark knows one;
            None if the source has not started.
        offsets_entry: Spark's entry of the offset log.
        commit_entry: Spark's entry of the commit log.
        timings: milliseconds by phase of the commit.
        costs: cost of the epoch; None if an older release wrote the cut.
        shuffle_inputs: the capture of each shuffle input in the epoch.
        segments: names of the objects that contain the frames, below the root.
        stores: the state stores, by operator, partition and name.
        referenced_bytes: size of the frames that the first snapshots of the chains reference, in
            addition to `info.bytes`; None if it cannot be read.
    """

    path: str
    info: CutInfo
    query_id: str | None
    token: str
    watermark_ms: int | None
    next_watermark_ms: int | None
    offsets: Mapping[str, str | None]
    offsets_entry: str
    commit_entry: str
    timings: Mapping[str, int]
    costs: Costs | None
    shuffle_inputs: InfoList[ShuffleInputInfo]
    segments: Sequence[str]
    stores: InfoList[StoreCutInfo]
    referenced_bytes: int | None = 0

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{tables.text_facts(self._facts())}\n\n{self.stores}"

    def _repr_html_(self) -> str:
        return html.facts(self._facts()) + self.stores._repr_html_()

    def _facts(self) -> list[tuple[str, object]]:
        info = self.info
        facts: list[tuple[str, object]] = [("cut", self.path), ("epoch", str(info.epoch))]
        facts += [("version", str(info.version)), ("written", info.written), ("mode", info.mode)]
        facts += [("query", self.query_id), ("run", info.run_id)]
        facts += [("generation", str(info.generation))]
        facts += [("state is kept by", info.provider)] if info.provider else []
        facts += [("watermark", _instant(self.watermark_ms))]
        facts += [("next watermark", _instant(self.next_watermark_ms))]
        facts += [(f"offset of source {name}", text) for name, text in self.offsets.items()]
        facts += [(_PHASES.get(name, name), f"{ms} ms") for name, ms in self.timings.items()]
        size = f"{info.bytes} bytes, {info.frames} frames, {info.segments} segments"
        facts += [("size", size)]
        if self.referenced_bytes != 0:
            referenced = (
                "unknown" if self.referenced_bytes is None else f"{self.referenced_bytes} bytes"
            )
            facts += [("referred to", referenced)]
        if self.costs is not None:
            used = self.costs.all
            written = f"{used.segment_bytes} bytes, {used.frames} frames, {used.segments} segments"
            facts += [("written in the epoch", written)]
            facts += [("requests of the driver", str(self.costs.driver))]
            facts += [("requests of executors", str(self.costs.executors))]
            facts += [("slowest store", str(slow)) for slow in self.costs.slowest]
        cuts = operator_cuts(self.shuffle_inputs)
        return [*facts, *((f"operator {cut.operator}", str(cut)) for cut in cuts)]


def cut_info(cut: StoredCut) -> CutInfo:
    """Describes a cut."""
    return CutInfo(
        epoch=cut.epoch,
        version=cut.version,
        generation=cut.generation,
        run_id=cut.run_id,
        written=moment(cut.written_ms),
        mode=cut.mode,
        stores=cut.store_count,
        frames=sum(map(len, cut.chains.values())),
        segments=len(cut.chain_segments),
        bytes=sum(map(chain_bytes, cut.chains.values())),
        provider=other_provider(cut),
    )


def other_provider(cut: StoredCut) -> str | None:
    """The provider class of the query, if it is not Cleancut's."""
    provider = provider_of(cut.offsets)
    return None if provider == PROVIDER_CLASS else provider


def epoch_infos(cuts: Iterable[StoredCut]) -> Iterator[EpochInfo]:
    """The costs of epochs, given their cuts in order."""
    before = None
    for cut in cuts:
        if before is not None:
            yield _epoch_info(before, cut)
        before = cut
    if before is not None:
        yield _epoch_info(before, None)


def _epoch_info(cut: StoredCut, following: StoredCut | None) -> EpochInfo:
    is_next = following is not None and (cut.epoch + 1, cut.generation) == (
        following.epoch,
        following.generation,
    )
    return epoch_info(
        epoch=cut.epoch,
        generation=cut.generation,
        written=moment(cut.written_ms),
        stores=cut.store_count,
        timings=cut.timings,
        costs=cut.costs,
        channels=cut.channels,
        cut_ms=following.timings.get("previousCutMs") if following and is_next else None,
    )


def savepoint_info(name: str, cut: StoredCut) -> SavepointInfo:
    """Describes a savepoint."""
    return SavepointInfo(name, cut.epoch, cut.version, moment(cut.written_ms), cut.store_count)


def cut_details(cut: StoredCut, referred: Mapping[StoreId, int] | None) -> CutDetails:
    """Describes all content of a cut.

    Args:
        cut: the cut.
        referred: the stores that reference frames of other stores, each with the size of these
            frames; None if it cannot be read.
    """
    return CutDetails(
        path=cut.path,
        info=cut_info(cut),
        query_id=cut.query_id,
        token=cut.token,
        watermark_ms=watermark_of(cut.offsets),
        next_watermark_ms=next_watermark_of(cut.commit),
        offsets=offsets_of(cut.offsets),
        offsets_entry=cut.offsets,
        commit_entry=cut.commit,
        timings=cut.timings,
        costs=cut.costs,
        shuffle_inputs=InfoList(cut.channels),
        segments=cut.chain_segments,
        stores=InfoList(_store_cut_info(chain, referred) for chain in cut.chains.values()),
        referenced_bytes=None if referred is None else sum(referred.values()),
    )


def _store_cut_info(chain: Chain, referred: Mapping[StoreId, int] | None) -> StoreCutInfo:
    store, last = chain[0].store, chain[-1].name
    frames = ChainInfo(
        FrameLocation(
            kind=FRAME_KINDS[frame.name.kind],
            version=frame.name.version,
            id=frame.name.version_id,
            segment=frame.segment,
            offset=frame.offset,
            length=frame.length,
            crc=frame.crc,
        )
        for frame in chain
    )
    return StoreCutInfo(
        operator=store.operator,
        partition=store.partition,
        store=store.store,
        id=last.version_id,
        chain=frames,
        bytes=chain_bytes(chain),
        referenced_bytes=None if referred is None else referred.get(store, 0),
    )


def _instant(ms: int | None) -> str | None:
    return None if ms is None else f"{moment(ms)} ({ms})"
