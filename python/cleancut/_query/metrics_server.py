"""Serves the metrics of a session's queries from its driver."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from cleancut._metrics.prometheus import MetricsServer, serve
from cleancut._metrics.samples import Counts, Sample, of_epoch, of_notes
from cleancut._metrics.scans import Scans
from cleancut._query.coordinator import CoordinatorStatus, coordinator, parked_role
from cleancut._session.active_session import client_session, running_session
from cleancut.errors import RequestError, error_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PORT = 9464
_ADDRESS = "0.0.0.0"


class DriverScan:
    """The samples of a session's active queries that are committed by cuts."""

    location = "driver"

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        # Counters of a run start at the first scan that sees it.
        self._first: dict[str, int] = {}

    def scan(self) -> Sequence[Sample]:
        """The current samples; notes of restore tests and replicas are read once a minute."""
        active = self._session.streams.active
        return [sample for query in active for sample in self._of(query)]

    def _of(self, query: "StreamingQuery") -> Iterator[Sample]:
        try:
            status = coordinator(query).status()
        except RequestError as error:
            # The query has no cuts, or has just ended.
            if error.error_id != "CLEANCUT_COORDINATOR_MISSING":
                raise
            return
        labels = {"query": str(query.id), "location": status.location}
        if status.parked_since is not None:
            since_s = status.parked_since.timestamp()
            yield Sample("parked_timestamp_seconds", since_s, {"role": parked_role(status)}).of(
                labels
            )
        # Before the first epoch only the object store holds its figures.
        if status.run_id is not None:
            first = self._first.setdefault(status.run_id, _committed(status))
            yield from (sample.of(labels) for sample in of_status(status, first))


def of_status(status: CoordinatorStatus, first: int) -> Iterator[Sample]:
    """The status of a coordinator as samples.

    Args:
        status: status of an active query.
        first: the last epoch committed when the counters started.
    """
    counts = Counts()
    counts.add(status.driver + status.executors)
    counts.epoch(_committed(status) - first)
    for cause, count in status.slow_epochs.items():
        counts.slow(cause, count)
    yield from counts.samples()
    if status.last is not None:
        yield from of_epoch(status.last)
    elif status.committed is not None:
        yield Sample("committed_epoch", status.committed)
    yield Sample("executors", status.executor_count)
    yield Sample("aligned_operators", len(status.aligned))
    yield Sample("unreadable_savepoints", len(status.unreadable_savepoints))
    if status.generation is not None:
        yield Sample("owner_generation", status.generation)
    yield from of_notes(status.committed, status.restore_test, status.replicas)


def serve_metrics(
    session: "SparkSession | None" = None, *, port: int = _PORT, address: str = _ADDRESS
) -> MetricsServer:
    """Serves metrics for Prometheus of all queries of a session that are committed by cuts.

    Queries of another session (`newSession`) need a server of their own. Queries may start and
    stop while it serves. docs/reference/metrics.md lists the metrics. A scrape calls the driver and
    waits for the object store no longer than `Coordinator.status` does.

    Args:
        session: the session of the queries; None is the active one.
        port: port to listen on, with the path `/metrics`; 0 takes a free one.
        address: address of the interface to listen on; the default is all interfaces.

    Returns:
        The server; it serves until `close` is called or its `with` block ends.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING; CLEANCUT_METRICS_BIND_FAILED, the port is in use;
            CLEANCUT_DEPENDENCY_MISSING, without the extra `cleancut[exporter]`.
    """
    chosen: Any = session or running_session() or client_session()
    if chosen is None:
        raise error_of("CLEANCUT_SESSION_MISSING", operation="serve_metrics")
    scans = Scans([DriverScan(chosen)])
    # Each scrape has a thread of its own; py4j would create a JVM thread for each of them.
    executor = ThreadPoolExecutor(1, thread_name_prefix="cleancut-metrics")

    def samples() -> list[Sample]:
        executor.submit(scans.run).result()
        return scans.samples()

    try:
        return serve(samples, address, port, closed=executor.shutdown)
    except RequestError:
        executor.shutdown()
        raise


def _committed(status: CoordinatorStatus) -> int:
    return -1 if status.committed is None else status.committed
