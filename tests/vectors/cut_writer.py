"""Consistent segments and cuts, for vectors and for tests with complete checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.vectors.cut_encoder import Placed, SegmentParts, encode_segment, table_of
from tests.vectors.frame_cases import version_id

RUN_ID = "6e1f2a0c-8d3b-4b52-9a61-0c1f5e7d9b42"
QUERY_ID = "b3a7c9d2-51f0-4c8e-8f7a-2d9e4b6c1a05"
WRITTEN_MS = 1_790_000_000_000
WATERMARK_MS = 1_700_000_000_000
ADVANCE_MS = 60_000

StoreKey = tuple[int, int, str]


def cut_name(epoch: int) -> str:
    return f"cuts/{epoch:020d}.cut"


def segment_name(epoch: int, writer: str = "driver", number: int = 1) -> str:
    return f"segments/{epoch:020d}/{writer}-{version_id(0x1000 * number + epoch)}.seg"


def segment_identity(epoch: int, writer: str = "driver") -> dict[str, Any]:
    return {"epoch": epoch, "writer": writer, "generation": 1, "runId": RUN_ID}


@dataclass(frozen=True)
class Stored:
    """A frame in a segment: its element of the table, and the name of the segment."""

    segment: str
    entry: Mapping[str, Any]

    @property
    def store(self) -> StoreKey:
        return self.entry["operator"], self.entry["partition"], self.entry["store"]


def write_segment(
    epoch: int, frames: Sequence[Placed], *, writer: str = "driver", number: int = 1
) -> tuple[str, SegmentParts, list[Stored]]:
    """Returns a segment: its name, its parts, and its frames as a cut may reference them."""
    name = segment_name(epoch, writer, number)
    parts = encode_segment(segment_identity(epoch, writer), frames)
    entries = table_of(len(parts.header) + len(parts.identity), frames)
    return name, parts, [Stored(name, entry) for entry in entries]


def commit_entry(epoch: int) -> str:
    return f'v1\n{{"nextBatchWatermarkMs":{WATERMARK_MS + ADVANCE_MS * (epoch + 1)}}}'


def offsets_entry(epoch: int) -> str:
    watermark = WATERMARK_MS + ADVANCE_MS * epoch
    metadata = f'{{"batchWatermarkMs":{watermark},"batchTimestampMs":{WRITTEN_MS},"conf":{{}}}}'
    return f'v1\n{metadata}\n{{"logOffset":{epoch}}}\n-'


def cut_body(
    epoch: int,
    pages: Sequence[Mapping[str, Any]] = (),
    window: Sequence[Mapping[str, Any]] = (),
    *,
    store_count: int = 0,
    in_flight: Sequence[Sequence[Stored]] = (),
    **fields: Any,
) -> dict[str, Any]:
    """Returns the body of a cut; `in_flight` are the chains of channels."""
    segments = sorted({frame.segment for chain in in_flight for frame in chain})
    body = {
        "epoch": epoch,
        "queryId": QUERY_ID,
        "runId": RUN_ID,
        "generation": 1,
        "token": version_id(0xF000 + epoch),
        "writtenMs": WRITTEN_MS + 1000 * epoch,
        "mode": "aligned",
        "commit": commit_entry(epoch),
        "offsets": offsets_entry(epoch),
        "segments": segments,
        "storeCount": store_count,
        "pages": list(pages),
        "window": list(window),
        "inFlight": [_store(chain, segments) for chain in in_flight],
        "timings": {"gateMs": 12, "cutMs": 3},
    }
    return body | fields


def share(requests: Mapping[str, Sequence[int]], **numbers: int) -> dict[str, Any]:
    """Returns the costs of one side; requests, retries and failures by kind."""
    names = ("requests", "retries", "failures")
    kinds = {kind: dict(zip(names, counts, strict=True)) for kind, counts in requests.items()}
    return {"requests": kinds} | numbers


def costs(**fields: Any) -> dict[str, Any]:
    """Returns the costs of an epoch in which one store sent its frame to the driver."""
    slow = {"operator": 0, "partition": 3, "store": "default", "ms": 412}
    driver = {"bytesSent": 900, "bytesReceived": 70, "frames": 1, "frameBytes": 200}
    return {
        "driver": share(
            {"create": [1, 0, 0], "head": [1, 0, 0], "put": [2, 1, 0]},
            **driver,
            segments=1,
            segmentBytes=450,
        ),
        "executors": share(
            {"getRange": [4, 0, 1], "put": [1, 0, 0]},
            bytesSent=40_300,
            bytesReceived=3_000_000_000,
            frames=1,
            frameBytes=40_000,
            segments=1,
            segmentBytes=40_300,
        )
        | {"count": 2},
        "slowest": [slow | {"executor": "1", "host": "host-1"}, slow | {"partition": 4, "ms": 9}],
    } | fields


def channel(partition: int, **fields: Any) -> dict[str, Any]:
    """Returns the decision of a channel: by default 20 of 50 rows stay in flight."""
    fields_of_channel = {"operator": 0, "partition": partition, "store": "cleancut-channel-0"}
    fields_of_channel |= {"rows": 50, "sum": "00000000000000ff", "rowsInFlight": 20}
    return fields_of_channel | {"sumInFlight": "fedcba9876543210"} | fields


def channels() -> list[dict[str, Any]]:
    """Returns three channels: overtaken and at the limit, arrived in time, and not measured."""
    overtaken = {"bytesInFlight": 640, "rowsReplayed": 12, "rowsBeyondBound": 7}
    overtaken |= {"arrivedMs": 812, "overtakenMs": 250, "captureMs": 540}
    in_time = {"bytesInFlight": 0, "rowsReplayed": 0, "arrivedMs": 40}
    nothing = {"rowsInFlight": 0, "sumInFlight": "0" * 16}
    return [channel(3, **overtaken), channel(4, **nothing, **in_time), channel(5, **nothing)]


def _store(chain: Sequence[Stored], segments: Sequence[str]) -> dict[str, Any]:
    names = ("kind", "version", "id", "offset", "length", "crc")
    frames = [
        [segments.index(frame.segment), *(frame.entry[name] for name in names)] for frame in chain
    ]
    last = chain[-1].entry
    store = {name: last[name] for name in ("operator", "partition", "store", "id")}
    return store | {"frames": frames}
