"""A query on a directory whose epochs are committed by cuts, and readers without a JVM."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint, coordinator
from cleancut._cli import main as _cli
from cleancut.errors import RequestError, from_java
from tests.support.counted_files import ROWS, CountedFiles

pytestmark = pytest.mark.spark

CUTS = "spark.sql.streaming.stateStore.cleancut.cuts"
KEYS = 60


class Counting(CountedFiles):
    """A count by key that ends with its files, in separate sessions."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        super().__init__(directory, keys=KEYS)
        self.spark = spark
        self.checkpoint = directory / "checkpoint"

    def run(self, cuts: str | None) -> StreamingQuery:
        session = self.spark.newSession()
        if cuts is not None:
            session.conf.set(CUTS, cuts)
        writer = self.counted(session).writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def entries(self) -> dict[int, str]:
        files = (self.checkpoint / "commits").iterdir()
        return {int(path.name): path.read_text() for path in files if path.name.isdigit()}


def counts(checkpoint: Checkpoint) -> dict[int, int]:
    rows = checkpoint.state(0).to_pylist()
    return {row["key"]["k"]: row["value"]["count"] for row in rows}


def test_a_checkpoint_of_files_continues_with_cuts_that_python_reads(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counting = Counting(spark, tmp_path)
    counting.add(2)
    with pytest.raises(RequestError) as missing:
        coordinator(counting.run(None))
    assert missing.value.error_id == "CLEANCUT_COORDINATOR_MISSING"
    counting.add(2)
    counting.run("true")
    counting.add(2)
    # The key need not be set again.
    query = counting.run(None)
    checkpoint = Checkpoint(counting.checkpoint)
    assert [cut.epoch for cut in checkpoint.cuts()] == [2, 3, 4, 5]
    assert [cut.generation for cut in checkpoint.cuts()] == [1, 1, 2, 2]
    assert counts(checkpoint) == dict.fromkeys(range(KEYS), counting.files * ROWS // KEYS)
    assert sum(counts(checkpoint).values()) == ROWS * counting.files
    # A version before the first cut is read from its files.
    assert sum(row["value"]["count"] for row in checkpoint.state(0, version=2).to_pylist()) == 600
    report = checkpoint.verify()
    assert (report.ok, report.cuts) == (True, 4), str(report)
    entries = counting.entries()
    assert sorted(entries) == list(range(6))
    assert all(
        entries[cut.epoch] == checkpoint.cut(cut.epoch).commit_entry for cut in checkpoint.cuts()
    )
    handle = coordinator(query)
    assert handle.status().committed == 5
    assert [cut.epoch for cut in handle.history()] == [2, 3, 4, 5]
    assert handle.create_savepoint("kept") == 5
    assert _cli.main(["ls", str(counting.checkpoint), "--json"]) == _cli.OK
    assert "5" in capsys.readouterr().out
    assert _cli.main(["verify", str(counting.checkpoint), "--json"]) == _cli.OK
    assert json.loads(capsys.readouterr().out)["savepoints"] == 1


def test_disabling_cuts_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    counting = Counting(spark, tmp_path)
    counting.add(1)
    counting.run("true")
    counting.add(1)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # PySpark's class differs by call
        counting.run("false")
    error = from_java(raised.value)
    assert isinstance(error, RequestError)
    assert error.error_id == "CLEANCUT_CUTS_REQUIRED"
    assert CUTS in str(error)
    assert sorted(counting.entries()) == [0]
