"""What Spark knows of a batch beside its rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut._display.brief import Brief
from cleancut._spark.connect import require_classic
from cleancut.errors import error_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, repr=False)
class Batch(Brief):
    """One run of an epoch.

    Attributes:
        epoch: Spark's batch id.
        query_id: Spark's id of the query, which its checkpoint keeps.
        run_id: Spark's id of the run of that query.
        checkpoint: its checkpoint location, as Spark resolved it.
        planned_ms: when Spark chose the input of the epoch, in Unix time; as its offset log has it.
    """

    epoch: int
    query_id: str
    run_id: str
    checkpoint: str
    planned_ms: int


def batch_of(df: "DataFrame", epoch: int) -> Batch:
    """Finds the query whose batch this is.

    Raises:
        RequestError: CLEANCUT_SEAL_MISPLACED, there is none; CLEANCUT_CONNECT_UNSUPPORTED.
    """
    query = running_query(df, epoch)
    planned = query.offsetLog().offsetSeqMetadataForBatchId(epoch)
    if not planned.isDefined():
        raise error_of("CLEANCUT_SEAL_MISPLACED", epoch=epoch)
    return Batch(
        epoch=epoch,
        query_id=query.id().toString(),
        run_id=query.runId().toString(),
        checkpoint=query.resolvedCheckpointRoot(),
        planned_ms=planned.get().batchTimestampMs(),
    )


def running_query(df: "DataFrame", epoch: object = "") -> Any:
    """The query of the JVM in whose session a batch was made.

    Raises:
        RequestError: as `batch_of`.
    """
    require_classic(df, "DataFrame")
    if getattr(df, "_jdf", None) is None:
        raise error_of("CLEANCUT_SEAL_MISPLACED", epoch=epoch)
    # A query runs in a session of its own, in which its batches are made.
    session: Any = df.sparkSession._jsparkSession
    jvm: Any = df.sparkSession._jvm
    # A copy, because others end while this one looks.
    running = jvm.java.util.HashMap(session.sharedState().activeStreamingQueries())
    for query in running.values():
        if query.sparkSessionForStream() == session:
            return query
    raise error_of("CLEANCUT_SEAL_MISPLACED", epoch=epoch)
