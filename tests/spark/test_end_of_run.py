"""The records at the end of a run: complete before `stop()` returns, and none if it was deleted."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint
from tests.support.counted_files import CountedFiles
from tests.support.sessions import CLEANCUT

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."


@pytest.fixture
def counting(spark: SparkSession, tmp_path: Path) -> CountedFiles:
    counting = CountedFiles(tmp_path, keys=5)
    counting.add(1)
    return counting


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", CLEANCUT)
    session.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass",
        "io.cleancut.CleancutCheckpointFileManager",
    )
    session.conf.set(f"{KEYS}cuts", "true")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


def started(
    counting: CountedFiles, session: SparkSession, location: Path | None, *, once: bool = False
) -> StreamingQuery:
    writer = counting.counted(session).writeStream.format("noop").outputMode("update")
    if location is not None:
        writer = writer.option("checkpointLocation", str(location))
    if once:
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    if not once:
        query.processAllAvailable()
    return query


def ends(location: Path) -> list[str]:
    return [path.name for path in (location / "cleancut" / "owners").glob("*.ended")]


def test_marker_and_history_are_there_when_the_run_has_ended(
    counting: CountedFiles, session: SparkSession, tmp_path: Path
) -> None:
    stopped, awaited = tmp_path / "stopped", tmp_path / "awaited"
    started(counting, session, stopped).stop()
    assert len(ends(stopped)) == 1
    started(counting, session, awaited, once=True).awaitTermination()
    assert len(ends(awaited)) == 1
    for location in (stopped, awaited):
        assert len(Checkpoint(location).history()) == 1
        assert list((location / "cleancut" / "history").glob("*.parquet"))


def test_a_deleted_checkpoint_is_not_written_again(
    counting: CountedFiles, session: SparkSession, tmp_path: Path
) -> None:
    location = tmp_path / "checkpoint"
    for _ in range(3):
        query = started(counting, session, location)
        query.stop()
        # No thread writes there any more.
        shutil.rmtree(location)
    temporary = []
    for _ in range(3):
        query = started(counting, session, None)
        root = query._jsq.streamingQuery().resolvedCheckpointRoot()
        temporary.append(Path(root.removeprefix("file:")))
        assert temporary[-1].exists()
        query.stop()
        assert not temporary[-1].exists()
    # The listeners of the session have processed all of these runs.
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert [path for path in (location, *temporary) if path.exists()] == []


def test_a_checkpoint_deleted_while_its_query_runs_is_not_written_again(
    counting: CountedFiles, session: SparkSession, tmp_path: Path
) -> None:
    location = tmp_path / "checkpoint"
    query = started(counting, session, location)
    shutil.rmtree(location / "cleancut")
    query.stop()
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert not (location / "cleancut").exists()
