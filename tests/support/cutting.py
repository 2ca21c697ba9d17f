"""Cuts a query by hand while a test runs it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql.streaming.query import StreamingQuery

from cleancut import coordinator


@contextmanager
def cut_by_hand(
    query: StreamingQuery,
    *,
    every_s: float,
    at_most: int | None = None,
    when: Callable[[], bool] = lambda: True,
) -> Iterator[list[float]]:
    """Orders cuts as long as the block runs; gives the times of the orders.

    Args:
        query: one that runs.
        every_s: seconds between two orders, and before the first.
        at_most: how many, if not as many as there is time for.
        when: asked before each order, whether this is a moment for one.
    """
    cuts: list[float] = []
    done = threading.Event()

    def cut() -> None:
        while (at_most is None or len(cuts) < at_most) and not done.wait(every_s):
            if when():
                cuts.append(time.time())
                coordinator(query).cut_now()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        yield cuts
    finally:
        done.set()
        cutter.join()
