"""State that operations reference without a copy, of each operator: read without a JVM, and run."""

from itertools import count, islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import open_root
from tests.support.events import write_closing, write_events
from tests.support.patience import wait_until
from tests.support.processors import OUTPUT, RowLedger
from tests.support.queries import OPERATORS, RUNNABLE
from tests.support.seeds import fixed
from tests.support.sessions import results, start, with_cuts
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

SEED = fixed(40711)
CUTS = {
    "spark.sql.streaming.stateStore.cleancut.cuts": "true",
    "spark.sql.shuffle.partitions": "2",
}
CHOICE = {"join-full_outer-bounds-v4-ids"}


def epochs(root: Path) -> list[list[str]]:
    """Returns the rows of the sink's epochs, without their numbers."""
    return [rows for _, rows in sorted(results(root).items()) if rows]


@pytest.mark.parametrize("name", usually(CHOICE, RUNNABLE))
def test_referenced_state_is_read_and_continued_like_the_original(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    events, stayed, moved = (tmp_path / part for part in ("events", "stayed", "moved"))
    location = str(moved / "checkpoint")

    def run() -> None:
        operator = OPERATORS[name]
        queries = [
            start(spark, operator, events=events, root=root, settings=CUTS)
            for root in (stayed, moved)
        ]
        for query in queries:
            query.awaitTermination()

    def digest(root: Path, at: int | None = None) -> str:
        return Checkpoint(str(root / "checkpoint")).test_restore(at, read_only=True).digest

    def refer(plan: cleancut.types.Plan, expected: str) -> None:
        assert not plan.copies_rows
        plan.apply()
        assert digest(moved) == expected
        report = Checkpoint(location).verify()
        assert report.ok, str(report)

    write_events(events, seed=SEED, files=range(2))
    run()
    first = Checkpoint(location).cuts()[0].epoch
    early, late = digest(moved, first), digest(moved)
    # Rows are read twice, three times after that, and six times after that.
    for partitions in (4, 6, 3):
        refer(cleancut.rescale(location, partitions), late)
    refer(cleancut.rollback(location, first), early)
    refer(cleancut.rollback(location, undo=True), late)
    write_events(events, seed=SEED, files=range(2, 4))
    run()
    assert digest(moved) == digest(stayed)
    refer(cleancut.rescale(location, 6), digest(stayed))
    write_closing(events, 4)
    run()
    assert digest(moved) == digest(stayed)
    assert epochs(moved) == epochs(stayed)
    assert epochs(moved)


@long
def test_variables_of_every_kind_are_divided_by_their_group(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Values, lists and maps, with and without TTL, their indexes, and timers."""
    session = with_cuts(spark, 2)
    (tmp_path / "in").mkdir()
    location = str(tmp_path / "q")

    def run(epoch: int) -> None:
        lines = [f'{{"k": {n % 17}, "v": {n * epoch}}}' for n in range(60)]
        (tmp_path / "in" / f"{epoch}.json").write_text("\n".join(lines), encoding="utf-8")
        rows = session.readStream.schema("k int, v int").json(str(tmp_path / "in"))
        rows = rows.withColumns({"t": f.col("v").cast("long"), "s": f.lit("x")})
        rows = rows.withColumn("ts", f.timestamp_seconds("t")).withWatermark("ts", "1 hour")
        ledger = RowLedger(event_time=True)
        emitted = rows.groupBy("k").transformWithState(ledger, OUTPUT, "update", "eventTime")
        writer = emitted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", location).start().awaitTermination()

    run(0)
    run(1)
    digest = Checkpoint(location).test_restore(read_only=True).digest

    def families() -> dict[str, int]:
        # Spark has no schema for the default family, which is empty.
        return {
            family.name: family.keys for family in Checkpoint(location).families(0) if family.keys
        }

    before = families()
    assert len(before) > 8
    for partitions in (8, 4, 12):
        plan = cleancut.rescale(location, partitions, session=session)
        assert not plan.copies_rows
        plan.apply(session)
        there = Checkpoint(location)
        assert there.test_restore(read_only=True).digest == digest
        assert families() == before
        assert there.verify().ok, str(there.verify())
    # A copy of referenced state is equal, and so are its clones.
    cleancut.rescale(location, 5, session=session).apply(session)
    assert Checkpoint(location).test_restore(read_only=True).digest == digest
    cleancut.rollback(location, 3, session=session).apply(session)
    run(2)
    assert Checkpoint(location).verify().ok


def test_stores_with_foreign_rows_write_snapshots_within_the_next_epochs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They waited for `minDeltasForSnapshot`, and each start read the rows of all sources again."""
    session = with_cuts(spark, 2)
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1000")
    (tmp_path / "in").mkdir()
    location = str(tmp_path / "q")
    files = count()

    def add() -> None:
        file = next(files)
        lines = [f'{{"k": {n}, "v": {file}}}' for n in range(50)]
        (tmp_path / "in" / f"{file:03}.json").write_text("\n".join(lines), encoding="utf-8")

    def start() -> StreamingQuery:
        rows = session.readStream.schema("k int, v int").json(str(tmp_path / "in"))
        writer = rows.groupBy("k").agg(f.sum("v")).writeStream.outputMode("update").format("noop")
        return writer.option("checkpointLocation", location).start()

    def has_references() -> bool:
        return any(store.referenced_bytes for store in Checkpoint(location).cut().stores)

    add()
    first = start()
    first.processAllAvailable()
    cleancut.stop(first)
    cleancut.rescale(location, 3, session=session).apply(session)
    assert has_references()
    query = start()

    def wrote_snapshots() -> bool:
        add()
        query.processAllAvailable()
        return not has_references()

    # Each epoch takes longer than the interval of Spark's maintenance in these sessions.
    wait_until(wrote_snapshots, every_s=0.3)
    query.stop()
    assert next(files) < 20
    assert Checkpoint(location).test_restore(read_only=True).rows == 50
    assert Checkpoint(location).verify().ok, str(Checkpoint(location).verify())


@long
def test_referenced_segments_are_deleted_once_each_store_has_a_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = with_cuts(spark, 2)
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    (tmp_path / "in").mkdir()
    location = tmp_path / "q"
    epochs = count()

    def run(number: int) -> None:
        for epoch in islice(epochs, number):
            lines = [f'{{"k": {n}, "v": {epoch}}}' for n in range(50)]
            path = tmp_path / "in" / f"{epoch:03}.json"
            path.write_text("\n".join(lines), encoding="utf-8")
        rows = session.readStream.schema("k int, v int").option("maxFilesPerTrigger", 1)
        counted = rows.json(str(tmp_path / "in")).groupBy("k").agg(f.sum("v"))
        writer = counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", str(location)).start().awaitTermination()

    run(3)
    done = cleancut.rescale(str(location), 4, session=session).apply(session)
    (referred,) = CutReader(open_root(location).objects).cut(done.epoch).referred
    before = {location / "cleancut" / name for name in referred.segments}
    assert before

    def sources() -> set[Path]:
        return {path for path in before if path.exists()}

    # Each start deletes old cuts, and segments 20 epochs before the retained ones.
    run(1)
    run(1)
    assert sources() == before
    run(30)
    assert Checkpoint(location).test_restore(read_only=True).rows == 50
    run(5)
    run(1)
    assert not sources()
    assert Checkpoint(location).verify().ok, str(Checkpoint(location).verify())
    assert Checkpoint(location).test_restore(read_only=True).rows == 50
