"""Chains of stateful operators, cut on request while the first operator is slow."""

import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from cleancut import Checkpoint, coordinator
from cleancut.sinks import sealed
from cleancut.testing import slow
from tests.support.cutting import cut_by_hand
from tests.support.patience import PATIENCE_S
from tests.support.seeds import fixed
from tests.support.sessions import with_cuts
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

SEED = fixed(77)
SCHEMA = "k long, n long, t double"
FILES, ROWS, KEYS = 6, 120, 12
# Seconds of event time in a file, the offset of the next file, and the watermark delay.
COVERED, STEP, DELAY = 15, 6, "10 seconds"
# The last file advances the watermark past all others, so that all of their windows close.
FAR = 10_000


def with_slow_keys(rows: DataFrame, column: str, per_row_ms: int = 4) -> DataFrame:
    """Reads the rows of two keys slowly."""
    return rows.withColumn(column, slow(column, per_row_ms=per_row_ms, when=f.col("k") < 2))


def by_window(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(f.window("ts", "5 seconds")).agg(f.count("*").alias("c"), f.sum("n"))
    return counted.select("window.start", "c", "sum(n)")


def distinct(rows: DataFrame) -> DataFrame:
    return by_window(with_slow_keys(rows.dropDuplicates(["k", "n", "ts"]), "n"))


def twice(rows: DataFrame) -> DataFrame:
    first = rows.groupBy("k", f.window("ts", "5 seconds")).agg(f.sum("n").alias("n"))
    # Few windows of a key close in an epoch.
    wide = with_slow_keys(first, "n", per_row_ms=40).groupBy(
        f.window(f.window_time("window"), "20 seconds")
    )
    return wide.agg(f.count("*").alias("c"), f.sum("n")).select("window.start", "c", "sum(n)")


def joined(rows: DataFrame) -> DataFrame:
    other = rows.select(f.col("k").alias("k2"), f.col("n").alias("n2"), f.col("ts").alias("ts2"))
    near = f.expr("k = k2 and ts2 between ts and ts + interval 3 seconds")
    return by_window(with_slow_keys(rows.join(other, near), "n"))


CHAINS = {"distinct": distinct, "twice": twice, "joined": joined}


def write(source: Path) -> None:
    draw = random.Random(SEED)
    source.mkdir()
    for file in range(FILES):
        lines: list[dict[str, float]] = [
            {"k": draw.randrange(KEYS), "n": i % 100, "t": STEP * file + draw.uniform(0, COVERED)}
            for i in range(ROWS)
        ]
        # Each row twice, for the deduplication.
        lines += lines[: ROWS // 4]
        put(source, file, lines)
    put(source, FILES, [{"k": 0, "n": 0, "t": FAR}])


def put(source: Path, file: int, lines: list[dict[str, float]]) -> None:
    """Writes a file that Spark reads after those with lower numbers."""
    path = source / f"{file}.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))


@pytest.mark.parametrize("name", usually((), CHAINS))
def test_chained_operators_leave_rows_in_flight_and_none_are_late(
    name: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    write(tmp_path / "source")
    session = with_cuts(spark, 3)
    session.conf.set("spark.sql.streaming.stateStore.cleancut.mode", "unaligned")

    def timed(rows: DataFrame) -> DataFrame:
        return rows.withColumn("ts", f.timestamp_seconds("t")).withWatermark("ts", DELAY)

    emitted: dict[int, list[Row]] = {}
    begun = threading.Event()

    @sealed
    def collect(batch: DataFrame, epoch: int) -> None:
        emitted[epoch] = batch.collect()
        begun.set()

    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    location = tmp_path / "checkpoint"
    query = (
        CHAINS[name](timed(reader.json(str(tmp_path / "source"))))
        .writeStream.outputMode("append")
        .foreachBatch(collect)
        .option("checkpointLocation", str(location))
        .start()
    )
    try:
        assert begun.wait(PATIENCE_S)
        with cut_by_hand(query, every_s=0.2):
            query.processAllAvailable()
        query.processAllAvailable()
        assert coordinator(query).status().in_flight == ()
        assert coordinator(query).status().aligned == {}
        dropped = [
            operator.numRowsDroppedByWatermark
            for epoch in query.recentProgress
            for operator in epoch.stateOperators
        ]
    finally:
        query.stop()
    batch = CHAINS[name](timed(session.read.schema(SCHEMA).json(str(tmp_path / "source"))))
    due = [row for row in batch.collect() if row["start"].timestamp() < FAR - 100]
    assert sum(dropped) == 0
    given = [row for epoch in sorted(emitted) for row in emitted[epoch]]
    assert sorted(map(tuple, given)) == sorted(map(tuple, due))
    cuts = [cut for cut in Checkpoint(str(location)).cuts() if cut.mode == "unaligned"]
    first = {
        channel.operator
        for cut in cuts
        for channel in Checkpoint(str(location)).cut(cut.epoch).shuffle_inputs
        if channel.rows > 0
    }
    show(
        f"seed {SEED}, {len(cuts)} of {len(emitted)} epochs left in-flight rows of {sorted(first)}"
    )
    # Spark counts operators from the sink.
    assert max(first, default=None) == 1, "no cut met rows on their way to the first operator"
