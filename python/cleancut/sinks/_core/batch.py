"""What Spark knows of a batch beside its rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleancut._display.brief import Brief
from cleancut._spark import sealing

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
        RequestError: CLEANCUT_SEAL_MISPLACED, there is none.
    """
    found = sealing.batch(df, epoch)
    return Batch(
        epoch=epoch,
        query_id=found["queryId"],
        run_id=found["runId"],
        checkpoint=found["checkpoint"],
        planned_ms=found["plannedMs"],
    )
