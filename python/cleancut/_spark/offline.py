"""Acts on the checkpoint of a stopped query, each an epoch of its own that takes no input."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from cleancut._display import tables
from cleancut._display.brief import Brief
from cleancut._spark.connect import require_classic
from cleancut._spark.running import running_session
from cleancut.errors import error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class OperatorPlan(Brief):
    """What an act does to the state of one operator.

    Attributes:
        operator: Spark's id of it.
        name: Spark's name of its kind.
        partitions_before: in how many partitions its state is.
        partitions: in how many it will be.
        stores: state stores of each partition.
        rows: that were written; None until they are.
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
        act: "adopt", "release", or "rescale".
        location: the checkpoint location, as Spark resolves it.
        epoch: the one that does it: the next after the last of the query.
        provider_before: the class of the state store provider whose the state is.
        provider: the class of that whose it will be.
        partitions_before: of state that is spread by its keys.
        partitions: likewise, afterwards.
        operators: what becomes of each stateful operator.
        is_applied: whether it was done.
    """

    act: str
    location: str
    epoch: int
    provider_before: str
    provider: str
    partitions_before: int
    partitions: int
    operators: tuple[OperatorPlan, ...]
    is_applied: bool = False

    def apply(self, session: "SparkSession | None" = None) -> "Plan":
        """Does it, on the executors of a session.

        What is written is read again and compared with what was read, before the epoch is
        committed. Killed at any moment, it can be begun again. The state as it was stays until a
        query that runs on has retired it.

        Args:
            session: None takes the one that runs in this process.

        Returns:
            The same plan as it was carried out, with the rows of each operator.

        Raises:
            RequestError: CLEANCUT_OFFLINE_REFUSED, the checkpoint has changed since the plan was
                made, or the query runs.
            InternalError: CLEANCUT_REWRITE_DIFFERS; the checkpoint is as it was.
        """
        if self.is_applied:
            raise error_of(
                "CLEANCUT_OFFLINE_REFUSED",
                act=self.act,
                location=self.location,
                reason="this plan has been carried out",
            )
        arguments = (self.partitions,) if self.act == "rescale" else ()
        done = _asked(session, self.act, self.location, arguments, apply=True)
        return replace(done, is_applied=True)

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)

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
        lines = [
            f"{self.act} {self.location}",
            f"epoch {self.epoch}, without input, {'made' if self.is_applied else 'is to make'} "
            f"of the state after epoch {self.epoch - 1}:",
            f"  provider    {_change(before, after)}",
            f"  partitions  {_change(self.partitions_before, self.partitions)}",
            tables.text_table(names, rows),
        ]
        if not self.is_applied:
            lines.append("Nothing is changed yet.")
        return "\n".join(lines)


def adopt(location: str, session: "SparkSession | None" = None) -> Plan:
    """Plans to make the state of a stopped query Cleancut's, where it lies.

    The query may have run on Spark's RocksDB provider, with its changelog or without, or on the
    HDFS-backed one, with every stateful operator and either checkpoint format. It goes on by
    itself with Cleancut the next time that it is started, because Spark takes the provider from
    the checkpoint; with `configure(cuts=True)` cuts commit its epochs from then on.

    Args:
        location: its checkpointLocation, on a file system of Hadoop.
        session: one that `configure` has set up; None takes the one that runs in this process.

    Returns:
        The plan; its `apply` does it.

    Raises:
        RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, or CLEANCUT_OFFLINE_REFUSED with the reason:
            the state is Cleancut's already, the last epoch is not committed, the query runs;
            CLEANCUT_SESSION_MISSING, CLEANCUT_CONNECT_UNSUPPORTED.
    """
    return _asked(session, "adopt", location, (), apply=False)


def release(location: str, session: "SparkSession | None" = None) -> Plan:
    """Plans the way back: makes Cleancut's state that of Spark's RocksDB provider.

    The query then runs on without Cleancut. Arguments, result and errors are those of `adopt`. It
    is refused where cuts commit the epochs.
    """
    return _asked(session, "release", location, (), apply=False)


def rescale(location: str, partitions: int, session: "SparkSession | None" = None) -> Plan:
    """Plans to spread the state of a stopped query over another number of partitions.

    It does so for the state of every provider and operator. An aggregation without keys and a limit
    stay in one partition. It is refused where cuts commit the epochs.

    Args:
        location: its checkpointLocation, on a file system of Hadoop.
        partitions: from 1 on; what `spark.sql.shuffle.partitions` is for the query afterwards,
            whatever the session says, because Spark takes it from the checkpoint.
        session: as for `adopt`.

    Returns:
        The plan; its `apply` does it.

    Raises:
        RequestError: as for `adopt`; also if there are so many partitions already.
    """
    return _asked(session, "rescale", location, (partitions,), apply=False)


def _asked(
    session: "SparkSession | None",
    act: str,
    location: str,
    arguments: tuple[int, ...],
    *,
    apply: bool,
) -> Plan:
    found = running_session() if session is None else session
    if found is None:
        raise error_of("CLEANCUT_SESSION_MISSING", act=act)
    require_classic(found, "session")
    jvm: Any = found._jvm
    facade = jvm.io.cleancut.CleancutOffline
    if not callable(getattr(facade, act, None)):
        raise error_of("CLEANCUT_SESSION_MISSING", act=act)
    with translating():
        told = json.loads(getattr(facade, act)(found._jsparkSession, location, *arguments, apply))
    return _plan(told)


def _plan(told: Mapping[str, Any]) -> Plan:
    return Plan(
        act=told["act"],
        location=told["location"],
        epoch=told["epoch"],
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
    )


def _change(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} -> {after}"
