"""Reads a cut; docs/FORMAT.md draws the bytes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from cleancut._format.chains import Chain, PlacedFrame, placed_frame
from cleancut._format.cut.channels import ShuffleInputInfo, channels_of
from cleancut._format.cut.costs import Costs, costs_of
from cleancut._format.cut.paged_chains import PagedChains, paged_chains_of
from cleancut._format.cut.sink_epochs import sinks_of
from cleancut._format.envelope import cut_damaged, unreadable, unwrapped
from cleancut._format.fields import typed
from cleancut._format.layout import StoreId, parse_segment_name
from cleancut.errors import CleancutError

_MAGIC = b"CCCT"


class CutRef(NamedTuple):
    """The cut that references a frame: full path, and state version of its stores."""

    path: str
    version: int

    def damaged(self, detail: str) -> CleancutError:
        """The error for a cut that is not valid."""
        return cut_damaged(self.path, detail)


class Referred(NamedTuple):
    """The references of snapshots that an operation has written for all stores of a version.

    Attributes:
        version: the state version of the snapshots.
        segments: the segments of their sources, direct and indirect.
    """

    version: int
    segments: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """The content of the object that defines the state after one epoch.

    Attributes:
        path: full path of the object.
        epoch: Spark's batch id.
        query_id: Spark's query id, if it is known.
        run_id: Spark's id of the run.
        generation: generation of the driver that wrote the cut.
        token: random token that identifies the writer's attempt.
        written_ms: time at which it was written, in milliseconds since 1970.
        mode: "aligned" or "unaligned".
        commit: Spark's entry of the commit log.
        offsets: Spark's entry of the offset log.
        segments: the names of the segments with the frames of `held`, below the root.
        held: the frames of each shuffle input with in-flight rows, oldest first.
        paged: the pages and the window, which reference the frames of all stores.
        timings: milliseconds by phase of the commit.
        costs: cost of the epoch; None if the cut does not have it.
        channels: the capture of shuffle inputs.
        referred: references of snapshots at the start of chains of this cut or of a retained one.
        sinks: the epochs that sinks have published: the first and the last epoch of each range, by
            the key of the sink's ledger.
    """

    path: str
    epoch: int
    query_id: str | None
    run_id: str
    generation: int
    token: str
    written_ms: int
    mode: str
    commit: str
    offsets: str
    segments: tuple[str, ...]
    held: Mapping[StoreId, Chain]
    paged: PagedChains
    timings: Mapping[str, int]
    costs: Costs | None
    channels: tuple[ShuffleInputInfo, ...]
    referred: tuple[Referred, ...]
    sinks: Mapping[str, tuple[tuple[int, int], ...]]

    @property
    def version(self) -> int:
        """The state version of every store."""
        return self.epoch + 1

    @property
    def store_count(self) -> int:
        """The number of stores, those of in-flight rows included."""
        return len(self.held) + self.paged.store_count

    @property
    def ref(self) -> CutRef:
        """The reference in errors about its frames."""
        return CutRef(self.path, self.version)


def read_cut(data: bytes, path: str, epoch: int | None) -> Cut:
    """Decodes and checks a cut, without the objects that it references.

    Args:
        data: the content of the object.
        path: full path of the object.
        epoch: the epoch in the object's name; None for a savepoint, which may have any.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    raw = unwrapped(data, path, "cut", _MAGIC)
    try:
        cut = _cut(json.loads(raw.decode()), path)
    except ValueError as error:
        raise unreadable(path, error) from error
    if epoch not in (None, cut.epoch):
        raise cut_damaged(path, f"it is the cut of epoch {cut.epoch}")
    return cut


def _cut(body: Any, path: str) -> Cut:
    if not isinstance(body, dict):
        raise ValueError("it is not a JSON object")
    segments = tuple(typed(body, "segments", list))
    if any(not isinstance(name, str) or parse_segment_name(name) is None for name in segments):
        raise ValueError("segments holds what is no segment")
    epoch = typed(body, "epoch", int)
    chains: dict[StoreId, Chain] = {}
    for store in typed(body, "inFlight", list):
        store_id, chain = _store(store, segments, epoch + 1)
        if not store_id.is_channel:
            raise ValueError(f"{store_id} has no in-flight rows")
        if store_id in chains:
            raise ValueError(f"{store_id} is there twice")
        chains[store_id] = chain
    query_id = body.get("queryId")
    return Cut(
        path,
        epoch,
        query_id if isinstance(query_id, str) else None,
        typed(body, "runId", str),
        typed(body, "generation", int),
        typed(body, "token", str),
        typed(body, "writtenMs", int),
        typed(body, "mode", str),
        typed(body, "commit", str),
        typed(body, "offsets", str),
        segments,
        dict(sorted(chains.items())),
        paged_chains_of(body, epoch),
        typed(body, "timings", dict),
        costs_of(body["costs"]) if "costs" in body else None,
        channels_of(body.get("channels", [])),
        tuple(_referred(typed(body, "referred", list, default=[]), epoch)),
        sinks_of(typed(body, "sinks", list, default=[]), epoch),
    )


def _referred(entries: list[Any], epoch: int) -> Iterator[Referred]:
    before = 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("a reference is no JSON object")
        version, segments = typed(entry, "version", int), tuple(typed(entry, "segments", list))
        if any(not isinstance(name, str) or parse_segment_name(name) is None for name in segments):
            raise ValueError("a reference names no segment")
        if not before < version <= epoch + 1:
            raise ValueError(f"snapshots of version {version} cannot reference anything")
        before = version
        yield Referred(version, segments)


def _store(fields: Any, segments: tuple[str, ...], version: int) -> tuple[StoreId, Chain]:
    if not isinstance(fields, dict):
        raise ValueError("a store is not a JSON object")
    store = StoreId(
        typed(fields, "operator", int), typed(fields, "partition", int), typed(fields, "store", str)
    )
    chain = tuple(_frame(frame, store, segments) for frame in typed(fields, "frames", list))
    if not chain:
        raise ValueError(f"{store} has no frames")
    if any(frame.name.kind == "base" for frame in chain[1:]):
        raise ValueError(f"{store} has a snapshot after another frame")
    if any(one.name.version >= other.name.version for one, other in pairwise(chain)):
        raise ValueError(f"the versions of {store} do not ascend")
    last = chain[-1].name
    if (last.version, last.version_id) != (version, typed(fields, "id", str)):
        raise ValueError(f"the frames of {store} do not end in its version {version}")
    return store, chain


def _frame(fields: Any, store: StoreId, segments: tuple[str, ...]) -> PlacedFrame:
    if not isinstance(fields, list) or len(fields) != 7:
        raise ValueError(f"a frame of {store} is not an array of seven")
    index, kind, version, version_id, offset, length, crc = fields
    if not isinstance(index, int) or not 0 <= index < len(segments):
        raise ValueError(f"a frame of {store} is in segment {index}, which is not named")
    return placed_frame(store, (version, version_id, kind), segments[index], (offset, length, crc))
