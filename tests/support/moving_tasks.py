"""A query on two executors, one of which is killed; the query is then restarted.

`python -m tests.support.moving_tasks ENDPOINT LOCATION WORK REPLICAS` prints as JSON the number of
store loads after each of the two, and how many of them found the base on the executor's disk.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint
from tests.support.padded import padded
from tests.support.patience import PATIENCE_S
from tests.support.sessions import builder

KEYS = 4_000
PARTITIONS = 2
DELTAS = 10
WITHIN_S = PATIENCE_S


class Moving:
    """The query and its input."""

    def __init__(self, spark: SparkSession, work: Path, location: str) -> None:
        self.spark, self.location = spark, location
        self.work, self.source, self.local = work, work / "source", work / "local"
        self.source.mkdir()
        self.files = 0
        self.query = self.start()

    def start(self) -> StreamingQuery:
        rows = self.spark.readStream.schema("k long").json(str(self.source))
        writer = padded(rows).writeStream.format("noop").outputMode("update")
        return writer.option("checkpointLocation", self.location).start()

    def feed(self, keys: range) -> None:
        lines = "\n".join(json.dumps({"k": k}) for k in keys)
        (self.work / "part").write_text(lines)
        (self.work / "part").rename(self.source / f"{self.files}.json")
        self.files += 1
        self.query.processAllAvailable()

    def bases(self) -> Counter[int]:
        """Counts the snapshots on the disks of the executors, by process."""
        names = [path.name for path in self.local.rglob("cleancut-base-*")]
        return Counter(int(name.split("-")[2]) for name in names)

    def fill(self, replicas: int) -> None:
        """Runs until each store has a snapshot that a cut references, and all replicas exist."""
        self.feed(range(KEYS))
        for _ in range(DELTAS):
            self.feed(range(0, KEYS, 100))
        until(lambda: self.bases().total() == PARTITIONS)
        self.feed(range(0, KEYS, 50))
        if replicas:
            until(lambda: sorted(self.bases().values()) == [PARTITIONS, PARTITIONS])

    def kill(self) -> None:
        """Kills one of the executors, and waits until the other one has all snapshots."""
        lost = next(iter(self.bases()))
        before = executors(self.spark)
        os.kill(lost, signal.SIGKILL)
        until(lambda: not before <= executors(self.spark))
        until(lambda: any(n == PARTITIONS for pid, n in self.bases().items() if pid != lost))

    def loads(self, after: int = -1) -> dict[str, int]:
        counts = {"loads": 0, "local": 0}
        for progress in self.query.recentProgress:
            if progress.batchId > after:
                metrics = progress.stateOperators[0].customMetrics
                counts["loads"] += metrics["cleancutLoads"]
                counts["local"] += metrics["cleancutLocalCacheHits"]
        return counts


def main(endpoint: str, location: str, work: Path, replicas: int) -> None:
    made = cleancut.configure(
        builder("local-cluster[2,1,1024]"), endpoint=endpoint, standby_replicas=replicas
    )
    settings = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.local.dir": str(work / "local"),
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(DELTAS),
    }
    for key, value in settings.items():
        made = made.config(key, value)
    spark = made.getOrCreate()
    moving = Moving(spark, work, location)
    moving.fill(replicas)
    report: dict[str, object] = {"copies before": moving.bases().total() - PARTITIONS}
    moving.kill()
    seen = max(progress.batchId for progress in moving.query.recentProgress)
    moving.feed(range(0, KEYS, 7))
    report["after a kill"] = moving.loads(after=seen)
    moving.query.stop()
    moving.query = moving.start()
    moving.feed(range(0, KEYS, 3))
    report["after a restart"] = moving.loads()
    moving.query.stop()
    report["wrong"] = wrong(spark, moving.source, Checkpoint(location, endpoint=endpoint))
    print(json.dumps(report))


def executors(spark: SparkSession) -> set[str]:
    assert spark._jsc is not None
    known = spark._jsc.sc().getExecutorMemoryStatus().keysIterator()
    return {known.next() for _ in iter(known.hasNext, False)}


def wrong(spark: SparkSession, source: Path, checkpoint: Checkpoint) -> list[object]:
    """Returns the keys whose state differs from the answer of a batch."""
    actual = {
        row["key"]["k"]: (row["value"]["count"], row["value"]["first"])
        for row in checkpoint.state(0).to_pylist()
    }
    batch = padded(spark.read.schema("k long").json(str(source))).collect()
    expected = {row["k"]: (row["c"], row["padding"]) for row in batch}
    assert len(expected) == KEYS
    return [key for key in actual.keys() | expected.keys() if actual.get(key) != expected.get(key)]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        with contextlib.suppress(FileNotFoundError):
            if holds():
                return
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
