"""Python functions whose state expires in processing time, in each form that PySpark has.

A function emits a row for each call: "rows" or "expired", the number of rows of the key so far, and
the names of the states with TTL that had not expired.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from cleancut.testing import Block
from tests.support.lines import ROWS_OF_PROCESSORS

SCHEMA = "k long, n long"
OUTPUT = "k long, what string, n long, kept string"
BLOCKED_KEY, OTHER_KEY = 0, 9
# Expires before the next epoch begins.
_EXPIRY_MS = 1


def _process(block: Block, key: int, number: int) -> None:
    """Processes one row. Rows of the blocked key wait, except for the first row."""
    if key == BLOCKED_KEY and number > 0:
        block.wait()


def with_timeout(rows: DataFrame, block: Block) -> DataFrame:
    """Uses `applyInPandasWithState` with a timeout of each key."""

    def count(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        counted = state.get[0] if state.exists else 0
        if state.hasTimedOut:
            state.remove()
            yield _frame(key, "expired", counted)
            return
        for frame in frames:
            for number in frame["n"]:
                _process(block, key[0], number)
            counted += len(frame)
        state.update((counted,))
        state.setTimeoutDuration(_EXPIRY_MS)
        yield _frame(key, "rows", counted)

    timeout = GroupStateTimeout.ProcessingTimeTimeout
    return rows.groupBy("k").applyInPandasWithState(count, OUTPUT, "n long", "append", timeout)


def _frame(key: tuple[Any, ...], what: str, count: int, kept: str = "") -> pd.DataFrame:
    return pd.DataFrame({"k": [key[0]], "what": [what], "n": [count], "kept": [kept]})


class _Counter(StatefulProcessor):
    """Counts the rows of each key, with a timer or with state that has a TTL."""

    def __init__(self, block: Block, *, has_ttl: bool) -> None:
        self.block = block
        self.has_ttl = has_ttl

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n long")
        if self.has_ttl:
            self._value = handle.getValueState("value", "n long", _EXPIRY_MS)
            self._list = handle.getListState("list", "n long", _EXPIRY_MS)
            self._map = handle.getMapState("map", "n long", "n long", _EXPIRY_MS)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        kept = self._kept() if self.has_ttl else ""
        counted = self._counted()
        for number in self._numbers(rows):
            _process(self.block, key[0], number)
            counted += 1
        self._count.update((counted,))
        if self.has_ttl:
            self._value.update((counted,))
            self._list.put([(counted,)])
            self._map.updateValue((0,), (counted,))
        else:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + _EXPIRY_MS)
        yield self._emitted(key, "rows", counted, kept)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        yield self._emitted(key, "expired", self._counted(), "")

    def _counted(self) -> int:
        count = self._count.get()
        return int(count[0]) if count is not None else 0

    def _kept(self) -> str:
        states: dict[str, Any] = {"value": self._value, "list": self._list, "map": self._map}
        return " ".join(name for name, state in states.items() if state.exists())

    @abstractmethod
    def _numbers(self, rows: Any) -> Iterable[int]:
        """The number of each row."""

    @abstractmethod
    def _emitted(self, key: Any, what: str, count: int, kept: str) -> Any:
        """An output of the function, in the form that Spark expects."""


class _RowCounter(_Counter):
    def _numbers(self, rows: Any) -> Iterable[int]:
        return (row.n for row in rows)

    def _emitted(self, key: Any, what: str, count: int, kept: str) -> Any:
        return Row(k=key[0], what=what, n=count, kept=kept)


class _FrameCounter(_Counter):
    def _numbers(self, rows: Any) -> Iterable[int]:
        return (number for frame in rows for number in frame["n"])

    def _emitted(self, key: Any, what: str, count: int, kept: str) -> Any:
        return _frame(key, what, count, kept)


def _in_pandas(*, has_ttl: bool) -> Callable[[DataFrame, Block], DataFrame]:
    return lambda rows, block: rows.groupBy("k").transformWithStateInPandas(
        _FrameCounter(block, has_ttl=has_ttl), OUTPUT, "append", "processingTime"
    )


def _in_rows(*, has_ttl: bool) -> Callable[[DataFrame, Block], DataFrame]:
    return lambda rows, block: rows.groupBy("k").transformWithState(
        _RowCounter(block, has_ttl=has_ttl), OUTPUT, "append", "processingTime"
    )


# Functions that report an expired key.
EXPIRING: dict[str, Callable[[DataFrame, Block], DataFrame]] = {
    "applyInPandasWithState": with_timeout,
    "transformWithStateInPandas": _in_pandas(has_ttl=False),
    **({"transformWithState": _in_rows(has_ttl=False)} if ROWS_OF_PROCESSORS.is_here else {}),
}
# Functions with a value, a list and a map that have a TTL.
WITH_TTL: dict[str, Callable[[DataFrame, Block], DataFrame]] = {
    "transformWithStateInPandas": _in_pandas(has_ttl=True),
    **({"transformWithState": _in_rows(has_ttl=True)} if ROWS_OF_PROCESSORS.is_here else {}),
}
