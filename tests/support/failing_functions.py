"""Functions with state that fail at a chosen point, for comparisons of two ways to call them."""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "k string, n long"
FAILING_KEY = "k3"
# Before the first row is read, while rows are read, after a result, in other methods, with a result
# of the wrong type, columns or values, and in a state request.
POINTS = (
    *("call", "rows", "result", "stop", "init", "close", "timer"),
    *("not iterable", "wrong type", "wrong columns", "wrong value", "single frame"),
    *("no tuple", "not picklable", "empty list"),
)
# The state server reports these, and Cleancut reads its responses later.
DEFERRED = ("empty list",)


class Failing(StatefulProcessor):
    """Counts rows, and fails at a point for one key.

    Args:
        point: one of `POINTS`.
        is_pandas: whether it yields DataFrames.
    """

    def __init__(self, point: str, *, is_pandas: bool) -> None:
        self._point = point
        self._is_pandas = is_pandas

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state."""
        self._fail("init")
        self._handle = handle
        self._value = handle.getValueState("value", "n long")
        self._list = handle.getListState("list", "n long")

    # PySpark's name. It returns what a function of a user may return by mistake.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: Any,  # noqa: N803
    ) -> Any:
        """Returns the number of rows, or fails."""
        if key[0] != FAILING_KEY:
            return self._counts(key, rows, "")
        self._fail("call")
        if self._point == "not iterable":
            return 1
        if self._point == "single frame":
            return pd.DataFrame({"k": ["a"], "n": [1]})
        return self._counts(key, rows, self._point)

    def _counts(self, key: Any, rows: Iterable[Any], point: str) -> Iterator[Any]:
        count = 0
        for part in rows:
            if point == "rows":
                raise ValueError("while rows are read")
            count += len(part) if self._is_pandas else 1
        (before,) = self._value.get() or (0,)
        if point == "no tuple":
            self._value.update(None)  # type: ignore[arg-type]
        if point == "not picklable":
            self._value.update((lambda: 1,))
        if point == "empty list":
            self._list.put([])
            self._list.exists()
        self._value.update((before + count,))
        if point == "timer":
            self._handle.registerTimer(1)
        yield from self._results(key, count, point)

    def _results(self, key: Any, count: int, point: str) -> Iterator[Any]:
        if point == "wrong type":
            yield "text"
        elif point == "wrong columns":
            yield self._row(k=key[0], n=count, other=1)
            yield self._row(other=1)
        elif point == "wrong value":
            yield self._row(k=key[0], n="text")
        yield self._row(k=key[0], n=count)
        if point == "result":
            raise ValueError("after a result")
        if point == "stop":
            next(iter(()))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Fails."""
        self._fail("timer")
        yield self._row(k=key[0], n=0)

    def close(self) -> None:
        """Fails, if this is the point."""
        self._fail("close")

    def _fail(self, point: str) -> None:
        # PySpark also calls `init` and `close` on the driver.
        if self._point == point and TaskContext.get() is not None:
            raise ValueError(f"in {point}")

    def _row(self, **values: Any) -> Any:
        if not self._is_pandas:
            return Row(**values)
        return pd.DataFrame({name: [value] for name, value in values.items()})


# As above, for `applyInPandasWithState`.
GROUPED_POINTS = (
    *("call", "rows", "result", "stop", "not iterable", "single frame"),
    *("wrong type", "wrong columns", "wrong value", "not picklable"),
)


def grouped(key: Any, frames: Iterable[pd.DataFrame], state: Any, *, point: str) -> Any:
    """Counts rows in a state of one number, and fails at a point for one key."""
    if key[0] != FAILING_KEY:
        return _grouped_counts(key, frames, state, "")
    if point == "call":
        raise ValueError("in call")
    if point == "not iterable":
        return 1
    if point == "single frame":
        return pd.DataFrame({"k": ["a"], "n": [1]})
    return _grouped_counts(key, frames, state, point)


def _grouped_counts(
    key: Any, frames: Iterable[pd.DataFrame], state: Any, point: str
) -> Iterator[Any]:
    count = 0
    for frame in frames:
        if point == "rows":
            raise ValueError("while rows are read")
        count += len(frame)
    state.update((lambda: 1,) if point == "not picklable" else (count,))
    if point == "wrong type":
        yield "text"
    if point == "wrong columns":
        yield pd.DataFrame({"k": [key[0]], "n": [count], "other": [1]})
    yield pd.DataFrame({"k": [key[0]], "n": ["text" if point == "wrong value" else count]})
    if point == "result":
        raise ValueError("after a result")
    if point == "stop":
        next(iter(()))
