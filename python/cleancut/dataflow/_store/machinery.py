"""What a simulation puts its own in the place of: time, chance, and what goes on at once."""

import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Requests wait most of their time; so many go on beside each other.
THREADS = 32


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="cleancut-flow")


@dataclass
class Machinery:
    """Clock, ids, and threads for requests, which are kept: to start them takes milliseconds."""

    _threads: ThreadPoolExecutor = field(default_factory=_pool)

    def now_ms(self) -> int:
        """Unix time."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Lets time go by."""
        time.sleep(seconds)

    def token(self) -> str:
        """32 hexadecimal digits that nothing else has."""
        return secrets.token_hex(16)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What a function returns for each item, in their order; all go on at once.

        It may not call this again, for then all threads might wait for threads.

        Raises:
            Exception: that of the first item of which it raises one, when all have ended.
        """
        waiting = [self._threads.submit(function, item) for item in items]
        done = [of.exception() for of in waiting]
        for error in done:
            if error is not None:
                raise error
        return [of.result() for of in waiting]

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False)
