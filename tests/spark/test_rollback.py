"""Rollbacks of a stopped query: to its own epochs, a savepoint, and back again."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._cli import main as _cli
from cleancut._provider import PROVIDER_KEY
from cleancut._session.options import PREFIX
from cleancut.sinks import sealed
from cleancut.testing import SkewedInput, slow
from tests.support.documented import blocks, commands
from tests.support.file_epochs import FIRST, KEYS, PLACES, Epochs
from tests.support.lines import STATE_FOR_SPARK
from tests.support.sessions import HDFS, START_REFUSED, with_cuts
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

REFUSED = "CLEANCUT_OPERATION_REFUSED"
GUIDE = "docs/operate/recovery.md"


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Callable[[str], Epochs]:
    return lambda place: Epochs(spark, tmp_path, PLACES[place])


def cut_of(location: str) -> cleancut.types.CutDetails:
    """Returns the last cut."""
    return Checkpoint(location).cut()


def uncommit(checkpoint: str, epoch: int) -> None:
    """Deletes the commit of an epoch."""
    for name in (f"commits/{epoch}", f"cleancut/cuts/{epoch:020}.cut"):
        path = Path(checkpoint) / name
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def rows_of(plan: cleancut.types.Plan) -> int:
    return sum(operator.rows or 0 for operator in plan.operators)


@pytest.mark.parametrize("place", usually({"rocksdb", "cuts"}, PLACES))
def test_a_query_is_rolled_back_continues_and_is_rolled_back_again(
    query: Callable[[str], Epochs], place: str
) -> None:
    it = query(place)
    it.add(6)
    assert it.run() == [0, 1, 2, 3, 4, 5]
    plan = cleancut.rollback(it.checkpoint, 2)
    assert (plan.source, plan.last, plan.epoch) == (2, 5, 7)
    assert len(plan.notes) == 2
    assert plan.state_bytes is not None
    assert plan.state_bytes > 0
    assert (plan.is_stopped, plan.owner) == (True if "cuts" in place else None, None)
    assert it.state() == it.expected(6)
    assert plan.copies_rows == ("cuts" not in place)
    assert rows_of(plan.apply()) == (KEYS if plan.copies_rows else 0)
    assert it.state() == it.expected(3)
    # All later input is read again in one epoch, together with the next file.
    it.add(2)
    assert it.run() == [8, 9]
    assert it.given[8] == it.expected(7)
    assert it.state() == it.expected(8)
    undone = cleancut.rollback(it.checkpoint, undo=True)
    assert (undone.source, undone.last) == (5, 9)
    undone.apply()
    assert it.state() == it.expected(6)
    assert it.run() == [12]
    assert it.state() == it.expected(8)
    it.add()
    assert it.run() == [13]
    assert it.state() == it.expected(9)
    if "rocksdb" not in place:
        report = Checkpoint(it.checkpoint).verify()
        assert report.ok, str(report)


def test_a_query_is_rolled_back_to_a_savepoint_or_a_time(query: Callable[[str], Epochs]) -> None:
    it = query("cuts")
    it.add(3)
    it.run()
    Checkpoint(it.checkpoint).create_savepoint("good", epoch=1)
    time.sleep(0.01)
    then = datetime.now()
    it.add(3)
    it.run()
    assert cleancut.rollback(it.checkpoint, then).source == 2
    utc = then.astimezone(UTC)
    assert cleancut.rollback(it.checkpoint, utc).source == 2
    # A savepoint suffices: the cut and the entries of Spark's logs may be deleted.
    for log in ("offsets", "commits"):
        for name in ("0", "1", "2"):
            (Path(it.checkpoint) / log / name).unlink()
            (Path(it.checkpoint) / log / f".{name}.crc").unlink(missing_ok=True)
    for epoch in (0, 1, 2):
        (Path(it.checkpoint) / f"cleancut/cuts/{epoch:020}.cut").unlink()
    plan = cleancut.rollback(it.checkpoint, "good")
    assert plan.source == 1
    plan.apply()
    assert it.state() == it.expected(2)
    assert it.run() == [8]
    assert it.given[8] == {key: it.expected(6)[key] for key in it.given[8]}
    assert it.state() == it.expected(6)


@pytest.mark.parametrize("place", usually({"cuts"}, ["rocksdb", "cuts"]))
def test_a_rollback_discards_an_uncommitted_epoch(
    query: Callable[[str], Epochs], place: str
) -> None:
    it = query(place)
    it.add(4)
    it.run()
    # As after a release whose epoch always fails: it is planned, and not committed.
    uncommit(it.checkpoint, 3)
    plan = cleancut.rollback(it.checkpoint, 1)
    assert (plan.source, plan.last, plan.epoch) == (1, 2, 5)
    plan.apply()
    assert it.state() == it.expected(2)
    assert it.run() == [6]
    assert it.state() == it.expected(4)
    if place == "cuts":
        report = Checkpoint(it.checkpoint).verify()
        assert report.ok, str(report)


@pytest.mark.parametrize("place", usually({"cuts"}, ["rocksdb", "level-0", "cuts"]))
def test_a_killed_rollback_is_discarded_by_a_rollback_to_the_last_epoch(
    query: Callable[[str], Epochs], place: str
) -> None:
    """Neither the query nor another operation could start, and older epochs may be expired."""
    it = query(place)
    it.add(4)
    it.run()
    uncommit(it.checkpoint, 3)
    cleancut.rollback(it.checkpoint, 1).apply()
    uncommit(it.checkpoint, 5)
    with pytest.raises(START_REFUSED):
        it.run()
    with pytest.raises(RequestError, match=r"epoch 3 has begun .* roll back first"):
        cleancut.rescale(it.checkpoint, 6)
    plan = cleancut.rollback(it.checkpoint, 2)
    assert (plan.source, plan.last) == (2, 2)
    assert "epoch 3" in plan.notes[0]
    done = plan.apply()
    assert it.state() == it.expected(3)
    assert it.run() == [done.epoch + 1]
    assert it.given[done.epoch + 1].keys() <= it.state().keys()
    assert it.state() == it.expected(4)
    with pytest.raises(RequestError, match=f"epoch {done.epoch + 1} is already the last one"):
        cleancut.rollback(it.checkpoint, done.epoch + 1)


def test_an_impossible_rollback_is_refused(query: Callable[[str], Epochs]) -> None:
    it = query("cuts")
    it.add(3)
    it.run()
    long_ago = datetime.now() - timedelta(days=1)
    refusals: list[tuple[Any, str]] = [
        (2, "epoch 2 is already the last one"),
        (7, "epoch 7 is not stored; committed epochs 0 to 2"),
        ("none", "no savepoint 'none'"),
        ("no/ne", "'no/ne' cannot be the name"),
        (long_ago, "no stored epoch was committed by"),
    ]
    for to, reason in refusals:
        with pytest.raises(RequestError, match=reason) as raised:
            cleancut.rollback(it.checkpoint, to)
        assert raised.value.error_id == REFUSED
    with pytest.raises(RequestError, match="contain no rollback to undo"):
        cleancut.rollback(it.checkpoint, undo=True)
    for wrong in ({}, {"to": 1, "undo": True}, {"to": 1.5}):
        with pytest.raises(TypeError):
            cleancut.rollback(it.checkpoint, **wrong)


def test_a_provider_that_cannot_choose_a_version_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    it = Epochs(spark, tmp_path, {PROVIDER_KEY: HDFS} | FIRST)
    it.add(3)
    it.run()
    with pytest.raises(RequestError, match="convert the checkpoint first"):
        cleancut.rollback(it.checkpoint, 1)
    with pytest.raises(RequestError, match="convert the checkpoint first"):
        cleancut.rescale(it.checkpoint, 2)
    cleancut.convert(it.checkpoint).apply()
    # It had the other provider at that epoch.
    with pytest.raises(RequestError, match="HDFS-backed"):
        cleancut.rollback(it.checkpoint, 1)


@pytest.mark.parametrize("left", ["one entry", "both entries"])
@pytest.mark.parametrize("place", usually({"cuts"}, ["rocksdb", "level-0", "cuts"]))
def test_a_rollback_killed_before_its_commit_is_repeated(
    query: Callable[[str], Epochs], place: str, left: str
) -> None:
    it = query(place)
    it.add(4)
    it.run()
    cleancut.rollback(it.checkpoint, 1).apply()
    gone = ["commits/5", "cleancut/cuts/00000000000000000005.cut"]
    for name in gone if left == "both entries" else [*gone, "offsets/4"]:
        path = Path(it.checkpoint) / name
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    given = dict(it.given)
    with pytest.raises(START_REFUSED):
        it.run()
    assert it.given == given
    again = cleancut.rollback(it.checkpoint, 1)
    assert (again.source, again.last) == (1, 3)
    again.apply()
    it.run()
    assert it.state() == it.expected(4)


class Written:
    """Distinct numbers, one per file, written by Spark's own file sink."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.session = spark.newSession()
        self.session.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "4")
        self.source, self.output = home / "in", str(home / "out")
        self.checkpoint = str(home / "checkpoint")
        self.source.mkdir()
        self.files = 0

    def run(self, files: int) -> None:
        for _ in range(files):
            path = self.source / f"{self.files:03}.json"
            path.write_text(json.dumps({"k": self.files}))
            os.utime(path, (self.files, self.files))
            self.files += 1
        stream = self.session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        rows = stream.json(str(self.source)).dropDuplicates(["k"]).writeStream.format("json")
        rows = rows.option("checkpointLocation", self.checkpoint).option("path", self.output)
        rows.trigger(availableNow=True).start().awaitTermination()

    def rollback(self, to: int | None = None, *, undo: bool = False) -> None:
        plan = cleancut.rollback(
            self.checkpoint, to, undo=undo, session=self.session, file_sink=self.output
        )
        plan.apply(self.session)

    def seen(self) -> list[int]:
        rows = self.session.read.schema("k int").json(self.output)
        return sorted(row.k for row in rows.collect())


# Its log is compacted after each fourth epoch: before, in, and after the discarded epochs.
@pytest.mark.parametrize("epoch", usually({"1"}, ["1", "3", "4"], lambda epoch: (int(epoch),)))
def test_sparks_file_sink_follows_a_rollback_and_continues(
    spark: SparkSession, tmp_path: Path, epoch: int
) -> None:
    it = Written(spark, tmp_path)
    it.run(6)
    it.rollback(epoch)
    assert it.seen() == list(range(epoch + 1))
    it.rollback(undo=True)
    assert it.seen() == list(range(6))
    it.run(3)
    assert it.seen() == list(range(9))
    it.rollback(epoch)
    cleancut.rescale(it.checkpoint, 2, session=it.session, file_sink=it.output).apply(it.session)
    assert it.seen() == list(range(epoch + 1))
    it.run(8)
    assert it.seen() == list(range(17))


@long
def test_a_gap_in_the_sink_log_is_filled_by_the_next_operation(
    spark: SparkSession, tmp_path: Path
) -> None:
    it = Written(spark, tmp_path)
    it.run(4)
    cleancut.edit(it.checkpoint, 0, lambda state: state, session=it.session).apply(it.session)
    it.run(1)
    # Before the sink compacts its log, which would fail.
    it.rollback(3)
    assert it.seen() == list(range(4))
    it.run(6)
    assert it.seen() == list(range(11))


@long
def test_a_repeated_operation_completes_the_log_of_the_file_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    it = Written(spark, tmp_path)
    it.run(5)
    assert (tmp_path / "out" / "_spark_metadata" / "3.compact").exists()
    with pytest.raises(RequestError, match="no file sink has written there"):
        cleancut.rollback(it.checkpoint, 2, file_sink=str(tmp_path / "elsewhere"))
    # Killed after its commit.
    cleancut.rollback(it.checkpoint, 2).apply()
    again = cleancut.rollback(it.checkpoint, 2, file_sink=it.output)
    assert again.notes == ("Epoch 6 is committed; the file sink still has to be updated.",)
    assert it.seen() == list(range(5))
    again.apply(it.session)
    assert it.seen() == list(range(3))
    it.run(6)
    assert it.seen() == list(range(11))
    # If Spark has compacted and deleted entries, their epochs are unknown.
    for name in ("2", "3.compact"):
        (tmp_path / "out" / "_spark_metadata" / name).unlink()
    with pytest.raises(RequestError, match="deleted the entry of epoch"):
        cleancut.rollback(it.checkpoint, 2, file_sink=it.output)


def distinct(rows: DataFrame, per_row_ms: int) -> DataFrame:
    """Returns each row once; rows of one partition are slow."""
    slowed = slow("value", per_row_ms=per_row_ms, when=f.spark_partition_id() == 0)
    return rows.dropDuplicates(["key", "number"]).withColumn("value", slowed)


def in_flight_by_partition(cut: cleancut.types.CutDetails) -> list[tuple[int, int]]:
    return [(channel.partition, channel.in_flight_rows) for channel in cut.shuffle_inputs]


def test_in_flight_rows_are_restored_by_a_rollback(spark: SparkSession, tmp_path: Path) -> None:
    session = with_cuts(spark, 100)
    session.conf.set(f"{PREFIX}mode", "unaligned")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    orders = SkewedInput(tmp_path / "orders", seed=11, rows=300, hot=0.0)
    location = str(tmp_path / "q")
    given: dict[int, list[int]] = {}

    @sealed
    def take(batch: DataFrame, epoch: int) -> None:
        given[epoch] = [row.number for row in batch.collect()]

    def start(per_row_ms: int) -> StreamingQuery:
        writer = distinct(orders.stream(session), per_row_ms).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", location)
        return (writer if per_row_ms else writer.trigger(availableNow=True)).start()

    orders.write(*range(8))
    query = start(per_row_ms=4)
    while len(given) < 6 and query.isActive:
        cleancut.coordinator(query).cut_now()
        time.sleep(0.1)
    query.stop()
    start(per_row_ms=0).awaitTermination()
    every = Counter(number for rows in given.values() for number in rows)
    assert every == Counter(range(8 * 300))
    cuts = Checkpoint(location).cuts()
    in_flight = [cut.epoch for cut in cuts if cut.mode == "unaligned"]
    assert in_flight, "no cut had in-flight rows"
    to, before = in_flight[len(in_flight) // 2], dict(given)
    plan = cleancut.rollback(location, to)
    plan.apply()
    now, then = cut_of(location), Checkpoint(location).cut(to)
    assert Checkpoint(location).cuts()[-1].mode == "unaligned"
    flying = in_flight_by_partition(now)
    assert flying == in_flight_by_partition(then)
    # A clone includes them if its target can store them, and is refused otherwise.
    clone = str(tmp_path / "clone")
    operations: list[Callable[[], object]] = [lambda: cleancut.clone(location, clone, cuts=False)]
    if STATE_FOR_SPARK.is_here:
        operations.append(lambda: cleancut.clone(location, clone, provider="rocksdb"))
    for act in operations:
        with pytest.raises(RequestError, match="in-flight rows, which only cuts can store"):
            act()
    cloned = cleancut.clone(location, clone, to).apply()
    assert in_flight_by_partition(cut_of(clone)) == flying
    # A rescale partitions them by hash, and they continue, with copied and referenced state.
    for partitions in (8, 16, 4, 5):
        done = cleancut.rescale(location, partitions).apply()
        # Rows are read eight times after the first rescale, and would be read 80 times at last.
        assert done.copies_rows == (partitions == 5)
        moved = cut_of(location).shuffle_inputs
        assert sum(channel.in_flight_rows for channel in moved) == sum(rows for _, rows in flying)
        assert len({channel.partition for channel in moved}) > 1
    # Independent of the current in-flight rows.
    cleancut.rollback(location, to).apply()
    cleancut.rescale(location, 5).apply()
    start(per_row_ms=0).awaitTermination()
    kept = Counter(n for epoch, rows in before.items() if epoch <= to for n in rows)
    again = Counter(n for epoch, rows in given.items() if epoch > plan.epoch for n in rows)
    assert kept + again == every
    assert again, "nothing came after it"
    location = clone
    given.clear()
    start(per_row_ms=0).awaitTermination()
    assert kept + Counter(n for rows in given.values() for n in rows) == every
    assert min(given) > cloned.epoch
    assert all(Checkpoint(there).verify().ok for there in (location, clone))


def test_the_documented_recovery_runs(
    query: Callable[[str], Epochs],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    it = query("cuts")
    it.add(3)
    it.run()
    there = "checkpoints/orders"
    _, code = blocks(GUIDE, "python")
    # The JVM has another working directory. The new release is not part of the test.
    before, release, after = code.partition("plan = ")
    named: dict[str, Any] = {}
    exec(before.replace(there, it.checkpoint), named)
    it.add()
    it.run()
    exec((release + after).replace(there, it.checkpoint), named)
    assert "Nothing has changed yet." in capsys.readouterr().out
    assert it.state() == it.expected(4)
    assert Checkpoint(f"{it.checkpoint}-test").verify().ok
    # In this process, whose session outlives the command.
    spark = it.spark
    unstopped = SimpleNamespace(
        _jvm=spark._jvm, _jsparkSession=spark._jsparkSession, stop=lambda: None
    )
    monkeypatch.setattr(_cli, "_session", lambda _: unstopped)
    typed, *_ = blocks(GUIDE, "sh")
    for command in commands(typed):
        arguments = [part.replace(there, it.checkpoint) for part in command[1:]]
        assert _cli.main(arguments) == _cli.OK, command
        if arguments[:2] == ["savepoint", "create"]:
            it.add()
            it.run()
    assert it.state() == it.expected(5)
    assert Checkpoint(f"{it.checkpoint}-copy").verify().ok
    assert Checkpoint(it.checkpoint).savepoints() == []
