"""Stops the code of a sink at any of its lines: forever, as a crash does, or for a while."""

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import cleancut.sinks

_SINKS = Path(cleancut.sinks.__file__).parent


class SimulatedCrash(BaseException):
    """A simulated kill of the process; `except Exception` does not catch it."""


class Lines:
    """Counts the executed lines of a sink's code, and calls a function at one of them.

    Only the thread that enters the block is traced. The code of a sink is the file of its class or
    function, and this package's own sinks.

    Attributes:
        passed: number of executed lines.
    """

    def __init__(
        self, sink: object, at: int = 0, action: Callable[[], None] = lambda: None
    ) -> None:
        """Selects a line.

        Args:
            sink: the sink whose code is traced.
            at: number of the line, from 1; 0 is none.
            action: function that is called at the line.
        """
        self.passed = 0
        self._at = at
        self._change = action
        code = inspect.unwrap(sink) if callable(sink) else sink
        traced = code if inspect.isfunction(code) else type(code)
        try:
            self._sources = inspect.getsourcefile(traced)
        except TypeError:
            self._sources = None
        self._before: Any = None

    def __enter__(self) -> "Lines":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if name != self._sources and not name.startswith(str(_SINKS)):
            return None
        if event == "line":
            self.passed += 1
            if self.passed == self._at:
                self._change()
        return self._trace


def crash() -> None:
    """Simulates a kill at a line of `Lines`."""
    raise SimulatedCrash


class Pause:
    """A line at which a thread waits until it is resumed, or for some seconds at most."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._reached = threading.Event()
        self._resumed = threading.Event()

    def __call__(self) -> None:
        """Waits, in the thread that has reached the line."""
        self._reached.set()
        # Limited, because the other thread may wait for a lock of this one.
        self._resumed.wait(self._longest_s)

    def wait_for(self, thread: threading.Thread) -> None:
        """Waits, in another thread, until the first one has reached the line or has ended."""
        while thread.is_alive() and not self._reached.wait(0.02):
            pass

    def resume(self) -> None:
        """Resumes the waiting thread."""
        self._resumed.set()
