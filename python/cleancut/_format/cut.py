"""Reads a cut, format version 1; docs/FORMAT.md draws the bytes."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

from cleancut._format.channels import ChannelInfo, channels_of
from cleancut._format.costs import Costs, costs_of
from cleancut._format.fields import typed
from cleancut._format.layout import FrameName, Kind, StoreId, parse_segment_name
from cleancut._format.zstd_json import parse_zstd_json
from cleancut.errors import CleancutError, error_of

_HEADER = struct.Struct("<4sHBBIII")
_CHECKED = 16
_MAGIC = b"CCC1"
_FORMAT_VERSION = 1
_ZSTD = 1
_KINDS: dict[str, Kind] = {"delta": "delta", "base": "base"}
_MAX_CRC = 2**32 - 1


@dataclass(frozen=True, slots=True)
class PlacedFrame:
    """A frame in a segment.

    Attributes:
        store: whose frame it is.
        name: which of that store's frames.
        segment: the segment's name below the root.
        offset: where the frame begins, in bytes from the start of the segment.
        length: its length in bytes.
        crc: CRC-32 of its bytes.
    """

    store: StoreId
    name: FrameName
    segment: str
    offset: int
    length: int
    crc: int


Chain = tuple[PlacedFrame, ...]


class CutRef(NamedTuple):
    """Which cut needs a frame: the object's full path, and the state version of its stores."""

    path: str
    version: int


@dataclass(frozen=True)
class Cut:
    """All that makes up the state after one epoch.

    Attributes:
        path: full path of the object.
        epoch: Spark's batch id.
        query_id: Spark's id of the query, where it is known.
        run_id: Spark's id of the run.
        generation: of the driver that wrote the cut.
        token: tells it from a cut that another writer made of the same epoch.
        written_ms: when it was written, in milliseconds since 1970.
        mode: how the epoch was cut.
        commit: Spark's entry of the commit log.
        offsets: Spark's entry of the offset log.
        segments: the names of the segments that it needs, below the root.
        chains: for each store the frames that make up its version, oldest first.
        timings: milliseconds by phase of the commit.
        costs: what the epoch asked of the store; None where the cut does not tell.
        channels: what was decided of channels.
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
    chains: Mapping[StoreId, Chain]
    timings: Mapping[str, int]
    costs: Costs | None
    channels: tuple[ChannelInfo, ...]

    @property
    def version(self) -> int:
        """The state version of every store."""
        return self.epoch + 1

    @property
    def ref(self) -> CutRef:
        """What errors about its frames name."""
        return CutRef(self.path, self.version)


def cut_damaged(path: str, detail: str) -> CleancutError:
    """The error for a cut, or what frames a segment's frames, that is not what was written."""
    return error_of("CLEANCUT_CUT_DAMAGED", path=path, detail=detail)


def read_cut(data: bytes, path: str, epoch: int | None) -> Cut:
    """Decodes a cut and checks all of it.

    Args:
        data: the whole object.
        path: full path of the object.
        epoch: the one in the object's name; None for a savepoint, which is of any.

    Raises:
        DamagedError: CLEANCUT_CUT_DAMAGED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    if len(data) < _HEADER.size:
        raise cut_damaged(path, f"it ends at byte {len(data)}, inside the header")
    magic, version, codec, reserved, raw_size, stored_size, crc = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise cut_damaged(path, "it does not begin with the magic of a cut")
    if version != _FORMAT_VERSION:
        raise error_of(
            "CLEANCUT_FORMAT_UNKNOWN", path=path, found=version, supported=_FORMAT_VERSION
        )
    stored = data[_HEADER.size :]
    if len(stored) != stored_size:
        raise cut_damaged(path, f"its body has {len(stored)} bytes and not {stored_size}")
    if crc32(stored, crc32(data[:_CHECKED])) != crc:
        raise cut_damaged(path, "its checksum is wrong")
    if codec != _ZSTD or reserved != 0:
        raise cut_damaged(path, f"codec {codec} is not known")
    try:
        cut = _cut(parse_zstd_json(stored, raw_size), path)
    except ValueError as error:
        raise cut_damaged(path, f"its body cannot be read: {error}") from error
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
    for store in typed(body, "stores", list):
        store_id, chain = _store(store, segments, epoch + 1)
        if store_id in chains:
            raise ValueError(f"{store_id} stands there twice")
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
        typed(body, "timings", dict),
        costs_of(body["costs"]) if "costs" in body else None,
        channels_of(body.get("channels", [])),
    )


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
        raise ValueError(f"{store} has a base behind another frame")
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


def placed_frame(
    store: StoreId, name: tuple[Any, Any, Any], segment: str, place: tuple[Any, Any, Any]
) -> PlacedFrame:
    """A frame by its name (version, id, kind) and place (offset, length, checksum).

    Raises:
        ValueError: a part is not what it must be.
    """
    version, version_id, kind = name
    numbers = (version, *place)
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise ValueError(f"the place of a frame of {store} is not told in numbers")
    offset, length, crc = place
    if version < 1 or offset < 0 or length < 1 or not 0 <= crc <= _MAX_CRC:
        raise ValueError(f"a frame of {store} has an impossible place or version")
    if not isinstance(version_id, str) or kind not in _KINDS:
        raise ValueError(f"a frame of {store} has no id or no kind")
    return PlacedFrame(
        store, FrameName(version, version_id, _KINDS[kind]), segment, offset, length, crc
    )
