"""Samples of metrics, from epochs, restore tests and replicas."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._checkpoint.read.epoch_info import SLOW_KINDS, EpochInfo
from cleancut._checkpoint.replicate.records import ReplicaStatus, RestoreTestStatus
from cleancut._format.cut.costs import Usage
from cleancut._metrics.catalog import metrics

_MS = 1000


@dataclass(frozen=True)
class Sample:
    """One value of a metric.

    Attributes:
        metric: name in the catalog.
        value: value in base units.
        labels: values of labels by name, in addition to those of the query.
    """

    metric: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = metrics()[self.metric].labels
        if not set(self.labels) <= {*declared, "query", "location"}:
            raise ValueError(f"{self.metric} has the labels {declared}, not {self.labels}")

    def of(self, query: Mapping[str, str]) -> "Sample":
        """The sample with the labels of the query."""
        return Sample(self.metric, self.value, {**query, **self.labels})


def of_epoch(epoch: EpochInfo) -> Iterator[Sample]:
    """Samples of the last epoch; a value that its cut does not have has no sample."""
    yield Sample("committed_epoch", epoch.epoch)
    yield Sample("last_commit_timestamp_seconds", epoch.written.timestamp())
    yield Sample("stores", epoch.stores)
    for metric, ms in (
        ("epoch_duration_seconds", epoch.duration_ms),
        ("commit_duration_seconds", epoch.commit_ms),
        ("cut_write_duration_seconds", epoch.cut_ms),
        ("cut_lag_seconds", epoch.cut_lag_ms),
    ):
        yield from _seconds(metric, ms)
    for phase, ms in epoch.phases.items():
        yield Sample("epoch_phase_duration_seconds", ms / _MS, {"phase": phase})
    overloaded = 0
    for cut in epoch.operators:
        label = {"operator": str(cut.operator)}
        yield from _seconds("alignment_duration_seconds", cut.alignment_ms, label)
        yield from _seconds("barrier_to_capture_duration_seconds", cut.barrier_to_capture_ms, label)
        yield Sample("in_flight_rows", cut.in_flight_rows, label)
        if cut.in_flight_bytes is not None:
            yield Sample("in_flight_bytes", cut.in_flight_bytes, label)
        if cut.over_limit_rows is not None:
            yield Sample("in_flight_over_limit_rows", cut.over_limit_rows, label)
            overloaded += cut.over_limit_rows > 0
    yield Sample("overloaded_operators", overloaded)
    longest: dict[tuple[str, str], int] = {}
    for slow in epoch.slowest or ():
        store = str(slow.operator), slow.store
        longest[store] = max(longest.get(store, 0), slow.ms)
    for (operator, store_name), ms in longest.items():
        label = {"operator": operator, "store": store_name}
        yield from _seconds("slowest_store_duration_seconds", ms, label)


def of_notes(
    committed: int | None, proven: RestoreTestStatus | None, replicas: Iterable[ReplicaStatus]
) -> Iterator[Sample]:
    """Samples of restore tests and replicas."""
    if proven is not None:
        yield Sample("restore_test_epoch", proven.epoch)
        yield Sample("restore_test_timestamp_seconds", proven.tested.timestamp())
    if committed is not None:
        tested = -1 if proven is None else proven.epoch
        yield Sample("epochs_since_restore_test", committed - tested)
    for copy in replicas:
        label = {"replica": copy.location}
        yield Sample("replica_lag_epochs", copy.lag_epochs, label)
        yield from _seconds("replica_lag_seconds", copy.lag_ms, label)


class Counts:
    """Counters, from the moment that this object was created."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str]] = Counter()
        # Counters without labels, or with few label values, start with samples of 0.
        for metric in metrics().values():
            if metric.type == "counter" and not metric.labels:
                self._counted[metric.name, ""] = 0
        for cause in SLOW_KINDS:
            self.slow(cause, 0)

    def epoch(self, count: int = 1) -> None:
        """Counts committed epochs."""
        self._counted["epochs_total", ""] += count

    def slow(self, cause: str, count: int = 1) -> None:
        """Counts slow epochs."""
        self._counted["slow_epochs_total", cause] += count

    def add(self, used: Usage) -> None:
        """Counts requests, bytes and frames."""
        for kind, count in used.requests.items():
            self._counted["requests_total", kind] += count.requests
            self._counted["request_retries_total", kind] += count.retries
            self._counted["request_failures_total", kind] += count.failures
        self._counted["sent_bytes_total", ""] += used.bytes_sent
        self._counted["received_bytes_total", ""] += used.bytes_received
        self._counted["frames_total", ""] += used.frames
        self._counted["segments_total", ""] += used.segments
        self._counted["segment_bytes_total", ""] += used.segment_bytes

    def samples(self) -> Iterator[Sample]:
        """The counters; a kind of request that never occurred has no sample."""
        for (metric, label), value in sorted(self._counted.items()):
            yield Sample(metric, value, {metrics()[metric].labels[0]: label} if label else {})


def _seconds(
    metric: str, ms: int | None, labels: Mapping[str, str] | None = None
) -> Iterator[Sample]:
    if ms is not None:
        yield Sample(metric, ms / _MS, labels or {})
