"""Damaged, truncated, missing and exchanged files: a clear error, never a wrong result."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from cleancut import Checkpoint, CleancutError, DamagedError, errors
from cleancut.settings import PROVIDER_KEY
from tests.support.events import write_events
from tests.support.queries import OPERATORS, Events
from tests.support.sessions import CLEANCUT, start

pytestmark = pytest.mark.spark

OPERATOR = OPERATORS["aggregation-update"]
EPOCHS = 4


@pytest.fixture(scope="module")
def intact(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query that has run for a few epochs and was stopped, and events, of one file more."""
    home = tmp_path_factory.mktemp("intact")
    write_events(home / "events", seed=5, files=range(EPOCHS))
    start(
        spark, OPERATOR, events=home / "events", root=home / "query", provider=CLEANCUT
    ).awaitTermination()
    write_events(home / "events", seed=5, files=range(EPOCHS, EPOCHS + 1))
    return home


@pytest.fixture
def home(intact: Path, tmp_path: Path) -> Path:
    """The stopped query in a copy; its events stay where its source knows them."""
    shutil.copytree(intact / "query", tmp_path / "query")
    (tmp_path / "events").symlink_to(intact / "events")
    return tmp_path


def frames(home: Path, partition: int) -> list[Path]:
    """The deltas of one partition, oldest first."""
    store = home / "query" / "checkpoint" / "cleancut" / "stores" / "0" / str(partition)
    return sorted((store / "default").glob("*.delta"))


def without_checksum_file(path: Path) -> Path:
    """Drops the side file of the file system, so that our own check has to find the damage."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    return path


def flip(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[-1])
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    return victim


def flip_under_the_file_systems_checksum(home: Path) -> Path:
    victim = frames(home, 1)[-1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    return victim


def truncate(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[-1])
    victim.write_bytes(victim.read_bytes()[:-20])
    return victim


def remove_the_last(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[-1])
    victim.unlink()
    return victim


def remove_one_in_the_chain(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[1])
    victim.unlink()
    return victim


def exchange_with_another_partition(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[-1])
    victim.write_bytes(frames(home, 2)[-1].read_bytes())
    return victim


def exchange_with_another_version(home: Path) -> Path:
    victim = without_checksum_file(frames(home, 1)[-1])
    victim.write_bytes(frames(home, 1)[-2].read_bytes())
    return victim


DAMAGES: dict[Callable[[Path], Path], str] = {
    flip: "CLEANCUT_FRAME_DAMAGED",
    flip_under_the_file_systems_checksum: "CLEANCUT_FRAME_DAMAGED",
    truncate: "CLEANCUT_FRAME_DAMAGED",
    remove_the_last: "CLEANCUT_FRAME_MISSING",
    remove_one_in_the_chain: "CLEANCUT_FRAME_MISSING",
    exchange_with_another_partition: "CLEANCUT_FRAME_MISPLACED",
    exchange_with_another_version: "CLEANCUT_FRAME_MISPLACED",
}


def failure_of_a_restart(spark: SparkSession, home: Path) -> CleancutError:
    """What a restart fails with. No Python stands between the query and its state here."""
    spark.conf.set(PROVIDER_KEY, CLEANCUT)
    query = (
        OPERATOR.build(Events(spark, (home / "events").resolve()))
        .writeStream.outputMode(OPERATOR.mode)
        .option("checkpointLocation", str(home / "query" / "checkpoint"))
        .format("noop")
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    found = errors.from_java(caught.value)
    assert found is not None, str(caught.value)
    return found


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_restart_on_a_damaged_frame_fails_and_names_it(
    damage: Callable[[Path], Path], home: Path, spark: SparkSession
) -> None:
    victim = damage(home)
    found = failure_of_a_restart(spark, home)
    assert isinstance(found, DamagedError)
    assert found.error_id == DAMAGES[damage]
    assert victim.parent.name in str(found)
    assert str(int(victim.name[:20])) in str(found)


@pytest.mark.parametrize(
    "damage", [flip, truncate, remove_the_last], ids=lambda damage: damage.__name__
)
def test_version_before_the_damaged_one_stays_loadable(
    damage: Callable[[Path], Path], home: Path, spark: SparkSession
) -> None:
    location = home / "query" / "checkpoint"
    sound = Checkpoint(str(location)).state(0, version=EPOCHS - 1)
    damage(home)
    rows = (
        spark.read.format("statestore").option("batchId", EPOCHS - 2).load(str(location)).collect()
    )
    assert len(rows) == sound.num_rows > 0
    expected = {(row["key"]["k"], row["value"]["count"]) for row in sound.to_pylist()}
    assert {(row.key.k, row.value["count"]) for row in rows} == expected
    with pytest.raises(CleancutError):
        Checkpoint(str(location)).state(0, version=EPOCHS)


@pytest.mark.parametrize("content", [None, b"{}", b'{"format":"cleancut","formatVersion":99}'])
def test_root_that_is_not_of_a_known_format_is_refused(
    content: bytes | None, home: Path, spark: SparkSession
) -> None:
    note = without_checksum_file(home / "query" / "checkpoint" / "cleancut" / "format.json")
    note.unlink() if content is None else note.write_bytes(content)
    found = failure_of_a_restart(spark, home)
    assert found.error_id == "CLEANCUT_FORMAT_UNKNOWN"
    assert "format.json" in str(found)
