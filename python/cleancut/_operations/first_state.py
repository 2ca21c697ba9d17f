"""Checkpoints with initial state: of a new query, or of a query whose form has changed."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from cleancut._operations.offline import Plan, driver_for, planned, state_of, text_of
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
    """Plans the checkpoint of a new query, with given state.

    Spark plans the query as at its first start, which determines its operators, schemas and number
    of partitions. The query then continues from the given state and reads its sources from the
    beginning, so they must not contain input that the state already includes.

        rows = history.select(
            f.struct("user").alias("key"), f.struct("count").alias("value")
        )
        cleancut.bootstrap("checkpoints/orders", counted, {0: rows}, "update").apply()

    Args:
        location: the query's `checkpointLocation`, which must be empty.
        query: the streaming DataFrame that will be written.
        state: rows by Spark's operator id; by operator and column family; by operator, store and
            family; or, for a join, by operator and side ("left" or "right"). Rows have the columns
            of `edit`. Families that are not given are empty.
        output_mode: the output mode of the query.
        cuts: whether epochs commit cuts; None as the session is configured. In a bucket they
            always do.
        file_sink: as for `convert`.

    Returns:
        The plan. Nothing has changed until its `apply`. A query cannot start on a checkpoint whose
        bootstrap was killed, until the bootstrap is repeated.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED with the reason: the location is not empty, an
            operator does not exist, rows have other columns (the reason lists the expected ones),
            a key is duplicated, or Spark could not find a row again, as for `edit`;
            CLEANCUT_SESSION_MISSING; CLEANCUT_CONNECT_UNSUPPORTED.
        InternalError: as for `Plan.apply`.
    """
    rows = [(_family(family), rows) for family, rows in state.items()]
    arguments = (file_sink or "", query, output_mode, rows, text_of(cuts))
    return planned(query.sparkSession, "bootstrap", location, arguments)


def migrate(
    location: str,
    target: str,
    query: "DataFrame",
    state: "Mapping[Family, DataFrame | Callable[[DataFrame], DataFrame]] | None" = None,
    output_mode: Literal["append", "update", "complete"] = "append",
    *,
    same_query: bool = True,
    cuts: bool | None = None,
    file_sink: str | None = None,
) -> Plan:
    """Plans a new checkpoint for a query whose form has changed, with its previous state.

    For changes that Spark refuses on the existing checkpoint (see `check_compatibility`): another
    aggregate, other keys or values, more or fewer operators. The new checkpoint has the operators
    and schemas of the new form, and the source offsets, watermark, settings and number of
    partitions of the old one. State whose operator, key and value are unchanged is copied; changed
    state is given; new state begins empty.

        def with_sum(old):
            total = f.lit(0).cast("long").alias("sum")
            return old.withColumn("value", f.struct("value.count", total))

        cleancut.migrate("checkpoints/v1", "checkpoints/v2", query, {0: with_sum}).apply()

    Args:
        location: the `checkpointLocation` of the stopped query. It is not changed.
        target: location of the new checkpoint, which must be empty.
        query: the streaming DataFrame in its new form, with the same sources.
        state: the changed state, by families of the new form, as for `bootstrap`: a DataFrame, or a
            function of the rows that the old form has in the family of this name.
        output_mode: the output mode of the query.
        same_query: keep the query id, by which sinks know their epochs.
        cuts: whether epochs commit cuts; None as in `location`.
        file_sink: as for `convert`.

    Returns:
        The plan. Its `notes` name the operators whose state is dropped, and those that begin empty.
        Nothing has changed until its `apply`.

    Raises:
        RequestError: as for `bootstrap`; also if changed rows are not given, the checkpoint has
            in-flight rows, the number of sources differs, or the query runs in this application.
    """
    session = query.sparkSession
    given: list[tuple[StateFamily, DataFrame]] = []
    for name, rows in (state or {}).items():
        family = _family(name)
        if callable(rows):
            old = state_of(driver_for(session, "migrate"), location, family)
            given.append((family, rows(old)))
        else:
            given.append((family, rows))
    arguments = (target, query, output_mode, given, text_of(cuts), not same_query)
    return planned(session, "migrate", location, (file_sink or "", *arguments))


def _family(name: Family) -> StateFamily:
    match name:
        case int(operator):
            return StateFamily(operator, "default", "default")
        case (int(operator), str(family)):
            return StateFamily(operator, "default", family)
        case (int(operator), str(store), str(family)):
            return StateFamily(operator, store, family)
    raise TypeError(f"expected an operator, optionally with store and family, and not {name!r}")
