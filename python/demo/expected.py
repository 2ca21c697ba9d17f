"""The right answer: both queries as plain pandas over the whole input at once."""

import pandas as pd
import pyarrow.parquet as pq

from demo.job import HOURLY, ROTATIONS, Job
from demo.replay import CLOSING_AIRPORT
from demo.rotations import PARKED_AFTER


def read_flights(job: Job) -> pd.DataFrame:
    """Reads all flights of the input, without the closing ones."""
    rows = pq.read_table(job.input).to_pandas()
    return rows[rows["origin"] != CLOSING_AIRPORT]


def expected_results(flights: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Computes the results of each query, with its columns, unordered."""
    return {HOURLY: _hourly(flights), ROTATIONS: _rotations(flights)}


def _hourly(flights: pd.DataFrame) -> pd.DataFrame:
    keyed = flights.assign(hour_ms=_ms(flights["event_time"].dt.floor("h")))
    groups = keyed.groupby(["hour_ms", "origin", "carrier"])
    return pd.DataFrame(
        {
            "flights": groups.size(),
            "cancelled": groups["cancelled"].sum(),
            # The sum of no delays is null, as in SQL, and not 0.
            "dep_delay_min": groups["dep_delay"].sum(min_count=1),
            "arr_delay_min": groups["arr_delay"].sum(min_count=1),
        }
    ).reset_index()


def _rotations(flights: pd.DataFrame) -> pd.DataFrame:
    legs = flights[~flights["cancelled"] & flights["tailnum"].notna()]
    legs = legs.sort_values(["tailnum", "event_time", "seq"])
    aircraft = legs.groupby("tailnum")["event_time"]
    since_last, until_next = aircraft.diff(), -aircraft.diff(-1)
    stay = (since_last > PARKED_AFTER).groupby(legs["tailnum"]).cumsum()
    stays = legs.groupby([legs["tailnum"], stay])
    turnround = legs["event_time"] + until_next - legs["arrived_at"]
    return pd.DataFrame(
        {
            "tailnum": legs["tailnum"],
            "seq": legs["seq"],
            "leg": stays.cumcount() + 1,
            "dest": legs["dest"],
            "departed_ms": _ms(legs["event_time"]),
            "turnround_min": turnround.where(until_next <= PARKED_AFTER) // pd.Timedelta("1min"),
            "miles": stays["distance"].cumsum(),
        }
    )


def _ms(instants: pd.Series) -> pd.Series:
    return (instants - pd.Timestamp(0, tz="UTC")) // pd.Timedelta("1ms")
