"""A plan is executed as printed, or refused because the checkpoint has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut.types import Plan
from tests.spark import test_compatible as forms
from tests.support.file_epochs import PLACES, Epochs
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

OUTDATED = "CLEANCUT_PLAN_OUTDATED"


def files_of(location: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(location).rglob("*") if file.is_file()}


def bump(state: DataFrame) -> DataFrame:
    return state.withColumn("value", f.struct((f.col("value.count") + 1).alias("count")))


# The planned operation, and the command that plans it again.
IN_PLACE: dict[str, tuple[str, Callable[[str], Plan], str]] = {
    "convert to Cleancut": (
        "rocksdb",
        cleancut.convert,
        "cleancut convert file:{} --provider cleancut`",
    ),
    "convert to RocksDB": (
        "level-0",
        lambda location: cleancut.convert(location, provider="rocksdb"),
        "cleancut convert file:{} --provider rocksdb`",
    ),
    "rescale": (
        "cuts",
        lambda location: cleancut.rescale(location, 6),
        "cleancut rescale file:{} --partitions 6`",
    ),
    "rollback": (
        "cuts",
        lambda location: cleancut.rollback(location, 1),
        "cleancut rollback file:{} --to-epoch 1`",
    ),
    "edit": (
        "cuts",
        lambda location: cleancut.edit(location, 0, bump),
        "cleancut.edit('file:{}', …)`",
    ),
}


@pytest.mark.parametrize("operation", usually({"rescale", "rollback"}, list(IN_PLACE)))
def test_a_plan_is_refused_if_the_query_has_committed_epochs_since(
    spark: SparkSession, tmp_path: Path, operation: str
) -> None:
    """`rescale` and `convert` wrote an epoch of another state than that of their plans."""
    place, plan_of, command = IN_PLACE[operation]
    it = Epochs(spark, tmp_path, PLACES[place])
    it.add(3)
    it.run()
    plan = plan_of(it.checkpoint)
    it.add(2)
    assert it.run() == [3, 4]
    before = files_of(it.checkpoint)
    with pytest.raises(RequestError, match=r"was 2 when it was made, and is 4 now") as raised:
        plan.apply()
    assert raised.value.error_id == OUTDATED
    assert command.format(it.checkpoint) in str(raised.value)
    # Maintenance of the previous run may still write snapshots.
    after = files_of(it.checkpoint)
    assert before.items() <= after.items()
    assert not [file for file in after.keys() - before.keys() if "/state/" not in file]
    # A new plan is of the current state.
    again = plan_of(it.checkpoint)
    assert again.last == 4
    again.apply()


@pytest.mark.parametrize("place", usually({"cuts"}, ["rocksdb", "level-0", "cuts"]))
def test_a_clone_has_the_planned_epoch(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """A sink that began at `plan.source` lost the epochs between plan and clone."""
    it = Epochs(spark, tmp_path, PLACES[place])
    it.add(3)
    it.run()
    last = cleancut.clone(it.checkpoint, str(tmp_path / "last"))
    first = cleancut.clone(it.checkpoint, str(tmp_path / "first"), at=1)
    it.add(2)
    it.run()
    assert (last.source, first.source) == (2, 1)
    done = last.apply()
    # Its number is after all epochs of the query, for sinks that have recorded them.
    assert (done.source, done.last, done.epoch) == (2, 4, 6)
    assert first.apply().source == 1
    for name, files in (("last", 3), ("first", 2)):
        other = Epochs(spark, tmp_path, PLACES[place])
        other.checkpoint, other.files = str(tmp_path / name), it.files
        assert other.state() == it.expected(files)
        other.run()
        assert other.state() == it.state()


def test_a_clone_of_an_expired_epoch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    into = tmp_path / "clone"
    plan = cleancut.clone(it.checkpoint, str(into), partitions=5)
    it.add(2)
    it.run()
    Checkpoint(it.checkpoint).expire(retain_last=1).apply()
    with pytest.raises(RequestError, match=r"after epoch 2, and epochs 4 to 4 are") as raised:
        plan.apply()
    assert raised.value.error_id == OUTDATED
    command = f"`cleancut clone file:{it.checkpoint} {into} --partitions 5`"
    assert command in str(raised.value)
    assert not into.exists()


def test_a_replaced_savepoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    checkpoint, into = Checkpoint(it.checkpoint), tmp_path / "clone"
    checkpoint.create_savepoint("good", 1)
    plans = [
        cleancut.clone(it.checkpoint, str(into), "good"),
        cleancut.rollback(it.checkpoint, "good"),
    ]
    checkpoint.drop_savepoint("good")
    checkpoint.create_savepoint("good", 0)
    for plan in plans:
        with pytest.raises(RequestError, match=r"after epoch 1, which is epoch 0 now") as raised:
            plan.apply()
        assert raised.value.error_id == OUTDATED
    assert not into.exists()
    assert it.state() == it.expected(3)


def test_a_migration_is_refused_if_the_query_has_committed_epochs_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its rows are those of the planned epoch."""
    it = forms.Job(spark, tmp_path, "cuts")
    for _ in range(2):
        it.add()
    query = forms.counted(it, it.session())
    assert it.start(query, "update") is None
    into = tmp_path / "into"
    plan = cleancut.migrate(it.checkpoint, str(into), query, output_mode="update")
    it.add()
    assert it.start(query, "update") is None
    with pytest.raises(RequestError, match=r"was 1 when it was made, and is 2 now") as raised:
        plan.apply()
    assert raised.value.error_id == OUTDATED
    assert f"`cleancut.migrate('file:{it.checkpoint}', '{into}', …)`" in str(raised.value)
    assert not into.exists()
