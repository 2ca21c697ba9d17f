"""The position of a query, from its checkpoint and its sink, also after a kill."""

import enum
import re
from dataclasses import dataclass

from demo.job import Job
from demo.location import Location
from demo.results import results_of
from demo.sink import Results

_ENTRY = re.compile(r"(\d+)")
_CUT = re.compile(r"(\d{20})\.cut")


class Phase(enum.Enum):
    """The phase of a query when its driver was killed."""

    BETWEEN = "between two epochs"
    PLANNED = "epoch planned, no task yet"
    RUNNING = "in the epoch's tasks"
    COMMITTING = "sink done, epoch not committed"


@dataclass(frozen=True)
class Position:
    """The position of a query.

    Attributes:
        planned: last epoch with an offsets entry, -1 if none.
        committed: last epoch with a commit entry, -1 if none.
        phase: the phase of the planned and uncommitted epoch.
    """

    planned: int
    committed: int
    phase: Phase

    @property
    def is_open(self) -> bool:
        """Whether an epoch is planned that has to run, or run again."""
        return self.planned > self.committed


def position(
    job: Job, query: str, since_s: float = 0.0, results: Results | None = None
) -> Position:
    """Reads the position of a query.

    Args:
        job: the job with the checkpoint location.
        query: HOURLY or ROTATIONS.
        since_s: when the driver started (Unix time), because an epoch that runs again finds what
            its first run left in the sink.
        results: the results of the query, by a client that polls them.
    """
    location = job.checkpoint(query)
    written = results or results_of(job, query)
    # In this order, so that a concurrently committed epoch is not taken for an open one.
    planned = _last(location.names("offsets"), _ENTRY)
    committed = _committed(location)
    if planned <= committed:
        phase = Phase.BETWEEN
    elif written.is_done(planned, since_s):
        phase = Phase.COMMITTING
    elif written.is_begun(planned, since_s):
        phase = Phase.RUNNING
    else:
        phase = Phase.PLANNED
    return Position(planned, committed, phase)


def _committed(location: Location) -> int:
    """Returns the last epoch with a commit entry, which a cut may contain in a bucket."""
    entry = _last(location.names("commits"), _ENTRY)
    return max(entry, _last(location.names("cleancut/cuts"), _CUT))


def _last(names: list[str], pattern: re.Pattern[str]) -> int:
    matches = (pattern.fullmatch(name) for name in names)
    return max((int(match[1]) for match in matches if match), default=-1)
