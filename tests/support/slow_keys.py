"""Stateful operators in Python with one slow key, in each form that PySpark has.

Each row comes out once, with the number of rows of its key until then, and when it was processed.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from tests.support.lines import ROWS_OF_PROCESSORS

SCHEMA = "k long, n long, t double"
OUTPUT = "k long, n long, c long, at double"
SLOW_KEY = 0
_LATELY_S = 0.5


@dataclass(frozen=True)
class Pace:
    """The processing of the rows of the slow key.

    Attributes:
        seconds: the duration of one row.
        met: a file that each row touches, on the machine of the test.
    """

    seconds: float
    met: str | None = None

    def is_met(self) -> bool:
        """Whether such a row was processed lately."""
        try:
            return self.met is not None and time.time() - Path(self.met).stat().st_mtime < _LATELY_S
        except FileNotFoundError:
            return False

    def spend(self, key: int) -> float:
        """Processes one row of the key; returns the time afterwards."""
        if key == SLOW_KEY:
            if self.met is not None:
                Path(self.met).touch()
            time.sleep(self.seconds)
        return time.time()


def _numbered(key: int, rows: pd.DataFrame, count: int, pace: Pace) -> pd.DataFrame:
    at = [pace.spend(key) for _ in range(len(rows))] if pace.seconds else time.time()
    counts = range(count + 1, count + 1 + len(rows))
    return pd.DataFrame({"k": key, "n": rows["n"].to_numpy(), "c": counts, "at": at})


def groups(rows: DataFrame, pace: Pace, *, late: bool = False, output: str = "update") -> DataFrame:
    """Uses `applyInPandasWithState` at the given pace.

    With `late` it drops rows before the watermark; `output` is Spark's output mode.
    """

    def count(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        counted = state.get[0] if state.exists else 0
        for frame in frames:
            yield _numbered(key[0], frame, counted, pace)
            counted += len(frame)
        state.update((counted,))

    timeouts = GroupStateTimeout.EventTimeTimeout if late else GroupStateTimeout.NoTimeout
    return rows.groupBy("k").applyInPandasWithState(count, OUTPUT, "c long", output, timeouts)


class _Counter(StatefulProcessor):
    def __init__(self, pace: Pace) -> None:
        self.pace = pace

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "c long")

    def counted(self) -> int:
        value = self._count.get()
        return int(value[0]) if value is not None else 0


class _Frames(_Counter):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        counted = self.counted()
        for frame in rows:
            yield _numbered(key[0], frame, counted, self.pace)
            counted += len(frame)
        self._count.update((counted,))


class _Rows(_Counter):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        counted = self.counted()
        for row in rows:
            counted += 1
            yield Row(k=key[0], n=row.n, c=counted, at=self.pace.spend(key[0]))
        self._count.update((counted,))


def frames(rows: DataFrame, pace: Pace, *, late: bool = False, output: str = "update") -> DataFrame:
    """Uses `transformWithStateInPandas` like `groups`."""
    time_mode = "eventTime" if late else "none"
    return rows.groupBy("k").transformWithStateInPandas(_Frames(pace), OUTPUT, output, time_mode)


def single_rows(
    rows: DataFrame, pace: Pace, *, late: bool = False, output: str = "update"
) -> DataFrame:
    """Uses `transformWithState` like `groups`."""
    time_mode = "eventTime" if late else "none"
    return rows.groupBy("k").transformWithState(_Rows(pace), OUTPUT, output, time_mode)


def failing_once(rows: DataFrame) -> DataFrame:
    """Returns the same rows; the first attempt of a task with slow rows fails after them."""

    def passed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        has_slow = False
        for frame in frames:
            has_slow |= bool((frame["k"] == SLOW_KEY).any())
            yield frame
        task = TaskContext.get()
        if has_slow and task is not None and task.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    return rows.mapInPandas(passed, OUTPUT)


FORMS: dict[str, Callable[..., DataFrame]] = {
    "applyInPandasWithState": groups,
    "transformWithStateInPandas": frames,
    **({"transformWithState": single_rows} if ROWS_OF_PROCESSORS.is_here else {}),
}
