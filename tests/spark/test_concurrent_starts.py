"""Concurrent starts of a running query: Spark keeps one run, and that run works."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut.sinks import sealed
from cleancut.testing import slow
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.sessions import CLEANCUT

pytestmark = pytest.mark.spark

KEYS = 40
ATTEMPTS = 5


@pytest.mark.parametrize("sessions", [1, 2], ids=["one session", "two sessions"])
def test_one_of_two_concurrent_starts_processes_the_input(
    spark: SparkSession, tmp_path: Path, sessions: int
) -> None:
    """Without the fix CLEANCUT_SEAL_BATCH_INVALID ended the run that Spark kept."""
    counting = CountedFiles(tmp_path, keys=KEYS)
    counting.add(1)
    own_sessions = [_session(spark) for _ in range(sessions)]
    counts: dict[int, int] = {}
    queries: list[StreamingQuery] = []
    refused: list[str] = []

    def collect(batch: DataFrame, epoch: int) -> None:
        for row in batch.collect():
            counts[row["k"]] = row["count"]

    def start(session: SparkSession) -> None:
        counted = counting.counted(session)
        writer = counted.withColumn("k", slow("k", per_row_ms=50)).writeStream
        writer = writer.foreachBatch(sealed(collect)).outputMode("update")
        try:
            queries.append(
                writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            )
        except Exception as error:
            refused.append(str(error))

    start(own_sessions[0])
    try:
        # Spark refuses one start if both find the same run: the test repeats until they do.
        for _ in range(ATTEMPTS):
            threads = [
                threading.Thread(target=start, args=(own_sessions[n % sessions],)) for n in (0, 1)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if refused:
                break
            time.sleep(1)
        assert refused, "Spark refused no start, so that nothing was tested"
        alive = [query for query in queries if query.isActive]
        assert len(alive) == 1
        alive[0].processAllAvailable()
        assert counts == Counter(row % KEYS for row in range(ROWS))
    finally:
        for query in queries:
            query.stop()


def _session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", CLEANCUT)
    session.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass",
        "io.cleancut.CleancutCheckpointFileManager",
    )
    session.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "true")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session
