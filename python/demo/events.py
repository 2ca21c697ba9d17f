"""What a driver tells its supervisor: one JSON object per line, one file per life."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from pyspark.sql.streaming import listener as spark

# Cleancut's own entry beside those of the stateful operators.
_CHANNELS = "cleancutInFlight"


@dataclass(frozen=True)
class Epoch:
    """The figures of one committed epoch.

    Attributes:
        query: name of the query.
        epoch: its number.
        duration_ms: of the whole trigger.
        commit_ms: mean over the state stores of the time that their commit took.
        state_rows: rows in all its stores.
        state_memory_bytes: what the provider says that its stores take in memory.
        in_flight_rows: that its cut left for the next epoch.
    """

    query: str
    epoch: int
    duration_ms: int
    commit_ms: float
    state_rows: int
    state_memory_bytes: int
    in_flight_rows: int


class EpochLog(spark.StreamingQueryListener):
    """Appends the figures of each epoch, at once, so that a kill loses the last lines at most.

    The names of its methods are Spark's.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", buffering=1)

    def onQueryStarted(self, event: spark.QueryStartedEvent) -> None:  # noqa: N802
        """The checkpoint tells the same, and more surely."""

    def onQueryProgress(self, event: spark.QueryProgressEvent) -> None:  # noqa: N802
        """Writes one line; an idle trigger is no epoch."""
        progress = event.progress
        channels, stores = (
            [at for at in progress.stateOperators if (at.operatorName == _CHANNELS) is wanted]
            for wanted in (True, False)
        )
        if "addBatch" not in progress.durationMs:
            return
        epoch = Epoch(
            query=progress.name or "",
            epoch=progress.batchId,
            duration_ms=progress.durationMs["triggerExecution"],
            commit_ms=sum(s.commitTimeMs for s in stores)
            / sum(s.numStateStoreInstances for s in stores),
            state_rows=sum(s.numRowsTotal for s in stores),
            state_memory_bytes=sum(s.memoryUsedBytes for s in stores),
            in_flight_rows=sum(c.numRowsTotal for c in channels),
        )
        self._file.write(json.dumps(asdict(epoch)) + "\n")

    def onQueryTerminated(self, event: spark.QueryTerminatedEvent) -> None:  # noqa: N802
        """The exit code of the driver tells."""


def read_epochs(path: Path) -> Iterator[Epoch]:
    """Reads the lines of one life; a line that the kill cut short is left out."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            fields: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Epoch(**fields)
