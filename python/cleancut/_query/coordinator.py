"""The coordinator of a running query: its status, its savepoints and its pace."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from cleancut._brief import Brief
from cleancut._checkpoint.checkpoint import Checkpoint
from cleancut._checkpoint.read.epoch_history import EpochHistory
from cleancut._checkpoint.read.epoch_info import EpochInfo, SlowEpoch, epoch_info
from cleancut._checkpoint.read.prices import PRICES, DailyCosts, PriceList
from cleancut._checkpoint.replicate.records import (
    ReplicaStatus,
    RestoreTestStatus,
    last_restore_test,
    replica_statuses,
)
from cleancut._checkpoint.retain.kept_savepoints import UnreadableSavepoint
from cleancut._checkpoint.retain.savepoints import check_name, invalid
from cleancut._display import html, tables
from cleancut._format.ages import moment
from cleancut._format.cut.channels import channels_of
from cleancut._format.cut.costs import (
    RequestsByKind,
    StoreTimes,
    Usage,
    costs_of,
    store_times_of,
    usage_of,
)
from cleancut._format.layout import PROOFS
from cleancut._operations.offline import Plan, check_partitions, rescale_running
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._query.live_view import EVERY_S, LONGEST_S, LiveView, show
from cleancut._query.pace import (
    Pace,
    failures_of,
    micro_dollars_of,
    millis_of,
    pace_of,
    switch_of,
)
from cleancut._session.connect import is_connect
from cleancut._session.driver import ClassicDriver, Driver, driver_of, text_of
from cleancut._session.options import ACCESS_KEYS, access_of
from cleancut._storage.access import S3Options
from cleancut._storage.s3 import SCHEMES
from cleancut.errors import CleancutError, error_of, translating

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.1
# An update takes two listings.
_NOTES_S = 60
_NO_NOTES: dict[str, list[str]] = {"proofs": [], "replicas": []}
# By location, the least recently used first. A user who polls the status may also create the
# coordinator each time.
_known_notes: dict[str, tuple[float, dict[str, list[str]]]] = {}
_MAX_NOTES = 64


@dataclass(frozen=True, repr=False)
class EpochProgress(Brief):
    """Progress of the current epoch.

    Attributes:
        epoch: Spark's batch id.
        attempts: task attempts that have opened a store.
        complete: number of these attempts that have reported every store that they opened.
        failed: number of these attempts that have failed.
        stores: number of stores that the epoch must have, by what is known now.
        reported: number of these stores that have a frame.
    """

    epoch: int
    attempts: int
    complete: int
    failed: int
    stores: int
    reported: int


@dataclass(frozen=True, repr=False)
class InFlight(Brief):
    """In-flight rows of one shuffle input in the last cut.

    Attributes:
        operator: Spark's operator id of the stateful operator.
        partition: Spark's partition id.
        store: name of the store under which `Checkpoint.state` reads the rows.
        rows: number of in-flight rows.
        total_rows: number of rows of the shuffle input in that epoch, including these.
        bytes: size of the in-flight rows; None if unknown.
    """

    operator: int
    partition: int
    store: str
    rows: int
    total_rows: int
    bytes: int | None = None


@dataclass(frozen=True, repr=False)
class CoordinatorStatus(Brief):
    """The status of a query.

    Attributes:
        location: location of its cuts.
        provider: class name of its state store provider; None if it has no state.
        run_id: Spark's id of the current run; None before it starts and after it has ended.
        generation: number of runs that have owned the query, this one included; None without a run.
        committed: last committed epoch; None before the first.
        epoch: progress of the current epoch; None between epochs.
        slowest: the slowest stores of those that have committed in the current epoch.
        last: cost of the last epoch that this run has committed; None before it.
        driver: requests of the driver for this query, including tasks in its process, since the
            previous run or longer.
        executors: requests of all executors in this run, by their last reports.
        executor_count: number of executors that have reported.
        in_flight: shuffle inputs that have in-flight rows after the last cut.
        aligned: for operators that cannot be overtaken, by operator id, the reason. Empty in mode
            "aligned", unless the run has replayed in-flight rows.
        pyspark_loop: for operators with a Python function whose loop over groups may be PySpark's,
            by operator id, the reason.
        restore_test: the last cut that passed a restore test; None if none has. It and `replicas`
            are read once a minute, and stay as they are if the store is unavailable.
        replicas: the recorded replicas, and their lag.
        overloaded: for operators that receive more rows than they process, by operator id, the
            number of rows that the epoch had to process because of `maxInFlightBytes`.
        slow_epochs: number of slow epochs of this run, by their cause; see `SlowEpoch`.
        last_slow: the last slow epoch with its cause.
        unreadable_savepoints: the savepoints that the last garbage collection of this run could not
            read. No segment or page from before their creation is deleted.
        unpipelined: the reason why each epoch waits for its cut; None if the next epoch runs
            meanwhile, or this run has not planned an epoch.
        parked_since: the time (UTC) since which a run in this driver has waited to take over from
            the driver that runs the query; None if none waits here. It has no `run_id` until then.
        is_standby: whether that run stands by; False for a prepared successor.
    """

    location: str
    run_id: str | None
    generation: int | None
    committed: int | None
    epoch: EpochProgress | None
    slowest: StoreTimes
    last: EpochInfo | None
    driver: Usage
    executors: Usage
    executor_count: int
    in_flight: tuple[InFlight, ...]
    aligned: Mapping[int, str]
    overloaded: Mapping[int, str]
    pyspark_loop: Mapping[int, str] = field(default_factory=dict)
    provider: str | None = None
    restore_test: RestoreTestStatus | None = None
    replicas: tuple[ReplicaStatus, ...] = ()
    slow_epochs: Mapping[str, int] = field(default_factory=dict)
    last_slow: tuple[int, SlowEpoch] | None = None
    unreadable_savepoints: tuple[UnreadableSavepoint, ...] = ()
    unpipelined: str | None = None
    parked_since: datetime | None = None
    is_standby: bool = False

    @property
    def requests(self) -> RequestsByKind:
        """Requests of the driver and the executors for this query so far, by kind."""
        return self.driver.requests + self.executors.requests

    def to_dict(self) -> dict[str, Any]:
        """The status as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return tables.text_facts(self._facts())

    def _repr_html_(self) -> str:
        return html.facts(self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("cuts", self.location), ("run", self.run_id)]
        if self.provider is not None and self.provider != PROVIDER_CLASS:
            facts += [("state is kept by", self.provider)]
        if self.parked_since is not None:
            facts += [
                (
                    f"parked as {parked_role(self)}",
                    f"since {self.parked_since:%Y-%m-%d %H:%M:%S} UTC",
                )
            ]
        facts += [("generation", _text(self.generation)), ("committed", _text(self.committed))]
        if self.last is not None:
            last = self.last
            facts += [
                ("it took", f"{last.duration_ms} ms, {last.commit_ms} ms of them for the commit")
            ]
            facts += [
                ("its cut took", f"{last.cut_ms} ms"),
                ("its cut lag", f"{last.cut_lag_ms} ms"),
                ("its requests", str(last.requests)),
            ]
            facts += [("its slowest store", str(slow)) for slow in (last.slowest or ())[:1]]
        if self.last_slow is not None:
            epoch, why = self.last_slow
            facts += [(f"epoch {epoch} was slow", str(why))]
        if self.epoch is not None:
            at = self.epoch
            facts += [("under way", f"{at.epoch}: {at.reported} of {at.stores} stores")]
        facts += [("slow store", str(slow)) for slow in self.slowest]
        if self.in_flight:
            rows = sum(channel.rows for channel in self.in_flight)
            facts += [("in flight", f"{rows} rows in {len(self.in_flight)} channels")]
        facts += [
            (f"operator {operator} is aligned", why)
            for operator, why in sorted(self.aligned.items())
        ]
        facts += [
            (f"operator {operator} is overloaded", why)
            for operator, why in sorted(self.overloaded.items())
        ]
        facts += [
            (f"operator {operator} uses PySpark's loop", why)
            for operator, why in sorted(self.pyspark_loop.items())
        ]
        facts += [
            ("unreadable savepoint", str(savepoint)) for savepoint in self.unreadable_savepoints
        ]
        if self.restore_test is not None:
            facts += [("restore test", str(self.restore_test))]
        facts += [(f"replica at {replica.location}", str(replica)) for replica in self.replicas]
        facts += [("requests of the driver", str(self.driver))]
        return [*facts, (f"of {self.executor_count} executors", str(self.executors))]


class Coordinator:
    """The coordinator of one query, which commits its epochs by cuts."""

    def __init__(
        self,
        driver: Driver,
        location: str,
        access: S3Options,
        provider: str | None,
    ) -> None:
        self._driver = driver
        self._location = location
        self._access = access
        self._provider = provider

    def __repr__(self) -> str:
        return f"Coordinator({self._location!r})"

    def _ipython_display_(self) -> None:
        self.watch()

    @property
    def location(self) -> str:
        """The checkpoint location, as Spark resolved it."""
        return self._location

    def watch(self, every: float = EVERY_S, timeout: float = LONGEST_S) -> LiveView:
        """Displays the status of the query in a notebook, and updates it while the run is active.

        A notebook does so by itself if the last value of a cell is a coordinator. The query is
        displayed in one output at a time; the previous output remains unchanged.

        Args:
            every: seconds between two updates.
            timeout: seconds after which the updates end.

        Returns:
            The view, whose `stop` ends the updates.

        Raises:
            ImportError: IPython is not installed.
        """
        return show(self, every, timeout)

    def status(self) -> CoordinatorStatus:
        """The status of the query from its driver, or from the object store if it has ended.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING, the query has no cuts.
        """
        # Read before the driver's figures, which then include its requests.
        notes = self._notes()
        described = self._driver_status()
        epoch = described.get("epoch")
        written_ms = described["last"]["writtenMs"] if "last" in described else None
        parked_ms = described.get("parkedSinceMs")
        return CoordinatorStatus(
            location=described["location"],
            run_id=described.get("runId"),
            generation=described.get("generation"),
            committed=described.get("committed"),
            epoch=EpochProgress(**epoch) if epoch else None,
            slowest=store_times_of(described["slowest"]),
            last=_last_of(described["last"]) if "last" in described else None,
            driver=usage_of(described["driver"]),
            executors=usage_of(described["executors"]),
            executor_count=described["executorCount"],
            in_flight=tuple(map(_in_flight, described["inFlight"])),
            aligned=_by_operator(described["aligned"]),
            overloaded=_by_operator(described["overloaded"]),
            pyspark_loop=_by_operator(described["pysparkLoop"]),
            provider=self._provider,
            restore_test=last_restore_test(f"{PROOFS}/{name}" for name in notes["proofs"]),
            replicas=tuple(
                replica_statuses(notes["replicas"], described.get("committed"), written_ms)
            ),
            slow_epochs=described["slow"]["counts"],
            last_slow=_last_slow_of(described["slow"].get("last")),
            unreadable_savepoints=tuple(
                UnreadableSavepoint(
                    savepoint["name"], savepoint["detail"], savepoint.get("lastEpoch")
                )
                for savepoint in described["unreadableSavepoints"]
            ),
            unpipelined=described.get("unpipelined"),
            parked_since=None if parked_ms is None else moment(parked_ms),
            is_standby=described.get("isStandby", False),
        )

    def _driver_status(self) -> dict[str, Any]:
        """The driver's status; for a running query it needs no request to the object store."""
        status: dict[str, Any] = json.loads(self._call("status"))
        return status

    def _notes(self) -> dict[str, list[str]]:
        """The records of restore tests and replicas, cached for a minute."""
        until, known = _known_notes.pop(self._location, (0.0, _NO_NOTES))
        if time.monotonic() >= until:
            with suppress(CleancutError):
                known = json.loads(self._call("notes"))
            until = time.monotonic() + _NOTES_S
        _known_notes[self._location] = until, known
        while len(_known_notes) > _MAX_NOTES:
            _known_notes.pop(next(iter(_known_notes)))
        return known

    def history(self, since: int | datetime | None = None) -> EpochHistory:
        """The cost of each epoch, from the checkpoint: also available after the driver has ended.

        Args:
            since: as in `Checkpoint.history`: the first epoch, or the time from which epochs were
                committed (UTC, unless it has a time zone); None is all epochs whose cut is
                retained. A driver records the reasons of slow epochs after a minute, or after 64
                epochs.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND before the first epoch, and as Checkpoint.
            CorruptedError: a cut is corrupted, or CLEANCUT_HISTORY_CORRUPTED.
        """
        return self._checkpoint().history(since)

    def cost_per_day(self, prices: Sequence[PriceList] = PRICES) -> DailyCosts:
        """Estimates the cost of the query per day, from the epochs whose cuts are retained.

        Args:
            prices: price lists to use instead of the published ones.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND before the first epoch,
                CLEANCUT_STATE_NOT_FOUND before the second, and as Checkpoint.
            CorruptedError: a cut is corrupted.
        """
        return self._checkpoint().cost_per_day(prices)

    def wait_for(self, epoch: int, timeout: float | None = None) -> bool:
        """Waits until an epoch is committed.

        Args:
            epoch: Spark's batch id.
            timeout: in seconds; None is no limit.

        Returns:
            Whether it is committed.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            committed = self._driver_status().get("committed")
            if committed is not None and committed >= epoch:
                return True
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)

    def cut_now(self) -> bool:
        """Overtakes the running epoch: its tasks process no more rows, the rest becomes in-flight.

        It returns at once; `wait_for` waits for the cut.

        Returns:
            Whether the running epoch can be overtaken: in mode "unaligned" or "auto", with a sink
            that seals, and not the first epoch of its run.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING.
        """
        return bool(self._call("cutNow"))

    def pace(
        self,
        *,
        min_pause: timedelta | float | None = None,
        interval: timedelta | float | None = None,
        budget: float | str | None = None,
        tolerable_failures: int | Literal["any"] | None = None,
        autopause: bool | None = None,
    ) -> Pace:
        """Limits the pace of epochs, in addition to the trigger; sets the arguments that are given.

        It applies at once and to later runs of the query in this driver. The thread of the query
        pauses after the commit of an epoch, before Spark requests new rows.

        Args:
            min_pause: minimum time between the commit of an epoch and the start of the next, up to
                an hour; a number is in seconds.
            interval: minimum time between the starts of two epochs, up to an hour.
            budget: limit for the cost of requests to the object store in US dollars per day, at the
                prices of S3 Standard: 5, or "$5/day"; 0 is no limit. The interval follows the
                average cost of the last hundred epochs, up to an hour. It does not include storage.
            tolerable_failures: number of consecutive failures of maintenance (pages of cuts,
                garbage collection) after which the query fails with CLEANCUT_MAINTENANCE_FAILED at
                the end of its epoch. "any", the default: it never fails.
            autopause: whether maintenance waits while epochs are late: those that take twice the
                median of the 50 before, and 200 ms more. It waits for at most eight epochs.

        Returns:
            The limits that apply.

        Raises:
            ValueError: an argument is out of range.
        """
        limits = (
            millis_of("min_pause", min_pause),
            millis_of("interval", interval),
            micro_dollars_of(budget),
            failures_of(tolerable_failures),
            switch_of(autopause),
        )
        with translating():
            fields: dict[str, Any] = json.loads(self._facade.pace(self._location, *limits))
        return pace_of(fields)

    def rescale(
        self,
        partitions: int,
        *,
        file_sink: str | None = None,
        timeout: float = 600.0,
    ) -> Plan:
        """Repartitions the state of the query between two epochs, while the query runs.

        It waits for the end of the running epoch. No row is copied: each store references the
        stores that have its rows, and executors load them in the next epoch, which has no input.
        The query then continues on the new partitions. Later starts of the query use them, too.

        Args:
            partitions: the new number of partitions, as for `cleancut.rescale`.
            file_sink: the path of `start(path)`, if the query writes to Spark's file sink.
            timeout: seconds to wait for the end of an epoch of this run. With a trigger interval,
                the query is rescaled when the next trigger begins.

        Returns:
            The plan as it was executed.

        Raises:
            RequestError: CLEANCUT_OPERATION_REFUSED with the reason, and the query continues
                unchanged: it has this number already, rows would be copied, no epoch has ended in
                time, or the query has ended; CLEANCUT_COORDINATOR_MISSING.
            RetryableError: CLEANCUT_RESCALE_INTERRUPTED, and the query is stopped.
        """
        check_partitions("rescale", self._location, partitions)
        return rescale_running(
            self._driver, self._location, partitions, file_sink=file_sink, timeout_s=timeout
        )

    def create_savepoint(self, name: str, epoch: int | None = None) -> int:
        """Creates a savepoint: retains a cut, and all objects that it references, under a name.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores, not digits only; no savepoint has
                it.
            epoch: Spark's batch id; None is the last committed epoch.

        Returns:
            The epoch of the cut.

        Raises:
            RequestError: CLEANCUT_SAVEPOINT_INVALID, CLEANCUT_COORDINATOR_MISSING.
        """
        check_name(name, self._location)
        chosen: int | None = self._driver_status().get("committed") if epoch is None else epoch
        if chosen is None:
            raise invalid(name, self._location, "no epoch is committed yet")
        self._call("pin", name, chosen)
        return chosen

    def drop_savepoint(self, name: str) -> bool:
        """Drops a savepoint. Returns whether it existed.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING.
        """
        return bool(self._call("unpin", name))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Within it the query starts no epoch; the one that runs continues."""
        self._facade.hold(self._location)
        try:
            yield
        finally:
            self._facade.release(self._location)

    def _is_between(self) -> bool:
        """Whether all started epochs of the query are committed, or it does not run here."""
        return bool(self._facade.isBetween(self._location))

    @property
    def _facade(self) -> Any:
        return self._driver.side("coordinator")

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self._location, **self._access)

    def _call(self, method: str, *arguments: Any) -> Any:
        with translating():
            call = getattr(self._facade, method)
            return call(self._location, self._driver.session, *arguments)


def parked_role(status: CoordinatorStatus) -> str:
    """What the run that waits in this driver is, for texts and labels."""
    return "standby" if status.is_standby else "successor"


def _by_operator(reasons: Mapping[str, str]) -> dict[int, str]:
    return {int(operator): why for operator, why in reasons.items()}


def _in_flight(channel: Mapping[str, Any]) -> InFlight:
    return InFlight(
        operator=channel["operator"],
        partition=channel["partition"],
        store=channel["channel"],
        rows=channel["rows"],
        total_rows=channel["of"],
        bytes=channel.get("bytes"),
    )


def coordinator(query: "StreamingQuery") -> Coordinator:
    """The coordinator of a query that was started in this session.

    Args:
        query: as `writeStream.start()` returned it, with its checkpoint location on `s3://`, or
            elsewhere with cuts.

    Raises:
        RequestError: CLEANCUT_COORDINATOR_MISSING for a query without cuts, or one on a server of
            Spark Connect that has ended; CLEANCUT_CONNECT_UNSUPPORTED, that server lacks Cleancut's
            plugin.
    """
    if is_connect(query):
        return _of_server(query)
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        raise error_of("CLEANCUT_COORDINATOR_MISSING", location="of a session that was stopped")
    execution = query._jsq.streamingQuery()
    stream_session = execution.sparkSessionForStream()
    conf = stream_session.conf()
    return _checked(
        ClassicDriver(context._jvm, None, stream_session),
        str(execution.resolvedCheckpointRoot()),
        lambda key: text_of(conf.getOption(key)),
    )


def _of_server(query: Any) -> Coordinator:
    driver = driver_of(query._session, run_id=str(query.runId))
    with translating():
        answer = driver.side("coordinator").query(
            driver.session, ",".join((PROVIDER_KEY, *ACCESS_KEYS))
        )
    described = json.loads(answer)
    return _checked(driver, described["location"], described["conf"].get)


def _checked(driver: Driver, location: str, value_of: Callable[[str], str | None]) -> Coordinator:
    access = access_of(value_of) if location.startswith(SCHEMES) else S3Options()
    opened = Coordinator(driver, location, access, value_of(PROVIDER_KEY))
    opened._driver_status()
    return opened


def _last_of(fields: dict[str, Any]) -> EpochInfo:
    return epoch_info(
        epoch=fields["epoch"],
        generation=fields["generation"],
        written=moment(fields["writtenMs"]),
        stores=fields["stores"],
        timings=fields["timings"],
        costs=costs_of(fields["costs"]) if "costs" in fields else None,
        cut_ms=fields["cutMs"],
        channels=channels_of(fields["channels"]),
    )


def _last_slow_of(fields: dict[str, Any] | None) -> tuple[int, SlowEpoch] | None:
    if fields is None:
        return None
    return fields["epoch"], SlowEpoch(fields["kind"], fields["typicalMs"], fields["detail"])


def _text(number: int | None) -> str | None:
    """A number as text, so that it is not aligned like a number."""
    return None if number is None else str(number)
