"""Processing time of Python functions while rows of a key are in flight.

Topology: two files, one per epoch; one task of a Python function; a sealing sink. In the second
epoch the first key blocks, and a cut leaves its remaining rows and all rows of the other key in
flight. State expires before the next epoch begins.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint
from cleancut.testing import Block, EpochRows
from tests.support.cutting import cut_at
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.processing_time import (
    BLOCKED_KEY,
    EXPIRING,
    OTHER_KEY,
    SCHEMA,
    WITH_TTL,
)
from tests.support.sessions import with_cuts
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
# More rows than a Python function receives at once.
BLOCKED_ROWS = 40
OTHER_ROWS = 3
TOTALS = {BLOCKED_KEY: 1 + BLOCKED_ROWS, OTHER_KEY: 1 + OTHER_ROWS}


@contextmanager
def cut_with_in_flight_rows(
    build: Callable[[DataFrame, Block], DataFrame], spark: SparkSession, root: Path
) -> Iterator[tuple[StreamingQuery, EpochRows]]:
    """Runs a query whose second epoch is committed with in-flight rows of both keys."""
    _write(root / "source", 0, {BLOCKED_KEY: range(1), OTHER_KEY: range(1)})
    counts = {BLOCKED_KEY: range(1, 1 + BLOCKED_ROWS), OTHER_KEY: range(1, 1 + OTHER_ROWS)}
    _write(root / "source", 1, counts)
    session = with_cuts(spark, 1)
    session.conf.set(f"{KEYS}mode", "auto")
    # Only `cut_now` overtakes a task.
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    block, sink = Block(root / "block", timeout_s=PATIENCE_S), EpochRows()
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    query = (
        build(rows.json(str(root / "source")), block)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(root / "checkpoint"))
        .start()
    )
    try:
        cut_at(block, query)
        yield query, sink
    finally:
        block.release()
        query.stop()
    cut = Checkpoint(str(root / "checkpoint")).cut(1)
    assert sum(channel.in_flight_rows for channel in cut.shuffle_inputs) > OTHER_ROWS
    processed = {row["k"] for row in sink.epochs[1] if row["what"] == "rows"}
    assert processed == {BLOCKED_KEY}, "no row of the other key waited"


def _write(source: Path, number: int, numbers: dict[int, range]) -> None:
    source.mkdir(exist_ok=True)
    path = source / f"{number}.json"
    lines = [json.dumps({"k": key, "n": n}) for key, values in numbers.items() for n in values]
    path.write_text("\n".join(lines), encoding="utf-8")
    os.utime(path, (number, number))


def _wait_until(query: StreamingQuery, condition: Callable[[], object]) -> None:
    wait_until(lambda: not query.isActive or condition())
    assert query.isActive, query.exception()


def _by_key(sink: EpochRows, what: str) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in sink.rows:
        if row["what"] == what:
            rows[row["k"]].append(row)
    return rows


def _are_processed(sink: EpochRows) -> bool:
    return {key: rows[-1]["n"] for key, rows in _by_key(sink, "rows").items()} == TOTALS


@pytest.mark.parametrize(
    "form", usually({"applyInPandasWithState", "transformWithState"}, EXPIRING)
)
def test_timeouts_and_timers_of_a_key_wait_for_its_in_flight_rows(
    form: str, spark: SparkSession, tmp_path: Path
) -> None:
    with cut_with_in_flight_rows(EXPIRING[form], spark, tmp_path) as (query, sink):
        _wait_until(query, lambda: _by_key(sink, "expired").keys() == TOTALS.keys())
    assert _are_processed(sink)
    early = {
        key: [row["n"] for row in rows if row["n"] < TOTALS[key]]
        for key, rows in _by_key(sink, "expired").items()
    }
    assert early == {BLOCKED_KEY: [], OTHER_KEY: []}


@pytest.mark.parametrize("form", usually({"transformWithStateInPandas"}, WITH_TTL))
def test_in_flight_rows_find_the_state_with_ttl_of_the_epoch_in_which_they_arrived(
    form: str, spark: SparkSession, tmp_path: Path
) -> None:
    with cut_with_in_flight_rows(WITH_TTL[form], spark, tmp_path) as (query, sink):
        _wait_until(query, lambda: _are_processed(sink))
    kept = {key: [row["kept"] for row in rows] for key, rows in _by_key(sink, "rows").items()}
    # The state of the first epoch has expired. The first rows of the second epoch wrote it again.
    assert kept == {BLOCKED_KEY: ["", "", "value list map"], OTHER_KEY: ["", ""]}
