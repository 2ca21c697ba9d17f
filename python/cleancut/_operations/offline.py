"""Operations on the checkpoint of a stopped query; each is an epoch of its own without input."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from cleancut._brief import Brief, plain
from cleancut._display import tables
from cleancut._display.quantities import duration, size
from cleancut._session.active_session import client_session, running_session
from cleancut._session.driver import Driver, StateFamily, driver_of
from cleancut._session.options import access_keys
from cleancut._storage.access import S3Options
from cleancut.errors import CleancutError, error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Provider = Literal["cleancut", "rocksdb"]

# The largest Int of the JVM.
_MAX_PARTITIONS = 2**31 - 1
# Spark's name of the default store, and of the default column family.
_DEFAULT = "default"
# An operation that copies no row takes less than this.
_MIN_S = 1.0
# Stored bytes that a core reads, decodes, writes and compares in a second, on a local disk: between
# 0.2 MB of rows that compress to 3 bytes each, and several MB of large rows.
_BYTES_PER_CORE_S = 1e6
# Measured on two busy cores: a million rows that compress to 2 MB.
_SMALL_ROWS = 15
# Methods on the JVM side whose name differs from that of the operation.
_METHODS = {"clone": "copy", "check_compatibility": "checkCompatibility"}


@dataclass(frozen=True, repr=False)
class OperatorPlan(Brief):
    """The effect of an operation on the state of one operator.

    Attributes:
        operator: Spark's operator id.
        name: Spark's name of the kind of operator.
        partitions_before: number of partitions before the operation.
        partitions: number of partitions after it.
        stores: number of state stores in each partition.
        rows: number of rows written; None before the plan is applied, 0 if no row is copied.
    """

    operator: int
    name: str
    partitions_before: int
    partitions: int
    stores: int
    rows: int | None = None


@dataclass(frozen=True, repr=False)
class Plan(Brief):
    """The plan of an operation on a checkpoint, or its result. `apply` executes it.

    Attributes:
        operation: "convert", "rescale", "rollback", "edit", "clone", "bootstrap" or "migrate".
        location: the checkpoint location, as Spark resolves it.
        target: location of the checkpoint that a clone or a migration creates; None for the other
            operations.
        epoch: the epoch of the operation.
        source: the epoch whose state the checkpoint will have; -1 if the state is given.
        last: the last epoch before the operation; -1 if there is none.
        provider_before: class name of the state store provider before the operation.
        provider: class name of the state store provider after it.
        partitions_before: number of partitions before the operation, of state that is partitioned
            by key.
        partitions: the same number after it.
        operators: the plan of each stateful operator.
        notes: what to know before the plan is applied.
        is_applied: whether the plan has been applied.
        copies_rows: whether rows of state are copied. If not, the new frames reference existing
            ones, and the duration does not depend on the size of the state.
        missing_files: number of input files that the query has to read again and that do not exist
            any more.
        state_bytes: bytes of the state as it is stored, which the operation reads if it copies
            rows. In a checkpoint without cuts they include other stored versions. None if unknown.
        expected_s: minimum seconds of `apply`, by the bytes and the cores of the session. Rows of
            few bytes can need fifteen times as many. None if unknown.
        is_stopped: whether the last run of the query has recorded its end; None without cuts, which
            record no runs.
        owner: the last run if it has not recorded its end, with the host of its driver: it runs, or
            it was killed.
    """

    operation: str
    location: str
    epoch: int
    source: int
    last: int
    provider_before: str
    provider: str
    partitions_before: int
    partitions: int
    operators: tuple[OperatorPlan, ...]
    target: str | None = None
    notes: tuple[str, ...] = ()
    is_applied: bool = False
    copies_rows: bool = True
    missing_files: int = 0
    state_bytes: int | None = None
    expected_s: float | None = None
    is_stopped: bool | None = None
    owner: str | None = None
    # The arguments and the session of the call that `apply` repeats.
    _arguments: tuple[Any, ...] = field(default=(), compare=False)
    _session: Any = field(default=None, compare=False)

    def apply(self, session: "SparkSession | None" = None) -> "Plan":
        """Executes the plan on the executors of a session.

        Rows that are written are read again and compared with their source before the epoch is
        committed. If no row is copied, the driver alone does the work. After a kill at any moment
        the operation can be started again. The state before the operation remains until the
        running query has expired it; referenced frames remain as long as they are referenced.

        The operation uses the state after epoch `source`, or changes nothing. A clone copies that
        state even if the query has committed epochs since, as long as the state is retained.

        Args:
            session: None is the session of the plan.

        Returns:
            The plan as it was executed, with the number of rows of each operator.

        Raises:
            RequestError: CLEANCUT_PLAN_OUTDATED, the checkpoint has changed since the plan was
                made; CLEANCUT_OPERATION_REFUSED, the query runs.
            InternalError: CLEANCUT_REWRITE_MISMATCH; the checkpoint is unchanged.
        """
        if self.is_applied:
            raise error_of(
                "CLEANCUT_OPERATION_REFUSED",
                operation=self.operation,
                location=self.location,
                reason="this plan has been applied before",
            )
        chosen = self._session if session is None else session
        done = planned(chosen, self.operation, self.location, self._arguments, self._epochs())
        return replace(done, is_applied=True)

    def _epochs(self) -> str:
        """The epochs that must be in the checkpoint when the plan is applied, as JSON."""
        return json.dumps({"epoch": self.epoch, "source": self.source, "last": self.last})

    def to_dict(self) -> Mapping[str, Any]:
        """The plan as plain values, for JSON."""
        return plain(self)

    def _effort(self) -> list[str]:
        """The size of the operation, its expected time, and whether the query runs."""
        lines = [] if self.copies_rows else ["  rows        referenced, none is copied"]
        if self.state_bytes is not None:
            lines.append(f"  state       {size(self.state_bytes)}")
        if self.expected_s is not None and not self.is_applied:
            most = f" to {duration(_SMALL_ROWS * self.expected_s)}" if self.copies_rows else ""
            lines.append(f"  time        about {duration(self.expected_s)}{most}")
        if self.source >= 0 and not self.is_applied:
            stopped = "stopped" if self.is_stopped else "must be stopped: without cuts, no run is"
            stopped += "" if self.is_stopped else " recorded"
            lines.append(f"  query       {stopped if self.owner is None else self._running()}")
        return lines

    def _running(self) -> str:
        return f"has not recorded its end: {self.owner}"

    def __str__(self) -> str:
        names = ["operator", "name", "partitions", "stores"]
        rows: list[list[object]] = [
            [op.operator, op.name, _change(op.partitions_before, op.partitions), op.stores]
            for op in self.operators
        ]
        if self.is_applied:
            names.append("rows")
            rows = [[*row, op.rows] for row, op in zip(rows, self.operators, strict=True)]
        before, after = tables.class_name(self.provider_before), tables.class_name(self.provider)
        to = f" to {self.target}" if self.target else ""
        source = f"state after epoch {self.source}" if self.source >= 0 else "state that is given"
        lines = [
            f"{self.operation} {self.location}{to}",
            f"  epoch       {self.epoch}, without input, from the {source}",
            f"  provider    {_change(before, after)}",
            f"  partitions  {_change(self.partitions_before, self.partitions)}",
            *self._effort(),
            tables.fitted(names, rows),
            *self.notes,
            "Applied." if self.is_applied else "Nothing has changed yet.",
        ]
        return "\n".join(lines)


def convert(
    location: str,
    *,
    provider: Provider = "cleancut",
    session: "SparkSession | None" = None,
    file_sink: str | None = None,
) -> Plan:
    """Plans to convert the state of a stopped query to another state store provider, in place.

    To Cleancut it converts state of Spark's RocksDB provider, with or without changelog, and of the
    HDFS-backed one, of every stateful operator and both checkpoint formats. To RocksDB it converts
    state of Cleancut, after which the query runs on stock Spark. A checkpoint with cuts cannot be
    converted in place; clone it with `provider="rocksdb"`.

    The query uses the new provider at its next start, because Spark takes the provider from the
    checkpoint. With `configure(cuts=True)` its epochs then commit cuts.

    Args:
        location: the query's `checkpointLocation`, on a Hadoop file system.
        provider: the provider to convert to.
        session: a session that `configure` has set up; None is the active one of this process.
        file_sink: the path of `start(path)`, if the query writes to Spark's file sink. That sink
            counts epochs and would stop at the epoch that the operation adds.

    Returns:
        The plan. Nothing has changed until its `apply`.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND; CLEANCUT_OPERATION_REFUSED with the reason (the
            state is of that provider already, the last epoch is not committed, the query runs);
            CLEANCUT_SESSION_MISSING; CLEANCUT_CONNECT_UNSUPPORTED.
    """
    check_provider("convert", location, provider)
    return planned(session, "convert", location, (file_sink or "", provider))


def rescale(
    location: str,
    partitions: int,
    *,
    session: "SparkSession | None" = None,
    file_sink: str | None = None,
    rewrite: bool = False,
) -> Plan:
    """Plans to repartition the state of a stopped query.

    It supports every provider and operator. An aggregation without keys and a limit stay in one
    partition. In a checkpoint with cuts whose number of partitions is multiplied or divided, no row
    is copied: each store references the stores that have its rows, until it has a snapshot of its
    own some epochs later.

    Args:
        location: the query's `checkpointLocation`, on a Hadoop file system.
        partitions: the new number of partitions, at least 1. It replaces
            `spark.sql.shuffle.partitions` for this query, because Spark takes the number from the
            checkpoint.
        session: as for `convert`.
        file_sink: as for `convert`.
        rewrite: copy all rows even if they could be referenced. The checkpoint then depends on no
            earlier segment.

    Returns:
        The plan. Nothing has changed until its `apply`.

    Raises:
        RequestError: as for `convert`; also if the state has this number of partitions already.
    """
    check_partitions("rescale", location, partitions)
    return planned(session, "rescale", location, (file_sink or "", partitions, rewrite))


def rescale_running(
    driver: Driver,
    location: str,
    partitions: int,
    *,
    file_sink: str | None,
    timeout_s: float,
) -> Plan:
    """Repartitions the state of a running query; see `Coordinator.rescale`."""
    with translating():
        answer = driver.side("offline").rescaleRunning(
            location, file_sink or "", partitions, int(timeout_s * 1000)
        )
    return replace(_plan(json.loads(answer), (), None), is_applied=True)


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
    """Plans to roll a stopped query back to an earlier state.

    The query then has the source offsets, watermark, state, in-flight rows and number of partitions
    that it had after that epoch. Nothing is deleted: the rollback is an epoch after all others, so
    it can be undone, and no sink takes a later epoch for one that it has seen. In a checkpoint with
    cuts no row is copied.

    Args:
        location: the query's `checkpointLocation`.
        to: an epoch, the name of a savepoint, or a time, which selects the last epoch committed
            before it. A time without time zone is local.
        undo: roll back to the state before the last rollback, instead of `to`.
        session: as for `convert`.
        file_sink: as for `convert`. The files of later epochs become hidden, and visible again
            when the rollback is undone.
        rewrite: as for `rescale`.
        allow_missing_input: roll back although input files that a file source has read after that
            epoch do not exist any more. The state loses their rows.

    Returns:
        The plan. Its `notes` list what to do in the sink and the sources, and missing input files.
        Nothing has changed until its `apply`, which refuses if the query has committed epochs
        since, or if input files are missing.

    Raises:
        TypeError: neither `to` nor `undo` is given, or both are.
        RequestError: as for `convert`; also if the epoch or savepoint does not exist, or is the
            last one.
    """
    if (to is None) != undo:
        raise TypeError("rollback takes either an epoch, a savepoint or a time, or undo=True")
    at = ("undo", 0, "") if undo else _at(to)
    sink, options = file_sink or "", (rewrite, allow_missing_input)
    return planned(session, "rollback", location, (sink, *at, *options))


def clone(
    location: str,
    target: str,
    at: int | str | datetime | None = None,
    *,
    session: "SparkSession | None" = None,
    same_query: bool = False,
    cuts: bool | None = None,
    provider: Provider | None = None,
    partitions: int | None = None,
    target_access: S3Options | None = None,
    allow_missing_input: bool = False,
) -> Plan:
    """Plans to create another checkpoint with a state of a query.

    With cuts the query may run meanwhile; without them it must be stopped. The clone copies all
    rows, so it is an independent checkpoint. A query that starts on it continues with the source
    offsets, watermark, state and in-flight rows of that epoch. Either location may be in a bucket,
    and each bucket may have its own endpoint and credentials. If `target_access` is given, no
    object store setting of the session applies to the target.

    Args:
        location: the query's `checkpointLocation`.
        target: location of the clone, which must be empty.
        at: the epoch, savepoint or time of the state, as `to` of `rollback`; None is the last
            committed epoch.
        session: as for `convert`.
        same_query: keep the query id, by which sinks know their epochs: for a query that moves or
            is restored. A clone that runs next to the query needs another id.
        cuts: whether epochs of the clone commit cuts; None as in `location`. In a bucket they
            always do.
        provider: state store provider of the clone; None as in `location`.
        partitions: number of partitions of the clone; None as in `location`.
        target_access: how to reach the bucket of the target. The driver and each executor need the
            profile that it names.
        allow_missing_input: as for `rollback`, if `at` is given.

    Returns:
        The plan. Nothing has changed until its `apply`. A query cannot start on a clone that was
        killed, until the clone is repeated.

    Raises:
        RequestError: as for `rollback`; also if the target is not empty, or its object store
            refuses: CLEANCUT_OBJECT_STORE_REFUSED.
    """
    from_state = ("last", 0, "") if at is None else _at(at)
    check_clone(location, cuts=cuts, provider=provider, partitions=partitions)
    access = access_keys({} if target_access is None else target_access)
    options = (not same_query, text_of(cuts), provider or "", partitions or 0)
    arguments = (*from_state, target, *options, json.dumps(access), allow_missing_input)
    return planned(session, "clone", location, arguments)


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
    """Plans to replace the rows of one operator's state.

    The change is a function from DataFrame to DataFrame, which runs on the executors when the plan
    is applied. Each row is a key of the state: the struct columns `key` and `value` have the fields
    that `Checkpoint.state` shows. Keys that the result lacks are removed from the state; new ones
    are added.

        cleancut.edit(location, 0, lambda state: state.where("key.user <> 'test'")).apply()

    For a join, `side` selects the rows of one input. `key` has the join keys; unless the join has
    state format 1, there is a column `matched`. A variable with a time to live has the timestamp
    `expiry` next to the value; a list has it in each of its elements, which are structs of `value`
    and `expiry`. The counts and indexes that Spark keeps are updated.

    Args:
        location: the query's `checkpointLocation`.
        operator: Spark's operator id.
        change: takes the rows after the last epoch and returns the new ones.
        store: Spark's name of the store.
        family: the column family; for `transformWithState` the name of a state variable.
        side: the input of a join, instead of store and family.
        session: as for `convert`.
        file_sink: as for `convert`.

    Returns:
        The plan. Nothing has changed until its `apply`, which refuses if the query has committed
        epochs since.

    Raises:
        TypeError: `side` is given together with a store or a family.
        RequestError: as for `convert`; also if the result has other columns or duplicate keys, or
            Spark could not find a row again: it expires before the time of the last epoch, or is
            older than all rows that a join of state format 4 has.
    """
    if side is not None and (store, family) != (_DEFAULT, _DEFAULT):
        raise TypeError("edit takes either a side of a join, or a store and a family")
    rows_of = StateFamily(operator, store, side or family)
    changed = change(state_of(driver_for(session, "edit"), location, rows_of))
    return planned(session, "edit", location, (file_sink or "", *rows_of, changed))


def check_location(operation: str, location: str) -> None:
    """Checks the location of a checkpoint without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, it is empty.
    """
    if not location.strip():
        _refuse(operation, location, "it is empty; use the checkpointLocation of the query")


def check_partitions(operation: str, location: str, partitions: int) -> None:
    """Checks a number of partitions without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, Spark does not accept it.
    """
    if not 1 <= partitions <= _MAX_PARTITIONS:
        reason = f"{partitions} is not a number of partitions from 1 to {_MAX_PARTITIONS}"
        _refuse(operation, location, reason)


def check_provider(operation: str, location: str, provider: str) -> None:
    """Checks the name of a provider without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, no provider has this name.
    """
    if provider not in ("cleancut", "rocksdb"):
        reason = f"no provider is named '{provider}'; use 'cleancut' or 'rocksdb'"
        _refuse(operation, location, reason)


def check_clone(
    location: str, *, cuts: bool | None, provider: str | None, partitions: int | None
) -> None:
    """Checks arguments of `clone` without a session.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, an argument is invalid, or two contradict.
    """
    if partitions is not None:
        check_partitions("clone", location, partitions)
    if provider is not None:
        check_provider("clone", location, provider)
    if provider == "rocksdb" and cuts:
        _refuse("clone", location, "cuts require Cleancut's state, but the clone would use RocksDB")


def _refuse(operation: str, location: str, reason: str) -> None:
    raise error_of(
        "CLEANCUT_OPERATION_REFUSED", operation=operation, location=location, reason=reason
    )


def _at(state: int | str | datetime | None) -> tuple[str, int, str]:
    """A state as an argument of the JVM side: kind, number, name."""
    if isinstance(state, datetime):
        return "time", int(state.timestamp() * 1000), ""
    if isinstance(state, str):
        return "savepoint", 0, state
    if isinstance(state, int):
        return "epoch", state, ""
    raise TypeError(f"expected an epoch, a savepoint or a time, and not {state!r}")


def text_of(cuts: bool | None) -> str:
    """Whether epochs commit cuts, as an argument of the JVM side; empty if unchanged."""
    return "" if cuts is None else str(cuts).lower()


def state_of(driver: Driver, location: str, family: StateFamily) -> "DataFrame":
    """The rows of an operator's state."""
    with translating():
        return driver.frame(driver.side("offline").state(driver.session, location, *family))


def planned(
    session: "SparkSession | None",
    operation: str,
    location: str,
    arguments: tuple[Any, ...],
    epochs: str = "",
) -> Plan:
    """Plans an operation, or executes the plan.

    Args:
        session: the session whose driver executes it; None is the active one.
        operation: name of the operation.
        location: location of the checkpoint.
        arguments: the other arguments of the JVM method; DataFrames, and lists of rows by family,
            as they are.
        epochs: the epochs of the plan to execute, as JSON; empty only plans.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING, or as the operation.
    """
    driver = driver_for(session, operation)
    with translating():
        given = [_given(driver, argument) for argument in arguments]
        answer = driver_method(driver, operation)(driver.session, location, *given, epochs)
        return _plan(json.loads(answer), arguments, session)


def _given(driver: Driver, argument: Any) -> Any:
    if isinstance(argument, list):
        return driver.rows(argument)
    return driver.given(argument) if hasattr(argument, "sparkSession") else argument


def driver_for(session: "SparkSession | None", operation: str) -> Driver:
    """The driver of a session that can execute an operation; None is the active session.

    Raises:
        RequestError: CLEANCUT_SESSION_MISSING.
    """
    chosen: Any = session or running_session() or client_session()
    if chosen is None:
        raise error_of("CLEANCUT_SESSION_MISSING", operation=operation)
    driver = driver_of(chosen)
    try:
        if callable(driver_method(driver, operation)):
            return driver
    except CleancutError as error:
        raise error_of("CLEANCUT_SESSION_MISSING", operation=operation) from error
    raise error_of("CLEANCUT_SESSION_MISSING", operation=operation)


def driver_method(driver: Driver, operation: str) -> Any:
    """The JVM method of an operation; None if the session lacks the jar."""
    return getattr(driver.side("offline"), _METHODS.get(operation, operation), None)


def _plan(
    answer: Mapping[str, Any], arguments: tuple[Any, ...], session: "SparkSession | None"
) -> Plan:
    return Plan(
        operation=answer["operation"],
        location=answer["location"],
        epoch=answer["epoch"],
        source=answer["source"],
        last=answer["last"],
        provider_before=answer["providerBefore"],
        provider=answer["provider"],
        partitions_before=answer["partitionsBefore"],
        partitions=answer["partitions"],
        operators=tuple(
            OperatorPlan(
                operator=op["operator"],
                name=op["name"],
                partitions_before=op["partitionsBefore"],
                partitions=op["partitions"],
                stores=op["stores"],
                rows=op.get("rows"),
            )
            for op in answer["operators"]
        ),
        target=answer.get("target"),
        notes=tuple(answer["notes"]),
        copies_rows=answer["copiesRows"],
        missing_files=answer["missingFiles"],
        state_bytes=answer.get("stateBytes"),
        expected_s=_expected_s(answer),
        is_stopped=answer.get("isStopped"),
        owner=answer.get("owner"),
        _arguments=arguments,
        _session=session,
    )


def _expected_s(answer: Mapping[str, Any]) -> float | None:
    if not answer["copiesRows"]:
        return _MIN_S
    if "stateBytes" not in answer:
        return None
    bytes_per_s = _BYTES_PER_CORE_S * max(1, int(answer["cores"]))
    return _MIN_S + int(answer["stateBytes"]) / bytes_per_s


def _change(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} -> {after}"
