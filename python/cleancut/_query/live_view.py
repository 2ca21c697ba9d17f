"""A live view of a coordinator in a notebook, without a script."""

import importlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from cleancut._checkpoint.read.epoch_info import EpochInfo, request_count
from cleancut._display import charts, html
from cleancut.errors import CleancutError

if TYPE_CHECKING:
    from cleancut._query.coordinator import CoordinatorStatus

EVERY_S = 2.0
LONGEST_S = 3600.0
_COURSE = 120
# By location: a query is displayed in one output at a time.
_views: dict[str, "LiveView"] = {}

# The displayed trends.
_COURSES: Sequence[tuple[str, Callable[[EpochInfo], int | None]]] = (
    ("epoch, ms", lambda info: info.duration_ms),
    ("commit, ms", lambda info: info.commit_ms),
    ("alignment, ms", lambda info: info.alignment_ms),
    ("in-flight rows", lambda info: info.in_flight_rows),
    ("requests", lambda info: request_count(info.requests)),
)


class _Watched(Protocol):
    @property
    def location(self) -> str:
        """The location of the query."""

    def status(self) -> "CoordinatorStatus":
        """The status of the query."""

    def history(self) -> Iterable[EpochInfo]:
        """Earlier epochs from the object store."""


class LiveView:
    """Displays a coordinator, and updates it in the output where it was displayed.

    It ends when the query's run has ended, after its time limit, when the driver is not reachable
    any more, when the same query is displayed in another output, or by `stop`. Its last line states
    the reason.

    Args:
        watched: the coordinator.
        draw: function that displays HTML.
        every_s: seconds between two updates.
        longest_s: seconds after which it ends.
    """

    def __init__(
        self,
        info: _Watched,
        draw: Callable[[str], None],
        *,
        every_s: float = EVERY_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._watched = info
        self._draw = draw
        self._every_s = every_s
        self._until_s = time.monotonic() + longest_s
        self._epochs: deque[EpochInfo] = deque(maxlen=_COURSE)
        self._stopped = threading.Event()
        self._last: CoordinatorStatus | None = None
        self._thread = threading.Thread(target=self._run, name="cleancut-view", daemon=True)

    @property
    def is_live(self) -> bool:
        """Whether it is still updated."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Displays it for the first time, and starts the updates in the background."""
        with suppress(CleancutError, OSError):
            # A new query has no history.
            self._epochs.extend(self._watched.history())
        if self._draw_now():
            self._thread.start()

    def stop(self) -> None:
        """Stops the updates; the last content remains."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            if not self._draw_now():
                return
        self._show("It was stopped.")

    def _draw_now(self) -> bool:
        """Updates the display; returns whether to continue."""
        try:
            self._last = self._watched.status()
        except Exception as error:
            # Any error ends the updates, so that the output is not flooded.
            self._show(f"The driver is not reachable any more: {error}")
            return False
        self._take(self._last.last)
        is_over = self._last.run_id is None and self._last.parked_since is None
        if is_over and self._last.committed is not None:
            self._show("The run has ended.")
            return False
        if time.monotonic() >= self._until_s:
            self._show("The time limit is reached; display it again to continue.")
            return False
        self._show(f"Updated every {self._every_s:g} s while the query runs.")
        return True

    def _take(self, epoch: EpochInfo | None) -> None:
        if epoch is None:
            return
        # The driver's values of an epoch are more complete than those of the object store.
        while self._epochs and self._epochs[-1].epoch >= epoch.epoch:
            self._epochs.pop()
        self._epochs.append(epoch)

    def _show(self, foot: str) -> None:
        self._draw(shown(self._last, list(self._epochs), foot))


def shown(status: "CoordinatorStatus | None", epochs: Sequence[EpochInfo], foot: str) -> str:
    """One update, as HTML without scripts: trends, facts, and a last line."""
    drawn = []
    for name, value in _COURSES:
        values = [value(info) for info in epochs]
        known = [number for number in values if number is not None]
        if known:
            drawn.append((name, charts.sparkline(name, values), known[-1]))
    facts = "" if status is None else status._repr_html_()
    return html.courses(drawn) + facts + html.text(foot)


def show(info: _Watched, every_s: float, longest_s: float) -> LiveView:
    """Displays a coordinator in the current notebook, and replaces its previous display.

    Raises:
        ImportError: IPython is not installed.
    """
    display: Any = importlib.import_module("IPython.display")

    handle: list[Any] = []

    def draw(text: str) -> None:
        if handle:
            handle[0].update(display.HTML(text))
        else:
            handle.append(display.display(display.HTML(text), display_id=True))

    before = _views.pop(info.location, None)
    if before is not None:
        before.stop()
    view = LiveView(info, draw, every_s=every_s, longest_s=longest_s)
    _views[info.location] = view
    view.start()
    return view
