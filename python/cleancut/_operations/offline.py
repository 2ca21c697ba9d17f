"""Acts on the checkpoint of a stopped query, each an epoch of its own that takes no input."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from cleancut._brief import Brief, plain
from cleancut._display import tables
from cleancut._session.driver import Driver, StateFamily, driver_of
from cleancut._session.options import access_keys
from cleancut._session.running import client_session, running_session
from cleancut._storage.access import S3Options
from cleancut.errors import CleancutError, error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The JVM has numbers of 32 bits.
_MOST_PARTITIONS = 2**31 - 1
# Spark's name of a store, and of a column family, where there is one.
_DEFAULT = "default"


@dataclass(frozen=True, repr=False)
class OperatorPlan(Brief):
    """What an act does to the state of one operator.

    Attributes:
        operator: Spark's id of it.
        name: Spark's name of its kind.
        partitions_before: in how many partitions its state is.
        partitions: in how many it will be.
        stores: state stores of each partition.
        rows: that were written; None until they are, and 0 where none is copied.
    """

    operator: int
    name: str
    partitions_before: int
    partitions: int
    stores: int
    rows: int | None = None


@dataclass(frozen=True, repr=False)
class Plan(Brief):
    """What an act on a checkpoint will do, or has done. Nothing has changed until `apply`.

    Attributes:
        act: "adopt", "release", "rescale", "rollback", "edit", "copy", "bootstrap" or
            "migrate".
        location: the checkpoint location, as Spark resolves it.
        into: that of the checkpoint which a copy or a migration makes; None for all others.
        epoch: the one that does it.
        source: the epoch whose result it has: the last one, or that which is gone back to; -1 if
            its state is given.
        last: the last epoch before it; -1 if there is none.
        provider_before: the class of the state store provider whose the state is.
        provider: the class of that whose it will be.
        partitions_before: of state that is spread by its keys.
        partitions: likewise, afterwards.
        operators: what becomes of each stateful operator.
        notes: what else one has to know before it is done.
        is_applied: whether it was done.
        copies_rows: whether rows of the state are written anew; else the stores refer to what is
            there, and the act takes no longer the more they hold.
        missing_files: the number of input files that the query has to read again and that do not
            exist any more.
    """

    act: str
    location: str
    epoch: int
    source: int
    last: int
    provider_before: str
    provider: str
    partitions_before: int
    partitions: int
    operators: tuple[OperatorPlan, ...]
    into: str | None = None
    notes: tuple[str, ...] = ()
    is_applied: bool = False
    copies_rows: bool = True
    missing_files: int = 0
    # Of the call that does it.
    _arguments: tuple[Any, ...] = field(default=(), compare=False)
    _session: Any = field(default=None, compare=False)

    def apply(self, session: "SparkSession | None" = None) -> "Plan":
        """Does it, on the executors of a session.

        What is written is read again and compared with what was read, before the epoch is
        committed. No executor takes part where no row is copied. Killed at any moment, it can be
        begun again. The state as it was stays until a query that runs on has retired it, and what
        stores refer to stays as long as they do.

        The result is that of epoch `source`, or nothing is changed. A clone copies the state after
        that epoch even if the query has committed epochs since, as long as it is retained.

        Args:
            session: None takes the one with which it was planned.

        Returns:
            The same plan as it was carried out, with the rows of each operator.

        Raises:
            RequestError: CLEANCUT_PLAN_OUTDATED, the checkpoint has changed since the plan was
                made; CLEANCUT_OPERATION_REFUSED, the query runs.
            InternalError: CLEANCUT_REWRITE_MISMATCH; the checkpoint is as it was.
        """
        if self.is_applied:
            raise error_of(
                "CLEANCUT_OPERATION_REFUSED",
                operation=self.act,
                location=self.location,
                reason="this plan has been carried out",
            )
        own = self._session if session is None else session
        done = asked(own, self.act, self.location, self._arguments, self._planned())
        return replace(done, is_applied=True)

    def _planned(self) -> str:
        """The epochs that must be in the checkpoint when the plan is applied, as JSON."""
        return json.dumps({"epoch": self.epoch, "source": self.source, "last": self.last})

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        names = ["operator", "name", "partitions", "stores"]
        rows: list[list[object]] = [
            [of.operator, of.name, _change(of.partitions_before, of.partitions), of.stores]
            for of in self.operators
        ]
        if self.is_applied:
            names.append("rows")
            rows = [[*row, of.rows] for row, of in zip(rows, self.operators, strict=True)]
        before, after = tables.class_name(self.provider_before), tables.class_name(self.provider)
        done = "made" if self.is_applied else "is to make"
        of = "the state that is given"
        if self.source >= 0:
            of = f"the state after epoch {self.source}"
        lines = [
            f"{self.act} {self.location}" + (f" into {self.into}" if self.into else ""),
            f"epoch {self.epoch}, without input, {done} of {of}:",
            f"  provider    {_change(before, after)}",
            f"  partitions  {_change(self.partitions_before, self.partitions)}",
            *([] if self.copies_rows else ["  rows        stay where they are; none is copied"]),
            tables.text_table(names, rows),
        ]
        lines.extend(self.notes)
        if not self.is_applied:
            lines.append("Nothing is changed yet.")
        return "\n".join(lines)


def adopt(
    location: str, session: "SparkSession | None" = None, *, file_sink: str | None = None
) -> Plan:
    """Plans to make the state of a stopped query Cleancut's, where it lies.

    The query may have run on Spark's RocksDB provider, with its changelog or without, or on the
    HDFS-backed one, with every stateful operator and either checkpoint format. It goes on by
    itself with Cleancut the next time that it is started, because Spark takes the provider from
    the checkpoint; with `configure(cuts=True)` cuts commit its epochs from then on.

    Args:
        location: its checkpointLocation, on a file system of Hadoop.
        session: one that `configure` has set up; None takes the one that runs in this process.
        file_sink: what the query writes to, where its sink is Spark's own of files: the path of
            `start(path)`. That sink counts epochs, and stops where one is missing; so it is told of
            those that it never sees.

    Returns:
        The plan; its `apply` does it.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, or CLEANCUT_OPERATION_REFUSED with the reason:
            the state is Cleancut's already, the last epoch is not committed, the query runs;
            CLEANCUT_SESSION_MISSING, CLEANCUT_CONNECT_UNSUPPORTED.
    """
    return asked(session, "adopt", location, (file_sink or "",))


def release(
    location: str, session: "SparkSession | None" = None, *, file_sink: str | None = None
) -> Plan:
    """Plans the way back: makes Cleancut's state that of Spark's RocksDB provider.

    The query then runs on without Cleancut. Arguments, result and errors are those of `adopt`. It
    is refused where cuts commit the epochs.
    """
    return asked(session, "release", location, (file_sink or "",))


def rescale(
    location: str,
    partitions: int,
    session: "SparkSession | None" = None,
    *,
    file_sink: str | None = None,
    rewrite: bool = False,
) -> Plan:
    """Plans to spread the state of a stopped query over another number of partitions.

    It does so for the state of every provider and operator. An aggregation without keys and a limit
    stay in one partition. Where cuts commit the epochs and the number is multiplied or divided, no
    row is copied: each store refers to the stores that its rows lie in, until it has a base of its
    own, some epochs later.

    Args:
        location: its checkpointLocation, on a file system of Hadoop.
        partitions: from 1 on; what `spark.sql.shuffle.partitions` is for the query afterwards,
            whatever the session says, because Spark takes it from the checkpoint.
        session: as for `adopt`.
        file_sink: likewise.
        rewrite: copy all rows even so: the checkpoint then depends on no earlier segment.

    Returns:
        The plan; its `apply` does it.

    Raises:
        RequestError: as for `adopt`; also if there are so many partitions already.
    """
    check_partitions("rescale", location, partitions)
    arguments = (file_sink or "", partitions, rewrite)
    return asked(session, "rescale", location, arguments)


def rollback(
    location: str,
    to: int | str | datetime | None = None,
    *,
    undo: bool = False,
    session: "SparkSession | None" = None,
    file_sink: str | None = None,
    rewrite: bool = False,
    allow_missing_input: bool = False,
) -> Plan:
    """Plans to have a stopped query go on from an earlier state.

    The query then has the source offsets, watermark, state, rows in flight and number of partitions
    that it had after that epoch. Nothing is taken away: the rollback is an epoch of its own, after
    all others, so that it can be undone, and no sink takes a later epoch for one that it has seen.
    Where cuts commit the epochs no row is copied: the stores refer to those of that epoch.

    Args:
        location: its checkpointLocation.
        to: the number of an epoch; the name of a savepoint; or a time, for the last epoch that was
            committed then. A time without a zone is one of this machine's.
        undo: go back to before the last rollback, in place of `to`.
        session: as for `adopt`.
        file_sink: likewise; the files of epochs after the one that is gone back to are not seen any
            more, and are seen again when that is undone.
        rewrite: as for `rescale`.
        allow_missing_input: roll back although files that a file source has read after that epoch
            do not exist any more. The state loses their rows.

    Returns:
        The plan. Its `notes` say what the sink and the sources have to do with it, and list
        missing input files. Its `apply` does it, and refuses if the query has gone on since, or
        if input files are missing.

    Raises:
        TypeError: neither `to` nor `undo` is given, or both are.
        RequestError: as for `adopt`; also if there is no such epoch or savepoint any more, or it is
            the last one.
    """
    if (to is None) != undo:
        raise TypeError("rollback takes either an epoch, a savepoint or a time, or undo=True")
    which = ("undo", 0, "") if undo else _which(to)
    sink, options = file_sink or "", (rewrite, allow_missing_input)
    return asked(session, "rollback", location, (sink, *which, *options))


def clone(
    location: str,
    into: str,
    at: int | str | datetime | None = None,
    *,
    session: "SparkSession | None" = None,
    same_query: bool = False,
    cuts: bool | None = None,
    provider: Literal["cleancut", "rocksdb"] | None = None,
    partitions: int | None = None,
    into_access: S3Options | None = None,
    allow_missing_input: bool = False,
) -> Plan:
    """Plans to make another checkpoint of a query's state, in another place.

    The query may run meanwhile if cuts commit its epochs; else it must be stopped. What is made is
    a checkpoint of its own, of as many bytes as the state has. A query that is started on it goes
    on from there, with the source offsets, watermark, state and rows in flight of that epoch. The
    new place may be in a bucket and this one not, or the other way, or in a bucket of another store
    with credentials of its own. Where `into_access` is given, nothing of what the session has for
    its store holds for the new one.

    Args:
        location: its checkpointLocation.
        into: that of the new checkpoint, where nothing is yet.
        at: the epoch, savepoint or time of which it is, as `to` of `rollback`; None for the last
            epoch that is committed.
        session: as for `adopt`.
        same_query: whether it keeps the id of the query, by which sinks know their epochs: for a
            query that moves, or is restored. A clone that runs beside the query needs another one.
        cuts: whether cuts are to commit its epochs; None for as they are committed now. In a bucket
            they always do.
        provider: whose the state is to be; None for whose it is.
        partitions: over how many it is to be spread; None for those that there are.
        into_access: how the bucket of the new place is reached: `S3Options`. The driver and each
            executor need the profile that it names.
        allow_missing_input: as for `rollback`, if `at` is given.

    Returns:
        The plan; its `apply` does it. A clone that was killed cannot be started, until it is begun
        again.

    Raises:
        RequestError: as for `rollback`; also if there is a checkpoint in that place, or its store
            refuses: CLEANCUT_OBJECT_STORE_REFUSED.
    """
    which = ("last", 0, "") if at is None else _which(at)
    check_clone(location, cuts=cuts, provider=provider, partitions=partitions)
    access = access_keys({} if into_access is None else into_access)
    wanted = (not same_query, spoken(cuts), provider or "", partitions or 0)
    others = (into, *wanted, json.dumps(access), allow_missing_input)
    return asked(session, "copy", location, (*which, *others))


def edit(
    location: str,
    operator: int,
    change: "Callable[[DataFrame], DataFrame]",
    *,
    store: str = _DEFAULT,
    family: str = _DEFAULT,
    side: Literal["left", "right"] | None = None,
    session: "SparkSession | None" = None,
    file_sink: str | None = None,
) -> Plan:
    """Plans to put other rows in the place of one operator's state.

    The change is a function of a DataFrame, which runs on the executors when the plan is carried
    out. A row is a key of the state: the struct columns `key` and `value` have the fields that
    `Checkpoint.state` shows. What it leaves out is gone from the state, what it adds is there.

        cleancut.edit(location, 0, lambda state: state.where("key.user <> 'test'")).apply()

    A join has the rows of its two sides: a row of the DataFrame is one of them, with what it is
    joined by as `key`, and `matched` unless the join is of state format 1. A variable with a time
    to live has the timestamp `expiry` beside the value; of a list, beside each of its elements,
    which are structs of `value` and `expiry`. The counts and indexes that Spark keeps follow.

    Args:
        location: its checkpointLocation.
        operator: Spark's operator id.
        change: takes the rows as they are after the last epoch, and gives those that are to be.
        store: Spark's name of the store.
        family: the column family: for `transformWithState` the name of a state variable.
        side: of a join, in the place of store and family.
        session: as for `adopt`.
        file_sink: likewise.

    Returns:
        The plan; its `apply` does it, and refuses if the query has gone on since.

    Raises:
        TypeError: a side is given, and a store or a family too.
        RequestError: as for `adopt`; also where the rows are to have other columns, a key comes
            twice, or Spark would not find a row again: it expires before the time of the last
            epoch, or is older than all that a join of state format 4 still has.
    """
    if side is not None and (store, family) != (_DEFAULT, _DEFAULT):
        raise TypeError("edit takes either a side of a join, or a store and a family")
    which = StateFamily(operator, store, side or family)
    changed = change(state_of(driver_for(session, "edit"), location, which))
    sink = file_sink or ""
    return asked(session, "edit", location, (sink, *which, changed))


def check_location(act: str, location: str) -> None:
    """Checks the location of a checkpoint without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, it is empty.
    """
    if not location.strip():
        reason = "it is empty; use the checkpointLocation of the query"
        raise error_of(
            "CLEANCUT_OPERATION_REFUSED", operation=act, location=location, reason=reason
        )


def check_partitions(act: str, location: str, partitions: int) -> None:
    """Checks a number of partitions without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, Spark does not accept it.
    """
    if not 1 <= partitions <= _MOST_PARTITIONS:
        reason = (
            f"{partitions} is no number of partitions; it takes at least one, and less than 2^31"
        )
        raise error_of(
            "CLEANCUT_OPERATION_REFUSED", operation=act, location=location, reason=reason
        )


def check_clone(
    location: str, *, cuts: bool | None, provider: str | None, partitions: int | None
) -> None:
    """Checks arguments of `clone` without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, an argument has no such value, or two contradict.
    """
    if partitions is not None:
        check_partitions("copy", location, partitions)
    reason = ""
    if provider not in (None, "cleancut", "rocksdb"):
        reason = f"no provider is named '{provider}'; use 'cleancut' or 'rocksdb'"
    elif provider == "rocksdb" and cuts:
        reason = "cuts commit Cleancut's state only, and its state is to be that of RocksDB"
    if reason:
        raise error_of(
            "CLEANCUT_OPERATION_REFUSED", operation="copy", location=location, reason=reason
        )


def _which(of: int | str | datetime | None) -> tuple[str, int, str]:
    """How a state of a query is asked for."""
    if isinstance(of, datetime):
        return "time", int(of.timestamp() * 1000), ""
    if isinstance(of, str):
        return "savepoint", 0, of
    if isinstance(of, int):
        return "epoch", of, ""
    raise TypeError(f"an epoch, a savepoint or a time is wanted, and not {of!r}")


def spoken(cuts: bool | None) -> str:
    """Whether cuts are to commit epochs, as the JVM is told; empty for as it is."""
    return "" if cuts is None else str(cuts).lower()


def state_of(driver: Driver, location: str, family: StateFamily) -> "DataFrame":
    """Rows of an operator's state."""
    with translating():
        return driver.frame(driver.side("offline").state(driver.session, location, *family))


def asked(
    session: "SparkSession | None",
    act: str,
    location: str,
    arguments: tuple[Any, ...],
    planned: str = "",
) -> Plan:
    """The plan of an act, or what it has done.

    Args:
        session: whose driver does it; None takes the one that runs.
        act: its method on the JVM side.
        location: of the checkpoint.
        arguments: those after it; DataFrames, and lists of rows by their families, as they are.
        planned: the epochs of the plan that is executed; empty to plan.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING, or as the act.
    """
    driver = driver_for(session, act)
    with translating():
        given = [_given(driver, argument) for argument in arguments]
        do = getattr(driver.side("offline"), act)
        told = json.loads(do(driver.session, location, *given, planned))
    return _plan(told, arguments, session)


def _given(driver: Driver, argument: Any) -> Any:
    if isinstance(argument, list):
        return driver.rows(argument)
    return driver.given(argument) if hasattr(argument, "sparkSession") else argument


def driver_for(session: "SparkSession | None", act: str) -> Driver:
    """The driver that does an act, that of the session which runs where none is given.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING.
    """
    found: Any = session or running_session() or client_session()
    if found is None:
        raise error_of("CLEANCUT_SESSION_MISSING", operation=act)
    driver = driver_of(found)
    try:
        if callable(getattr(driver.side("offline"), act, None)):
            return driver
    except CleancutError as error:
        raise error_of("CLEANCUT_SESSION_MISSING", operation=act) from error
    raise error_of("CLEANCUT_SESSION_MISSING", operation=act)


def _plan(
    told: Mapping[str, Any], arguments: tuple[Any, ...], session: "SparkSession | None"
) -> Plan:
    return Plan(
        act=told["act"],
        location=told["location"],
        epoch=told["epoch"],
        source=told["source"],
        last=told["last"],
        provider_before=told["providerBefore"],
        provider=told["provider"],
        partitions_before=told["partitionsBefore"],
        partitions=told["partitions"],
        operators=tuple(
            OperatorPlan(
                operator=of["operator"],
                name=of["name"],
                partitions_before=of["partitionsBefore"],
                partitions=of["partitions"],
                stores=of["stores"],
                rows=of.get("rows"),
            )
            for of in told["operators"]
        ),
        into=told.get("into"),
        notes=tuple(told["notes"]),
        copies_rows=told["copiesRows"],
        missing_files=told["missingFiles"],
        _arguments=arguments,
        _session=session,
    )


def _change(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} -> {after}"
