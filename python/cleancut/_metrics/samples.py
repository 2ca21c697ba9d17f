"""Figures of queries as samples of metrics, wherever they are read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._checkpoint.read.epoch_info import SLOW_KINDS, EpochInfo
from cleancut._checkpoint.replicate.followed import ProvenCut, ReplicaStatus
from cleancut._format.costs import Usage
from cleancut._metrics.catalog import metrics

_MS = 1000


@dataclass(frozen=True)
class Sample:
    """One number of a metric.

    Attributes:
        metric: its name, as the catalog has it.
        value: in base units.
        labels: beside those of the query, by name.
    """

    metric: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = metrics()[self.metric].labels
        if not set(self.labels) <= {*declared, "query", "location"}:
            raise ValueError(f"{self.metric} has the labels {declared}, not {self.labels}")

    def of(self, query: Mapping[str, str]) -> "Sample":
        """The same, with the labels that tell the query."""
        return Sample(self.metric, self.value, {**query, **self.labels})


def of_epoch(epoch: EpochInfo) -> Iterator[Sample]:
    """What the last epoch was like; nothing of what its cut does not tell."""
    yield Sample("committed_epoch", epoch.epoch)
    yield Sample("last_commit_timestamp_seconds", epoch.written.timestamp())
    yield Sample("stores", epoch.stores)
    for metric, ms in (
        ("epoch_duration_seconds", epoch.duration_ms),
        ("gate_duration_seconds", epoch.gate_ms),
        ("cut_write_duration_seconds", epoch.cut_ms),
    ):
        yield from _seconds(metric, ms)
    overloaded = 0
    for of in epoch.operators:
        label = {"operator": str(of.operator)}
        yield from _seconds("alignment_duration_seconds", of.alignment_ms, label)
        yield from _seconds("barrier_to_capture_duration_seconds", of.barrier_to_capture_ms, label)
        yield Sample("in_flight_rows", of.rows_in_flight, label)
        if of.bytes_in_flight is not None:
            yield Sample("in_flight_bytes", of.bytes_in_flight, label)
        if of.rows_beyond_bound is not None:
            yield Sample("beyond_bound_rows", of.rows_beyond_bound, label)
            overloaded += of.rows_beyond_bound > 0
    yield Sample("overloaded_operators", overloaded)
    longest: dict[tuple[str, str], int] = {}
    for slow in epoch.slowest or ():
        store = str(slow.operator), slow.store
        longest[store] = max(longest.get(store, 0), slow.ms)
    for (operator, store_name), ms in longest.items():
        label = {"operator": operator, "store": store_name}
        yield from _seconds("slowest_store_duration_seconds", ms, label)


def of_notes(
    committed: int | None, proven: ProvenCut | None, replicas: Iterable[ReplicaStatus]
) -> Iterator[Sample]:
    """What others have noted."""
    if proven is not None:
        yield Sample("proven_epoch", proven.epoch)
        yield Sample("proven_timestamp_seconds", proven.proven.timestamp())
    if committed is not None:
        yield Sample("unproven_epochs", committed - (-1 if proven is None else proven.epoch))
    for copy in replicas:
        label = {"replica": copy.location}
        yield Sample("replica_lag_epochs", copy.behind_epochs, label)
        yield from _seconds("replica_lag_seconds", copy.behind_ms, label)


class Counts:
    """What only grows: counted from when it is made, whatever was used before."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str]] = Counter()
        # What has no kind, or only few, is told from the beginning.
        for metric in metrics().values():
            if metric.type == "counter" and not metric.labels:
                self._counted[metric.name, ""] = 0
        for cause in SLOW_KINDS:
            self.slow(cause, 0)

    def epoch(self, count: int = 1) -> None:
        """So many more are committed."""
        self._counted["epochs_total", ""] += count

    def slow(self, cause: str, count: int = 1) -> None:
        """So many more were slow."""
        self._counted["slow_epochs_total", cause] += count

    def add(self, used: Usage) -> None:
        """Some more was used."""
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
        """What it has come to; the kinds of requests that there were none of are left out."""
        for (metric, of), value in sorted(self._counted.items()):
            yield Sample(metric, value, {metrics()[metric].labels[0]: of} if of else {})


def _seconds(
    metric: str, ms: int | None, labels: Mapping[str, str] | None = None
) -> Iterator[Sample]:
    if ms is not None:
        yield Sample(metric, ms / _MS, labels or {})
