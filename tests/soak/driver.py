"""The measured driver: `python -m tests.soak.driver HOME ENDPOINT RESTART_S`.

A query with epochs of a second and in-flight rows runs on S3, with maintenance, retention and a
server of metrics. It is stopped and started periodically in the same driver, and a savepoint is
created and an older one dropped. `HOME/samples.jsonl` has a line for each sample, and the query
ends when `HOME/done` exists.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import CleancutError, coordinator
from cleancut.sinks import sealed
from cleancut.testing import slow
from cleancut.types import Coordinator
from tests.support.kills import die_with_the_test
from tests.support.patience import PATIENCE_S
from tests.support.sessions import builder, take_out_defaults

CHECKPOINT = "s3://bucket/soak"
SAMPLE_S, SAVEPOINT_S = 10.0, 60.0
_ROWS_PER_S, _KEYS, _PARTITIONS = 200, 500, 4
_SAVEPOINTS = 3
_PREFIX = "spark.sql.streaming.stateStore.cleancut."
_MB = 1 << 20


class Driver:
    """A driver with one query.

    Attributes:
        home: the directory of its files.
        rows: the number of rows that the sink received.
    """

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home = home
        self.rows = 0
        self._spark = spark
        self._query: StreamingQuery | None = None
        self._savepoints: deque[str] = deque()
        self._epoch, self._starts = -1, 0

    def run(self, restart_s: float) -> None:
        """Runs the query until the end is requested."""
        began = time.monotonic()
        due = {self._sample: began, self._keep: began + SAVEPOINT_S, self._restart: began}
        every = {self._sample: SAMPLE_S, self._keep: SAVEPOINT_S, self._restart: restart_s}
        while not (self.home / "done").exists():
            for task in due:
                if time.monotonic() >= due[task]:
                    due[task] = time.monotonic() + every[task]
                    task()
            self._check()
            time.sleep(0.2)
        self._stop()

    def _check(self) -> None:
        if self._query is not None and (failure := self._query.exception()) is not None:
            raise failure

    def _coordinator(self) -> Coordinator | None:
        # A query has a coordinator only between its start and its end.
        if self._query is not None:
            with contextlib.suppress(CleancutError):
                return coordinator(self._query)
        return None

    def _restart(self) -> None:
        self._stop()
        self._query = start(self._spark, self._receive)
        self._starts += 1

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._check()

    def _receive(self, rows: DataFrame, epoch: int) -> None:
        self.rows += rows.count()
        self._epoch = epoch

    def _keep(self) -> None:
        query = self._coordinator()
        if query is None or self._epoch < 0:
            return
        query.cut_now()
        name = f"soak-{time.time_ns()}"
        query.create_savepoint(name)
        self._savepoints.append(name)
        if len(self._savepoints) > _SAVEPOINTS:
            query.drop_savepoint(self._savepoints.popleft())

    def _sample(self) -> None:
        jvm: Any = self._spark._jvm
        factory = jvm.java.lang.management.ManagementFactory
        memory = factory.getMemoryMXBean()
        memory.gc()
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
        sample = {
            "at_s": time.time(),
            "epoch": self._epoch,
            "starts": self._starts,
            "heap_mb": memory.getHeapMemoryUsage().getUsed() / _MB,
            "jvm_rss_mb": _rss_mb(pid),
            "python_rss_mb": _rss_mb(os.getpid()),
            "jvm_threads": _count(pid, "task"),
            "python_threads": _count(os.getpid(), "task"),
            "jvm_files": _count(pid, "fd"),
            "python_files": _count(os.getpid(), "fd"),
        }
        with (self.home / "samples.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample) + "\n")


def start(spark: SparkSession, receive: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Starts the query."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", _ROWS_PER_S).load()
    keyed = rows.withColumn("key", F.col("value") % _KEYS).withWatermark("timestamp", "10 seconds")
    windows = keyed.groupBy(F.window("timestamp", "10 seconds"), "key").count()
    # One partition is slow, so that rows stay in flight.
    is_late = F.spark_partition_id() == 0
    late = windows.withColumn("count", slow("count", per_row_ms=1, when=is_late))
    return (
        late.writeStream.outputMode("update")
        .option("checkpointLocation", CHECKPOINT)
        .foreachBatch(sealed(receive))
        .trigger(processingTime="1 second")
        .start()
    )


class _Runnable:
    """A Python object that the JVM has a proxy of."""

    class Java:
        """Its interface, as Py4J requires it."""

        implements = ["java.lang.Runnable"]  # noqa: RUF012 - Py4J requires a list


def _open_connection_of_finalizer(spark: SparkSession) -> None:
    """Waits for the connection by which the JVM reports proxies that it has collected.

    Py4J opens it once, for the finalizer of the first collected proxy, which can be hours after
    the start.

    Raises:
        RuntimeError: it is not open in time.
    """
    context: Any = spark.sparkContext
    untyped: Any = java_gateway
    untyped.ensure_callback_server_started(context._gateway)
    before = threading.active_count()
    context._jvm.java.util.Objects.isNull(_Runnable())
    until = time.monotonic() + PATIENCE_S
    while threading.active_count() == before:
        if time.monotonic() > until:
            raise RuntimeError("the finalizer of the JVM has opened no connection")
        context._jvm.java.lang.System.gc()
        time.sleep(0.1)


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no resident memory")


def _count(pid: int, part: str) -> int:
    return len(list(Path(f"/proc/{pid}/{part}").iterdir()))


@contextlib.contextmanager
def session(endpoint: str) -> Iterator[SparkSession]:
    """A session with the settings of the query."""
    spark = builder("local[2]").getOrCreate()
    take_out_defaults(spark)
    for key, value in {
        f"{_PREFIX}mode": "unaligned",
        f"{_PREFIX}s3.endpoint": endpoint,
        f"{_PREFIX}s3.region": "us-east-1",
        "spark.sql.shuffle.partitions": str(_PARTITIONS),
        "spark.sql.streaming.minBatchesToRetain": "20",
        f"{_PREFIX}historyRetention": "10m",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    }.items():
        spark.conf.set(key, value)
    _open_connection_of_finalizer(spark)
    yield spark
    spark.stop()


def main(home: Path, endpoint: str, restart_s: float) -> None:
    """Runs the driver, and serves its metrics."""
    with session(endpoint) as spark, cleancut.serve_metrics(spark, port=0) as metrics:
        staged = home / ".metrics"
        staged.write_text(str(metrics.port))
        staged.rename(home / "metrics")
        driver = Driver(home, spark)
        driver.run(restart_s)
        (home / "rows").write_text(str(driver.rows))


if __name__ == "__main__":
    die_with_the_test()
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
