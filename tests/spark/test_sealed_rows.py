"""Functions that seal batches which Spark sorts, and cannot read again after they are cached."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from tests.support.events import write_events
from tests.support.queries import OPERATORS
from tests.support.seeds import fixed
from tests.support.sessions import start

pytestmark = pytest.mark.spark

SEED = fixed(6)
EPOCHS = 2
CUTS = {"spark.sql.streaming.stateStore.cleancut.cuts": "true"}


class Totals:
    """The rows that a function gets of an aggregation whose `max` of a text makes Spark sort."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.home = home
        self.rows: dict[int, list[Row]] = {}
        write_events(home / "events", seed=SEED, files=range(EPOCHS), rows=50)

    def take(self, df: DataFrame, epoch: int) -> None:
        rows = df.orderBy("k").collect()
        # A second action reads the cached rows.
        assert df.count() == len(rows)
        self.rows[epoch] = rows

    def sealed(self, df: DataFrame, epoch: int) -> None:
        rows = cleancut.seal(df, epoch)
        self.take(rows, epoch)
        rows.unpersist()

    def run(self, mode: str) -> None:
        query = start(
            self.spark,
            OPERATORS[f"aggregation-{mode}"],
            events=self.home / "events",
            root=self.home / mode,
            sink=cleancut.sinks.sealed(self.take) if mode == "complete" else self.sealed,
            settings=CUTS,
        )
        query.awaitTermination()

    def batch(self) -> list[tuple[object, ...]]:
        events = self.spark.read.schema("k int, v int, s string").json(str(self.home / "events"))
        totals = events.groupBy("k").agg(F.count("*"), F.sum("v"), F.max("s"))
        return [tuple(row) for row in totals.orderBy("k").collect()]


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_a_sorted_batch_is_sealed(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    totals = Totals(spark, tmp_path)
    persisted = set(spark.sparkContext._jsc.getPersistentRDDs().keySet())
    totals.run(mode)
    assert sorted(totals.rows) == list(range(EPOCHS))
    newest = {row["k"]: tuple(row) for epoch in range(EPOCHS) for row in totals.rows[epoch]}
    assert [newest[k] for k in sorted(newest)] == totals.batch()
    # Other tests share the session.
    assert set(spark.sparkContext._jsc.getPersistentRDDs().keySet()) <= persisted
