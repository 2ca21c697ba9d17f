"""A thread that polls."""

import threading
from collections.abc import Callable
from typing import Self

_POLL_S = 0.05


class Poller:
    """Calls a function repeatedly while its context lasts.

    Attributes:
        polls: the number of calls.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self.polls = 0
        self._look = look
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread; raises its exception."""
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def look(self) -> None:
        """Calls the function once."""
        self._look()
        self.polls += 1

    def _poll(self) -> None:
        try:
            while not self._is_over.wait(_POLL_S):
                self.look()
        except Exception as failure:
            # The exception of a thread would not fail the run.
            self._failure = failure
