"""What Spark knows of a batch beside its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cleancut._brief import Brief
from cleancut._query import sealing
from cleancut.sinks._core.expected import NO_EPOCHS, EpochRanges
from cleancut.sinks._core.lineage import Origin

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
        recorded: the earlier epochs that its checkpoint records as published, by the `ledger_key`
            of each sink.
        lineage: the checkpoints of the query that its checkpoint continues, oldest first.
    """

    epoch: int
    query_id: str
    run_id: str
    checkpoint: str
    planned_ms: int
    recorded: Mapping[str, EpochRanges] = field(default_factory=dict, repr=False, compare=False)

    lineage: tuple[Origin, ...] = field(default=(), repr=False, compare=False)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The locations of all checkpoints of the query, oldest first; the last one is its own."""
        return (*(of.checkpoint for of in self.lineage), self.checkpoint)

    def published_to(self, ledger_key: str) -> EpochRanges:
        """The earlier epochs that a sink has published, by the record of the checkpoint."""
        return self.recorded.get(ledger_key, NO_EPOCHS)


def batch_of(df: "DataFrame", epoch: int) -> Batch:
    """Finds the query whose batch this is.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, there is none.
    """
    found = sealing.batch(df, epoch)
    return Batch(
        epoch=epoch,
        query_id=found["queryId"],
        run_id=found["runId"],
        checkpoint=found["checkpoint"],
        planned_ms=found["plannedMs"],
        recorded={
            of["name"]: EpochRanges(tuple(map(tuple, of["epochs"]))) for of in found["sinks"]
        },
        lineage=tuple(
            Origin(of["checkpoint"], of["generation"], of.get("epoch")) for of in found["lineage"]
        ),
    )
