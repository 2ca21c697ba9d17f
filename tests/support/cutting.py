"""Orders cuts of a query while a test runs it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import coordinator
from cleancut.testing import Block
from tests.support.patience import wait_until

_CLASS = "org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.OvertakeWatch$"
# The Scala compiler's name of a private field that inner classes use.
_WATCHES = f"{_CLASS.replace('.', '$')}$watches"


@contextmanager
def cut_by_hand(
    query: StreamingQuery,
    *,
    every_s: float,
    at_most: int | None = None,
    when: Callable[[], bool] = lambda: True,
) -> Iterator[list[float]]:
    """Orders cuts while the block runs; yields the times of the orders.

    Args:
        query: a running query.
        every_s: seconds between two orders, and before the first.
        at_most: the maximum number of cuts; by default unlimited.
        when: returns before each order whether to give it now.
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


def cut_at(block: Block, query: StreamingQuery) -> None:
    """Cuts the epoch in which a task is blocked, and releases the block after the task knows it."""
    wait_until(lambda: block.is_reached or not query.isActive)
    assert query.isActive, query.exception()
    assert coordinator(query).cut_now()
    wait_until_overtaken(query)
    block.release()


def wait_until_overtaken(query: StreamingQuery) -> None:
    """Waits until a task knows that it is overtaken.

    The task must run in the driver's process or in a Python worker of it.
    """
    wait_until(lambda: not query.isActive or _knows_overtaken_task(query))
    assert query.isActive, query.exception()


def _knows_overtaken_task(query: StreamingQuery) -> bool:
    jvm = SparkContext._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    field = loader.loadClass(_CLASS).getDeclaredField(_WATCHES)
    field.setAccessible(True)
    return any(
        attempt.getValue().sinceNs().isDefined()
        for watched in field.get(None).entrySet()
        if watched.getKey().productElement(1) == str(query.runId)
        for attempt in watched.getValue().flags().entrySet()
    )
