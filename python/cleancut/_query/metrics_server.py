"""Serves the metrics of a session's queries from its driver."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from cleancut._metrics.looks import Looks
from cleancut._metrics.prometheus import MetricsServer, serve
from cleancut._metrics.samples import Counts, Sample, of_epoch, of_notes
from cleancut._query.coordinator import CoordinatorStatus, coordinator
from cleancut._session.running import client_session, running_session
from cleancut.errors import RequestError, error_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PORT = 9464
_ADDRESS = "0.0.0.0"


class QueriesLook:
    """What the coordinators of a session's queries tell that run now and are committed by cuts."""

    location = "driver"

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        # By run, so that its epochs are counted from where it was first met.
        self._first: dict[str, int] = {}

    def look(self) -> Sequence[Sample]:
        """As a look does; the store is asked for notes alone, once a minute at most."""
        return [of for query in self._session.streams.active for of in self._of(query)]

    def _of(self, query: "StreamingQuery") -> Iterator[Sample]:
        try:
            status = coordinator(query).status()
        except RequestError as error:
            # It has no cuts, or has just ended.
            if error.error_id != "CLEANCUT_COORDINATOR_MISSING":
                raise
            return
        # Before its first epoch only the store would know.
        if status.run_id is not None:
            first = self._first.setdefault(status.run_id, _committed(status))
            labels = {"query": str(query.id), "location": status.location}
            yield from (sample.of(labels) for sample in of_status(status, first))


def of_status(status: CoordinatorStatus, first: int) -> Iterator[Sample]:
    """What a coordinator tells, as samples.

    Args:
        status: of a query that runs.
        first: the last epoch that had been committed when counting began.
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
    yield from of_notes(status.committed, status.proven, status.replicas)


def serve_metrics(
    session: "SparkSession | None" = None, *, port: int = _PORT, address: str = _ADDRESS
) -> MetricsServer:
    """Serves metrics for Prometheus of all queries of a session that are committed by cuts.

    Those of another session (`newSession`) are told by a server of their own. Queries come and go
    while it serves; docs/reference/metrics.md says what is told. A scrape asks
    the driver, and never waits for the store longer than `Coordinator.status` does.

    Args:
        session: the session whose queries are told of; None is the active one.
        port: to listen at, at the path `/metrics`; 0 takes a free one.
        address: of the interface to listen at; by default all of them.

    Returns:
        What serves, until it is closed, or left as a context.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING; CLEANCUT_METRICS_UNSERVED, the port is taken;
            CLEANCUT_DEPENDENCY_MISSING, without the extra `cleancut[exporter]`.
    """
    chosen: Any = session or running_session() or client_session()
    if chosen is None:
        raise error_of("CLEANCUT_SESSION_MISSING", act="serve_metrics")
    looks = Looks([QueriesLook(chosen)])
    # Each scrape comes in a thread of its own, and each of these would get one in the JVM.
    asking = ThreadPoolExecutor(1, thread_name_prefix="cleancut-metrics")

    def samples() -> list[Sample]:
        asking.submit(looks.look).result()
        return looks.samples()

    try:
        return serve(samples, address, port, closed=asking.shutdown)
    except RequestError:
        asking.shutdown()
        raise


def _committed(status: CoordinatorStatus) -> int:
    return -1 if status.committed is None else status.committed
