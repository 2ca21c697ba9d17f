"""Queries that `start()` refuses with one short error and an ID, before any write."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut.errors import ErrorKind
from tests.support.damages import flip
from tests.support.file_epochs import session_of, write_file
from tests.support.sessions import ROCKSDB

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
# A log line or a notebook cell shows this many characters completely.
LONGEST = 2000


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Runs a query over one file, with keys of its session, to its end."""
    (tmp_path / "in").mkdir()
    write_file(tmp_path / "in" / "0.json", [{"k": n % 3} for n in range(9)], 0)

    def run(location: object, *, is_stateful: bool = True, **keys: str) -> None:
        session = session_of(spark, {PROVIDER_KEY: PROVIDER_CLASS, **keys})
        rows = session.readStream.schema("k long").json(str(tmp_path / "in"))
        counted = rows.groupBy("k").count() if is_stateful else rows

        def sink(batch: DataFrame, epoch: int) -> None:
            rows = cleancut.seal(batch, epoch)
            rows.collect()
            rows.unpersist()

        writer = counted.writeStream.outputMode("update").foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(location))
        writer.trigger(availableNow=True).start().awaitTermination()

    return run


def refusal(start: Callable[[], None]) -> cleancut.CleancutError:
    with pytest.raises(IllegalArgumentException) as raised:
        start()
    error = cleancut.errors.find_error(raised.value)
    assert error is not None
    assert error.error_id in str(raised.value)
    assert len(str(raised.value)) < LONGEST
    return error


@pytest.mark.parametrize("mode", ["unaligned", "auto"])
def test_a_mode_that_requires_cuts_is_refused_without_them(
    start: Callable[..., None], tmp_path: Path, mode: str
) -> None:
    """The query ran without cuts, and only a WARN reported it, which a log level of ERROR hides."""
    location, keys = tmp_path / "checkpoint", {f"{KEYS}mode": mode}
    for cuts in ("auto", "false"):
        error = refusal(partial(start, location, **keys, **{f"{KEYS}cuts": cuts}))
        assert error.error_id == "CLEANCUT_MODE_REQUIRES_CUTS"
        assert error.params["mode"] == mode
        assert f"{KEYS}cuts=true" in str(error)
        assert "only a clone can be without" in str(error)
        assert list(location.iterdir()) == []
    start(location, **keys, **{f"{KEYS}cuts": "true"})
    # The checkpoint has cuts now.
    start(location, **keys)
    assert [cut.epoch for cut in Checkpoint(location).cuts()] == [0]


def test_the_mode_does_not_concern_a_query_without_state(
    start: Callable[..., None], tmp_path: Path
) -> None:
    start(tmp_path / "checkpoint", is_stateful=False, **{f"{KEYS}mode": "unaligned"})


@pytest.mark.parametrize("key", ["cuts", "mode"])
def test_a_location_whose_rename_is_a_copy_is_refused(start: Callable[..., None], key: str) -> None:
    value = {"cuts": "true", "mode": "unaligned"}[key]
    error = refusal(lambda: start("s3a://bucket/my/checkpoint", **{f"{KEYS}{key}": value}))
    assert error.error_id == "CLEANCUT_OBJECT_STORE_UNSAFE"
    assert "Use s3://bucket/my/checkpoint," in str(error)
    assert "cleancut clone s3://bucket/my/checkpoint s3://" in str(error)


@pytest.mark.parametrize("path", ["a//b", "a/./b", "../b", "a\nb"])
def test_a_location_that_hadoop_would_change_is_refused(
    start: Callable[..., None], path: str
) -> None:
    """Hadoop makes `a/b` of `a//b`, so that the reader refused what the query had accepted."""
    error = refusal(lambda: start(f"s3://bucket/{path}"))
    assert error.error_id == "CLEANCUT_OBJECT_LOCATION_INVALID"
    with pytest.raises(cleancut.RequestError) as raised:
        Checkpoint(f"s3://bucket/{path}")
    assert raised.value.error_id == error.error_id


def test_a_key_that_does_not_exist_is_refused(start: Callable[..., None], tmp_path: Path) -> None:
    error = refusal(lambda: start(tmp_path / "checkpoint", **{f"{KEYS}alignmentTimeOut": "3s"}))
    assert error.error_id == "CLEANCUT_CONF_INVALID"
    assert not (tmp_path / "checkpoint").exists()


def test_state_of_another_provider_is_refused(start: Callable[..., None], tmp_path: Path) -> None:
    """The file manager finds it, which Spark calls within `start()`."""
    location = tmp_path / "checkpoint"
    start(location, **{PROVIDER_KEY: ROCKSDB})
    error = refusal(lambda: start(location, **{f"{KEYS}cuts": "true"}))
    assert error.error_id == "CLEANCUT_PROVIDER_MISMATCH"


def test_a_corrupted_last_cut_is_refused(start: Callable[..., None], tmp_path: Path) -> None:
    """The coordinator finds it, which begins when Spark opens the offset log within `start()`."""
    location, keys = tmp_path / "checkpoint", {f"{KEYS}cuts": "true"}
    start(location, **keys)
    [cut] = (location / "cleancut").glob("cuts/*")
    flip(cut, position=cut.stat().st_size // 2)
    error = refusal(lambda: start(location, **keys))
    assert error.kind is ErrorKind.RESTORE
