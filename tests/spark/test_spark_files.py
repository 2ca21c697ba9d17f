"""Spark's own files in checkpoints of real queries: `verify` and restarts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from cleancut._cli import main as _cli
from cleancut.errors import CleancutError, from_java
from tests.spark.test_cuts_on_files import Counting
from tests.support.copies import copied
from tests.support.damages import flip, without_checksum_file
from tests.support.events import write_events
from tests.support.queries import OPERATORS
from tests.support.sessions import run

pytestmark = pytest.mark.spark

CUTS = {"spark.sql.streaming.stateStore.cleancut.cuts": "true"}
LOGS = ("offsets", "commits", "sources/0")


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counting:
    """A query that stopped after epoch 3."""
    counting = Counting(spark, tmp_path_factory.mktemp("counted"))
    counting.add(4)
    counting.run("true")
    return counting


@pytest.fixture
def copy(counted: Counting, tmp_path: Path) -> Path:
    return copied(counted.checkpoint, tmp_path / "checkpoint")


def damaged_files(checkpoint: Path) -> set[str]:
    problems = Checkpoint(checkpoint).verify().problems
    return {Path(problem.object).relative_to(checkpoint).as_posix() for problem in problems}


def files(checkpoint: Path) -> list[Path]:
    """Returns one file of each kind that a restart needs."""
    (operator,) = (checkpoint / "state/0/_metadata").rglob("[!.]*")
    logs = [checkpoint / log / "2" for log in LOGS]
    return [checkpoint / "metadata", operator, checkpoint / "state/0/0/_metadata/schema", *logs]


@pytest.mark.parametrize(
    "operator", ["aggregation-update", "two-operators", "join-inner-no-bounds-v4"]
)
def test_the_files_of_an_operator_are_intact(
    operator: str, spark: SparkSession, tmp_path: Path
) -> None:
    write_events(tmp_path / "events", seed=7, files=range(3))
    run(spark, OPERATORS[operator], events=tmp_path / "events", root=tmp_path, settings=CUTS)
    report = Checkpoint(tmp_path / "checkpoint").verify()
    assert report.ok, report
    # The query ID, three logs of at least three epochs, the operator and its schema.
    assert report.spark_files >= 1 + 3 * 3 + 2


def test_each_missing_emptied_and_flipped_file_is_named(copy: Path, tmp_path: Path) -> None:
    assert damaged_files(copy) == set()
    for path in files(copy):
        name, kept = path.relative_to(copy).as_posix(), path.read_bytes()
        # The file system's own checksum finds the flip; without it the other checks find it, too.
        flip(path, position=len(kept) // 2)
        assert damaged_files(copy) == {name}
        side = without_checksum_file(path)
        side.write_bytes(b"")
        assert damaged_files(copy) == {name}
        path.unlink()
        assert damaged_files(copy) == {name}
        path.write_bytes(kept)


@pytest.mark.parametrize("log", LOGS)
def test_exchanged_entries_are_both_named(log: str, copy: Path) -> None:
    one, other = (without_checksum_file(copy / log / name) for name in ("1", "2"))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    # Equal entries cannot be assigned to an epoch.
    assert damaged_files(copy) == ({f"{log}/1", f"{log}/2"} if first != second else set())


def test_a_query_continues_with_restored_metadata(spark: SparkSession, tmp_path: Path) -> None:
    counting = Counting(spark, tmp_path)
    counting.add(2)
    counting.run("true")
    metadata = counting.checkpoint / "metadata"
    before = metadata.read_text(encoding="utf-8")
    metadata.unlink()
    counting.add(1)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # PySpark's class differs by call
        counting.run(None)
    error = from_java(raised.value)
    assert isinstance(error, CleancutError)
    assert error.error_id == "CLEANCUT_METADATA_MISSING"
    assert not metadata.exists()
    assert _cli.main(["restore-metadata", str(counting.checkpoint)]) == _cli.OK
    assert metadata.read_text(encoding="utf-8") == before
    counting.run(None)
    assert [cut.epoch for cut in Checkpoint(counting.checkpoint).cuts()] == [0, 1, 2]
    assert damaged_files(counting.checkpoint) == set()
