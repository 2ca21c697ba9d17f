"""State that a query begins with: one that has not run, or that goes on in another form."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from cleancut._operations.offline import Plan, asked, driver_for, spoken, state_of
from cleancut._session.driver import StateFamily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Family = int | tuple[int, str] | tuple[int, str, str]


def bootstrap(
    location: str,
    query: "DataFrame",
    state: Mapping[Family, "DataFrame"],
    output_mode: Literal["append", "update", "complete"] = "append",
    *,
    cuts: bool | None = None,
    file_sink: str | None = None,
) -> Plan:
    """Plans the checkpoint of a query that has not run, with state that it did not make itself.

    The query is planned as at its first start, so its operators, schemas and partitions are those
    that it will have. It then goes on from that state, and reads its sources from the beginning:
    leave out of them what the state has in it already.

        rows = history.select(
            f.struct("user").alias("key"), f.struct("count").alias("value")
        )
        cleancut.bootstrap("checkpoints/orders", counted, {0: rows}, "update").apply()

    Args:
        location: the checkpointLocation of the query, where nothing is yet.
        query: the streaming DataFrame that will be written.
        state: rows by Spark's operator id, or by operator and column family, or by operator, store
            and family; of a join by operator and side, "left" or "right". The rows are those that
            `edit` has. What is not given is empty.
        output_mode: in which the query will be written.
        cuts: whether cuts are to commit its epochs; None for what the session says. In a bucket
            they always do.
        file_sink: as for `adopt`.

    Returns:
        The plan; its `apply` does it. One that was killed cannot be started, until it is begun
        again.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, with the reason: there is a checkpoint, there is
            no such operator, the rows have other columns (the reason has those that they are to
            have), a key comes twice, or Spark would not find a row again, as for `edit`;
            CLEANCUT_SESSION_MISSING, CLEANCUT_CONNECT_UNSUPPORTED.
        InternalError: as for `Plan.apply`.
    """
    rows = [(_family(of), rows) for of, rows in state.items()]
    arguments = (file_sink or "", query, output_mode, rows, spoken(cuts))
    return asked(query.sparkSession, "bootstrap", location, arguments)


def migrate(
    location: str,
    into: str,
    query: "DataFrame",
    state: "Mapping[Family, DataFrame | Callable[[DataFrame], DataFrame]] | None" = None,
    output_mode: Literal["append", "update", "complete"] = "append",
    *,
    same_query: bool = True,
    cuts: bool | None = None,
    file_sink: str | None = None,
) -> Plan:
    """Plans a checkpoint on which a query goes on in another form, with the state that it had.

    For what Spark refuses on the checkpoint itself, as `compatible` says: another aggregate, other
    keys or values, an operator more or fewer. The query has the operators and schemas of its new
    form, and the source offsets, watermark, settings and number of partitions of the old one. State
    whose operator, key and value are as they were is carried over; what has changed is given, and
    what is new begins empty.

        def with_sum(old):
            total = f.lit(0).cast("long").alias("sum")
            return old.withColumn("value", f.struct("value.count", total))

        cleancut.migrate("checkpoints/v1", "checkpoints/v2", query, {0: with_sum}).apply()

    Args:
        location: the checkpointLocation of the query, which is stopped. It stays as it is.
        into: that of the new one, where nothing is yet.
        query: the streaming DataFrame in its new form, of the same sources.
        state: what of it has changed, by families of the new form, as for `bootstrap`: a DataFrame,
            or a function of that which the old form has in the family of this name.
        output_mode: in which the query will be written.
        same_query: whether it keeps the id of the query, by which sinks know their epochs.
        cuts: whether cuts are to commit its epochs; None for as they are committed now.
        file_sink: as for `adopt`.

    Returns:
        The plan. Its `notes` name the operators whose state is left, and those that begin without.

    Raises:
        RequestError: as for `bootstrap`; also if rows have changed and are not given, rows are in
            flight, the sources are more or fewer, or the query runs in this application.
    """
    session = query.sparkSession
    given: list[tuple[StateFamily, DataFrame]] = []
    for of, rows in (state or {}).items():
        family = _family(of)
        if callable(rows):
            there = state_of(driver_for(session, "migrate"), location, family)
            given.append((family, rows(there)))
        else:
            given.append((family, rows))
    named = (into, query, output_mode, given, spoken(cuts), not same_query)
    return asked(session, "migrate", location, (file_sink or "", *named))


def _family(of: Family) -> StateFamily:
    match of:
        case int(operator):
            return StateFamily(operator, "default", "default")
        case (int(operator), str(family)):
            return StateFamily(operator, "default", family)
        case (int(operator), str(store), str(family)):
            return StateFamily(operator, store, family)
    raise TypeError(f"an operator, perhaps with store and family, is wanted, and not {of!r}")
