"""The cost of epochs: requests, bytes and time."""

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
    """Number of requests of all kinds; None if they were not counted."""
    return None if requests is None else requests.total.requests


# In the order in which drivers check them.
SLOW_KINDS = (
    "executor-lost",
    "driver-pause",
    "retries",
    "commit",
    "upload",
    "straggler",
    "input",
    "source",
    "planning",
    "map-side",
    "state-operators",
    "sink",
    "unknown",
)

# Names of the phases in the order of time, each with the timings of a record that it consists of.
# The drivers' EpochPhase.scala has the same ones.
PHASES: Mapping[str, tuple[str, ...]] = {
    "source": ("sourceMs",),
    "planning": ("planMs",),
    "map side": ("mapMs",),
    "state operators": ("stateMs",),
    "sink": ("sinkMs",),
    "commit": ("sealMs", "gateMs", "cutMs", "checkMs"),
}
OTHER = "other"


def phases_of(timings: Mapping[str, int], cut_ms: int | None) -> dict[str, int]:
    """Milliseconds of each phase.

    Args:
        timings: timings of the cut or of the record.
        cut_ms: duration of the write of the cut, if it is known.
    """
    known = dict(timings) | {"cutMs": cut_ms or 0}
    phases = {name: sum(known.get(key, 0) for key in keys) for name, keys in PHASES.items()}
    whole = sum(known.get(key, 0) for key in ("epochMs", "cutMs", "checkMs"))
    return phases | {OTHER: max(whole - sum(phases.values()), 0)}


def longest_phase(phases: Mapping[str, int]) -> str | None:
    """The longest phase with its share, such as "map side 98%"; None if none is known."""
    whole = sum(phases.values())
    if not whole:
        return None
    name = max(phases, key=phases.__getitem__)
    return f"{name} {100 * phases[name] // whole}%"


@dataclass(frozen=True, repr=False)
class SlowEpoch(Brief):
    """The reason why an epoch took more than twice its run's median, and 200 ms longer.

    Attributes:
        kind: the cause of at least half of the delay: "executor-lost", "driver-pause", "retries",
            "commit", "upload", "straggler", "input", "source", "planning", "map-side",
            "state-operators", "sink", or "unknown".
        typical_ms: median duration of the epochs before it, in milliseconds.
        detail: explanation with figures.
    """

    kind: str
    typical_ms: int
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, repr=False)
class StageInfo(Brief):
    """A stage of Spark that ran for an epoch.

    Attributes:
        stage: Spark's stage id.
        phase: the phase of the epoch in which it ran, as in `EpochInfo.phases`.
        operators: names of its operators in Spark's plan, from the source to the sink.
        tasks: number of its tasks.
        start_ms: milliseconds from the start of the trigger until its submission.
        ms: milliseconds from its submission until its completion.
    """

    stage: int
    phase: str
    operators: tuple[str, ...]
    tasks: int
    start_ms: int
    ms: int


@dataclass(frozen=True, repr=False)
class EpochInfo(Brief):
    """The cost of one committed epoch. Values are None if an older release wrote its cut.

    Attributes:
        epoch: Spark's batch id.
        generation: generation of the driver that committed it. Each start of the query has a
            higher one.
        written: time at which its cut was assembled, in UTC.
        duration_ms: milliseconds from the start of the trigger to the assembled cut, by the
            driver's clock. None if it is unknown.
        commit_ms: milliseconds from the end of the sink to the assembled cut; `timings` has the
            parts.
        phases: milliseconds of each phase: "source", "planning", "map side" (the tasks before the
            first state operator), "state operators", "sink", "commit" (with the write of the cut)
            and "other". A table shows the longest phase.
        cut_ms: milliseconds that the write of the cut took. The next cut of the same run records
            it; None until then.
        cut_lag_ms: milliseconds from the end of the sink until the cut existed, the sum of
            `commit_ms` and `cut_ms`. A restart in between repeats the epoch. None if `cut_ms` is.
        stores: number of state stores.
        frames: number of frames made durable, whether they count or not.
        frame_bytes: size of these frames in bytes.
        segments: number of objects that contain these frames.
        segment_bytes: size of these objects in bytes.
        requests: requests by kind, of the driver and the executors, including retries; see `Costs`.
        retries: number of requests that repeated a failed one.
        failures: number of calls that ended with an error.
        bytes_sent: bytes in request bodies.
        bytes_received: bytes in response bodies.
        slowest: the slowest stores.
        mode: "unaligned" if the cut has in-flight rows, else "aligned".
        in_flight_rows: number of in-flight rows in the cut.
        alignment_ms: longest time between an operator's first and last shuffle input to arrive, by
            the driver's clock; also None if no shuffle input could be captured.
        barrier_to_capture_ms: longest time from the driver's order to overtake a shuffle input
            until the input arrived, by the driver's clock; also None if none was overtaken.
        operators: the capture of each operator whose shuffle inputs could be captured.
        timings: milliseconds by phase; docs/FORMAT.md lists the phases.
        costs: the same figures, for the driver and the executors separately.
        restore_tested: time of the last restore test of its cut, in UTC; None if there is none.
        slow: reason why it took longer than other epochs of its run; None if it did not, or if it
            was not checked.
        stages: the longest stages of Spark, if the epoch was slow and its driver recorded it.
        operator_names: Spark's names of the state operators by their ids, as text, if they are
            recorded.
        in_flight_growth: growth of the in-flight rows over the last epochs, in words; None if they
            do not grow.
    """

    epoch: int
    generation: int = field(metadata=rank(9))
    written: datetime
    duration_ms: int | None = field(metadata=TREND)
    commit_ms: int | None = field(metadata=rank(2) | TREND)
    phases: Mapping[str, int] = field(metadata={"cell": longest_phase})
    cut_ms: int | None = field(metadata=rank(5) | TREND)
    stores: int = field(metadata=rank(6))
    frames: int | None = field(metadata=rank(8) | TREND)
    frame_bytes: int | None = field(metadata=rank(10))
    segments: int | None = field(metadata=rank(7))
    segment_bytes: int | None = field(metadata=rank(3) | TREND)
    requests: RequestsByKind | None = field(metadata=rank(1) | {"cell": request_count} | TREND)
    retries: int | None = field(metadata=rank(4))
    failures: int | None = field(metadata=rank(4))
    bytes_sent: int | None = field(metadata=rank(11))
    bytes_received: int | None = field(metadata=rank(11))
    slowest: StoreTimes | None = field(metadata=rank(12))
    mode: CutMode = field(metadata=rank(3))
    in_flight_rows: int = field(metadata=TREND)
    alignment_ms: int | None = field(metadata=rank(1) | TREND)
    barrier_to_capture_ms: int | None = field(metadata=rank(9))
    operators: tuple[OperatorCut, ...] = field(metadata={"column": False})
    timings: Mapping[str, int] = field(metadata={"column": False})
    costs: Costs | None = field(metadata={"column": False})
    restore_tested: datetime | None = field(default=None, metadata={"column": False})
    slow: SlowEpoch | None = field(default=None, metadata=rank(4))
    stages: tuple[StageInfo, ...] = field(default=(), metadata={"column": False})
    operator_names: Mapping[str, str] = field(default_factory=dict, metadata={"column": False})
    in_flight_growth: str | None = field(default=None, metadata={"column": False})
    cut_lag_ms: int | None = field(default=None, metadata={"column": False})


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
    """Combines the values that a cut records about its epoch."""
    used = None if costs is None else costs.all
    operators = operator_cuts(channels)
    in_flight_rows = sum(operator.in_flight_rows for operator in operators)
    total = None if used is None else used.requests.total
    return EpochInfo(
        epoch=epoch,
        generation=generation,
        written=written,
        duration_ms=timings.get("epochMs"),
        commit_ms=timings.get("gateMs"),
        phases=phases_of(timings, cut_ms),
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
        alignment_ms=longest(operator.alignment_ms for operator in operators),
        barrier_to_capture_ms=longest(operator.barrier_to_capture_ms for operator in operators),
        operators=operators,
        timings=timings,
        costs=costs,
        cut_lag_ms=_cut_lag_ms(timings, cut_ms),
    )


def _cut_lag_ms(timings: Mapping[str, int], cut_ms: int | None) -> int | None:
    gate_ms = timings.get("gateMs")
    return None if gate_ms is None or cut_ms is None else gate_ms + cut_ms
