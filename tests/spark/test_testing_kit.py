"""The test kit for queries: the code of docs/use/testing.md, and the documented properties."""

import sys
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cleancut import Checkpoint, coordinator
from cleancut.testing import Block, EpochRows, SkewedInput, assert_same_rows, last_rows, slow
from tests.support.cutting import wait_until_overtaken
from tests.support.documented import blocks, run_as_typed
from tests.support.patience import PATIENCE_S
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
PARTITIONS = 3


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return with_cuts(spark, PARTITIONS)


def test_the_documented_tests_of_a_query_pass(tmp_path: Path) -> None:
    """The page creates its own session, which needs a separate process."""
    page = "\n".join(blocks("docs/use/testing.md", "python"))
    assert "0 lost" in run_as_typed([sys.executable, "-c", page], tmp_path)


def test_epoch_rows_reads_the_sealed_rows_and_releases_them(
    session: SparkSession, tmp_path: Path
) -> None:
    """Spark sorts for the `max` of a text, and caches the rows instead of the batch.

    The rows were computed again for the sink, and stayed in the executors' memory afterwards.
    """
    orders = SkewedInput(tmp_path / "orders", seed=5, rows=60, keys=5)
    orders.write(0, 1)

    def newest(rows: DataFrame) -> DataFrame:
        return rows.groupBy("key").agg(f.max(f.col("at").cast("string")).alias("newest"))

    sink = EpochRows()
    persisted = set(session.sparkContext._jsc.getPersistentRDDs().keySet())
    query = (
        newest(orders.stream(session))
        .writeStream.outputMode("update")
        .foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert_same_rows(last_rows(sink.rows, key=["key"]), newest(orders.batch(session)))
    # Other tests share the session.
    assert set(session.sparkContext._jsc.getPersistentRDDs().keySet()) <= persisted


def test_only_the_chosen_rows_are_slow(session: SparkSession) -> None:
    numbers = session.range(0, 100, 1, 1)

    def seconds(per_row_ms: int, below: int) -> float:
        begun = time.monotonic()
        chosen = slow("id", per_row_ms=per_row_ms, when=f.col("id") < below)
        values = [row["id"] for row in numbers.withColumn("id", chosen).collect()]
        assert values == list(range(100))
        return time.monotonic() - begun

    assert seconds(30, below=20) >= 20 * 0.03
    # Another row would take a day.
    seconds(86_400_000, below=0)


def test_a_row_that_is_not_released_fails_its_task(session: SparkSession, tmp_path: Path) -> None:
    block = Block(tmp_path / "block", timeout_s=0.2)
    numbers = session.range(0, 10, 1, 1).withColumn("id", block.at("id", when=f.col("id") == 7))
    with pytest.raises(Py4JJavaError, match=r"was not released in 200 ms"):
        numbers.collect()
    assert block.is_reached


def test_rows_after_a_block_stay_in_flight_and_no_others(
    session: SparkSession, tmp_path: Path
) -> None:
    """A cut while a row blocks leaves the remaining rows of that partition in flight."""
    session.conf.set(f"{KEYS}mode", "auto")
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    orders = SkewedInput(tmp_path / "orders", seed=11, rows=240, hot=0.0)
    orders.write(0)
    blocked = 300
    block, sink = Block(tmp_path / "block", timeout_s=PATIENCE_S), EpochRows()
    query = (
        orders.stream(session)
        .dropDuplicates(["key", "number"])
        .withColumn("value", block.at("value", when=f.col("number") == blocked))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        orders.write(1)
        block.wait_until_reached(PATIENCE_S)
        partition = f.pmod(f.hash("key", "number"), f.lit(PARTITIONS)).alias("partition")
        placed = orders.batch(session).where("number >= 240").select("number", partition).collect()
        at = next(row["partition"] for row in placed if row["number"] == blocked)
        behind = [n for n, p in placed if p == at and n > blocked]
        assert behind
        assert coordinator(query).cut_now()
        epoch = Checkpoint(str(tmp_path / "checkpoint")).cuts()[-1].epoch
        assert not coordinator(query).wait_for(epoch + 1, timeout=0.5)
        wait_until_overtaken(query)
        block.release()
        query.processAllAvailable()
        rows = Checkpoint(str(tmp_path / "checkpoint")).in_flight(0, at=epoch + 1)
        stayed = [row["row"]["number"] for row in rows.to_pylist() if row["partition"] == at]
        assert sorted(stayed) == sorted(behind)
    finally:
        block.release()
        query.stop()
    answer = orders.batch(session).dropDuplicates(["key", "number"])
    assert assert_same_rows(sink.rows, answer).expected == 480
    assert sink.changed == []
