"""Follows each aircraft from one departure from New York to the next.

The data set has departures from New York only. So a rotation is a leg out of New York and whatever
the aircraft did until it left New York again, and its turn-round time runs from the arrival at the
destination to that next departure. An aircraft that does not come back within `PARKED_AFTER` counts
as parked: its last leg is reported without a turn-round, and a later departure starts afresh. So
each departure of a known aircraft gives exactly one row.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

import pandas as pd
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

PARKED_AFTER = timedelta(days=30)
TIMEOUT = GroupStateTimeout.EventTimeTimeout
_PARKED_AFTER_MS = PARKED_AFTER // timedelta(milliseconds=1)
_MS_PER_MINUTE = 60_000

STATE_SCHEMA = "seq long, leg int, dest string, departed_ms long, arrived_ms long, miles long"
RESULT_SCHEMA = (
    "tailnum string, seq long, leg int, dest string, departed_ms long, turnround_min long, "
    "miles long"
)
_RESULT_COLUMNS = [field.split()[0] for field in RESULT_SCHEMA.split(", ")]


class Leg(NamedTuple):
    """The departure that an aircraft is on: its state.

    Attributes:
        seq: ordinal of the flight in the input.
        leg: ordinal of the departure since the aircraft was first seen or last parked, from 1.
        dest: destination.
        departed_ms: milliseconds since the epoch.
        arrived_ms: milliseconds since the epoch; None if it was not recorded.
        miles: flown out of New York in all legs, this one included.
    """

    seq: int
    leg: int
    dest: str
    departed_ms: int
    arrived_ms: int | None
    miles: int

    @property
    def parked_at_ms(self) -> int:
        """The last instant at which a departure still continues this rotation."""
        return self.departed_ms + _PARKED_AFTER_MS


def follow(
    key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Completes the rotations of one aircraft; the function of `applyInPandasWithState`.

    Its rows do not depend on how the flights are cut into epochs: a departure after the parking
    time gives the same row as the timeout that would have come in between.
    """
    (tailnum,) = key
    current = Leg(*state.get) if state.exists else None
    rows = []
    if state.hasTimedOut:
        if current is not None:
            rows.append(_row(tailnum, current, None))
        state.remove()
    else:
        for departure in _in_event_order(frames):
            if current is None:
                current = departure
            elif departure.departed_ms > current.parked_at_ms:
                rows.append(_row(tailnum, current, None))
                current = departure
            else:
                rows.append(_row(tailnum, current, departure))
                current = departure._replace(
                    leg=current.leg + 1, miles=current.miles + departure.miles
                )
        if current is not None:
            state.update(tuple(current))
            state.setTimeoutTimestamp(current.parked_at_ms)
    if rows:
        yield pd.DataFrame(rows, columns=_RESULT_COLUMNS)


def _in_event_order(frames: Iterable[pd.DataFrame]) -> list[Leg]:
    """Returns flights as first legs; Spark passes a group's rows unordered, in several frames."""
    legs = [
        Leg(seq, 1, dest, departed, None if pd.isna(arrived) else int(arrived), miles)
        for frame in frames
        for seq, dest, departed, arrived, miles in zip(
            frame["seq"].tolist(),
            frame["dest"].tolist(),
            _ms(frame["event_time"]),
            frame["arrived_ms"].tolist(),
            frame["distance"].tolist(),
            strict=True,
        )
    ]
    return sorted(legs)


def _ms(instants: pd.Series) -> list[int]:
    milliseconds: list[int] = instants.to_numpy("datetime64[ms]").astype("int64").tolist()
    return milliseconds


def _row(tailnum: str, leg: Leg, departure: Leg | None) -> tuple[object, ...]:
    turnround = None
    if departure is not None and leg.arrived_ms is not None:
        turnround = (departure.departed_ms - leg.arrived_ms) // _MS_PER_MINUTE
    return (tailnum, leg.seq, leg.leg, leg.dest, leg.departed_ms, turnround, leg.miles)
