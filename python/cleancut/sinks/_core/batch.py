"""The identity of a batch and of its query."""

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
        query_id: Spark's query id, which the checkpoint stores.
        run_id: Spark's id of the run of the query.
        checkpoint: its checkpoint location, as Spark resolved it.
        planned_ms: time at which Spark planned the epoch, in Unix time; from the offset log.
        recorded: the earlier epochs that the checkpoint records as published, by the `ledger_key`
            of each sink.
        lineage: the checkpoints that this checkpoint continues, oldest first.
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
        return (*(origin.checkpoint for origin in self.lineage), self.checkpoint)

    def published_to(self, ledger_key: str) -> EpochRanges:
        """The earlier epochs that a sink has published, by the record of the checkpoint."""
        return self.recorded.get(ledger_key, NO_EPOCHS)


def batch_of(df: "DataFrame", epoch: int) -> Batch:
    """The query of a batch.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query.
    """
    described = sealing.batch(df, epoch)
    return Batch(
        epoch=epoch,
        query_id=described["queryId"],
        run_id=described["runId"],
        checkpoint=described["checkpoint"],
        planned_ms=described["plannedMs"],
        recorded={
            sink["name"]: EpochRanges(tuple(map(tuple, sink["epochs"])))
            for sink in described["sinks"]
        },
        lineage=tuple(
            Origin(origin["checkpoint"], origin["generation"], origin.get("epoch"))
            for origin in described["lineage"]
        ),
    )
