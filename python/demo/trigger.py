"""Detects the moment of a planned kill from the visible state of the run."""

from dataclasses import dataclass

from demo.job import QUERIES
from demo.kills import Aim, Kill

# Until a run has measured its epochs.
_EPOCH_S = 1.0
_WARM_UP_S = 5.0
# The close and rename of a file: a kill has one chance within it, so this estimate is short.
_COMMIT_S = 0.02
# Epochs of both queries; a kill that waits to the end of the run hits nothing.
_PATIENCE_EPOCHS = 4


@dataclass(frozen=True)
class View:
    """The state of the run at one instant.

    Attributes:
        now_s: the monotonic time.
        started: whether the queries of this run have started.
        epochs: the committed epochs of both queries, in all runs.
        committing: whether a sink has finished an epoch that Spark has not committed yet.
        in_flight: whether a restart would find in-flight rows; True if there are never any.
    """

    now_s: float
    started: bool
    epochs: int
    committing: bool
    in_flight: bool = True


class Trigger:
    """Watches one run until its kill is due.

    Except for a kill during recovery, a run commits at least one epoch before it is killed, so that
    the job ends.
    """

    def __init__(self, kill: Kill, epochs_before: int) -> None:
        """Prepares for a run.

        Args:
            kill: the kill of this run.
            epochs_before: the committed epochs of both queries in earlier runs.
        """
        self._kill = kill
        self._epochs_before = epochs_before
        self._first_commit_s: float | None = None
        self._due_s: float | None = None
        # Epochs at the first poll in the kill's range, and at the first possible poll.
        self._in_range_since: int | None = None
        self._awaited_since: int | None = None

    @property
    def is_close(self) -> bool:
        """Whether the moment may be missed without continuous polling."""
        return self._kill.aim is Aim.COMMIT and self._in_range_since is not None

    def is_due(self, view: View) -> bool:
        """Whether the kill happens now."""
        if self._first_commit_s is None and view.epochs > self._epochs_before:
            self._first_commit_s = view.now_s
        is_in_range = self._first_commit_s is not None and view.epochs >= self._kill.after_epochs
        if is_in_range and self._in_range_since is None:
            self._in_range_since = view.epochs
        if self._due_s is None and self._is_reached(view) and self._is_worth_it(view):
            self._due_s = view.now_s + self._kill.delay * self._scale_s(view)
        return self._due_s is not None and view.now_s >= self._due_s

    def _is_reached(self, view: View) -> bool:
        if self._kill.aim is Aim.RECOVERY:
            return view.started
        if self._in_range_since is None:
            return False
        # On a busy machine all commits may happen between two polls.
        has_missed = view.epochs - self._in_range_since >= _PATIENCE_EPOCHS
        return view.committing or self._kill.aim is Aim.ANYWHERE or has_missed

    def _is_worth_it(self, view: View) -> bool:
        """Whether rows are in flight; after some epochs without them, a kill is due anyway."""
        if self._awaited_since is None:
            self._awaited_since = view.epochs
        return view.in_flight or view.epochs - self._awaited_since >= _PATIENCE_EPOCHS

    def _scale_s(self, view: View) -> float:
        """Returns the duration of the phase of the kill."""
        if self._kill.aim is not Aim.ANYWHERE:
            return _WARM_UP_S if self._kill.aim is Aim.RECOVERY else _COMMIT_S
        epochs = view.epochs - self._epochs_before - 1
        if self._first_commit_s is None or epochs <= 0:
            return _EPOCH_S
        return len(QUERIES) * (view.now_s - self._first_commit_s) / epochs
