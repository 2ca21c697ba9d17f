"""Functions with state that report all that they receive, for comparisons of two ways to call them.

What a function does for a key is random, from a seed of the key and the epoch's rows.
"""

import random
import traceback
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "k string, seen string"
# A value of each type, with nulls where the generator decides.
INPUT = (
    "k string, n long, i int, s short, b byte, f float, d double, t boolean, w string, "
    "day date, at timestamp, dec decimal(12,3), bin binary, arr array<int>, "
    "st struct<x: int, y: string>, m map<string, int>, `a b` int, ts timestamp"
)


def _of(value: Any) -> str:
    """Value and types."""
    if isinstance(value, pd.DataFrame):
        columns = [_of(list(value.iloc[:, i])) for i in range(value.shape[1])]
        kinds = [str(dtype) for dtype in value.dtypes]
        return f"{type(value.index).__name__} {list(value.columns)} {kinds} {columns}"
    if isinstance(value, list | tuple) and not isinstance(value, Row):
        return f"{type(value).__name__}({', '.join(map(_of, value))})"
    return f"{type(value).__name__}:{value!r}"


def _seed(*values: object) -> random.Random:
    return random.Random(zlib.crc32(repr(values).encode()))


def record_loop(directory: str) -> None:
    """Creates a file with the name of the loop that called the function: cleancut or pyspark."""
    files = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(None))
    is_ours = any("/cleancut/worker/group_" in name for name in files)
    (Path(directory) / ("cleancut" if is_ours else "pyspark")).touch()


class Everything(StatefulProcessor):
    """Uses all kinds of state at random, and reports what it finds.

    Args:
        is_pandas: whether it yields DataFrames.
        has_timers: whether the time mode allows timers.
        ttl_ms: time to live of one variable, if the time mode allows it.
        loops: directory for `record_loop`.
    """

    def __init__(
        self, *, is_pandas: bool, has_timers: bool, ttl_ms: int | None, loops: str
    ) -> None:
        self._is_pandas = is_pandas
        self._has_timers = has_timers
        self._ttl_ms = ttl_ms
        self._loops = loops

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state."""
        self._handle = handle
        self._value = handle.getValueState("value", "n long, w string", self._ttl_ms)
        self._other = handle.getValueState("other", "n long")
        self._list = handle.getListState("list", "n long, w string")
        self._map = handle.getMapState("map", "u string", "n long")

    # PySpark's name.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Reports rows and state, and changes the state."""
        seen = []
        rows = iter(rows)
        for row in rows:
            seen.append(_of(row))
            # Some functions do not read all rows.
            if zlib.crc32(seen[-1].encode()) % 11 == 0:
                break
        chosen = _seed(key, seen)
        yield self._row(key, f"{_of(key)} {seen}")
        # State is used before and after a result.
        yield self._row(key, self._use_state(chosen))
        yield self._row(key, self._use_state(chosen))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Reports the timer and state."""
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield self._row(key, f"timer {at} {self._use_state(_seed(key, at))}")

    def _row(self, key: Any, seen: str) -> Any:
        if self._is_pandas:
            return pd.DataFrame({"k": [key[0]], "seen": [seen]})
        return Row(k=key[0], seen=seen)

    def _use_state(self, chosen: random.Random) -> str:
        # Most keys read the same variables first, and some do not.
        calls = ["value.get", "list.get"] if chosen.random() < 0.8 else []
        calls += chosen.choices(list(self._calls(chosen)), k=chosen.randrange(6))
        return " ".join(f"{call}={_of(self._calls(chosen)[call]())}" for call in calls)

    def _calls(self, chosen: random.Random) -> dict[str, Any]:
        n, word = chosen.randrange(1000), chosen.choice("abc")
        rows = [(i, word * i) for i in range(chosen.choice((0, 1, 3, 150)))]
        calls: dict[str, Any] = {
            "value.get": self._value.get,
            "value.exists": self._value.exists,
            "value.update": lambda: self._value.update((n, word)),
            "value.clear": self._value.clear,
            "other.get": self._other.get,
            "other.update": lambda: self._other.update((n,)),
            "list.get": lambda: list(self._list.get()),
            "list.exists": self._list.exists,
            "list.put": lambda: self._list.put(rows) if rows else None,
            "list.append": lambda: self._list.appendValue((n, word)),
            "list.appendList": lambda: self._list.appendList(rows) if rows else None,
            "list.clear": self._list.clear,
            "map.get": lambda: self._map.getValue((word,)),
            "map.contains": lambda: self._map.containsKey((word,)),
            "map.update": lambda: self._map.updateValue((word,), (n,)),
            "map.remove": lambda: self._map.removeKey((word,)),
            "map.items": lambda: sorted(self._map.iterator()),
            "map.keys": lambda: sorted(self._map.keys()),
            "map.clear": self._map.clear,
        }
        if self._has_timers:
            calls |= {
                "timers": lambda: sorted(self._handle.listTimers()),
                "timer": lambda: self._handle.registerTimer(n * 100),
                "timer.delete": lambda: self._handle.deleteTimer(n * 100),
            }
        return calls

    def close(self) -> None:
        """Records the loop; PySpark also calls it on the driver."""
        if TaskContext.get() is not None:
            record_loop(self._loops)


def grouped(
    key: Any, frames: Iterable[pd.DataFrame], state: Any, *, loops: str
) -> Iterator[pd.DataFrame]:
    """A function for `applyInPandasWithState` with the state `text string, count long`."""
    record_loop(loops)
    before = state.get if state.exists else None
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "seen": [f"timeout {_of(key)} {before} {list(frames)}"]})
        return
    seen = []
    for frame in frames:
        seen.append(_of(frame))
        yield pd.DataFrame({"k": [key[0]], "seen": [f"{_of(key)} {before} {seen[-1]}"]})
    chosen = _seed(key, seen)
    if chosen.random() < 0.8:
        state.update((seen[-1][:20], chosen.randrange(1000)))
    elif state.exists:
        state.remove()
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1 + chosen.randrange(20_000))
    if chosen.random() < 0.3:
        yield pd.DataFrame({"k": [], "seen": []})
