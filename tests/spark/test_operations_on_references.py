"""Operations on state whose stores reference others, before any store has its own snapshot."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.file_epochs import CUTS, FIRST, SECOND, Epochs
from tests.support.tiers import long

pytestmark = pytest.mark.spark

FORMATS = [pytest.param(SECOND, id="ids"), pytest.param(FIRST, id="no-ids", marks=long)]


def referring(spark: SparkSession, home: Path, settings: dict[str, str], to: int) -> Epochs:
    """Three epochs, whose state is then repartitioned by reference."""
    it = Epochs(spark, home, CUTS | settings)
    it.add(3)
    it.run()
    refer(it, to)
    return it


def refer(it: Epochs, partitions: int) -> None:
    before = it.state()
    done = cleancut.rescale(it.checkpoint, partitions).apply()
    assert not done.copies_rows
    stores = Checkpoint(it.checkpoint).cut().stores
    assert len(stores) == partitions
    assert all(store.referenced_bytes for store in stores)
    assert it.state() == before


def is_intact(location: str) -> None:
    report = Checkpoint(location).verify()
    assert report.ok, str(report)
    Checkpoint(location).test_restore(read_only=True)


def assert_continues(it: Epochs, expected: Counter[int]) -> None:
    """The next epoch counts on top of the restored state."""
    before = it.files
    it.add()
    assert len(it.run()) == 1
    assert it.state() == expected + (it.expected(it.files) - it.expected(before))
    is_intact(it.checkpoint)


def thousand(state: DataFrame) -> DataFrame:
    count = f.struct((f.col("value.count") + 1000).alias("count"))
    return state.where("key.k <> 3").withColumn("value", count)


@long
@pytest.mark.parametrize("settings", FORMATS)
@pytest.mark.parametrize("to", [6, 1])
def test_state_is_edited(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], to: int
) -> None:
    it = referring(spark, tmp_path, settings, to)
    assert cleancut.edit(it.checkpoint, 0, thousand).apply().copies_rows
    expected = Counter({key: n + 1000 for key, n in it.expected(3).items() if key != 3})
    assert it.state() == expected
    is_intact(it.checkpoint)
    # An edited state is referenced in turn, and is rolled back to.
    refer(it, 3)
    cleancut.rollback(it.checkpoint, 1).apply()
    assert it.state() == it.expected(2)
    cleancut.rollback(it.checkpoint, undo=True).apply()
    assert it.state() == expected
    assert_continues(it, expected)


@pytest.mark.parametrize("settings", FORMATS)
@pytest.mark.parametrize("to", [6, 1])
@long
def test_other_checkpoints_are_created_from_it(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], to: int
) -> None:
    it = referring(spark, tmp_path, settings, to)
    Checkpoint(it.checkpoint).create_savepoint("kept")
    home = it.checkpoint
    made = {
        "cuts": cleancut.clone(home, str(tmp_path / "cuts"), "kept", same_query=True),
        "spread": cleancut.clone(home, str(tmp_path / "spread"), partitions=4, same_query=True),
        "level-0": cleancut.clone(home, str(tmp_path / "level-0"), cuts=False, same_query=True),
        "rocksdb": cleancut.clone(
            home, str(tmp_path / "rocksdb"), cuts=False, provider="rocksdb", same_query=True
        ),
    }
    for name, plan in made.items():
        plan.apply()
        # It is complete without its source.
        assert it.state() == it.expected(3), name
    exported = str(tmp_path / "copy")
    Checkpoint(home).replicate(exported)
    Path(home).rename(tmp_path / "gone")
    for name in [*made, "copy"]:
        it.checkpoint = str(tmp_path / name)
        assert it.state() == it.expected(3), name
        if name == "level-0":
            assert Checkpoint(it.checkpoint).verify().ok
        elif name != "rocksdb":
            is_intact(it.checkpoint)
    it.checkpoint = exported
    assert_continues(it, it.expected(3))


@pytest.mark.parametrize("settings", FORMATS)
@long
def test_earlier_cuts_expire(spark: SparkSession, tmp_path: Path, settings: dict[str, str]) -> None:
    it = referring(spark, tmp_path, settings, 6)
    refer(it, 2)
    last = Checkpoint(it.checkpoint).cut()
    done = Checkpoint(it.checkpoint).expire(retain_last=1).apply()
    assert len(done.epochs) == 4
    assert Checkpoint(it.checkpoint).cut().referenced_bytes == last.referenced_bytes
    is_intact(it.checkpoint)
    assert it.state() == it.expected(3)
    with pytest.raises(RequestError, match="epoch 1 is not stored") as raised:
        cleancut.rollback(it.checkpoint, 1)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    refer(it, 4)
    Checkpoint(it.checkpoint).expire(retain_last=1).apply()
    assert_continues(it, it.expected(3))


@long
def test_a_migrated_query_continues(spark: SparkSession, tmp_path: Path) -> None:
    it = referring(spark, tmp_path, SECOND, 6)
    stream = it.session().readStream.schema("k int").option("maxFilesPerTrigger", 1)
    rows = stream.json(str(it.home / "in")).withColumn("odd", f.col("k") % 2)
    query = rows.groupBy("k", "odd").count()

    def with_odd(state: DataFrame) -> DataFrame:
        key = f.struct(f.col("key.k").alias("k"), (f.col("key.k") % 2).alias("odd"))
        return state.select(key.alias("key"), "value")

    into = str(tmp_path / "into")
    cleancut.migrate(it.checkpoint, into, query, {0: with_odd}, "update").apply()
    it.checkpoint = into
    assert it.state() == it.expected(3)
    is_intact(into)


@long
def test_keys_of_every_kind_are_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Keys may contain lists, and texts whose collation compares bytes, but no maps."""
    it = Epochs(spark, tmp_path, CUTS)
    it.add(2)
    stream = it.session().readStream.schema("k int").json(str(tmp_path / "in"))

    def run(key: str) -> str:
        location = str(tmp_path / key[:3])
        keys = stream.selectExpr(f"{key} as key").dropDuplicates()
        writer = keys.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", location).start().awaitTermination()
        return location

    location = run("array(k, null, k + 1)")
    before = Checkpoint(location).state(0).num_rows
    assert before == len(it.expected(2))
    assert not cleancut.rescale(location, 12).apply().copies_rows
    assert Checkpoint(location).state(0).num_rows == before
    is_intact(location)
    with pytest.raises(AnalysisException, match="MAP_TYPE"):
        run("map('m', k)")
    with pytest.raises(StreamingQueryException, match="BINARY_INEQUALITY"):
        run("cast(k as string) collate UTF8_LCASE")
