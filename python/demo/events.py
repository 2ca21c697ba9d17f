"""The reports of a driver to its supervisor: one JSON object per line, one file per run."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from pyspark.sql.streaming import listener as spark

# Cleancut's entry in addition to those of the stateful operators.
_CHANNELS = "cleancutInFlight"


@dataclass(frozen=True)
class Epoch:
    """The metrics of one committed epoch.

    Attributes:
        query: the name of the query.
        epoch: its number.
        duration_ms: the duration of the trigger.
        commit_ms: the mean duration of the commit of a state store.
        state_rows: rows in all its stores.
        state_memory_bytes: the memory of its stores by the provider.
        in_flight_rows: in-flight rows of its cut.
    """

    query: str
    epoch: int
    duration_ms: int
    commit_ms: float
    state_rows: int
    state_memory_bytes: int
    in_flight_rows: int


class EpochLog(spark.StreamingQueryListener):
    """Appends the metrics of each epoch immediately, so that a kill loses at most the last lines.

    The names of its methods are Spark's.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", buffering=1)

    def onQueryStarted(self, event: spark.QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing: the checkpoint has the same information."""

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
        """Does nothing: the supervisor checks the exit code of the driver."""


def read_epochs(path: Path) -> Iterator[Epoch]:
    """Reads the lines of one run; an incomplete last line is ignored."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            fields: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Epoch(**fields)
