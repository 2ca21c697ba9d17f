"""Operators without capture run aligned, report the reason, and return the rows of a batch."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from cleancut import Checkpoint, coordinator
from cleancut.sinks import sealed
from cleancut.testing import SkewedInput, assert_same_rows, last_rows
from tests.support.patience import PATIENCE_S
from tests.support.sessions import with_cuts
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

FILES = 3
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
BEHIND = "a downstream operator drops late rows, and it is unknown whether its rows would be late"


@dataclass(frozen=True)
class AlignedQuery:
    """A query with operators that are not captured.

    Attributes:
        build: makes it of its input, for a stream and for a batch.
        reasons: why which operators are not captured, by their ids, of which Spark gives the last
            operator the first.
        key: of rows that are given again as they change; none where each row is given once.
        settings: of the session.
    """

    build: Callable[[DataFrame], DataFrame]
    reasons: Mapping[int, str]
    key: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count()


def of_distinct(rows: DataFrame) -> DataFrame:
    """Counts by the columns that partition the input already."""
    return rows.dropDuplicates(["key"]).groupBy("key").count()


def after_outer_join(rows: DataFrame) -> DataFrame:
    timed = rows.withWatermark("at", "1 second")
    other = timed.select(f.col("number").alias("other"), f.col("at").alias("met"))
    near = f.expr("number = other and met between at and at + interval 1 second")
    joined = timed.join(other.where("other % 2 = 0"), near, "left_outer")
    return joined.groupBy(f.window("at", "2 seconds")).count().select("window.start", "count")


QUERIES = {
    "limit": AlignedQuery(lambda rows: rows.limit(10_000), {0: "globalLimit is not captured yet"}),
    "divided already": AlignedQuery(
        of_distinct,
        {0: "its input is already partitioned by its keys, so there is no exchange"},
        key=("key",),
    ),
    "after an outer join": AlignedQuery(after_outer_join, {1: BEHIND}),
    "no epochs without data": AlignedQuery(
        counted, {0: f"{NO_DATA} is false"}, key=("key",), settings={NO_DATA: "false"}
    ),
    "one operator only": AlignedQuery(
        counted, {0: f"{MULTIPLE} is false"}, key=("key",), settings={MULTIPLE: "false"}
    ),
}


@pytest.mark.parametrize("name", usually({"limit"}, QUERIES))
def test_operators_without_capture_run_aligned_and_report_why(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    refused = QUERIES[name]
    session = with_cuts(spark, 2)
    session.conf.set("spark.sql.streaming.stateStore.cleancut.mode", "unaligned")
    for key, value in refused.settings.items():
        session.conf.set(key, value)
    rows = SkewedInput(tmp_path / "input", seed=9, rows=60)
    rows.write(*range(FILES))
    emitted: dict[int, list[Row]] = {}
    said: dict[int, str] = {}
    started = threading.Event()

    @sealed
    def collect(batch: DataFrame, epoch: int) -> None:
        assert started.wait(PATIENCE_S)
        emitted[epoch] = batch.collect()
        said.update(coordinator(query).status().aligned)

    query = (
        refused.build(rows.stream(session))
        .writeStream.outputMode("update" if refused.key else "append")
        .foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        started.set()
        query.processAllAvailable()
        assert not coordinator(query).cut_now()
    finally:
        query.stop()
    assert said == refused.reasons
    given = [row for epoch in sorted(emitted) for row in emitted[epoch]]
    batch = refused.build(rows.batch(session))
    if name == "after an outer join":
        # Windows that the watermark has not closed are not emitted yet.
        assert len(given) > FILES
        batch = batch.where(f.col("start").isin([row["start"] for row in given]))
    assert_same_rows(last_rows(given, key=refused.key) if refused.key else given, batch)
    cuts = Checkpoint(str(tmp_path / "checkpoint")).cuts()
    assert [cut.mode for cut in cuts] == ["aligned"] * len(cuts)
