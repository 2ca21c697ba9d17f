"""What a checkpoint tells about its cuts."""

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
from cleancut._format.cut.channels import ShuffleInputInfo, operator_cuts
from cleancut._format.cut.costs import Costs
from cleancut._format.layout import FRAME_KINDS, FrameKind, StoreId
from cleancut._format.placed import Chain
from cleancut._format.spark.log_entries import (
    next_watermark_of,
    offsets_of,
    provider_of,
    watermark_of,
)
from cleancut._provider import PROVIDER_CLASS


@dataclass(frozen=True, repr=False)
class CutInfo(Brief):
    """One cut: a committed epoch, and all that makes up the state after it.

    Attributes:
        epoch: Spark's batch id.
        version: the state version of all stores, `epoch + 1`.
        generation: of the driver that wrote it; each start of the query has a higher one.
        run_id: Spark's id of the run.
        written: when it was written, in UTC.
        mode: "unaligned" where the cut has rows in flight, else "aligned".
        stores: the number of state stores.
        frames: the number of frames that make up their state.
        segments: the number of objects that these lie in.
        bytes: the size of these frames.
        provider: Spark's name of the class that keeps the state, where it is not Cleancut's: such
            a cut has no state. None where it is, or Spark has noted none.
    """

    epoch: int
    version: int
    generation: int = field(metadata=rank(3))
    run_id: str = field(metadata=rank(5))
    written: datetime
    mode: str
    stores: int
    frames: int = field(metadata=rank(1))
    segments: int = field(metadata=rank(2))
    bytes: int = field(metadata=BARS)
    provider: str | None = field(default=None, metadata={"cell": class_name})

    @classmethod
    def _chart_(cls, infos: Sequence["CutInfo"]) -> str:
        """The cuts by when they were written, as high as they are large."""
        unaligned = sum(of.mode == "unaligned" for of in infos)
        what = (
            f"{len(infos)} cuts, of epochs {tables.ranges([of.epoch for of in infos])}, "
            f"by when they were written (UTC); the largest has {max(of.bytes for of in infos)} "
            f"bytes. Unaligned, and marked by a dot: {unaligned or 'none'}."
        )
        return html.figure(charts.timeline([of._mark() for of in infos], what), what)

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
    """A cut that is kept by a name, whatever becomes of the others.

    Attributes:
        name: what it is called.
        epoch: Spark's batch id.
        version: the state version of all stores, `epoch + 1`.
        written: when the cut was written, in UTC.
        stores: the number of state stores.
    """

    name: str
    epoch: int
    version: int
    written: datetime
    stores: int


@dataclass(frozen=True, repr=False)
class FrameLocation(Brief):
    """A frame that a cut names.

    Attributes:
        kind: "changelog" (the changes of one epoch) or "snapshot" (all live rows).
        version: the state version after the frame.
        id: the id of that version of the store.
        segment: the object that it lies in, by its name below the root.
        offset: where it begins there, in bytes.
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
        chain: the frames that make it up.
        bytes: the size of these frames.
        referenced_bytes: the size of what its base refers to, in bytes; of what stores divide among
            them, its share. 0 where it has rows of its own, None where that cannot be read.
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
    """All that a cut says.

    Attributes:
        path: full path of the object.
        info: what `Checkpoint.cuts` tells of it.
        query_id: Spark's id of the query, where it is known.
        token: tells it from a cut that another driver made of the same epoch.
        watermark_ms: the watermark of the epoch, in milliseconds since 1970; None without one, and
            before the first event time.
        next_watermark_ms: the watermark of the epoch after it, likewise.
        offsets: where each source stood at the end of the epoch: by its number, or its name where
            Spark knows one; None where it has not begun.
        offsets_entry: Spark's entry of the offset log.
        commit_entry: Spark's entry of the commit log.
        timings: milliseconds by phase of the commit.
        costs: what the epoch cost; None where an older release wrote the cut.
        shuffle_inputs: the capture of each shuffle input in the epoch.
        segments: the objects that the frames lie in, by their names below the root.
        stores: the state stores, by operator, partition and name.
        referenced_bytes: size of what the first snapshots of its chains reference, in addition to
            `info.bytes`; None if it cannot be read.
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
        facts += [(f"{phase} took", f"{ms} ms") for phase, ms in self.timings.items()]
        size = f"{info.bytes} bytes, {info.frames} frames, {info.segments} segments"
        facts += [("size", size)]
        if self.referenced_bytes != 0:
            told = "unknown" if self.referenced_bytes is None else f"{self.referenced_bytes} bytes"
            facts += [("referred to", told)]
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
    """Describes a cut in a line."""
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
    """The class that keeps the state of the query, where it is another than Cleancut's."""
    provider = provider_of(cut.offsets)
    return None if provider == PROVIDER_CLASS else provider


def epoch_infos(cuts: Iterable[StoredCut]) -> Iterator[EpochInfo]:
    """What epochs cost, given their cuts in order."""
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
    """Describes a savepoint in a line."""
    return SavepointInfo(name, cut.epoch, cut.version, moment(cut.written_ms), cut.store_count)


def cut_details(cut: StoredCut, referred: Mapping[StoreId, int] | None) -> CutDetails:
    """Describes a cut whole.

    Args:
        cut: the cut.
        referred: the stores that refer to others, each with the size of that; None where it cannot
            be read.
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
