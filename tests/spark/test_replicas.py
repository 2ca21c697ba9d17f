"""A killed query continues from a replica of its checkpoint that was written while it ran."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from cleancut import Checkpoint, RequestError
from cleancut._session.settings import FILE_MANAGER_CLASS, FILE_MANAGER_KEY
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = fixed(83)
FILES = 30
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": CLEANCUT,
    FILE_MANAGER_KEY: FILE_MANAGER_CLASS,
    "spark.sql.streaming.stateStore.cleancut.cuts": "true",
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    "spark.sql.shuffle.partitions": "2",
}

RUNS = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.spark.test_replicas import SETTINGS
from tests.support.counted_files import CountedFiles
import cleancut

directory = Path(sys.argv[1])
builder = cleancut.configure(SparkSession.builder.master("local[2]"), cuts=True)
for key, value in SETTINGS.items():
    builder = builder.config(key, value)
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
counting = CountedFiles.__new__(CountedFiles)
counting.source = directory / "source"
query = (
    counting.counted(spark).writeStream.outputMode("update").format("noop")
    .option("checkpointLocation", str(directory / "checkpoint")).start()
)
query.awaitTermination()
"""


def last_epoch(location: Path) -> int:
    cuts = location / "cleancut" / "cuts"
    names = (
        [entry.name for entry in cuts.iterdir() if entry.name.endswith(".cut")]
        if cuts.exists()
        else []
    )
    return max((int(name.partition(".")[0]) for name in names), default=-1)


@long
def test_a_killed_query_continues_from_its_replica(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    draw = Random(SEED)
    files = CountedFiles(tmp_path, keys=50)
    files.add(FILES)
    source, copy = tmp_path / "checkpoint", tmp_path / "copy"
    # A separate process group, so that the JVM is killed with it.
    victim = subprocess.Popen(
        [sys.executable, "-c", RUNS, str(tmp_path)],
        env=environment(),
        cwd=Path.cwd(),
        start_new_session=True,
    )
    passes = []
    until = draw.randrange(8, 16)
    try:
        end = time.monotonic() + PATIENCE_S
        while last_epoch(source) < until:
            assert victim.poll() is None
            assert time.monotonic() < end
            time.sleep(draw.uniform(0.0, 0.3))
            if last_epoch(source) >= 0:
                passes.append(Checkpoint(source).replicate(copy))
    finally:
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
    assert len(passes) > 2
    assert all(copied.lag_epochs <= 4 for copied in passes)
    assert Checkpoint(copy).verify().ok
    at = last_epoch(copy)
    assert at >= passes[-1].epoch
    # Nothing of the former location is needed.
    source.rename(tmp_path / "gone")
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    sunk: list[int] = []

    def sink(batch: DataFrame, epoch: int) -> None:
        batch.collect()
        sunk.append(epoch)

    writer = files.counted(session).writeStream.outputMode("update").foreachBatch(sink)
    query = writer.option("checkpointLocation", str(copy)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert sunk[0] == at + 1
    rows = Checkpoint(copy).state(0).to_pylist()
    counts = {row["key"]["k"]: row["value"]["count"] for row in rows}
    expected = session.read.schema("k long").json(str(files.source)).groupBy("k").count()
    assert counts == {row["k"]: row["count"] for row in expected.collect()}
    assert sum(counts.values()) == FILES * ROWS
    (tmp_path / "gone").rename(source)
    with pytest.raises(RequestError, match="a query has been started on it"):
        Checkpoint(source).replicate(copy)
    killed = last_epoch(source)
    show(f"seed {SEED}, {len(passes)} passes, killed after epoch {killed}, the copy is at {at}")


@long
def test_a_fenced_run_ends_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    files = CountedFiles(tmp_path, keys=50)
    files.add(1)
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    writer = files.counted(session).writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.fence("moved to the other region")
    # A run that has checked its owner within ten seconds does not check again.
    end = time.monotonic() + PATIENCE_S
    while query.isActive:
        assert time.monotonic() < end
        files.add(1)
        time.sleep(0.5)
    said = str(query.exception())
    assert "CLEANCUT_FENCED" in said
    assert "moved to the other region" in said
    # Its commits since then are complete.
    assert checkpoint.verify().ok
