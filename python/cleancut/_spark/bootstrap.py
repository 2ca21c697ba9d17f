"""The first state of a query that has not run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from cleancut._spark.offline import Plan, asked, facade_of
from cleancut.errors import translating

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
            and family. A row is a key: the struct columns `key` and `value` have the fields of the
            state, as `Checkpoint.state` shows them. What is not given is empty.
        output_mode: in which the query will be written.
        cuts: whether cuts are to commit its epochs; None for what the session says. In a bucket
            they always do.
        file_sink: as for `adopt`.

    Returns:
        The plan; its `apply` does it. One that was killed cannot be started, until it is begun
        again.

    Raises:
        RequestError: CLEANCUT_OFFLINE_REFUSED, with the reason: there is a checkpoint, there is no
            such operator, the rows have other columns (the reason has those that they are to have),
            a key comes twice, or others have to agree with the rows, as for `edit`;
            CLEANCUT_SESSION_MISSING, CLEANCUT_CONNECT_UNSUPPORTED.
        InternalError: as for `Plan.apply`.
    """
    session, facade = facade_of(query.sparkSession, "bootstrap")
    rows = session._jvm.java.util.ArrayList()
    for family, of in state.items():
        with translating():
            rows.add(facade.rows(*_family(family), of._jdf))
    spoken = "" if cuts is None else str(cuts).lower()
    arguments = (file_sink or "", query._jdf, output_mode, rows, spoken)
    return asked(session, "bootstrap", location, arguments, apply=False)


def _family(of: Family) -> tuple[int, str, str]:
    match of:
        case int(operator):
            return operator, "default", "default"
        case (int(operator), str(family)):
            return operator, "default", family
        case (int(operator), str(store), str(family)):
            return operator, store, family
    raise TypeError(f"an operator, perhaps with store and family, is wanted, and not {of!r}")
