"""Stops the code of a sink at any of its lines: for good, as a crash does, or for a while."""

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
    """The process has died here, as far as the sink can tell; no `except Exception` takes it."""


class Lines:
    """Counts the lines that the code of a sink goes through, and does something at one of them.

    Only the thread that enters the block is looked at. The code of a sink is the file that its
    class or function stands in, and this package's own sinks.

    Attributes:
        passed: how many lines it has gone through.
    """

    def __init__(self, sink: object, at: int = 0, act: Callable[[], None] = lambda: None) -> None:
        """Takes a line.

        Args:
            sink: whose code it is.
            at: at which line, counted from 1; 0 is none.
            act: what is done there.
        """
        self.passed = 0
        self._at = at
        self._act = act
        code = inspect.unwrap(sink) if callable(sink) else sink
        told = code if inspect.isfunction(code) else type(code)
        try:
            self._own = inspect.getsourcefile(told)
        except TypeError:
            self._own = None
        self._before: Any = None

    def __enter__(self) -> "Lines":
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if name != self._own and not name.startswith(str(_SINKS)):
            return None
        if event == "line":
            self.passed += 1
            if self.passed == self._at:
                self._act()
        return self._trace


def crash() -> None:
    """What `Lines` does for a process that dies."""
    raise SimulatedCrash


class Pause:
    """A line at which a thread waits until it is told to go on, or for some seconds at most."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._reached = threading.Event()
        self._goes_on = threading.Event()

    def __call__(self) -> None:
        """Waits, in the thread that has come to the line."""
        self._reached.set()
        # Not for ever: what it holds may be what the other one waits for.
        self._goes_on.wait(self._longest_s)

    def wait_for(self, thread: threading.Thread) -> None:
        """Waits, in another thread, until that one has come to the line, or has ended."""
        while thread.is_alive() and not self._reached.wait(0.02):
            pass

    def go_on(self) -> None:
        """Has the thread go on."""
        self._goes_on.set()
