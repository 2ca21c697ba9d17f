"""Where a query stands, read from its checkpoint and its sink; also of one that was killed."""

import enum
from dataclasses import dataclass
from pathlib import Path

from demo.job import Job
from demo.sink import is_begun, is_done


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


def position(job: Job, query: str, since_s: float = 0.0) -> Position:
    """Reads the position of a query.

    Args:
        job: knows where the checkpoint and the sink are.
        query: HOURLY or ROTATIONS.
        since_s: when the driver started (Unix time), because an epoch that runs again finds what
            its first run left in the sink.
    """
    committed = _last_entry(job.checkpoint(query) / "commits")
    planned = _last_entry(job.checkpoint(query) / "offsets")
    if planned <= committed:
        phase = Phase.BETWEEN
    elif is_done(job.results(query), planned, since_s):
        phase = Phase.COMMITTING
    elif is_begun(job.results(query), planned, since_s):
        phase = Phase.RUNNING
    else:
        phase = Phase.PLANNED
    return Position(planned, committed, phase)


def _last_entry(log: Path) -> int:
    if not log.is_dir():
        return -1
    return max((int(path.name) for path in log.iterdir() if path.name.isdigit()), default=-1)
