"""The command `cleancut top`: a live table of a checkpoint's epochs in a terminal."""

import argparse
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cleancut._checkpoint.read.epoch_info import EpochInfo, longest_phase, request_count
from cleancut._checkpoint.read.prices import PRICES, daily_costs
from cleancut._checkpoint.read.recorded_epochs import RecordedEpochs
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._checkpoint.read.watched_epochs import WatchedEpochs
from cleancut._checkpoint.replicate.records import RestoreTestStatus, last_restore_test
from cleancut._cli.arguments import access, add_access, add_location, seconds
from cleancut._cli.parsers import add_command
from cleancut._cli.statuses import OK
from cleancut._packages import extra_package
from cleancut._storage.access import S3Access
from cleancut.errors import CleancutError, first_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_EVERY_S = 5.0
_ROWS = 30
_COURSE = 40
# Drivers record epochs at most once a minute.
_NOTES_EVERY_S = 30.0
_LEVELS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class _Column:
    """One column of the table.

    Attributes:
        name: name of the column, by which it is sorted.
        value: returns the value; None if the cut does not have it.
        shown: formats the value.
    """

    name: str
    value: Callable[[EpochInfo], float | None]
    shown: Callable[[float], str] = "{:,.0f}".format


_COLUMNS = (
    _Column("epoch", lambda info: info.epoch, "{:.0f}".format),
    _Column("written", lambda info: info.written.timestamp(), lambda s: f"{_utc(s):%H:%M:%S}"),
    _Column("ms", lambda info: info.duration_ms),
    _Column("commit", lambda info: info.commit_ms),
    _Column("cut", lambda info: info.cut_ms),
    _Column("align", lambda info: info.alignment_ms),
    _Column("rows", lambda info: info.in_flight_rows),
    _Column("requests", lambda info: request_count(info.requests)),
    _Column("retries", lambda info: info.retries),
    _Column("failures", lambda info: info.failures),
    _Column("bytes", lambda info: info.segment_bytes),
)
_NAMES = tuple(column.name for column in _COLUMNS)


def add_top(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "top",
        "show the last epochs in the terminal, and update them",
        "Needs no driver. Keys: s sorts by the next column, r reverses the order, q quits.",
    )
    add_location(parser)
    add_access(parser)
    parser.add_argument(
        "--every", type=seconds, default=_EVERY_S, help="seconds between two scans; default: 5"
    )
    parser.add_argument("--sort", choices=_NAMES, default="epoch", help="default: epoch")
    parser.add_argument("--ascending", action="store_true", help="sort in ascending order")
    parser.add_argument("--rows", type=_count, default=_ROWS, help="epochs to show; default: 30")
    parser.add_argument("--once", action="store_true", help="print once; the default in a pipe")
    parser.set_defaults(run=_top)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1 row")
    return count


def _top(parsed: argparse.Namespace) -> int:
    extra_package("rich.live", feature="cleancut top", package="rich", extra="top")
    from rich.console import Console
    from rich.live import Live

    view = TopView(open_root(parsed.location, S3Access(access(parsed))), rows=parsed.rows)
    view.sort, view.is_ascending = parsed.sort, parsed.ascending
    console = Console()
    if parsed.once or not console.is_terminal:
        view.scan()
        _console_of_pipe(console).print(view.shown())
        return OK
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            view.try_scan()
            until = time.monotonic() + parsed.every
            live.update(view.shown(console.height), refresh=True)
            while (left := until - time.monotonic()) > 0:
                key = pressed(left)
                if key == "q":
                    return OK
                if key:
                    view.press(key)
                    live.update(view.shown(console.height), refresh=True)


class TopView:
    """The content of the terminal.

    Attributes:
        sort: the name of the column by which rows are sorted.
        is_ascending: whether the order is ascending.
    """

    def __init__(self, root: Root, *, rows: int = _ROWS) -> None:
        self._root = root
        self._rows = rows
        self._seen = WatchedEpochs(root, first=max(rows, _COURSE))
        self._tested: RestoreTestStatus | None = None
        self._noted: RecordedEpochs | None = None
        self._noted_s = 0.0
        self._slow: EpochInfo | None = None
        self._growth: str | None = None
        self._trouble = ""
        self.sort = "epoch"
        self.is_ascending = False

    def scan(self) -> None:
        """Reads new epochs. Raises as `WatchedEpochs.scan` does."""
        for _ in self._seen.scan():
            pass
        self._tested = last_restore_test(self._root.proofs())
        self._find_slow()
        self._trouble = ""

    def _find_slow(self) -> None:
        """Finds the last slow epoch among the shown ones."""
        if self._noted is None and self._seen.epochs:
            first = self._seen.epochs[0]
            self._noted = RecordedEpochs(self._root.objects, (first.generation, first.epoch - 1))
        elif time.monotonic() - self._noted_s < _NOTES_EVERY_S:
            return
        self._noted_s = time.monotonic()
        if self._noted is not None:
            noted = self._noted.scan()
            slow = [info for info in noted if info.slow is not None]
            self._slow = slow[-1] if slow else self._slow
            self._growth = noted[-1].in_flight_growth if noted else self._growth

    def try_scan(self) -> None:
        """Scans; an error is shown below the table, and the next scan tries again."""
        try:
            self.scan()
        except (CleancutError, OSError) as error:
            self._trouble = first_line(error)

    def press(self, key: str) -> None:
        """Handles a key: s sorts by the next column, r reverses the order."""
        if key == "s":
            self.sort = _NAMES[(_NAMES.index(self.sort) + 1) % len(_NAMES)]
        elif key == "r":
            self.is_ascending = not self.is_ascending

    def shown(self, height: int | None = None) -> "RenderableType":
        """The whole content; with a height, only as many rows as fit."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        facts = Table.grid(padding=(0, 2))
        for name, value in self._facts():
            facts.add_row(Text(name, style="bold"), Text(value))
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in _COLUMNS:
            mark = ("▲" if self.is_ascending else "▼") if column.name == self.sort else ""
            table.add_column(f"{column.name}{mark}", justify="right", no_wrap=True)
        for epoch in self._sorted()[: self._fitting(height)]:
            values = [(column, column.value(epoch)) for column in _COLUMNS]
            row = ["" if value is None else column.shown(value) for column, value in values]
            table.add_row(*row, style="yellow" if epoch.in_flight_rows else "")
        trouble = [Text(self._trouble, style="red")] if self._trouble else []
        return Group(facts, Text(""), table, *trouble)

    def _fitting(self, height: int | None) -> int:
        # Other lines: facts, an empty line, the header, and an error. A reason needs more.
        other_lines = (11 if self._slow is None else 15) + (self._growth is not None)
        return self._rows if height is None else max(min(self._rows, height - other_lines), 1)

    def _sorted(self) -> list[EpochInfo]:
        """The last epochs in order; epochs without a value come last in both orders."""
        (column,) = (each for each in _COLUMNS if each.name == self.sort)
        last = list(self._seen.epochs)[-self._rows :]
        known = [info for info in last if column.value(info) is not None]
        known.sort(key=lambda info: column.value(info) or 0.0, reverse=not self.is_ascending)
        return [*known, *(info for info in last if column.value(info) is None)]

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "checkpoint", self._root.location
        epochs = self._seen.epochs
        if not epochs:
            yield "epochs", "there is no cut yet"
            return
        last = epochs[-1]
        age_s = max(time.time() - last.written.timestamp(), 0)
        yield "last epoch", f"{last.epoch}, {_age(age_s)} ago, generation {last.generation}"
        yield "restore test", "none" if self._tested is None else str(self._tested)
        if self._slow is not None:
            yield f"epoch {self._slow.epoch} was slow", str(self._slow.slow)
        estimates = daily_costs(epochs, 0, PRICES)
        if estimates:
            costs = ", ".join(f"${cost.requests_usd:.2f} ({cost.store})" for cost in estimates)
            yield "requests a day", costs
        phase = longest_phase(last.phases)
        if phase is not None:
            yield "longest phase", f"{phase} of {last.duration_ms or 0:,} ms"
        if self._growth is not None:
            yield "growth", self._growth
        yield "time", _course([info.duration_ms for info in epochs], "ms")
        yield "in-flight rows", _course([info.in_flight_rows for info in epochs], "rows")


def _course(values: Sequence[int | None], unit: str) -> str:
    """The last values as bars, with the maximum and the last value as numbers."""
    last = values[-_COURSE:]
    known = [value for value in last if value is not None]
    if not known:
        return "unknown"
    top = max(known)
    steps = len(_LEVELS) - 1
    bars = "".join(
        " " if value is None else _LEVELS[-(-value * steps // top) if top else 0] for value in last
    )
    return f"{bars}  up to {top:,} {unit}, the last {known[-1]:,}"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _console_of_pipe(console: "Console") -> "Console":
    """A console with the width of other tables of the command in a pipe."""
    from rich.console import Console

    from cleancut._display.tables import width

    return console if console.is_terminal else Console(width=width(), file=sys.stdout)


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Returns the key that is pressed within a number of seconds, or an empty text."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([stdin], [], [], seconds)
        return os.read(stdin, 1).decode(errors="ignore") if ready else ""

    try:
        tty.setcbreak(stdin)
        yield pressed
    finally:
        with suppress(termios.error):
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
