"""A coordinator in its own thread."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._model import names
from cleancut.dataflow._model.records import VectorRecord
from cleancut.errors import CleancutError, FencedError, first_line

_LOG = logging.getLogger("cleancut.dataflow")
# Maximum time that `stop` waits for pending requests.
_END_S = 60.0
# Time on standby for a coordinator of a single cut, which may have been killed.
_ONCE_S = 300.0


@dataclass(frozen=True)
class Pacing:
    """The schedule of vectors, and their retention.

    Attributes:
        interval_s: seconds between the starts of two vectors.
        min_pause_s: minimum seconds between the end of a vector and the start of the next.
        poll_s: seconds between two scans of the members.
        timeout_s: maximum seconds to wait for members to close their epochs.
        wait: whether cuts wait for members to close their epochs.
        keep: number of vectors to retain.
        young_ms: maximum age of vectors that are also retained; None if age does not count.
        tolerable_failures: number of consecutive failures that do not end it; None is any number.
    """

    interval_s: float
    min_pause_s: float
    poll_s: float
    timeout_s: float
    wait: bool
    keep: int
    young_ms: int | None
    tolerable_failures: int | None


class DataflowRun:
    """A coordinator of a dataflow that runs in this process until it is stopped.

    At each interval it makes a cut of the dataflow, if anything has changed, and expires old ones.
    If another coordinator takes the dataflow, as `Dataflow.cut` of another process does, this one
    is on standby. It continues when the other records its end, or five minutes after one that makes
    a single cut has started. A cut that fails is retried at the next interval. As a context manager
    it stops at the end of the block.
    """

    def __init__(self, make: Callable[[], Coordinator], pacing: Pacing) -> None:
        self._make = make
        self._pacing = pacing
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._coordinator: Coordinator | None = None
        self._failures = 0
        self._last_error: str | None = None
        self._error: BaseException | None = None
        self._cuts = 0
        # The generation for which it is on standby, and the start of the standby.
        self._other: tuple[int, float] = (0, 0.0)
        self._thread = threading.Thread(target=self._run, name="cleancut-flow", daemon=True)

    def __repr__(self) -> str:
        return (
            f"DataflowRun(is_active={self.is_active}, cuts={self._cuts}, failures={self._failures})"
        )

    def begin(self) -> None:
        """Takes over the dataflow, and starts the thread."""
        self._coordinator = self._make()
        self._coordinator.begin()
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def is_standby(self) -> bool:
        """Whether it waits for the end of another coordinator."""
        return self.is_active and self._coordinator is None

    @property
    def failures(self) -> int:
        """Number of consecutive cuts that failed."""
        return self._failures

    @property
    def last_error(self) -> str | None:
        """The error of the last cut that failed; None after a cut that succeeded."""
        return self._last_error

    @property
    def cuts(self) -> int:
        """Number of cuts that it has made."""
        return self._cuts

    def error(self) -> BaseException | None:
        """The error that ended it; None if it runs or was stopped."""
        return self._error

    def cut(self, timeout_s: float, *, wait: bool, force: bool) -> VectorRecord | None:
        """Makes a vector now; None if another coordinator has the dataflow."""
        with self._lock:
            if self._coordinator is None or not self.is_active:
                return None
            try:
                made = self._coordinator.cut(timeout_s, wait=wait, force=force)
            except FencedError:
                self._coordinator = None
                raise
            self._cuts += 1
            return made

    def stop(self) -> None:
        """Stops it, after the current cut."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(_END_S)
        with self._lock:
            if self._coordinator is not None:
                try:
                    self._coordinator.end()
                except (CleancutError, OSError) as error:
                    _LOG.warning("the end of the coordinator could not be recorded: %s", error)
                self._coordinator = None

    def __enter__(self) -> "DataflowRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self._error = error
            _LOG.exception("the coordinator of the dataflow has ended")

    def _loop(self) -> None:
        pacing = self._pacing
        made = self._make()
        clock = made.store.machinery.monotonic
        due = clock()
        while not self._stopping.is_set():
            with self._lock:
                if self._coordinator is None:
                    self._take_over()
                if self._coordinator is not None and self._step(due <= clock()):
                    due = max(due + pacing.interval_s, clock() + pacing.min_pause_s)
            self._wake.wait(max(0.01, min(pacing.poll_s, due - clock())))

    def _step(self, is_due: bool) -> bool:
        """Scans, and makes a vector if it is due; returns whether it was."""
        coordinator, pacing = self._coordinator, self._pacing
        assert coordinator is not None
        try:
            coordinator.poll()
            if not is_due:
                return False
            last = coordinator.entries[-1].number if coordinator.entries else None
            made = coordinator.cut(pacing.timeout_s, wait=pacing.wait)
            self._cuts += made.number != last
            now_ms = coordinator.store.machinery.now_ms()
            since_ms = None if pacing.young_ms is None else now_ms - pacing.young_ms
            coordinator.expire(pacing.keep, since_ms)
        except FencedError as error:
            _LOG.warning("%s", error)
            self._coordinator = None
            return is_due
        except (CleancutError, OSError) as error:
            self._failed(error)
            return True
        self._failures, self._last_error = 0, None
        return True

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = first_line(error)
        _LOG.warning("no cut of the dataflow could be made, %d in a row: %s", self._failures, error)
        tolerable = self._pacing.tolerable_failures
        if tolerable is not None and self._failures > tolerable:
            raise error

    def _take_over(self) -> None:
        """Takes over the dataflow again, if the other coordinator has ended or was killed."""
        try:
            coordinator = self._make()
            store = coordinator.store
            generation, has_ended = names.generations(store.objects.list(names.COORDINATORS))
            now = store.machinery.monotonic()
            if self._other[0] != generation:
                self._other = generation, now
            is_late = now - self._other[1] >= _ONCE_S
            if has_ended or (is_late and store.is_once(generation)):
                coordinator.begin()
                self._coordinator = coordinator
        except (CleancutError, OSError) as error:
            self._last_error = first_line(error)
