"""Clock, randomness and concurrency, which a simulation replaces."""

import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Requests mostly wait; this number of them run concurrently.
THREADS = 32


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="cleancut-flow")


@dataclass
class Machinery:
    """Clock, ids, and a thread pool for requests, kept because starting threads takes time."""

    _threads: ThreadPoolExecutor = field(default_factory=_pool)

    def now_ms(self) -> int:
        """The Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(seconds)

    def token(self) -> str:
        """32 hexadecimal digits, unique."""
        return secrets.token_hex(16)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """The results of a function for each item, in order; the calls run concurrently.

        The function must not call this method, or all threads could wait for threads.

        Raises:
            Exception: the first error by item, after all calls have ended.
        """
        waiting = [self._threads.submit(function, item) for item in items]
        done = [future.exception() for future in waiting]
        for error in done:
            if error is not None:
                raise error
        return [future.result() for future in waiting]

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False)
