"""A coordinator in a notebook: drawn again as long as its query runs, without a script."""

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
# By location: a query is drawn in one output at a time.
_views: dict[str, "LiveView"] = {}

# What is drawn of the epochs that were seen.
_COURSES: Sequence[tuple[str, Callable[[EpochInfo], int | None]]] = (
    ("epoch, ms", lambda of: of.duration_ms),
    ("gate, ms", lambda of: of.commit_ms),
    ("alignment, ms", lambda of: of.alignment_ms),
    ("rows in flight", lambda of: of.in_flight_rows),
    ("requests", lambda of: request_count(of.requests)),
)


class _Watched(Protocol):
    @property
    def location(self) -> str:
        """Which query it is."""

    def status(self) -> "CoordinatorStatus":
        """Where the query stands."""

    def history(self) -> Iterable[EpochInfo]:
        """What the store tells of epochs before."""


class LiveView:
    """Draws a coordinator again and again, in the output where it was shown.

    It ends by itself when the query's run has ended, when its time is over, when the driver cannot
    be asked any more, and when the same query is shown in another output; and by `stop`. At its
    foot it says which of these it was.

    Args:
        of: what is watched.
        draw: takes the HTML of each moment.
        every_s: seconds between two moments.
        longest_s: seconds after which it ends.
    """

    def __init__(
        self,
        of: _Watched,
        draw: Callable[[str], None],
        *,
        every_s: float = EVERY_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._of = of
        self._draw = draw
        self._every_s = every_s
        self._until_s = time.monotonic() + longest_s
        self._epochs: deque[EpochInfo] = deque(maxlen=_COURSE)
        self._stopped = threading.Event()
        self._last: CoordinatorStatus | None = None
        self._thread = threading.Thread(target=self._go_on, name="cleancut-view", daemon=True)

    @property
    def is_live(self) -> bool:
        """Whether it is still drawn again."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Draws it for the first time, and goes on beside."""
        with suppress(CleancutError, OSError):
            # Of a query that is new there is none.
            self._epochs.extend(self._of.history())
        if self._draw_now():
            self._thread.start()

    def stop(self) -> None:
        """Leaves it as it stands."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _go_on(self) -> None:
        while not self._stopped.wait(self._every_s):
            if not self._draw_now():
                return
        self._show("It was stopped.")

    def _draw_now(self) -> bool:
        """Whether to go on."""
        try:
            self._last = self._of.status()
        except Exception as error:
            # Whatever it is, the kernel's output is not to be filled with it.
            self._show(f"The driver cannot be asked any more: {error}")
            return False
        self._take(self._last.last)
        if self._last.run_id is None and self._last.committed is not None:
            self._show("The run has ended.")
            return False
        if time.monotonic() >= self._until_s:
            self._show("It is drawn no longer; show it again to go on.")
            return False
        self._show(f"Drawn again every {self._every_s:g} s while the query runs.")
        return True

    def _take(self, epoch: EpochInfo | None) -> None:
        if epoch is None:
            return
        # The driver knows more of an epoch than the store did.
        while self._epochs and self._epochs[-1].epoch >= epoch.epoch:
            self._epochs.pop()
        self._epochs.append(epoch)

    def _show(self, foot: str) -> None:
        self._draw(shown(self._last, list(self._epochs), foot))


def shown(status: "CoordinatorStatus | None", epochs: Sequence[EpochInfo], foot: str) -> str:
    """One moment, as HTML without scripts: courses, facts, and a line at the foot."""
    drawn = []
    for name, value in _COURSES:
        values = [value(of) for of in epochs]
        known = [of for of in values if of is not None]
        if known:
            drawn.append((name, charts.sparkline(name, values), known[-1]))
    facts = "" if status is None else status._repr_html_()
    return html.courses(drawn) + facts + html.text(foot)


def show(of: _Watched, every_s: float, longest_s: float) -> LiveView:
    """Shows it in the notebook that runs this, in the place of where it was shown before.

    Raises:
        ImportError: there is no IPython, hence no notebook.
    """
    display: Any = importlib.import_module("IPython.display")

    handle: list[Any] = []

    def draw(text: str) -> None:
        if handle:
            handle[0].update(display.HTML(text))
        else:
            handle.append(display.display(display.HTML(text), display_id=True))

    before = _views.pop(of.location, None)
    if before is not None:
        before.stop()
    view = LiveView(of, draw, every_s=every_s, longest_s=longest_s)
    _views[of.location] = view
    view.start()
    return view
