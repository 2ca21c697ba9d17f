"""Spark's own offline repartition of states that it misinterprets, compared with `rescale`.

If a case fails because Spark's result is right, the guide has to be updated.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from tests.support.copies import copied
from tests.support.file_epochs import PLACES, session_of, write_file
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

ROWS = 60
JOIN = "spark.sql.streaming.join.stateFormatVersion"
Form = Callable[[Callable[[str], DataFrame]], DataFrame]


def joined(read: Callable[[str], DataFrame]) -> DataFrame:
    left = read("a").withWatermark("t", "10 hours")
    right = read("b").withWatermark("t", "10 hours").withColumnRenamed("t", "u")
    near = f.expr("t between u - interval 1 hour and u + interval 1 hour")
    return left.join(right.withColumnRenamed("v", "w"), "k").where(near).select("k", "v", "w")


def in_all(read: Callable[[str], DataFrame]) -> DataFrame:
    return read("a").agg(f.count("*").alias("n"), f.sum("v").alias("v"))


def first_rows(read: Callable[[str], DataFrame]) -> DataFrame:
    return read("a").select("k", "v").limit(100)


class Work:
    """Two inputs of two files each, and a query over them."""

    def __init__(
        self, spark: SparkSession, home: Path, form: Form, mode: str, version: str
    ) -> None:
        self.home, self.form, self.mode = home, form, mode
        settings = PLACES["rocksdb"] | {"spark.sql.shuffle.partitions": "3", JOIN: version}
        self.session = session_of(spark, settings)

    def add(self, number: int) -> None:
        for name in ("a", "b"):
            (self.home / name).mkdir(exist_ok=True)
            rows = (
                {"k": at % 7, "v": number * ROWS + at, "t": f"2026-01-01 0{number}:00:{at:02}"}
                for at in range(ROWS)
            )
            write_file(self.home / name / f"{number}.json", rows, number)

    def run(self, checkpoint: Path) -> Counter[str]:
        """Returns the rows of its epochs; in update mode those of the last epoch."""
        counted: Counter[str] = Counter()

        def take(batch: DataFrame, _: int) -> None:
            rows = Counter(map(str, batch.collect()))
            if self.mode == "update":
                counted.clear()
            counted.update(rows)

        def read(name: str) -> DataFrame:
            stream = self.session.readStream.schema("k int, v int, t timestamp")
            return stream.json(str(self.home / name))

        writer = self.form(read).writeStream.outputMode(self.mode).foreachBatch(take)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return counted


CASES: dict[str, tuple[Form, str, str]] = {
    "join, state format 2": (joined, "append", "2"),
    "join, state format 4": (joined, "append", "4"),
    "aggregation without keys": (in_all, "update", "2"),
    "limit": (first_rows, "append", "2"),
}
# The result of Spark's repartition in each case: missing and surplus rows, or its error.
SPARKS = {"join, state format 2": "as it was"}


@pytest.mark.parametrize("case", CASES)
def test_rescale_keeps_rows_that_sparks_repartition_may_lose(
    case: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    work = Work(spark, tmp_path, *CASES[case])
    begun = tmp_path / "begun"
    work.add(0)
    work.run(begun)
    copies = [copied(begun, tmp_path / name) for name in ("sparks", "ours", "alone")]
    work.add(1)
    expected = work.run(copies[2])
    assert expected
    cleancut.rescale(str(copies[1]), 5, session=work.session).apply()
    assert work.run(copies[1]) == expected
    try:
        work.session._streamingCheckpointManager.repartition(str(copies[0]), 5)
        actual = work.run(copies[0])
        said = f"{(expected - actual).total()} rows missing, {(actual - expected).total()} too many"
    except Exception as error:
        said = str(error).split("\n")[0][:120]
    show(f"{case}: {expected.total()} rows; Spark's own repartition: {said}")
    right = "0 rows missing, 0 too many"
    assert (said == right) == (case in SPARKS)
