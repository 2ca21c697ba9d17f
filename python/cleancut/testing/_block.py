"""A row at which a task stands still until it is told to go on."""

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
    """Holds the tasks that come to it, in whatever process they are, until it is released.

    It is two files in a directory, so it may be handed to Python workers and outlives the driver.

    Attributes:
        directory: made here if it is not there; on a path that all executors share.
        timeout_s: how long a task is held at most. It fails then, so that a test which forgets
            to release ends.
    """

    directory: Path
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", Path(self.directory).resolve())
        self.directory.mkdir(parents=True, exist_ok=True)

    def at(self, column: "Column | str", *, when: "Column | None" = None) -> "Column":
        """A column with the values of another one, some of which come once this is released.

        It needs the jar of Cleancut on the executors. Where it stands decides which task is held,
        as with `slow`: all rows before the first one held have gone through what lies before it.

        Args:
            column: whose values it has.
            when: rows that are held; all of them if left out.
        """
        timeout_ms = int(self.timeout_s * 1000)
        return after(called(_CLASS, "await", str(self.directory), timeout_ms), column, when)

    def wait(self) -> None:
        """Holds the caller: for functions in Python that a query calls.

        Raises:
            TimeoutError: it was not released in time.
        """
        (self.directory / _REACHED).touch()
        self._await(_RELEASED, self.timeout_s, "was not released")

    def wait_until_reached(self, timeout_s: float = 60.0) -> None:
        """Waits until a task is held, or was.

        Raises:
            TimeoutError: none came in time.
        """
        self._await(_REACHED, timeout_s, "was not reached by any row")

    @property
    def is_reached(self) -> bool:
        """Whether a task is held, or was."""
        return (self.directory / _REACHED).exists()

    def release(self) -> None:
        """Lets all go on that are held, and those that come later."""
        (self.directory / _RELEASED).touch()

    def _await(self, name: str, timeout_s: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not (self.directory / name).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"The block {self.directory} {otherwise} in {timeout_s} s.")
            time.sleep(_POLL_S)
