"""What the epochs of a query cost: requests, bytes and time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cleancut._brief import Brief
from cleancut._display.tables import TREND, rank
from cleancut._format.cut.channels import (
    CutMode,
    OperatorCut,
    ShuffleInputInfo,
    longest,
    operator_cuts,
)
from cleancut._format.cut.costs import Costs, RequestsByKind, StoreTimes


def request_count(requests: RequestsByKind | None) -> int | None:
    """Requests of all kinds; None where nobody has counted them."""
    return None if requests is None else requests.total.requests


# In the order in which drivers ask for them.
SLOW_KINDS = (
    "executor-lost",
    "driver-pause",
    "retries",
    "upload",
    "straggler",
    "commit",
    "input",
    "unknown",
)


@dataclass(frozen=True, repr=False)
class SlowEpoch(Brief):
    """Why an epoch took twice as long as others of its run, and 200 ms longer.

    Attributes:
        kind: what explains half of it or more: "executor-lost", "driver-pause", "retries",
            "upload", "straggler", "commit", "input", or "unknown".
        typical_ms: the median of the epochs before it, in milliseconds.
        detail: in words, with the figures that say so.
    """

    kind: str
    typical_ms: int
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, repr=False)
class EpochInfo(Brief):
    """What one committed epoch cost. What its cut does not tell is None: an older release wrote it.

    Attributes:
        epoch: Spark's batch id.
        generation: of the driver that committed it; each start of the query has a higher one.
        written: when its cut was put together, in UTC.
        duration_ms: milliseconds from when the first task opened a store until then, by the
            driver's clock, and at least `commit_ms`; None too where no task did.
        commit_ms: milliseconds of these between the end of the sink and then; `timings` has its
            parts.
        cut_ms: milliseconds that writing the cut took afterwards, which the next cut of the same
            run tells; None until there is one.
        stores: the number of state stores.
        frames: frames that were made durable, whether they count or not.
        frame_bytes: their size.
        segments: objects that these frames were put into.
        segment_bytes: the size of these objects.
        requests: by kind, of the driver and the executors, repetitions included; see `Costs`.
        retries: those that repeat one that failed.
        failures: calls that ended with an error.
        bytes_sent: in bodies of requests.
        bytes_received: in bodies of answers.
        slowest: the stores that took longest.
        mode: "unaligned" where rows are in flight after the epoch, else "aligned".
        in_flight_rows: how many.
        alignment_ms: the longest that an operator's first channel to arrive waited for its last,
            by the driver's clock; None too where no channel could be captured.
        barrier_to_capture_ms: the longest that an overtaken channel took from the driver's order
            until it had arrived, by the driver's clock; None too where none was overtaken.
        operators: how each operator was cut whose channels could be captured.
        timings: milliseconds by phase, as docs/FORMAT.md names them.
        costs: the same figures for the driver and the executors apart.
        restore_tested: time of the last restore test of its cut, in UTC; None if there is none.
        slow: why it took longer than others of its run; None where it did not, and where nobody
            judged.
    """

    epoch: int
    generation: int = field(metadata=rank(9))
    written: datetime
    duration_ms: int | None = field(metadata=TREND)
    commit_ms: int | None = field(metadata=TREND)
    cut_ms: int | None = field(metadata=rank(5) | TREND)
    stores: int = field(metadata=rank(6))
    frames: int | None = field(metadata=rank(8) | TREND)
    frame_bytes: int | None = field(metadata=rank(10))
    segments: int | None = field(metadata=rank(7))
    segment_bytes: int | None = field(metadata=rank(3) | TREND)
    requests: RequestsByKind | None = field(metadata={"cell": request_count} | TREND)
    retries: int | None = field(metadata=rank(4))
    failures: int | None = field(metadata=rank(4))
    bytes_sent: int | None = field(metadata=rank(11))
    bytes_received: int | None = field(metadata=rank(11))
    slowest: StoreTimes | None = field(metadata=rank(12))
    mode: CutMode = field(metadata=rank(2))
    in_flight_rows: int = field(metadata=TREND)
    alignment_ms: int | None = field(metadata=rank(1) | TREND)
    barrier_to_capture_ms: int | None = field(metadata=rank(9))
    operators: tuple[OperatorCut, ...] = field(metadata={"column": False})
    timings: Mapping[str, int] = field(metadata={"column": False})
    costs: Costs | None = field(metadata={"column": False})
    restore_tested: datetime | None = field(default=None, metadata={"column": False})
    slow: SlowEpoch | None = field(default=None, metadata=rank(4))


def epoch_info(
    *,
    epoch: int,
    generation: int,
    written: datetime,
    stores: int,
    timings: Mapping[str, int],
    costs: Costs | None,
    cut_ms: int | None,
    channels: Iterable[ShuffleInputInfo],
) -> EpochInfo:
    """Draws together what a cut tells of its epoch."""
    used = None if costs is None else costs.all
    operators = operator_cuts(channels)
    in_flight_rows = sum(of.in_flight_rows for of in operators)
    total = None if used is None else used.requests.total
    return EpochInfo(
        epoch=epoch,
        generation=generation,
        written=written,
        duration_ms=timings.get("epochMs"),
        commit_ms=timings.get("gateMs"),
        cut_ms=cut_ms,
        stores=stores,
        frames=None if used is None else used.frames,
        frame_bytes=None if used is None else used.frame_bytes,
        segments=None if used is None else used.segments,
        segment_bytes=None if used is None else used.segment_bytes,
        requests=None if used is None else used.requests,
        retries=None if total is None else total.retries,
        failures=None if total is None else total.failures,
        bytes_sent=None if used is None else used.bytes_sent,
        bytes_received=None if used is None else used.bytes_received,
        slowest=None if costs is None else costs.slowest,
        mode="unaligned" if in_flight_rows else "aligned",
        in_flight_rows=in_flight_rows,
        alignment_ms=longest(of.alignment_ms for of in operators),
        barrier_to_capture_ms=longest(of.barrier_to_capture_ms for of in operators),
        operators=operators,
        timings=timings,
        costs=costs,
    )
