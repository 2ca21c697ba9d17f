"""Sealed functions that write with Delta's own connector, as docs/use/sinks/lakes.md shows them.

`make spark42` sets `CLEANCUT_DELTA_JARS`, which adds the connector to the session.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut.sinks import sealed
from cleancut.testing import SinkContract
from tests.spark.test_sink_pages import Page, grouped
from tests.support.contracts import DIES, FOLLOWED, briefly
from tests.support.spark_sinks import needs_delta
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long, needs_delta]

RUNS_AGAIN = "test_retried_epoch_is_written_once"
GAPS = "test_gaps_and_empty_epochs_are_accepted"
NAME = "spark.databricks.delta.write.txn"
Row = tuple[Any, ...]
Write = Callable[[DataFrame, int], None]


def appending(path: Path) -> Write:
    @sealed
    def append(batch: DataFrame, epoch: int) -> None:
        write = batch.write.format("delta").mode("append")
        write.option("txnAppId", "rows").option("txnVersion", epoch).save(str(path))

    return append


def merging(path: Path) -> Write:
    @sealed
    def merge(batch: DataFrame, epoch: int) -> None:
        session = batch.sparkSession
        session.conf.set(f"{NAME}AppId", "rows")
        session.conf.set(f"{NAME}Version", epoch)
        batch.createOrReplaceTempView("changes")
        try:
            session.sql(
                f"CREATE TABLE IF NOT EXISTS delta.`{path}` (id BIGINT, word STRING, n INT)"
                " USING delta"
            )
            session.sql(
                f"MERGE INTO delta.`{path}` AS kept USING changes ON kept.id = changes.id"
                " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            # The batch of a test has the session that all tests share.
            session.catalog.dropTempView("changes")
            session.conf.unset(f"{NAME}AppId")
            session.conf.unset(f"{NAME}Version")

    return merge


class Contract(SinkContract):
    def read(self, home: Path) -> Iterable[Row]:
        path = home / "table"
        if not path.exists():
            return []
        rows = self.session().read.format("delta").load(str(path)).select("id", "word", "n")
        return [tuple(row) for row in rows.collect()]


@briefly(RUNS_AGAIN, GAPS, DIES, FOLLOWED)
@pytest.mark.usefixtures("spark")
class TestAppend(Contract):
    """Without the tests of rollbacks and of other input, for which a transaction number is not
    enough.
    """

    def make_sink(self, home: Path) -> Write:
        return appending(home / "table")


@briefly(RUNS_AGAIN, GAPS, DIES, FOLLOWED)
@pytest.mark.usefixtures("spark")
class TestMerge(Contract):
    keys = ("id",)

    def make_sink(self, home: Path) -> Write:
        return merging(home / "table")


def versions(spark: SparkSession, path: Path) -> int:
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}`").count()


def delete_commit(checkpoint: Path, epoch: int) -> None:
    """Deletes an entry of the commit log, so that the query repeats its epoch."""
    for name in (str(epoch), f".{epoch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_the_documented_functions(spark: SparkSession, tmp_path: Path) -> None:
    page = Page("docs/use/sinks/lakes.md", spark, tmp_path)
    every, latest = tmp_path / "lake/every_count", tmp_path / "lake/latest_count"
    spark.sql(f"CREATE TABLE delta.`{latest}` (day DATE, k INT, count BIGINT) USING delta")
    inside = {"`/lake/": f"`{tmp_path}/lake/"}
    for at, path, text in ((1, every, {}), (2, latest, inside)):
        page.run(at, replaced=text)
        committed = versions(spark, path)
        name = path.name.replace("_", "-")
        delete_commit(tmp_path / "checkpoints" / name, epoch=1)
        page.run(at, replaced=text)
        assert versions(spark, path) == committed, "the epoch that ran again was written again"
    rows = spark.read.format("delta").load(str(latest)).collect()
    wanted = grouped(spark, tmp_path)
    assert {(row["day"], row["k"]): row["count"] for row in rows} == wanted
    assert len(rows) == len(wanted)
    appended = spark.read.format("delta").load(str(every)).groupBy("day", "k")
    assert {(row[0], row[1]): row[2] for row in appended.max("count").collect()} == wanted


FEATURES = {
    "deletion vectors": "'delta.enableDeletionVectors' = 'true'",
    "column mapping": "'delta.columnMapping.mode' = 'name'",
    "row tracking": "'delta.enableRowTracking' = 'true'",
    "a change data feed": "'delta.enableChangeDataFeed' = 'true'",
    "constraints": "'delta.constraints.small' = 'n < 100'",
}


def of_epoch(spark: SparkSession, epoch: int) -> DataFrame:
    """Returns four rows, two of which have keys of the previous epoch."""
    first = 2 * epoch
    return spark.range(first, first + 4).selectExpr(
        "id", "concat('word ', id) AS word", f"int({epoch}) AS n"
    )


@pytest.mark.parametrize("made", [appending, merging])
@pytest.mark.parametrize("feature", FEATURES)
def test_tables_unsupported_by_deltalake_are_written_once(
    feature: str, made: Callable[[Path], Write], spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, word STRING, n INT) USING delta"
        f" TBLPROPERTIES ({FEATURES[feature]})"
    )
    query = Stream(spark, tmp_path, made(path))
    query.run(epochs=2)
    delete_commit(query.checkpoint, epoch=1)
    query.run(epochs=1)
    ids = sorted(row[0] for row in spark.read.format("delta").load(str(path)).collect())
    assert ids == [*range(9)]


class Stream:
    """A query whose epochs have three rows each."""

    def __init__(self, spark: SparkSession, home: Path, write: Write) -> None:
        self._spark, self._home, self._write = spark.newSession(), home, write
        self._files = 0
        self.checkpoint = home / "checkpoint"
        (home / "in").mkdir()

    def run(self, epochs: int) -> None:
        for number in range(self._files, self._files + epochs):
            lines = (f'{{"id": {3 * number + at}}}' for at in range(3))
            path = self._home / "in" / f"{number:03}.json"
            path.write_text("\n".join(lines))
            # Spark reads files in the order of their modification times.
            os.utime(path, (number, number))
        self._files += epochs
        stream = self._spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        rows = stream.json(str(self._home / "in")).dropDuplicates(["id"])
        (
            rows.selectExpr("id", "string(id) AS word", "1 AS n")
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


@pytest.mark.parametrize("restored", [True, False], ids=["restored", "left as it is"])
def test_a_rolled_back_query_needs_a_restored_table(
    restored: bool, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    query = Stream(spark, tmp_path, appending(path))
    query.run(epochs=3)
    cleancut.rollback(str(query.checkpoint), 0, session=spark).apply()
    if restored:
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    query.run(epochs=1)
    ids = sorted(row[0] for row in spark.read.format("delta").load(str(path)).collect())
    assert ids == sorted([*range(12), *([] if restored else range(3, 9))])


def test_a_table_restored_without_its_query_lacks_epochs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As documented: no record exists of the rows that a function has written."""
    path = tmp_path / "table"
    query = Stream(spark, tmp_path, appending(path))

    def ids() -> list[int]:
        return sorted(row[0] for row in spark.read.format("delta").load(str(path)).collect())

    query.run(epochs=3)
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    query.run(epochs=1)
    assert ids() == [*range(3), *range(9, 12)]
    # The documented remedy: restore the table, and roll back the query to the epoch of that
    # version.
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    cleancut.rollback(str(query.checkpoint), 0, session=spark).apply()
    query.run(epochs=1)
    assert ids() == [*range(15)]
