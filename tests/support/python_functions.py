"""The functions of randomized Python queries, in each form that PySpark has.

They return an event for each call ("open"), each result of a row ("row") and each timer or timeout
("timer"), with the results of the steps on their state.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from tests.support.python_steps import (
    GROUP_SCHEMA,
    LIST_SCHEMA,
    MAP_KEY_SCHEMA,
    MAP_SCHEMA,
    OTHER_SCHEMA,
    VALUE_SCHEMA,
    Program,
    Step,
    equal_keys,
    named,
    shown,
)
from tests.support.state_functions import record_loop

OUTPUT = "k string, what string, n long, i int, at long, seen string"
NESTED = ", more array<long>"
PLANNED = "a planned failure of the function"
# In `applyInPandasWithState` a function does not receive the time of its timeout.
NO_TIMER = -1
_COLUMNS = ["k", "what", "n", "i", "at", "seen"]
_MARKER_AGE_S = 0.15


@dataclass(frozen=True)
class Conditions:
    """Conditions of a function.

    Attributes:
        work: a directory for markers, on the machine of the test.
        slow_key: the key whose rows take longer.
        pause_s: the duration of a row of this key in seconds.
        failures: the number of times that the function fails, by key and row.
        mutates: whether it changes its arguments and results after their use.
        is_nested: whether its results have a column with an array.
    """

    work: Path
    slow_key: str
    pause_s: float
    failures: tuple[tuple[str, int, int], ...]
    mutates: bool
    is_nested: bool

    def spend(self, key: str) -> None:
        """Processes a row, and records the process if the key is the slow one."""
        if key == self.slow_key:
            (self.work / "process").write_text(f"{os.getpid()}", encoding="ascii")
            time.sleep(self.pause_s)

    def running_process(self) -> int | None:
        """Returns the process that has processed a row of the slow key lately."""
        path = self.work / "process"
        try:
            is_recent = time.time() - path.stat().st_mtime < _MARKER_AGE_S
            return int(path.read_text("ascii")) if is_recent else None
        except (FileNotFoundError, ValueError):
            return None

    def fail(self, key: str, row: int) -> None:
        """Fails if a failure at this row is planned and has not occurred yet."""
        for failing_key, failing_row, times in self.failures:
            if (failing_key, failing_row) == (key, row):
                for time_of_failure in range(times):
                    if self._is_first(f"failed-{failing_row}-{times}-{time_of_failure}"):
                        raise RuntimeError(PLANNED)

    def failed(self) -> int:
        """Returns the number of planned failures that occurred."""
        return len(list(self.work.glob("failed-*")))

    def _is_first(self, marker: str) -> bool:
        try:
            (self.work / marker).open("x").close()
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class Received:
    """A row of the input: its number, time in milliseconds, text, and whether it is the last."""

    row: int
    at: int
    text: str
    is_last: bool


@dataclass(frozen=True)
class Function:
    """What all forms have in common."""

    program: Program
    conditions: Conditions

    def call(
        self, key: Sequence[Any], rows: Iterable[Received], state: Any, at: int
    ) -> Iterator[tuple[Any, ...]]:
        """The events of a call at a time in milliseconds."""
        name = named(key)
        same = equal_keys(name)
        is_open = False
        for received in rows:
            row, row_at = received.row, received.at if self.program.has_event_time else at
            if not is_open:
                is_open = True
                yield name, "open", row, 0, at, state.run(self.program.opening(same, row))
            self.conditions.spend(same)
            results = self.program.results_of(same, row, row_at, is_last=received.is_last)
            for i, steps in enumerate(results):
                yield name, "row", row, i, at, f"{state.run(steps)} {received.text}"
            self.conditions.fail(same, row)
            if not received.is_last:
                state.run(self.program.rest(same, row, row_at))
            if self.program.is_stop(same, row):
                return

    def expired(self, key: Sequence[Any], state: Any, timer: int, at: int) -> tuple[Any, ...]:
        """The event of a timer or timeout."""
        name = named(key)
        steps = self.program.expired(equal_keys(name), timer)
        return name, "timer", timer, 0, at, state.run(steps)


def text_of(word: Any, number: Any, listed: Any) -> str:
    """Returns the same text for values of a row in each form."""
    word = None if pd.api.types.is_scalar(word) and pd.isna(word) else word
    number = None if number is None or pd.isna(number) else float(number)
    return f"{word} {number} {None if listed is None else [int(one) for one in listed]}"


def _received(row: Any, listed: Any) -> Received:
    return Received(
        int(row.n), int(pd.Timestamp(row.ts).value) // 1_000_000, text_of(row.w, row.x, listed),
        bool(row.z),
    )  # fmt: skip


def _listed(row: Any) -> Any:
    value = getattr(row, "arr", None)
    return None if isinstance(value, float) else value


def _of_frames(frames: Iterable[pd.DataFrame], conditions: Conditions) -> Iterator[Received]:
    for frame in frames:
        rows = [_received(row, _listed(row)) for row in frame.itertuples(index=False)]
        if conditions.mutates:
            frame["n"] = -1
            frame["w"] = "changed"
            frame["added"] = 0
            frame.iloc[:, frame.columns.get_loc("z")] = False
        yield from rows


class _State:
    """The state of a key in a stateful processor."""

    def __init__(self, handle: StatefulProcessorHandle, program: Program, ttl: int | None) -> None:
        self._handle = handle
        kinds = program.kinds
        if "value" in kinds:
            self._value = handle.getValueState("value", VALUE_SCHEMA, ttl)
        if "other" in kinds:
            self._other = handle.getValueState("other", OTHER_SCHEMA, ttl)
        if "list" in kinds:
            self._list = handle.getListState("list", LIST_SCHEMA, ttl)
        if "map" in kinds:
            self._map = handle.getMapState("map", MAP_KEY_SCHEMA, MAP_SCHEMA, ttl)

    def run(self, steps: Sequence[Step]) -> str:
        """Runs the steps, and returns their results."""
        return " ".join(f"{name}={shown(self._run(name, argument))}" for name, argument in steps)

    def _run(self, name: str, argument: Any) -> Any:
        kind, _, method = name.partition(".")
        if kind in ("value", "other"):
            return self._on_value(self._value if kind == "value" else self._other, method, argument)
        if kind == "list":
            return self._on_list(method, argument)
        if kind == "map":
            return self._on_map(method, argument)
        if name == "timers":
            return sorted(self._handle.listTimers())
        if name == "timer.set":
            return self._handle.registerTimer(argument)
        return self._handle.deleteTimer(argument)

    @staticmethod
    def _on_value(variable: Any, method: str, argument: Any) -> Any:
        if method == "update":
            return variable.update(argument)
        result = getattr(variable, method)()
        return tuple(result) if isinstance(result, tuple) else result

    def _on_list(self, method: str, argument: Any) -> Any:
        variable = self._list
        if method == "get":
            return [tuple(element) for element in variable.get()]
        if method == "first":
            return [tuple(element) for element, _ in zip(variable.get(), range(1), strict=False)]
        if method == "append":
            return variable.appendValue(argument)
        if method == "append_many":
            return variable.appendList(argument)
        return variable.put(argument) if method == "put" else getattr(variable, method)()

    def _on_map(self, method: str, argument: Any) -> Any:
        variable = self._map
        if method == "get":
            value = variable.getValue((argument,))
            return None if value is None else value[0]
        if method == "contains":
            return variable.containsKey((argument,))
        if method == "items":
            return sorted((key[0], value[0]) for key, value in variable.iterator())
        if method in ("keys", "values"):
            return sorted(one[0] for one in getattr(variable, method)())
        if method == "remove":
            return variable.removeKey((argument,))
        if method in ("exists", "clear"):
            return getattr(variable, method)()
        for key, value in [argument] if method == "update" else argument:
            variable.updateValue((key,), (value,))
        return None


class _Processor(StatefulProcessor):
    def __init__(self, function: Function, ttl_ms: int | None, time_mode: str) -> None:
        self._function = function
        self._ttl_ms = ttl_ms
        self._time_mode = time_mode

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = _State(handle, self._function.program, self._ttl_ms)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        timer = expiredTimerInfo.getExpiryTimeInMs()
        event = self._function.expired(key, self._state, timer, self._now(timerValues))
        yield from self._results([event])

    def _call(self, key: Any, rows: Iterable[Received], values: TimerValues) -> Iterator[Any]:
        yield from self._results(self._function.call(key, rows, self._state, self._now(values)))

    def _now(self, values: TimerValues) -> int:
        if self._time_mode == "EventTime":
            return values.getCurrentWatermarkInMs()
        return values.getCurrentProcessingTimeInMs() if self._time_mode != "None" else 0

    def _results(self, events: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        raise NotImplementedError

    def close(self) -> None:
        if TaskContext.get() is not None:
            record_loop(str(self._function.conditions.work))


class _ByRow(_Processor):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        yield from self._call(key, (_received(row, _listed(row)) for row in rows), timerValues)

    def _results(self, events: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
        conditions = self._function.conditions
        for event in events:
            more = [event[2], event[3]]
            nested = {"more": more} if conditions.is_nested else {}
            yield Row(**dict(zip(_COLUMNS, event, strict=True)), **nested)
            more.append(-1)


class _ByFrame(_Processor):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        yield from self._call(key, _of_frames(rows, self._function.conditions), timerValues)

    def _results(self, events: Iterable[tuple[Any, ...]]) -> Iterator[pd.DataFrame]:
        conditions = self._function.conditions
        for event in events:
            frame = pd.DataFrame([event], columns=_COLUMNS)
            if conditions.is_nested:
                frame["more"] = [[event[2], event[3]]]
            yield frame
            if conditions.mutates:
                frame["n"] = -7
                frame["seen"] = "changed after its return"


class _Group:
    """The state of a key in `applyInPandasWithState`, as that of a stateful processor."""

    def __init__(self, state: GroupState, time_mode: str) -> None:
        self._state = state
        self._time_mode = time_mode

    @property
    def now(self) -> int:
        """The time of the call in milliseconds."""
        if self._time_mode == "EventTime":
            return self._state.getCurrentWatermarkMs()
        return self._state.getCurrentProcessingTimeMs() if self._time_mode != "None" else 0

    def run(self, steps: Sequence[Step]) -> str:
        """Runs the steps, and returns their results."""
        return " ".join(f"{name}={shown(self._run(name, argument))}" for name, argument in steps)

    def _run(self, name: str, argument: Any) -> Any:
        state = self._state
        if name == "value.get":
            return (*state.get[:2], json.loads(state.get[2])) if state.exists else None
        if name == "value.exists":
            return state.exists
        if name == "value.update":
            return state.update((*argument[:2], json.dumps(argument[2])))
        if name == "value.clear":
            return state.remove()
        if self._time_mode == "EventTime":
            return state.setTimeoutTimestamp(max(argument, self.now + 1))
        return state.setTimeoutDuration(argument - self.now)


def by_group(function: Function, time_mode: str) -> Any:
    """Returns a function for `applyInPandasWithState`."""

    def call(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        record_loop(str(function.conditions.work))
        group = _Group(state, time_mode)
        if state.hasTimedOut:
            events: Iterable[tuple[Any, ...]] = [function.expired(key, group, NO_TIMER, group.now)]
        else:
            rows = _of_frames(frames, function.conditions)
            events = function.call(key, rows, group, group.now)
        for event in events:
            yield pd.DataFrame([event], columns=_COLUMNS)

    return call


def applied(
    rows: DataFrame,
    form: str,
    function: Function,
    *,
    key: Sequence[str],
    time_mode: str,
    ttl_ms: int | None,
) -> DataFrame:
    """Applies the function in a form to the rows of each key."""
    groups = rows.groupBy(*key)
    output = OUTPUT + (NESTED if function.conditions.is_nested else "")
    if form == "groups":
        timeout = getattr(
            GroupStateTimeout, {"None": "NoTimeout"}.get(time_mode, f"{time_mode}Timeout")
        )
        return groups.applyInPandasWithState(
            by_group(function, time_mode), output, GROUP_SCHEMA, "update", timeout
        )
    if form == "frames":
        by_frame = _ByFrame(function, ttl_ms, time_mode)
        return groups.transformWithStateInPandas(by_frame, output, "Update", time_mode)
    by_row = _ByRow(function, ttl_ms, time_mode)
    return groups.transformWithState(by_row, output, "Update", time_mode)
