"""A stopped query goes on from an earlier state: its own epochs, a savepoint, and back again."""

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._spark.settings import PREFIX
from tests.support.sessions import ROCKSDB

pytestmark = pytest.mark.spark

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
REFUSED = "CLEANCUT_OFFLINE_REFUSED"
FIRST = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
SECOND = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
PLACES = {
    "rocksdb": {PROVIDER_KEY: ROCKSDB} | SECOND,
    "rocksdb-1": {PROVIDER_KEY: ROCKSDB} | FIRST,
    "level-0": {PROVIDER_KEY: PROVIDER_CLASS} | SECOND,
    "level-0-1": {PROVIDER_KEY: PROVIDER_CLASS} | FIRST,
    "cuts": {PROVIDER_KEY: PROVIDER_CLASS, f"{PREFIX}cuts": "true"} | SECOND,
    "cuts-1": {PROVIDER_KEY: PROVIDER_CLASS, f"{PREFIX}cuts": "true"} | FIRST,
}
ROWS = 40
KEYS = 13


class Epochs:
    """Counts rows by key, one file an epoch, and notes what each epoch gave."""

    def __init__(self, spark: SparkSession, home: Path, settings: dict[str, str]) -> None:
        self.spark = spark
        self.home = home
        self.settings = {"spark.sql.shuffle.partitions": "3"} | settings
        self.files = 0
        self.given: dict[int, dict[int, int]] = {}
        (home / "in").mkdir(exist_ok=True)

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            rows = ({"k": (7 * at + self.files) % KEYS} for at in range(ROWS))
            path = self.home / "in" / f"{self.files:03}.json"
            path.write_text("\n".join(map(json.dumps, rows)))
            # The source goes by it, and several may come in one millisecond.
            os.utime(path, (self.files, self.files))
            self.files += 1

    def session(self) -> SparkSession:
        session = self.spark.newSession()
        for key, value in self.settings.items():
            session.conf.set(key, value)
        return session

    def run(self) -> list[int]:
        """Returns the epochs that ran."""
        session = self.session()
        ran: list[int] = []

        def take(batch: DataFrame, epoch: int) -> None:
            ran.append(epoch)
            self.given[epoch] = {row.k: row["count"] for row in batch.collect()}

        stream = session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        counted = stream.json(str(self.home / "in")).groupBy("k").count()
        query = counted.writeStream.outputMode("update").foreachBatch(take)
        query = query.option("checkpointLocation", self.checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
        return ran

    def expected(self, files: int) -> Counter[int]:
        return Counter((7 * at + of) % KEYS for of in range(files) for at in range(ROWS))

    def state(self) -> Counter[int]:
        """What the last epoch of all has left, as Spark's reader has it."""
        read = self.session().read.format("statestore").load(self.checkpoint)
        rows = read.select("key.k", "value.count").collect()
        return Counter({row.k: row["count"] for row in rows})


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Callable[[str], Epochs]:
    return lambda place: Epochs(spark, tmp_path, PLACES[place])


def rows_of(plan: cleancut.Plan) -> int:
    return sum(of.rows or 0 for of in plan.operators)


@pytest.mark.parametrize("place", PLACES)
def test_a_query_goes_back_and_on_and_back_again(
    query: Callable[[str], Epochs], place: str
) -> None:
    it = query(place)
    it.add(6)
    assert it.run() == [0, 1, 2, 3, 4, 5]
    plan = cleancut.rollback(it.checkpoint, 2)
    assert (plan.source, plan.last, plan.epoch) == (2, 5, 7)
    assert len(plan.notes) == 2
    assert it.state() == it.expected(6)
    assert rows_of(plan.apply()) == KEYS
    assert it.state() == it.expected(3)
    # What came after it comes again, at once, together with the next that is new.
    it.add(2)
    assert it.run() == [8, 9]
    assert it.given[8] == it.expected(7)
    assert it.state() == it.expected(8)
    undone = cleancut.rollback(it.checkpoint, undo=True)
    assert (undone.source, undone.last) == (5, 9)
    undone.apply()
    assert it.state() == it.expected(6)
    assert it.run() == [12]
    assert it.state() == it.expected(8)
    it.add()
    assert it.run() == [13]
    assert it.state() == it.expected(9)
    if "rocksdb" not in place:
        report = Checkpoint(it.checkpoint).verify()
        assert report.ok, str(report)
