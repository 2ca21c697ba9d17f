"""Drivers that take over from each other, and the comparison of their rows with the batch."""

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import pyarrow.parquet as pq

from cleancut import Checkpoint
from cleancut._storage.access import S3Options
from cleancut.sinks import EpochFiles
from cleancut.types import CutInfo
from demo.processes import ProcessTree
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.handover_driver import KEYS, PREPARED, TOOK_OVER, done_at, go_at, sink_at
from tests.support.kills import environment
from tests.support.patience import wait_until

# The number of epochs that a driver publishes before the next one takes over.
LEAD = 2
FILE_EVERY_S = 0.5
# A slow machine must not collect input that takes long at the end.
BACKLOG = 20


class Release:
    """The drivers of a query, the last of which is the newest version."""

    def __init__(
        self,
        root: Path,
        stack: ExitStack,
        location: str | None = None,
        **access: Unpack[S3Options],
    ) -> None:
        self.root, self._stack = root, stack
        self.location = location or str(root / "checkpoint")
        self._access = access
        self.input = CountedFiles(root, keys=KEYS)
        self.input.add()
        self.drivers: list[ProcessTree] = []
        self.logs: list[Path] = []

    def start(self, kind: str, *settings: str) -> int:
        """Starts a driver; returns its number."""
        command = [sys.executable, "-m", "tests.support.handover_driver", kind]
        command += [self.location, str(self.root), *settings]
        self.logs.append(self.root / f"{len(self.logs)}.log")
        tree = ProcessTree(command, env=environment(), log=self.logs[-1])
        self.drivers.append(self._stack.enter_context(tree))
        return len(self.drivers) - 1

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits while input arrives."""
        due = time.monotonic()

        def holds() -> bool:
            nonlocal due
            if time.monotonic() > due:
                due = time.monotonic() + FILE_EVERY_S
                if self.input.files < len(self.published()) + BACKLOG:
                    self.input.add()
            assert self.drivers[-1].exit_code() in (None, 0, -signal.SIGKILL), self.ends()[-1]
            return condition()

        wait_until(holds, otherwise=lambda: "\n".join(map(str, self.ends())))

    def wait_for_epochs(self) -> None:
        """Waits until the query has published some more epochs."""
        known = len(self.published())
        self.wait(lambda: len(self.published()) >= known + LEAD)

    def has_printed(self, driver: int, text: str) -> bool:
        return text in self.logs[driver].read_text()

    def is_running(self, driver: int) -> bool:
        return self.drivers[driver].exit_code() is None

    def has_ended(self, driver: int) -> bool:
        return not self.is_running(driver)

    def prepare(self, kind: str = "successor") -> int:
        """Starts a successor, which is prepared while the query runs."""
        go_at(self.root).unlink(missing_ok=True)
        driver = self.start(kind)
        self.wait(lambda: self.has_printed(driver, PREPARED))
        return driver

    def take_over(self, driver: int) -> None:
        go_at(self.root).touch()
        self.wait(lambda: self.has_printed(driver, TOOK_OVER))

    def published(self) -> list[int]:
        return [info.epoch for info in sink_at(self.root).epochs()]

    def end(self) -> None:
        """Lets all drivers end, and compares the published rows with the batch answer."""
        done_at(self.root).touch()
        wait_until(lambda: not any(map(self.is_running, range(len(self.drivers)))))
        epochs = [cut.epoch for cut in self._cuts()]
        assert epochs == list(range(epochs[0], epochs[-1] + 1))
        assert self.published() == list(range(epochs[-1] + 1))
        keys = [(37 * file + i) % KEYS for file in range(self.input.files) for i in range(ROWS)]
        assert newest(sink_at(self.root), "k", "count") == dict(Counter(keys))

    def generations(self) -> list[int]:
        return [cut.generation for cut in self._cuts()]

    def _cuts(self) -> list[CutInfo]:
        return list(Checkpoint(self.location, **self._access).cuts())

    def ends(self) -> list[str]:
        """Returns the last line of each driver, which has the error that ended it."""
        return [(log.read_text().splitlines() or [""])[-1] for log in self.logs]


def newest(sink: EpochFiles, key: str, value: str) -> dict[Any, int]:
    """Returns the newest value of each key; a value that is not greater than the one before it is
    an error.
    """
    *_, (_, last) = prefixes(sink, key, value)
    return last


def prefixes(sink: EpochFiles, key: str, value: str) -> Iterator[tuple[int, dict[Any, int]]]:
    """Yields each published epoch with the newest value of each key after it, as `newest`."""
    newest: dict[Any, int] = {}
    paths = [path.removeprefix("file:") for path in sink.paths()]
    for published in sink.epochs():
        attempt = f"/cleancut_attempt={published.epoch:020}-"
        rows = [row for path in paths if attempt in path for row in pq.read_table(path).to_pylist()]
        assert len({row[key] for row in rows}) == len(rows) == published.rows
        for row in rows:
            assert row[value] > newest.get(row[key], 0)
        newest |= {row[key]: row[value] for row in rows}
        yield published.epoch, dict(newest)
