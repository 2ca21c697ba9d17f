"""Where a query stands, read from its checkpoint and its sink; also of one that was killed."""

import enum
from dataclasses import dataclass
from pathlib import Path

from demo.job import Job
from demo.sink import epoch_directory, is_staged


class Phase(enum.Enum):
    """What a query was doing when its driver died."""

    BETWEEN = "between two epochs"
    PLANNED = "epoch planned, no task yet"
    RUNNING = "in the epoch's tasks"
    COMMITTING = "sink done, epoch not committed"


@dataclass(frozen=True)
class Position:
    """How far a query got.

    Attributes:
        planned: last epoch with an offsets entry, -1 if none.
        committed: last epoch with a commit entry, -1 if none.
        phase: of the epoch that is planned but not committed.
    """

    planned: int
    committed: int
    phase: Phase

    @property
    def is_open(self) -> bool:
        """Whether an epoch is planned that has to run, or run again."""
        return self.planned > self.committed


def position(job: Job, query: str) -> Position:
    """Reads the position of a query."""
    committed = _last_entry(job.checkpoint(query) / "commits")
    planned = _last_entry(job.checkpoint(query) / "offsets")
    return Position(planned, committed, _phase(job, query, planned, committed))


def _phase(job: Job, query: str, planned: int, committed: int) -> Phase:
    if planned <= committed:
        return Phase.BETWEEN
    if epoch_directory(job.results(query), planned).exists():
        return Phase.COMMITTING
    if is_staged(job.results(query), planned):
        return Phase.RUNNING
    return Phase.PLANNED


def _last_entry(log: Path) -> int:
    if not log.is_dir():
        return -1
    return max((int(path.name) for path in log.iterdir() if path.name.isdigit()), default=-1)
