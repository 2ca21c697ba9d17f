"""Compares the events of a Python query with its function on a model of the state.

Rows of a key have an order, and the steps of a row do not depend on the call that processes it. So
the model runs the steps in the order of the events: each result must be the next one of its key,
with the results of the steps on the state of the model.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.python_queries import DELAY_S, Input, PythonQuery
from tests.support.python_steps import ModelState, Program, Step, equal_keys

_SHOWN = 3
Event = Mapping[str, Any]


@dataclass
class Outcome:
    """Differences between the events of a query and the model.

    Attributes:
        events: the number of events.
        lost: missing results of rows, and missing timers.
        duplicated: results that occur more than once.
        disordered: results after a later one of their key.
        wrong: results with other values, and other events that are not those of the model.
        skipped: rows that the function did not read.
        problems: the first differences.
    """

    events: int = 0
    lost: int = 0
    duplicated: int = 0
    disordered: int = 0
    wrong: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether there is no difference."""
        return self.lost == self.duplicated == self.disordered == self.wrong == 0

    def add(self, kind: str, problem: str) -> None:
        """Adds a difference."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.problems) < _SHOWN:
            self.problems.append(f"{kind}: {problem}")


def compare(
    query: PythonQuery, written: Input, events: Iterable[Event], *, has_in_flight: bool
) -> Outcome:
    """Compares the events, in their order, with the model.

    Args:
        query: the query.
        written: its input, all of which was processed.
        events: the rows of its output.
        has_in_flight: whether an epoch had in-flight rows. Otherwise, all rows of a file are
            processed in one call for each key.
    """
    by_key: dict[str, list[Event]] = defaultdict(list)
    outcome = Outcome()
    for event in events:
        outcome.events += 1
        by_key[equal_keys(event["k"])].append(event)
    for key in by_key.keys() - written.rows.keys():
        outcome.add("wrong", f"no row has the key {key}")
    for key in written.rows:
        _Key(query, written, key, outcome, has_in_flight=has_in_flight).run(by_key[key])
    return outcome


class _Key:
    """The model of one key; of two, if Spark compares them as equal but their states differ."""

    def __init__(
        self, query: PythonQuery, written: Input, key: str, outcome: Outcome, *, has_in_flight: bool
    ) -> None:
        self._query = query
        self._program: Program = query.program
        self._written = written
        self._key = key
        self._rows = written.rows[key]
        self._outcome = outcome
        # The rows at which calls begin and end, if all rows of a key are processed in one call.
        self._ends = None
        is_divided = has_in_flight and query.splits_groups
        # Rows with a NaN in their key are separate groups, unless the JVM cuts the groups.
        if not is_divided and (query.form == "groups" or "nan" not in key.split("|")):
            self._ends = {0} | {ends[key] for ends in written.ends}
        self._states: defaultdict[str, ModelState] = defaultdict(lambda: ModelState(query.ttl_ms))
        # The next row and its next result.
        self._row = self._result = 0
        # The current call.
        self._state, self._at, self._has_stopped = self._states[key], 0, False
        # After a difference, the state of the model is unknown.
        self._is_known = True
        self._processed: set[tuple[int, int]] = set()

    def run(self, events: Sequence[Event]) -> None:
        """Processes all events of the key."""
        for number, event in enumerate(events):
            if event["what"] == "open":
                self._end_call(event["n"])
                self._open(event)
            elif event["what"] == "row":
                self._process(event)
            else:
                later = (e["n"] for e in events[number:] if e["what"] == "open")
                self._end_call(next(later, len(self._rows)))
                self._expire(event)
        self._end_call(len(self._rows))
        if self._query.time_mode != "None":
            self._check_timers()

    def _open(self, event: Event) -> None:
        if event["n"] < self._row:
            self._differ("duplicated", f"{event} begins before row {self._row}")
        self._row, self._result = event["n"], 0
        self._state, self._at = self._states[event["k"]], event["at"]
        self._has_stopped = False
        if self._ends is not None and event["n"] not in self._ends:
            self._differ("wrong", f"{event}: a call begins in the middle of a file")
        self._state.begin_call()
        self._check(event, self._program.opening(self._key, self._row))

    def _process(self, event: Event) -> None:
        position = event["n"], event["i"]
        if self._has_stopped:
            self._differ("wrong", f"{event} after the last row that the function reads")
        self._skip_resultless(event["n"])
        if position in self._processed:
            self._differ("duplicated", f"{event}")
            return
        if position < (self._row, self._result):
            self._outcome.lost -= 1
            self._differ("disordered", f"{event} after row {self._row}")
            self._processed.add(position)
            return
        while (self._row, self._result) < position and self._row < len(self._rows):
            if self._result < len(self._steps(self._row)):
                self._differ("lost", f"{self._key} {(self._row, self._result)} before {event}")
            self._advance()
        self._processed.add(position)
        steps = self._steps(self._row)
        if position != (self._row, self._result) or self._result >= len(steps):
            self._differ("wrong", f"{event} is not a result")
            return
        self._check(event, steps[self._result], self._rows[self._row].text)
        self._advance()

    def _advance(self) -> None:
        """Ends a result, and the row after its last result."""
        self._result += 1
        if self._result < len(self._steps(self._row)):
            return
        if not self._rows[self._row].is_last:
            self._state.run(self._program.rest(self._key, self._row, self._time()), self._at)
        self._has_stopped = self._program.is_stop(self._key, self._row)
        self._row, self._result = self._row + 1, 0

    def _skip_resultless(self, until: int) -> None:
        while self._row < until and not self._has_stopped and not self._steps(self._row):
            self._advance()

    def _end_call(self, until: int) -> None:
        """Processes the rest of a call that ends before a row."""
        self._skip_resultless(until)
        if self._has_stopped and self._row < until:
            self._outcome.skipped += until - self._row
            self._row = until
        while self._row < until:
            if self._steps(self._row):
                self._differ("lost", f"{self._key} {(self._row, self._result)}")
            self._advance()

    def _expire(self, event: Event) -> None:
        state, timer, at = self._states[event["k"]], event["n"], event["at"]
        time = timer
        if self._query.form == "groups":
            # The function receives no time. A timeout removes itself.
            time, state.timeout = state.timeout, None
        elif timer not in state.timers:
            time = None
        if time is None or at < time or self._row < self._arrived(at):
            self._differ("wrong", f"{event}: set {time}, {self._row} rows, {self._arrived(at)}")
        self._at = at
        saved, self._state = self._state, state
        self._check(event, self._program.expired(self._key, timer), by_row=False)
        self._state = saved
        state.timers.pop(timer, None)

    def _arrived(self, watermark: int) -> int:
        """The number of rows of the key that had arrived before an epoch with this watermark."""
        if self._query.time_mode != "EventTime":
            return 0
        latest = 0
        for file, time in enumerate(self._written.latest):
            latest = max(latest, time)
            if latest - DELAY_S * 1000 >= watermark:
                return self._written.ends[file][self._key]
        return len(self._rows)

    def _check_timers(self) -> None:
        limit = self._written.latest[-1] - DELAY_S * 1000
        for name, state in self._states.items():
            timers = [timer for timer, by_row in state.timers.items() if by_row]
            if self._query.form == "groups" and state.timeout is not None:
                timers = [state.timeout]
            if self._query.time_mode == "EventTime":
                timers = [timer for timer in timers if timer <= limit]
            if timers and self._is_known:
                self._differ("lost", f"{name}: timers {timers} never expired")

    def _steps(self, row: int) -> list[list[Step]]:
        is_last = self._rows[row].is_last
        return self._program.results_of(self._key, row, self._time(row), is_last=is_last)

    def _time(self, row: int | None = None) -> int:
        received = self._rows[self._row if row is None else row]
        return received.at if self._program.has_event_time else self._at

    def _check(
        self, event: Event, steps: Sequence[Step], text: str | None = None, *, by_row: bool = True
    ) -> None:
        expected = self._state.run(steps, self._at, by_row=by_row)
        expected = expected if text is None else f"{expected} {text}"
        if self._is_known and event["seen"] != expected:
            self._differ("wrong", f"{event} instead of {expected}")
        if "more" in event and event["more"] != [event["n"], event["i"]]:
            self._differ("wrong", f"{event} has changed after its return")

    def _differ(self, kind: str, problem: str) -> None:
        self._outcome.add(kind, f"{self._key}: {problem}")
        self._is_known = False
