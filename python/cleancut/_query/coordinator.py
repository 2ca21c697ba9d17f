"""Where a running query stands, and savepoints of it, by its coordinator on the driver."""

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
from cleancut._checkpoint.replicate.followed import (
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
# Two listings each time.
_NOTES_S = 60
_NO_NOTES: dict[str, list[str]] = {"proofs": [], "replicas": []}
# By location, those that were asked for last at the end: whoever wants the status often may ask
# each time for the coordinator, too.
_known_notes: dict[str, tuple[float, dict[str, list[str]]]] = {}
_MAX_NOTES = 64


@dataclass(frozen=True, repr=False)
class EpochProgress(Brief):
    """How far the epoch is that is under way.

    Attributes:
        epoch: Spark's batch id.
        attempts: task attempts that have opened a store.
        complete: those of them that have reported every store that they opened.
        failed: those that have failed.
        stores: stores that the epoch must have, as far as is known by now.
        reported: those of them that have a frame.
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
        executors: requests of all executors in this run, as far as they have reported.
        executor_count: number of executors that have reported.
        in_flight: shuffle inputs that have in-flight rows after the last cut.
        aligned: for operators that cannot be overtaken, by operator id, the reason. Empty in mode
            "aligned", unless the run has replayed in-flight rows.
        restore_test: the last cut that passed a restore test; None if none has. It and `replicas`
            are read once a minute, and stay as they are if the store is unavailable.
        replicas: the recorded replicas, and their lag.
        overloaded: of operators, by their ids, that get more rows than they take in, so that
            their epochs wait for what `maxInFlightBytes` does not let stay in flight: how many.
        slow_epochs: how many epochs of this run took longer than others, by the kind of what
            explains it; see `SlowEpoch`.
        last_slow: the last of them, by its number, and why.
        unreadable_savepoints: the savepoints that the last garbage collection of this run could not
            read. No segment or page from before their creation is deleted.
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
    provider: str | None = None
    restore_test: RestoreTestStatus | None = None
    replicas: tuple[ReplicaStatus, ...] = ()
    slow_epochs: Mapping[str, int] = field(default_factory=dict)
    last_slow: tuple[int, SlowEpoch] | None = None
    unreadable_savepoints: tuple[UnreadableSavepoint, ...] = ()

    @property
    def requests(self) -> RequestsByKind:
        """Requests of the driver and the executors for this query so far, by kind."""
        return self.driver.requests + self.executors.requests

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return tables.text_facts(self._facts())

    def _repr_html_(self) -> str:
        return html.facts(self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("cuts", self.location), ("run", self.run_id)]
        if self.provider is not None and self.provider != PROVIDER_CLASS:
            facts += [("state is kept by", self.provider)]
        facts += [("generation", _text(self.generation)), ("committed", _text(self.committed))]
        if self.last is not None:
            last = self.last
            facts += [
                ("it took", f"{last.duration_ms} ms, {last.commit_ms} ms of them in the gate")
            ]
            facts += [("its cut took", f"{last.cut_ms} ms"), ("its requests", str(last.requests))]
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
        facts += [(f"operator {of} is aligned", why) for of, why in sorted(self.aligned.items())]
        facts += [
            (f"operator {of} is overloaded", why) for of, why in sorted(self.overloaded.items())
        ]
        facts += [("unreadable savepoint", str(of)) for of in self.unreadable_savepoints]
        if self.restore_test is not None:
            facts += [("restore test", str(self.restore_test))]
        facts += [(f"copy at {of.location}", str(of)) for of in self.replicas]
        facts += [("requests of the driver", str(self.driver))]
        return [*facts, (f"of {self.executor_count} executors", str(self.executors))]


class Coordinator:
    """What commits the epochs of one query by cuts."""

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
        """Shows in a notebook where the query stands, drawn again while its run goes on.

        A notebook does so by itself with a coordinator that is the last value of a cell. The query
        is drawn in one output at a time: the one before stays as it was.

        Args:
            every: seconds between two drawings.
            timeout: seconds after which it is drawn no longer.

        Returns:
            What draws it, whose `stop` ends it.

        Raises:
            ImportError: IPython is not installed, so this is no notebook.
        """
        return show(self, every, timeout)

    def status(self) -> CoordinatorStatus:
        """Where the query stands now, by its driver; of one that has ended, by its store.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING, if its epochs are not committed by cuts.
        """
        # Before what has been asked of the store so far, which it belongs to.
        notes = self._notes()
        found = self._told()
        epoch = found.get("epoch")
        written_ms = found["last"]["writtenMs"] if "last" in found else None
        return CoordinatorStatus(
            location=found["location"],
            run_id=found.get("runId"),
            generation=found.get("generation"),
            committed=found.get("committed"),
            epoch=EpochProgress(**epoch) if epoch else None,
            slowest=store_times_of(found["slowest"]),
            last=_last_of(found["last"]) if "last" in found else None,
            driver=usage_of(found["driver"]),
            executors=usage_of(found["executors"]),
            executor_count=found["executorCount"],
            in_flight=tuple(map(_in_flight, found["inFlight"])),
            aligned={int(operator): why for operator, why in found["aligned"].items()},
            overloaded={int(operator): why for operator, why in found["overloaded"].items()},
            provider=self._provider,
            restore_test=last_restore_test(f"{PROOFS}/{name}" for name in notes["proofs"]),
            replicas=tuple(replica_statuses(notes["replicas"], found.get("committed"), written_ms)),
            slow_epochs=found["slow"]["counts"],
            last_slow=_last_slow_of(found["slow"].get("last")),
            unreadable_savepoints=tuple(
                UnreadableSavepoint(of["name"], of["detail"], of.get("lastEpoch"))
                for of in found["unreadableSavepoints"]
            ),
        )

    def _told(self) -> dict[str, Any]:
        """What the driver says; the store is not asked where the query runs."""
        found: dict[str, Any] = json.loads(self._call("status"))
        return found

    def _notes(self) -> dict[str, list[str]]:
        """What others have noted, at most a minute old: whoever asks often does not pay for it."""
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
        """What each epoch cost, by what the store holds: it outlives the driver.

        Args:
            since: as in `Checkpoint.history`: the first epoch, or when the first of them was
                committed, in UTC where it has no time zone; None is each epoch whose cut is kept.
                Of its last epochs a driver notes only a minute later, or after 64 of them, why
                they were slow.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND before the first epoch, and as Checkpoint.
            CorruptedError: a cut is damaged, or CLEANCUT_HISTORY_CORRUPTED.
        """
        return self._checkpoint().history(since)

    def cost_per_day(self, prices: Sequence[PriceList] = PRICES) -> DailyCosts:
        """Estimates what the query costs in a day, from the epochs whose cuts are kept.

        Args:
            prices: the price lists to take, in place of those that were published.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND before the first epoch,
                CLEANCUT_STATE_NOT_FOUND before the second, and as Checkpoint.
            CorruptedError: a cut is damaged.
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
            committed = self._told().get("committed")
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
        pauses after the commit of an epoch, before Spark looks for new rows.

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
        asked = (
            millis_of("min_pause", min_pause),
            millis_of("interval", interval),
            micro_dollars_of(budget),
            failures_of(tolerable_failures),
            switch_of(autopause),
        )
        with translating():
            told: dict[str, Any] = json.loads(self._facade.pace(self._location, *asked))
        return pace_of(told)

    def create_savepoint(self, name: str, epoch: int | None = None) -> int:
        """Creates a savepoint: retains a cut, and all that it needs, under a name.

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
        chosen: int | None = self._told().get("committed") if epoch is None else epoch
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
    own = execution.sparkSessionForStream()
    conf = own.conf()
    return _checked(
        ClassicDriver(context._jvm, None, own),
        str(execution.resolvedCheckpointRoot()),
        lambda key: text_of(conf.getOption(key)),
    )


def _of_server(query: Any) -> Coordinator:
    driver = driver_of(query._session, run_id=str(query.runId))
    with translating():
        told = driver.side("coordinator").query(
            driver.session, ",".join((PROVIDER_KEY, *ACCESS_KEYS))
        )
    found = json.loads(told)
    return _checked(driver, found["location"], found["conf"].get)


def _checked(driver: Driver, location: str, value_of: Callable[[str], str | None]) -> Coordinator:
    access = access_of(value_of) if location.startswith(SCHEMES) else S3Options()
    found = Coordinator(driver, location, access, value_of(PROVIDER_KEY))
    found._told()
    return found


def _last_of(found: dict[str, Any]) -> EpochInfo:
    return epoch_info(
        epoch=found["epoch"],
        generation=found["generation"],
        written=moment(found["writtenMs"]),
        stores=found["stores"],
        timings=found["timings"],
        costs=costs_of(found["costs"]) if "costs" in found else None,
        cut_ms=found["cutMs"],
        channels=channels_of(found["channels"]),
    )


def _last_slow_of(found: dict[str, Any] | None) -> tuple[int, SlowEpoch] | None:
    if found is None:
        return None
    return found["epoch"], SlowEpoch(found["kind"], found["typicalMs"], found["detail"])


def _text(number: int | None) -> str | None:
    """As text, so that no table takes it for a column of numbers."""
    return None if number is None else str(number)
