"""A query that counts rows by key, one file per epoch, on each kind of state store."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.options import PREFIX
from tests.support.sessions import ROCKSDB

FIRST = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
SECOND = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
CUTS = {PROVIDER_KEY: PROVIDER_CLASS, f"{PREFIX}cuts": "true"}
PLACES = {
    "rocksdb": {PROVIDER_KEY: ROCKSDB} | SECOND,
    "rocksdb-1": {PROVIDER_KEY: ROCKSDB} | FIRST,
    "level-0": {PROVIDER_KEY: PROVIDER_CLASS} | SECOND,
    "level-0-1": {PROVIDER_KEY: PROVIDER_CLASS} | FIRST,
    "cuts": CUTS | SECOND,
    "cuts-1": CUTS | FIRST,
}
_SLOW_S = 3.0
ROWS = 40
KEYS = 13


def session_of(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Returns another session with its own settings."""
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def write_file(path: Path, rows: Iterable[Mapping[str, object]], number: int) -> None:
    """Writes an input file that Spark reads after those with lower numbers."""
    path.write_text("\n".join(map(json.dumps, rows)))
    # The source orders files by this time, and several may be written in one millisecond.
    os.utime(path, (number, number))


class Epochs:
    """Counts rows by key, one file per epoch, and records the rows of each epoch."""

    def __init__(self, spark: SparkSession, home: Path, settings: dict[str, str]) -> None:
        self.spark = spark
        self.home = home
        self.settings = {"spark.sql.shuffle.partitions": "3"} | settings
        self.checkpoint = str(home / "checkpoint")
        self.files = 0
        self.name: str | None = None
        # The ID of the query that was started last.
        self.running = spark
        self.ran: list[int] = []
        # From this epoch on its function is slow.
        self.slow_from: int | None = None
        # Whether its function fails.
        self.broken = False
        self.source_options: dict[str, str] = {}
        self.given: dict[int, dict[int, int]] = {}
        (home / "in").mkdir(parents=True, exist_ok=True)

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            rows = ({"k": (7 * at + self.files) % KEYS} for at in range(ROWS))
            write_file(self.home / "in" / f"{self.files:03}.json", rows, self.files)
            self.files += 1

    def session(self) -> SparkSession:
        return session_of(self.spark, self.settings)

    def run(self) -> list[int]:
        """Processes all files, and returns the epochs that ran."""
        ran = len(self.ran)
        self.start(availableNow=True).awaitTermination()
        return self.ran[ran:]

    def start(self, **trigger: bool) -> StreamingQuery:
        def take(batch: DataFrame, epoch: int) -> None:
            self.ran.append(epoch)
            if self.broken:
                raise RuntimeError("broken")
            self.given[epoch] = {row.k: row["count"] for row in batch.collect()}
            if self.slow_from is not None and epoch >= self.slow_from:
                time.sleep(_SLOW_S)

        self.running = self.session()
        stream = self.running.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        stream = stream.options(**self.source_options)
        counted = stream.json(str(self.home / "in")).groupBy("k").count()
        writer = counted.writeStream.outputMode("update").foreachBatch(take)
        writer = writer.option("checkpointLocation", self.checkpoint)
        writer = writer if self.name is None else writer.queryName(self.name)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def expected(self, files: int) -> Counter[int]:
        return Counter((7 * at + row) % KEYS for row in range(files) for at in range(ROWS))

    def state(self) -> Counter[int]:
        """Returns the state after the last epoch, by Spark's reader."""
        read = self.session().read.format("statestore").load(self.checkpoint)
        rows = read.select("key.k", "value.count").collect()
        return Counter({row.k: row["count"] for row in rows})
