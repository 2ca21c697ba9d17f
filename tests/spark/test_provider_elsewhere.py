"""A checkpoint with the state of another provider: refused, or reported by a warning."""

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint, coordinator, errors
from cleancut._cli import main as _cli
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.options import PREFIX
from tests.support.sessions import HDFS, ROCKSDB

pytestmark = pytest.mark.spark

FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"
REFUSED = "CLEANCUT_PROVIDER_MISMATCH"


class Query:
    """A query over files that runs repeatedly with different settings."""

    def __init__(self, spark: SparkSession, home: Path, *, stateful: bool = True) -> None:
        self.spark = spark
        self.home = home
        self.stateful = stateful
        self.files = 0

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")

    def start(self, **settings: str) -> StreamingQuery:
        (self.home / "in").mkdir(exist_ok=True)
        (self.home / "in" / f"{self.files}.json").write_text(f'{{"k": {self.files}}}')
        self.files += 1
        session = self.spark.newSession()
        for key, value in {"spark.sql.shuffle.partitions": "1", **settings}.items():
            session.conf.set(key, value)
        rows = session.readStream.schema("k int").json(str(self.home / "in"))
        rows = rows.dropDuplicates(["k"]) if self.stateful else rows
        writer = rows.writeStream.format("noop").option("checkpointLocation", self.checkpoint)
        return writer.trigger(availableNow=True).start()

    def run(self, **settings: str) -> StreamingQuery:
        query = self.start(**settings)
        query.awaitTermination()
        return query


CUTS = {f"{PREFIX}cuts": "true", PROVIDER_KEY: PROVIDER_CLASS}
BEGUN = [(ROCKSDB, "1"), (ROCKSDB, "2"), (HDFS, "1")]


@pytest.mark.parametrize(("provider", "version"), BEGUN)
def test_a_query_with_state_of_another_provider_is_refused(
    provider: str, version: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path)
    query.run(**{PROVIDER_KEY: provider, FORMAT_KEY: version})
    for settings in (CUTS, CUTS | {f"{PREFIX}cuts": "auto", f"{PREFIX}requireProvider": "true"}):
        with pytest.raises(IllegalArgumentException) as raised:
            query.start(**settings)
        error = errors.find_error(raised.value)
        assert error is not None
        assert (error.error_id, error.kind) == (REFUSED, errors.ErrorKind.FIX_REQUEST)
        assert error.params["provider"] == provider
        assert error.params["location"].endswith(query.checkpoint)
        assert "cleancut convert" in str(error)
    # Its checkpoint is unchanged, and it continues.
    assert not (tmp_path / "checkpoint" / "cleancut").exists()
    query.run(**{PROVIDER_KEY: provider, FORMAT_KEY: version})


def test_a_query_without_require_provider_logs_its_provider(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A table is cut to the width of the terminal.
    monkeypatch.setenv("COLUMNS", "160")
    query = Query(spark, tmp_path)
    query.run(**{PROVIDER_KEY: ROCKSDB})
    status = coordinator(query.run(**CUTS, **{f"{PREFIX}requireProvider": "false"})).status()
    assert status.provider == ROCKSDB
    assert ROCKSDB in str(status)
    checkpoint = Checkpoint(query.checkpoint)
    assert {cut.provider for cut in checkpoint.cuts()} == {ROCKSDB}
    assert ROCKSDB.rpartition(".")[2] in str(checkpoint.cuts())
    report = checkpoint.verify()
    assert (report.ok, report.problems, report.provider) == (False, (), ROCKSDB)
    assert "was not verified" in str(report)
    assert _cli.main(["verify", query.checkpoint]) == _cli.REFUSED
    assert _cli.main(["ls", query.checkpoint]) == _cli.OK
    assert ROCKSDB.rpartition(".")[2] in capsys.readouterr().out


def test_a_query_of_cleancut_logs_no_warning(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.run(**CUTS)
    assert coordinator(query.run(**CUTS)).status().provider == PROVIDER_CLASS
    report = Checkpoint(query.checkpoint).verify()
    assert (report.ok, report.provider) == (True, None)
    assert {cut.provider for cut in Checkpoint(query.checkpoint).cuts()} == {None}


def test_a_query_without_state_is_not_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, stateful=False)
    query.run(**{PROVIDER_KEY: ROCKSDB})
    query.run(**CUTS)


def test_a_new_query_with_another_provider_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path).start(**CUTS | {PROVIDER_KEY: ROCKSDB})
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    error = errors.find_error(query)
    assert error is not None
    assert (error.error_id, error.params["provider"]) == (REFUSED, ROCKSDB)
