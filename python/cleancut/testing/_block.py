"""A row that blocks a task until it is released."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cleancut._brief import Brief
from cleancut.testing._slow import after, called

if TYPE_CHECKING:
    from pyspark.sql import Column

_CLASS = "io.cleancut.testing.BlockedRow"
_REACHED = "reached"
_RELEASED = "released"
_POLL_S = 0.01


@dataclass(frozen=True, repr=False)
class Block(Brief):
    """Blocks the tasks that reach it, in any process, until it is released.

    It consists of two files in a directory, so it can be passed to Python workers and outlives the
    driver.

    Attributes:
        directory: created if it does not exist; it must be shared by all executors.
        timeout_s: maximum time for which a task is blocked. It fails then, so that a test without
            a release ends.
    """

    directory: Path
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", Path(self.directory).resolve())
        self.directory.mkdir(parents=True, exist_ok=True)

    def at(self, column: "Column | str", *, when: "Column | None" = None) -> "Column":
        """A column with the values of another one, of which some block until the release.

        It needs the jar of Cleancut on the executors. Its position in the plan defines which task
        is blocked, as with `slow`: all rows before the first blocked one have passed the operators
        upstream.

        Args:
            column: the column with the values.
            when: rows that block; None is all.
        """
        timeout_ms = int(self.timeout_s * 1000)
        return after(called(_CLASS, "await", str(self.directory), timeout_ms), column, when)

    def wait(self) -> None:
        """Blocks the caller, for Python functions in a query.

        Raises:
            TimeoutError: it was not released in time.
        """
        (self.directory / _REACHED).touch()
        self._await(_RELEASED, self.timeout_s, "was not released")

    def wait_until_reached(self, timeout_s: float = 60.0) -> None:
        """Waits until a task is blocked, or was.

        Raises:
            TimeoutError: no task reached it in time.
        """
        self._await(_REACHED, timeout_s, "was not reached by any row")

    @property
    def is_reached(self) -> bool:
        """Whether a task is blocked, or was."""
        return (self.directory / _REACHED).exists()

    def release(self) -> None:
        """Releases all blocked tasks, and later ones."""
        (self.directory / _RELEASED).touch()

    def _await(self, name: str, timeout_s: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not (self.directory / name).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"The block {self.directory} {otherwise} in {timeout_s} s.")
            time.sleep(_POLL_S)
