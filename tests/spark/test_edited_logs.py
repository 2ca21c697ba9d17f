"""A start is refused if entries of Spark's logs or the last cut were deleted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import Checkpoint, errors
from tests.support.file_epochs import PLACES, Epochs

pytestmark = pytest.mark.spark


def delete(*paths: Path) -> None:
    for path in paths:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def refusal_of(query: Epochs) -> cleancut.CleancutError:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        query.run()
    error = errors.find_error(raised.value)
    assert error is not None, raised.value
    return error


def test_deleted_entries_are_restored_by_a_rollback(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    home = Path(it.checkpoint)
    delete(home / "offsets/2", home / "commits/2")
    it.add()
    refused = refusal_of(it)
    assert (refused.error_id, refused.kind.name) == ("CLEANCUT_OFFSETS_DELETED", "FIX_REQUEST")
    assert "--to-epoch 2 --apply" in str(refused)
    assert max(it.given) == 2
    assert not Checkpoint(it.checkpoint).verify().ok
    cleancut.rollback(it.checkpoint, 1).apply()
    assert it.state() == it.expected(2)
    it.run()
    assert it.state() == it.expected(4)
    report = Checkpoint(it.checkpoint).verify()
    assert report.ok, str(report)


def test_an_empty_offset_log_is_restored_up_to_the_last_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(2)
    it.run()
    home = Path(it.checkpoint)
    delete(home / "offsets/0", home / "offsets/1")
    refused = refusal_of(it)
    assert refused.error_id == "CLEANCUT_OFFSETS_DELETED"
    assert "is empty" in str(refused)
    cleancut.rollback(it.checkpoint, 1).apply()
    it.add()
    it.run()
    assert it.state() == it.expected(3)


def test_a_rollback_skips_a_deleted_last_cut(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    last = max((Path(it.checkpoint) / "cleancut/cuts").glob("*.cut"))
    delete(last)
    assert last.name in str(Checkpoint(it.checkpoint).verify())
    it.add()
    refused = refusal_of(it)
    assert (refused.error_id, refused.kind.name) == ("CLEANCUT_COMMIT_LOG_AHEAD", "RESTORE")
    assert "--to-epoch 1 --apply" in str(refused)
    cleancut.rollback(it.checkpoint, 1).apply()
    assert it.state() == it.expected(2)
    it.run()
    assert it.state() == it.expected(4)
