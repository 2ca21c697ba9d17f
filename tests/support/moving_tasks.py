"""A query on two executors, one of which is killed; restarted, and continued by a successor.

`python -m tests.support.moving_tasks STEP ENDPOINT LOCATION WORK REPLICAS` prints as JSON the
number of store loads after each of these, and how many of them found the base on the executor's
disk. The step is "kill", and then "successor" in another application, whose disks are empty.
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
from pyspark.sql.streaming.readwriter import DataStreamWriter

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

    def __init__(self, spark: SparkSession, work: Path, local: Path, location: str) -> None:
        self.spark, self.location = spark, location
        self.work, self.source, self.local = work, work / "source", local
        self.source.mkdir(exist_ok=True)
        self.files = len(list(self.source.iterdir()))
        self.query: StreamingQuery

    def build(self) -> DataStreamWriter:
        rows = self.spark.readStream.schema("k long").json(str(self.source))
        return padded(rows).writeStream.format("noop").outputMode("update")

    def start(self) -> None:
        self.query = self.build().option("checkpointLocation", self.location).start()

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
            # A report about a trigger without input may have no operator.
            if progress.batchId > after and progress.stateOperators:
                metrics = progress.stateOperators[0].customMetrics
                counts["loads"] += metrics["cleancutLoads"]
                counts["local"] += metrics["cleancutLocalCacheHits"]
        return counts


def kill(moving: Moving, replicas: int) -> dict[str, object]:
    moving.start()
    moving.fill(replicas)
    report: dict[str, object] = {"copies before": moving.bases().total() - PARTITIONS}
    moving.kill()
    seen = max(progress.batchId for progress in moving.query.recentProgress)
    moving.feed(range(0, KEYS, 7))
    report["after a kill"] = moving.loads(after=seen)
    moving.query.stop()
    moving.start()
    moving.feed(range(0, KEYS, 3))
    report["after a restart"] = moving.loads()
    return report


def take_over(moving: Moving) -> dict[str, object]:
    with cleancut.successor(moving.build, moving.location) as successor:
        successor.prepare(epochs=0)
        report: dict[str, object] = {"copies before": moving.bases().total()}
        moving.query = successor.take_over()
    moving.feed(range(0, KEYS, 2))
    report["after a takeover"] = moving.loads()
    return report


def main(step: str, endpoint: str, location: str, work: Path, replicas: int) -> None:
    local = work / step
    spark = application(endpoint, local, replicas)
    moving = Moving(spark, work, local, location)
    report = kill(moving, replicas) if step == "kill" else take_over(moving)
    moving.query.stop()
    report["wrong"] = wrong(spark, moving.source, Checkpoint(location, endpoint=endpoint))
    print(json.dumps(report))


def application(endpoint: str, local: Path, replicas: int) -> SparkSession:
    made = cleancut.configure(
        builder("local-cluster[2,1,1024]"), endpoint=endpoint, standby_replicas=replicas
    )
    settings = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.local.dir": str(local),
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(DELTAS),
    }
    for key, value in settings.items():
        made = made.config(key, value)
    return made.getOrCreate()


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
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
