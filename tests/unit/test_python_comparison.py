"""The comparison of a Python query with its model finds defects, and nothing else."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.draws import draws
from tests.support.python_comparison import Outcome, compare
from tests.support.python_functions import NO_TIMER
from tests.support.python_queries import DELAY_S, Input, PythonQuery
from tests.support.python_steps import ModelState, Step

_COLUMNS = ("k", "what", "n", "i", "at", "seen")
Events = list[dict[str, Any]]


class _Called:
    """The state of a key, during a call at a time."""

    def __init__(self, state: ModelState, at: int, *, by_row: bool = True) -> None:
        self._state = state
        self._at = at
        self._by_row = by_row

    def run(self, steps: Sequence[Step]) -> str:
        return self._state.run(steps, self._at, by_row=self._by_row)


class _Spark:
    """Runs a query without Spark, one call for each key and file.

    Attributes:
        forgets: a key whose state is lost once.
    """

    def __init__(self, query: PythonQuery, work: Path, forgets: str | None = None) -> None:
        self._query = query
        self._input = Input.draw(query)
        self._function = self._input.function(replace(query, failures=()), work)
        self._states: defaultdict[str, ModelState] = defaultdict(lambda: ModelState(query.ttl_ms))
        self.forgets = forgets

    def run(self) -> Events:
        return [dict(zip(_COLUMNS, event, strict=True)) for event in self._events()]

    def _events(self) -> Iterator[tuple[Any, ...]]:
        for file in range(self._query.files):
            at = self._time(file)
            for key, rows in self._input.rows.items():
                begin = self._input.ends[file - 1][key] if file else 0
                if begin < (end := self._input.ends[file][key]):
                    self._states[key].begin_call()
                    called = _Called(self._states[key], at)
                    yield from self._function.call(key.split("|"), rows[begin:end], called, at)
                    if key == self.forgets:
                        del self._states[key]
                        self.forgets = None
            yield from self._expired(at)
        # The epoch that the last watermark starts.
        yield from self._expired(self._time(self._query.files))

    def _expired(self, at: int) -> Iterator[tuple[Any, ...]]:
        for key, state in self._states.items():
            called = _Called(state, at, by_row=False)
            if state.timeout is not None and state.timeout <= at:
                state.timeout = None
                yield self._function.expired(key.split("|"), called, NO_TIMER, at)
            for timer in sorted(timer for timer in state.timers if timer <= at):
                yield self._function.expired(key.split("|"), called, timer, at)
                del state.timers[timer]

    def _time(self, file: int) -> int:
        if self._query.time_mode == "EventTime":
            return max(self._input.latest[:file], default=0) - (DELAY_S * 1000 if file else 0)
        return 1_000_000 + 500 * file if self._query.time_mode == "ProcessingTime" else 0


def _query(seed: int) -> PythonQuery:
    """A query whose keys are texts or numbers, all of which are different."""
    query = PythonQuery.draw(seed)
    return replace(query, key_type="string", is_nested=False)


@pytest.mark.parametrize("seed", range(draws(80)))
def test_a_query_without_defects_is_right(seed: int, tmp_path: Path) -> None:
    query = _query(seed)
    outcome = _compared(query, _Spark(query, tmp_path).run())
    assert outcome.is_right, outcome
    assert outcome.events > 0


def _rows(events: Events) -> list[int]:
    return [number for number, event in enumerate(events) if event["what"] == "row"]


def _lose(events: Events, draw: random.Random) -> None:
    del events[draw.choice(_rows(events))]


def _repeat(events: Events, draw: random.Random) -> None:
    number = draw.choice(_rows(events))
    events.insert(number + draw.randint(0, 1), dict(events[number]))


def _swap(events: Events, draw: random.Random) -> None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for number in _rows(events):
        numbers[events[number]["k"]].append(number)
    first, second = draw.sample(draw.choice([all_ for all_ in numbers.values() if all_[1:]]), 2)
    events[first], events[second] = events[second], events[first]


def _change(events: Events, draw: random.Random) -> None:
    events[draw.choice(_rows(events))]["seen"] += " "


def _begin_again(events: Events, draw: random.Random) -> None:
    """An attempt whose results count although another one follows."""
    at = draw.choice([number for number, event in enumerate(events) if event["what"] == "open"])
    events[at:at] = [dict(event) for event in events[at : at + 2]]


DEFECTS: dict[Callable[[Events, random.Random], None], Callable[[Outcome], int]] = {
    _lose: lambda outcome: outcome.lost,
    _repeat: lambda outcome: outcome.duplicated,
    _swap: lambda outcome: outcome.disordered,
    _change: lambda outcome: outcome.wrong,
    _begin_again: lambda outcome: outcome.duplicated + outcome.wrong,
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
@pytest.mark.parametrize("seed", range(draws(40)))
def test_a_defect_is_counted(
    seed: int, defect: Callable[[Events, random.Random], None], tmp_path: Path
) -> None:
    # Rows after a stop need not be read.
    query = _query(seed)
    query = replace(query, program=replace(query.program, stops=False))
    events = _Spark(query, tmp_path).run()
    defect(events, random.Random(seed))
    assert DEFECTS[defect](_compared(query, events)) > 0


@pytest.mark.parametrize("seed", range(draws(40)))
def test_lost_state_is_wrong(seed: int, tmp_path: Path) -> None:
    query = _query(seed)
    query = replace(query, ttl_ms=None)
    slow_key = Input.draw(query).slow_key
    correct = _Spark(query, tmp_path).run()
    events = _Spark(query, tmp_path, forgets=slow_key).run()
    # Some functions clear their state before they read it.
    assert _compared(query, events).is_right == (events == correct)


def _compared(query: PythonQuery, events: Events) -> Outcome:
    return compare(query, Input.draw(query), events, has_in_flight=False)
