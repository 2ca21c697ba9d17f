"""Tasks that fail and run again, and epochs that are computed twice."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut.settings import PROVIDER_KEY
from tests.support.events import write_events
from tests.support.queries import Events
from tests.support.results import Difference, EpochFiles
from tests.support.sessions import CLEANCUT, ROCKSDB

pytestmark = pytest.mark.spark

EPOCHS = 3


def fail_once(marker: Path, when: int) -> Callable[[int], int]:
    """A function that fails its task at a key, the first time that any task gets there."""
    path = str(marker)

    def function(key: int) -> int:
        import os

        if key == when and not os.path.exists(path):  # noqa: PTH110 - runs in a worker
            with open(path, "x"):  # noqa: PTH123 - runs in a worker
                raise RuntimeError("the first attempt fails here")
        return key

    return function


def counted(events: Events) -> DataFrame:
    return events().groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("v"))


def run(
    spark: SparkSession,
    rows: DataFrame,
    root: Path,
    provider: str,
    each: Callable[[DataFrame, int], None] | None = None,
) -> dict[int, list[str]]:
    sink = EpochFiles(root / "results")
    spark.conf.set(PROVIDER_KEY, provider)
    query = (
        rows.writeStream.outputMode("update")
        .option("checkpointLocation", str(root / "checkpoint"))
        .foreachBatch(each or sink)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sink.read()


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Events:
    write_events(tmp_path / "events", seed=6, files=range(EPOCHS))
    return Events(spark, tmp_path / "events")


@pytest.mark.parametrize("place", ["before the state", "after the commit"])
def test_failed_task_runs_again_and_counts_once(
    place: str, events: Events, spark: SparkSession, tmp_path: Path
) -> None:
    marker = tmp_path / "failed"
    failing = F.udf(fail_once(marker, when=17), "int")
    if place == "before the state":
        source = events().withColumn("k", failing("k"))
        rows = source.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("v"))
    else:
        rows = counted(events).withColumn("k", failing("k"))
    found = run(spark, rows, tmp_path / "cleancut", CLEANCUT)
    assert marker.exists(), "no attempt failed"
    expected = run(spark, counted(events), tmp_path / "rocksdb", ROCKSDB)
    assert Difference.between(expected, found).none


def test_two_actions_on_one_batch_give_the_same_rows(
    events: Events, spark: SparkSession, tmp_path: Path
) -> None:
    first = EpochFiles(tmp_path / "first")
    second = EpochFiles(tmp_path / "second")

    def twice(rows: DataFrame, epoch: int) -> None:
        first(rows, epoch)
        second(rows, epoch)

    run(spark, counted(events), tmp_path / "cleancut", CLEANCUT, each=twice)
    expected = run(spark, counted(events), tmp_path / "rocksdb", ROCKSDB)
    assert Difference.between(expected, first.read()).none
    assert Difference.between(expected, second.read()).none


def test_sink_that_fails_after_the_commit_gets_the_same_rows_again(
    events: Events, spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[tuple[int, list[str]]] = []
    sink = EpochFiles(tmp_path / "cleancut" / "results")

    def fails_once_per_epoch(rows: DataFrame, epoch: int) -> None:
        sink(rows, epoch)
        seen.append((epoch, sink.read()[epoch]))
        if [e for e, _ in seen].count(epoch) == 1:
            raise RuntimeError("the sink fails after it wrote")

    for _ in range(EPOCHS):
        with pytest.raises(Exception, match="the sink fails after it wrote"):
            run(spark, counted(events), tmp_path / "cleancut", CLEANCUT, fails_once_per_epoch)
    run(spark, counted(events), tmp_path / "cleancut", CLEANCUT, fails_once_per_epoch)
    for epoch in range(EPOCHS):
        runs = [rows for e, rows in seen if e == epoch]
        assert len(runs) == 2
        assert runs[0] == runs[1]
    expected = run(spark, counted(events), tmp_path / "rocksdb", ROCKSDB)
    assert Difference.between(expected, sink.read()).none


def test_two_queries_in_one_session_do_not_meet(
    events: Events, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(PROVIDER_KEY, CLEANCUT)
    sinks = [EpochFiles(tmp_path / name / "results") for name in ("a", "b")]
    queries = [
        counted(events)
        .where(f"k % 2 = {parity}")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
        for parity, name, sink in zip((0, 1), ("a", "b"), sinks, strict=True)
    ]
    for query in queries:
        query.awaitTermination()
    both = {e: sorted(sinks[0].read()[e] + sinks[1].read()[e]) for e in range(EPOCHS)}
    expected = run(spark, counted(events), tmp_path / "rocksdb", ROCKSDB)
    assert Difference.between(expected, both).none
