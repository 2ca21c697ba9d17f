"""The flights that the demo replays."""

from datetime import timedelta

import pandas as pd
import pytest

from demo.flights import DATA_SET_ROWS, load_flights
from demo.job import Job
from demo.replay import CLOSING_AIRPORT, flights_between, write_input


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return load_flights()


def test_all_flights_are_in_one_order_of_events(year: pd.DataFrame) -> None:
    assert len(year) == DATA_SET_ROWS
    order = year[["event_time", "origin", "carrier", "flight"]]
    assert year["event_time"].is_monotonic_increasing
    assert not order.duplicated().any()


@pytest.mark.parametrize(
    ("carrier", "flight", "departed", "arrived"),
    [
        ("UA", 1545, "2013-01-01 10:17", "2013-01-01 14:30"),  # Houston, winter: 05:17 to 08:30
        ("UA", 1138, "2013-07-01 10:55", "2013-07-01 15:55"),  # Phoenix, summer: 06:55 to 08:55
        ("B6", 709, "2013-01-01 11:15", "2013-01-01 14:39"),  # San Juan, winter: 06:15 to 10:39
        ("B6", 1503, "2013-07-02 04:02", "2013-07-02 07:44"),  # San Juan, summer: 00:02 to 03:44
        ("HA", 51, "2013-07-01 14:05", "2013-07-02 01:27"),  # Honolulu: 10:05 to 15:27
        ("B6", 1018, "2013-01-04 04:22", "2013-01-04 05:18"),  # Boston: 23:22 to 00:18
    ],
)
def test_arrival_is_the_instant_of_the_local_clock(
    year: pd.DataFrame, carrier: str, flight: int, departed: str, arrived: str
) -> None:
    number = (year["carrier"] == carrier) & (year["flight"] == flight)
    (instant,) = year[number & (year["event_time"] == pd.Timestamp(departed, tz="UTC"))][
        "arrived_at"
    ]
    assert instant == pd.Timestamp(arrived, tz="UTC")


def test_cancelled_flight_has_no_arrival(year: pd.DataFrame) -> None:
    cancelled = year[year["cancelled"]]
    assert len(cancelled) == 8255
    assert cancelled["arrived_at"].isna().all()
    assert cancelled["dep_delay"].isna().all()


def test_replay_beyond_the_data_set_repeats_it_later(year: pd.DataFrame) -> None:
    rows = flights_between(year, DATA_SET_ROWS - 2, 2 * DATA_SET_ROWS + 2)
    assert rows["seq"].tolist() == list(range(DATA_SET_ROWS - 2, 2 * DATA_SET_ROWS + 2))
    assert rows["event_time"].is_monotonic_increasing
    again = rows["event_time"].iloc[2] - year["event_time"].iloc[0]
    assert again == timedelta(days=365)
    assert rows["tailnum"].iloc[2] == year["tailnum"].iloc[0]
    assert rows["arrived_at"].iloc[2] - year["arrived_at"].iloc[0] == again


def test_files_follow_each_other_as_their_flights_do(job: Job) -> None:
    write_input(job)
    files = sorted(job.input.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert files == sorted(files)
    assert len(files) == job.flight_files + job.closing_files
    rows = pd.concat(map(pd.read_parquet, files))
    assert rows["seq"].tolist() == list(range(job.rows + job.closing_files))
    assert rows["event_time"].is_monotonic_increasing


def test_closing_files_fill_more_than_one_epoch(job: Job) -> None:
    write_input(job)
    rows = pd.concat(map(pd.read_parquet, sorted(job.input.iterdir())))
    closing = rows[rows["origin"] == CLOSING_AIRPORT]
    assert len(closing) > job.files_per_trigger
    assert closing["tailnum"].is_unique
    gap = closing["event_time"].min() - rows["event_time"].iloc[job.rows - 1]
    assert gap >= timedelta(days=60)
