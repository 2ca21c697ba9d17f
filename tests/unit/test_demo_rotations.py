"""The function with per-aircraft state, compared with pandas on the same flights."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupState

from demo.expected import expected_results
from demo.flights import load_flights
from demo.job import ROTATIONS
from demo.replay import flights_between
from demo.rotations import PARKED_AFTER, follow
from demo.verdict import compare
from tests.support.draws import draws


class FakeState:
    """The state of one aircraft, as Spark stores it."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None
        self.timeout_ms: int | None = None
        self.hasTimedOut = False

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def setTimeoutTimestamp(self, timestamp_ms: int) -> None:  # noqa: N802  # Spark's name
        self.timeout_ms = timestamp_ms

    def remove(self) -> None:
        self.value = self.timeout_ms = None


def milliseconds(instant: pd.Timestamp) -> int:
    return int(instant.timestamp() * 1000)


def run_epochs(flights: pd.DataFrame, cuts: list[int], draw: random.Random) -> pd.DataFrame:
    """Runs `follow` like Spark: shuffled rows in several frames, then the timeouts."""
    states: dict[str, FakeState] = {}
    results = []
    watermark_ms = 0
    for epoch, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(flights)], strict=True)):
        rows = flights.iloc[first:end]
        called = rows[~rows["cancelled"] & rows["tailnum"].notna()].groupby("tailnum")
        outputs = [
            frame
            for tailnum, group in called
            for frame in call(tailnum, group, states.setdefault(tailnum, FakeState()), draw)
        ]
        for tailnum, state in states.items():
            due = state.timeout_ms is not None and state.timeout_ms < watermark_ms
            if due and tailnum not in called.groups:
                outputs += time_out(tailnum, state)
        results += [frame.assign(epoch=epoch) for frame in outputs]
        if len(rows):
            watermark_ms = milliseconds(rows["event_time"].max()) - 7_200_000
    last = [
        frame.assign(epoch=len(cuts) + 1)
        for tailnum, state in states.items()
        if state.exists
        for frame in time_out(tailnum, state)
    ]
    return pd.concat(results + last)


def call(
    tailnum: str, group: pd.DataFrame, state: FakeState, draw: random.Random
) -> Iterator[pd.DataFrame]:
    shuffled = group.sample(frac=1, random_state=draw.randrange(2**32))
    arrived = (shuffled["arrived_at"] - pd.Timestamp(0, tz="UTC")) / pd.Timedelta("1ms")
    rows = shuffled.assign(
        arrived_ms=arrived, event_time=shuffled["event_time"].dt.tz_localize(None)
    )
    middle = draw.randint(0, len(rows))
    frames = [rows.iloc[:middle], rows.iloc[middle:]]
    return follow((tailnum,), frames, cast(GroupState, state))


def time_out(tailnum: str, state: FakeState) -> list[pd.DataFrame]:
    state.hasTimedOut = True
    frames = list(follow((tailnum,), [], cast(GroupState, state)))
    state.hasTimedOut = False
    return frames


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """A few aircraft over two years, so that some are parked in between."""
    rows = flights_between(load_flights(), 0, 400_000)
    known = rows["tailnum"].isin(rows["tailnum"].dropna().drop_duplicates().iloc[:150])
    return rows[known]


@pytest.mark.parametrize("seed", range(draws(3)))
def test_rows_do_not_depend_on_the_cuts(flights: pd.DataFrame, seed: int) -> None:
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(flights)), draw.choice([1, 15, 60])))
    results = run_epochs(flights, cuts, draw)
    verdict = compare(ROTATIONS, expected_results(flights)[ROTATIONS], results)
    assert verdict.differences == 0, verdict
    assert verdict.actual == int((~flights["cancelled"]).sum())


def test_some_aircraft_are_parked_and_return(flights: pd.DataFrame) -> None:
    """Without it, `test_rows_do_not_depend_on_the_cuts` would not cover the timeout."""
    departed = flights[~flights["cancelled"]]
    away = departed.groupby("tailnum")["event_time"].diff()
    assert (away > PARKED_AFTER).sum() > 50


def test_departure_at_the_last_instant_is_no_parking() -> None:
    rows = flights_between(load_flights(), 0, 1).assign(cancelled=False, tailnum="N1")
    back = rows.assign(seq=1, event_time=rows["event_time"] + PARKED_AFTER)
    late = rows.assign(seq=2, event_time=back["event_time"] + PARKED_AFTER + timedelta(minutes=1))
    results = run_epochs(pd.concat([rows, back, late]), [], random.Random(0))
    by_seq = results.set_index("seq")
    assert by_seq["turnround_min"].notna().to_dict() == {0: True, 1: False, 2: False}
    assert by_seq["leg"].to_dict() == {0: 1, 1: 2, 2: 1}
