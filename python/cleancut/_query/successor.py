"""Starts a new version of a query next to the running one, which it takes over from."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from cleancut._operations.offline import Plan, clone
from cleancut._query.coordinator import coordinator
from cleancut._query.sealing import seal
from cleancut._session.connect import require_classic
from cleancut._session.driver import Driver, driver_of
from cleancut._session.options import PREFIX
from cleancut.errors import RequestError, find_error, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_CHECK_KEY = f"{PREFIX}checkCompatibility"
_HANDOVER_KEY = f"{PREFIX}handoverTimeout"
# Defaults, also of the commands.
WARM_UP_EPOCHS = 3
HANDOVER_S = 30.0
_POLL_S = 0.02
# Py4J calls cannot be interrupted.
_WAIT_MS = 500
_WARM_UP = "warm-up"


class Successor:
    """A new version of a query that takes over from the running one. `successor` creates it.

    As a context manager it is closed at the end, unless it has taken over.

    Attributes:
        location: the checkpoint location, as it was given.
    """

    def __init__(
        self, build: "Callable[[], DataStreamWriter]", location: str, handover_timeout: float
    ) -> None:
        self.location = location
        self._build = build
        self._handover_ms = round(handover_timeout * 1000)
        # Of the query that is parked or has taken over.
        self._query: StreamingQuery | None = None
        self._session: Any = None
        # As Spark resolves it.
        self._resolved = location
        self._is_parked = False
        self._is_prepared = False

    def __repr__(self) -> str:
        return f"Successor({self.location!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(
        self, epochs: int = WARM_UP_EPOCHS, timeout: float = 60.0, *, scratch: str | None = None
    ) -> int:
        """Starts the new version up to the moment at which it would take over, and warms it up.

        The running query is not affected, and nothing changes in its checkpoint. The new version is
        checked against the checkpoint as by `check_compatibility`, and its start waits before it
        takes ownership. Then the query is built again and runs some epochs on a clone of the
        checkpoint, with a sink that drops all rows. So classes are loaded, code is compiled, and
        Python workers have started. The clone copies the state of the query, and is deleted at the
        end. Its first epoch is the last one of the running query, if the checkpoint and the sources
        still have it. At last the snapshots of the state are fetched to the executors.

        It may be called repeatedly: each call repeats the warm-up.

        Args:
            epochs: number of epochs on the clone; 0 for no clone.
            timeout: limit for these epochs, in seconds. They take longer if input arrives rarely.
            scratch: location of the clone, which must be empty; None is a location next to the
                checkpoint. If this process is killed meanwhile, delete it.

        Returns:
            The number of epochs that the clone has run; 0 if the query has not committed an epoch.

        Raises:
            RequestError: CLEANCUT_QUERY_INCOMPATIBLE, the state does not fit the new version;
                CLEANCUT_OPERATION_REFUSED, the query runs in this driver, or its epochs are not
                committed by cuts, or the clone was refused; CLEANCUT_CONNECT_UNSUPPORTED.
            TypeError: `build` does not return a DataStreamWriter.
            RuntimeError: it has taken over.
            StreamingQueryException: the new version has failed on the clone.
        """
        if self._query is None:
            self._start()
        elif not self._is_parked:
            raise RuntimeError(f"{self!r} has taken over")
        if self._committed() is None:
            return 0
        done = self._warm_up(epochs, timeout, scratch) if epochs > 0 else 0
        self._prefetch()
        self._is_prepared = True
        return done

    def take_over(self, timeout: float | None = None) -> "StreamingQuery":
        """Takes over from the running query, which finishes its epoch and ends without an error.

        Without a call of `prepare`, the query is started first.

        Args:
            timeout: limit for the wait described below, in seconds; None is no limit.

        Returns:
            The query, when it has committed an epoch or waits for input.

        Raises:
            TimeoutError: the first epoch takes longer; the query continues.
            RequestError: as `prepare`.
            StreamingQueryException: the query has failed. An error of Cleancut is raised instead as
                its own class.
        """
        if self._query is None:
            self._start()
        if self._is_parked and self._is_prepared:
            # Those that the running query has written meanwhile.
            self._prefetch()
        return self._begin(timeout)

    def stand_by(
        self, timeout: float | None = None, *, silence: float | None = None
    ) -> "StreamingQuery":
        """Waits until no driver runs the query, and takes over at once.

        The death of the driver closes a connection to it, so that it is noticed in milliseconds; if
        the host or the network fails, in about seven seconds. A false alarm costs no row: the other
        driver is fenced, and its epoch is repeated here. The query is also taken over if it has
        been stopped, so close the standby before you stop the query for good.

        Meanwhile the snapshots of the state are kept up to date on the executors. The names of the
        owners and the last cut are requested every ten seconds: 17,000 lists and as many objects a
        day. Without a call of `prepare`, the query is started first.

        Args:
            timeout: limit for the wait, in seconds; None is no limit.
            silence: seconds without a new cut after which the driver counts as dead, for one that
                hangs; None is no limit. A query without input commits no epochs, so a limit
                requires that there is always input.

        Returns:
            The query, when it has committed an epoch or waits for input.

        Raises:
            TimeoutError: another driver still runs the query. It is still prepared.
            RequestError: as `prepare`.
            StreamingQueryException: the query has failed. An error of Cleancut is raised instead as
                its own class.
            RuntimeError: it has taken over.
        """
        if self._query is None:
            self._start()
        elif not self._is_parked:
            raise RuntimeError(f"{self!r} has taken over")
        if not self._await_death(timeout, round((silence or 0.0) * 1000)):
            raise TimeoutError(f"{self.location} has had a driver for {timeout} s")
        return self._begin(None)

    def close(self) -> None:
        """Ends the prepared query, unless it has taken over. The running query continues."""
        if self._is_parked and self._query is not None:
            self._query.stop()
            self._unpark()
            self._query = None

    def _await_death(self, timeout: float | None, silence_ms: int) -> bool:
        """Returns whether the query has no driver, within a time."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        with translating():
            driver = self._side("coordinator").standby(
                self._resolved, self._driver.session, silence_ms
            )
            try:
                while not (is_gone := driver.isGone(_WAIT_MS)) and time.monotonic() < end:
                    if self._query is not None:
                        _raise_failure(self._query)
            finally:
                driver.close()
        return bool(is_gone)

    def _begin(self, timeout: float | None) -> "StreamingQuery":
        """Lets the query take ownership; returns when it has begun."""
        query = self._query
        assert query is not None
        end = math.inf if timeout is None else time.monotonic() + timeout
        self._unpark()
        while not _has_begun(query):
            _raise_failure(query)
            if time.monotonic() >= end:
                raise TimeoutError(f"the first epoch of {self.location} takes longer: {timeout} s")
            time.sleep(_POLL_S)
        return query

    def _start(self) -> None:
        """Starts the query, whose run waits until `_unpark`."""
        writer = self._writer()
        session = writer._spark
        driver = driver_of(session)
        with translating():
            self._resolved = driver.side("coordinator").park(self.location, driver.session)
        self._session, self._is_parked = session, True
        started = None
        try:
            settings = {_CHECK_KEY: "true", _HANDOVER_KEY: f"{self._handover_ms}ms"}
            with translating(), _set(session, settings):
                started = writer.option("checkpointLocation", self._resolved).start()
            while not self._side("coordinator").isWaiting(self._resolved):
                _raise_failure(started)
                time.sleep(_POLL_S)
        except BaseException:
            if started is not None:
                started.stop()
            self._unpark()
            raise
        self._query = started

    def _writer(self) -> Any:
        writer: Any = self._build()
        require_classic(writer, "query")
        if not hasattr(writer, "foreachBatch"):
            raise TypeError(f"build must return a DataStreamWriter, not {writer!r}")
        return writer

    def _prefetch(self) -> None:
        self._side("coordinator").prefetch(self._resolved, self._driver.session)

    def _unpark(self) -> None:
        self._side("coordinator").unpark(self._resolved)
        self._is_parked = False

    def _committed(self) -> int | None:
        """The last committed epoch of the query."""
        with translating():
            status = self._side("coordinator").status(self._resolved, self._driver.session)
        committed: int | None = json.loads(status).get("committed")
        return committed

    def _warm_up(self, epochs: int, timeout: float, scratch: str | None) -> int:
        """Runs the query on a clone; returns the number of epochs."""
        name = f"{_WARM_UP}-{uuid4().hex}"
        plan = self._plan_clone(scratch or f"{self._resolved.rstrip('/')}-{name}")
        try:
            plan.apply()
            query = _without_sink(self._writer(), name).option("checkpointLocation", plan.target)
            return _run(_started(query), epochs, timeout)
        finally:
            with translating():
                self._side("offline").deleteClone(self._driver.session, plan.target)

    def _plan_clone(self, target: str) -> Plan:
        """Plans a clone of the cut before the last one if possible, so that there is input."""
        last = self._committed()
        try:
            plan = clone(self.location, target, (last or 0) - 1, session=self._session)
            if not plan.missing_files:
                return plan
        except RequestError:
            pass
        return clone(self.location, target, session=self._session)

    @property
    def _driver(self) -> Driver:
        return driver_of(self._session)

    def _side(self, side: Any) -> Any:
        return self._driver.side(side)


def successor(
    build: "Callable[[], DataStreamWriter]", location: str, *, handover_timeout: float = HANDOVER_S
) -> Successor:
    """Prepares a new version of a query that takes over from the running one, in another driver.

    The running query finishes its epoch, publishes it and ends without an error; the new version
    continues with the next epoch. If no query runs, the new version starts as usual.

        def build():
            counts = spark.readStream.table("orders").groupBy("user").count()
            return counts.writeStream.outputMode("update").foreachBatch(sink)

        with cleancut.successor(build, "s3://bucket/orders") as successor:
            successor.prepare()
            query = successor.take_over()
        query.awaitTermination()

    Args:
        build: builds the query up to `start()`, which it does not call. It is called twice, because
            `prepare` runs the query on a clone with another sink and trigger. The option
            `checkpointLocation` is set for it.
        location: the query's `checkpointLocation`.
        handover_timeout: seconds in which the running query must finish its epoch and end. After
            that, the new version takes over in any case, and repeats the epoch.

    Returns:
        The successor. Nothing has started until `prepare` or `take_over` is called.
    """
    return Successor(build, location, handover_timeout)


@contextmanager
def _set(session: "SparkSession", settings: dict[str, str]) -> Iterator[None]:
    """Sets keys of a session, which a query that starts within it copies."""
    before = {key: session.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, text in before.items():
            if text is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, text)


def _without_sink(writer: Any, name: str) -> Any:
    """The query with a sink that drops all rows, and without a pause between two epochs."""

    def drop(df: "DataFrame", epoch: int) -> None:
        rows = seal(df, epoch)
        rows.write.format("noop").mode("overwrite").save()
        rows.unpersist()

    return writer.foreachBatch(drop).queryName(name).trigger(processingTime="0 seconds")


def _started(writer: Any) -> "StreamingQuery":
    from pyspark.errors import AnalysisException

    try:
        query: StreamingQuery = writer.start()
    except AnalysisException:
        # A function cannot receive a query with partition columns.
        query = writer.format("noop").start()
    return query


def _run(query: "StreamingQuery", epochs: int, timeout: float) -> int:
    """Runs a query for a number of epochs, or for a time; returns the number."""
    end = time.monotonic() + timeout
    try:
        while True:
            done = len({one["batchId"] for one in query.recentProgress if _is_epoch(one)})
            _raise_failure(query)
            if done >= epochs or time.monotonic() >= end:
                return done
            time.sleep(_POLL_S)
    finally:
        query.stop()


def _is_epoch(progress: Any) -> bool:
    """Whether a report is about an epoch, and not about a trigger without input."""
    return "addBatch" in progress["durationMs"]


def _has_begun(query: "StreamingQuery") -> bool:
    """Whether a run has committed an epoch, or has found no input."""
    progress = query.lastProgress
    if progress is None:
        # A query that ends with its input may be over without a report.
        return not query.isActive
    # The cut may be written while the next epoch runs.
    return not _is_epoch(progress) or coordinator(query).wait_for(progress["batchId"], timeout=0)


def _raise_failure(query: "StreamingQuery") -> None:
    if query.exception() is None:
        return
    error = find_error(query)
    if error is not None:
        raise error
    # Its exception has the condition of Spark, which that of `exception()` has not.
    query.awaitTermination()
