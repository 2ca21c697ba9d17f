"""Queries that are rescaled while they run: no row is lost or duplicated, and none waits."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError, coordinator
from cleancut._session.options import PREFIX
from cleancut.sinks import sealed
from cleancut.testing import SkewedInput, slow
from tests.support.documented import blocks
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.rescaled_counts import RescaledCounts
from tests.support.sessions import with_cuts
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

FILES = 12


@pytest.mark.parametrize("form", usually({"2"}, ["1", "2"]))
def test_a_busy_query_continues_on_each_number_of_partitions(
    form: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    session = with_cuts(spark, 2)
    session.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", form)
    counts = RescaledCounts(session, tmp_path)
    counts.add(FILES)
    query = counts.start()
    wait_until(lambda: len(counts.epochs) > 1)
    rescaled = []
    for partitions in (4, 2, 6, 3):
        plan = coordinator(query).rescale(partitions)
        assert plan.is_applied
        assert plan.partitions == partitions
        assert not plan.copies_rows
        rescaled.append(plan.epoch)
        counts.add()
        assert coordinator(query).wait_for(plan.epoch + 2, timeout=PATIENCE_S)
        assert counts.partitions() == set(range(partitions))
    query.processAllAvailable()
    assert query.isActive
    assert counts.stored() == counts.published() == counts.expected()
    # Each file has one epoch; each operation has an epoch of its own, and one without input.
    assert counts.epochs == [n for n in range(counts.files + 8) if n not in rescaled]
    show(f"rescaled in epochs {rescaled} of {counts.epochs[-1] + 1}")
    query.stop()
    counts.add()
    again = counts.start()
    again.processAllAvailable()
    again.stop()
    assert counts.partitions() == {0, 1, 2}
    assert counts.stored() == counts.published() == counts.expected()
    assert Checkpoint(counts.location).verify().ok


def test_an_idle_query_is_rescaled_without_input(spark: SparkSession, tmp_path: Path) -> None:
    counts = RescaledCounts(with_cuts(spark, 3), tmp_path)
    counts.add()
    query = counts.start()
    query.processAllAvailable()
    # Often, so that it meets the query's thread at every place of an idle trigger.
    for partitions in (6, 2, 4, 1, 3):
        epoch = coordinator(query).rescale(partitions).epoch
        assert coordinator(query).wait_for(epoch + 1, timeout=PATIENCE_S)
        assert counts.partitions() == set(range(partitions))
    assert counts.stored() == counts.expected()
    counts.add(2)
    query.processAllAvailable()
    query.stop()
    assert counts.stored() == counts.published() == counts.expected()


def test_rows_between_two_operators_are_not_late_after_a_rescale(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The operation's epoch must not advance the watermark by which the second one drops rows."""
    files = 5

    def run(name: str, *, rescales: bool) -> list[tuple[int, int]]:
        session, home = with_cuts(spark, 2), tmp_path / name
        (home / "in").mkdir(parents=True)
        rows: list[tuple[int, int]] = []

        def take(batch: DataFrame, _: int) -> None:
            rows.extend((row.start, row.total) for row in batch.collect())

        events = session.readStream.schema("t timestamp, k int").json(str(home / "in"))
        events = events.withWatermark("t", "2 seconds")
        small = events.groupBy(f.window("t", "5 seconds"), "k").count()
        large = small.groupBy(f.window(f.window_time("window"), "10 seconds")).agg(
            f.sum("count").alias("total")
        )
        flat = large.select(f.unix_timestamp("window.start").alias("start"), "total")
        writer = flat.writeStream.outputMode("append").foreachBatch(take)
        query = writer.option("checkpointLocation", str(home / "checkpoint")).start()
        for number in range(files):
            lines = "\n".join(
                f'{{"t": "2026-01-01T00:{number:02}:{second:02}Z", "k": {second % 7}}}'
                for second in range(60)
            )
            (home / "in" / f"{number}.json").write_text(lines, encoding="utf-8")
            query.processAllAvailable()
            if rescales:
                coordinator(query).rescale(4 if number % 2 else 6)
        query.processAllAvailable()
        query.stop()
        return sorted(rows)

    rescaled, undisturbed = run("rescaled", rescales=True), run("undisturbed", rescales=False)
    assert len(undisturbed) > 20
    assert rescaled == undisturbed


def test_in_flight_rows_move_to_their_partitions(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    session = with_cuts(spark, 2)
    session.conf.set(f"{PREFIX}mode", "unaligned")
    orders = SkewedInput(tmp_path / "orders", seed=11, rows=300, hot=0.0)
    orders.write(*range(8))
    slowed = slow("value", per_row_ms=4, when=f.spark_partition_id() == 0)
    rows = orders.stream(session).dropDuplicates(["key", "number"]).withColumn("value", slowed)
    taken: list[tuple[int, int]] = []
    epochs: list[int] = []

    @sealed
    def take(batch: DataFrame, epoch: int) -> None:
        taken.extend((row.key, row.number) for row in batch.collect())
        epochs.append(epoch)

    location = str(tmp_path / "q")
    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", location).start()

    def wait_for_an_epoch() -> None:
        seen = len(epochs)
        wait_until(lambda: len(epochs) > seen)

    moved = 0
    for partitions in (4, 2, 4):
        wait_for_an_epoch()
        coordinator(query).cut_now()
        epoch = coordinator(query).rescale(partitions).epoch
        moved += sum(read.in_flight_rows for read in Checkpoint(location).cut(epoch).shuffle_inputs)
    query.processAllAvailable()
    query.stop()
    expected = {(row.key, row.number) for row in orders.batch(session).collect()}
    assert sorted(taken) == sorted(expected)
    show(f"{moved} in-flight rows moved")


def test_the_documented_rescale_runs(spark: SparkSession, tmp_path: Path) -> None:
    counts = RescaledCounts(with_cuts(spark, 2), tmp_path)
    counts.add()
    query = counts.start()
    query.processAllAvailable()
    names: dict[str, Any] = {"query": query, "cleancut": cleancut}
    exec(blocks("docs/operate/moving.md", "python")[1], names)
    assert names["plan"].partitions == 8
    query.processAllAvailable()
    query.stop()
    assert counts.partitions() == set(range(8))
    assert counts.stored() == counts.expected()


def test_a_refused_rescale_leaves_the_query_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    counts = RescaledCounts(with_cuts(spark, 3), tmp_path)
    counts.add()
    query = counts.start()
    query.processAllAvailable()
    running = coordinator(query)

    def refused(partitions: int, why: str, timeout: float = PATIENCE_S) -> None:
        with pytest.raises(RequestError, match=why) as error:
            running.rescale(partitions, timeout=timeout)
        assert error.value.error_id == "CLEANCUT_OPERATION_REFUSED"
        assert query.isActive

    refused(3, "3 partitions already")
    refused(0, "0 is not a number of partitions")
    refused(10, "rows would be copied from 3 to 10 partitions")
    refused(6, "no epoch of this run has ended within 0 ms", timeout=0)
    counts.add()
    query.processAllAvailable()
    assert running.rescale(6).epoch == 2
    query.processAllAvailable()
    query.stop()
    assert counts.stored() == counts.published() == counts.expected()
    with pytest.raises(RequestError, match="CLEANCUT_COORDINATOR_MISSING"):
        running.rescale(3)
    session = spark.newSession()
    rate = session.readStream.format("rate").load().writeStream.format("noop")
    plain = rate.option("checkpointLocation", str(tmp_path / "plain")).start()
    try:
        with pytest.raises(RequestError, match="CLEANCUT_COORDINATOR_MISSING"):
            coordinator(plain).rescale(3)
    finally:
        plain.stop()


@long
def test_a_rescale_waits_for_the_running_epoch(spark: SparkSession, tmp_path: Path) -> None:
    counts = RescaledCounts(with_cuts(spark, 2), tmp_path)
    counts.add(3)
    counts.may_end.clear()
    query = counts.start()
    wait_until(lambda: counts.is_waiting)
    with pytest.raises(RequestError, match="no epoch of this run has ended within 100 ms"):
        coordinator(query).rescale(4, timeout=0.1)
    # Other threads may wait for the query meanwhile.
    waiting = threading.Thread(target=query.processAllAvailable)
    waiting.start()
    threading.Timer(0.5, counts.may_end.set).start()
    assert coordinator(query).rescale(4).epoch > 0
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    query.stop()
    assert counts.partitions() == set(range(4))
    assert counts.stored() == counts.published() == counts.expected()


@long
def test_a_query_that_ends_with_its_input_is_rescaled_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = RescaledCounts(with_cuts(spark, 2), tmp_path)
    counts.add(6)
    counts.takes_s = 0.5
    query = counts.start(ends=True)
    wait_until(lambda: query.recentProgress)
    coordinator(query).rescale(4)
    assert query.awaitTermination(int(PATIENCE_S))
    assert counts.partitions() == set(range(4))
    assert counts.stored() == counts.published() == counts.expected()


@long
def test_spark_s_file_sink_gets_an_entry_for_the_operation(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, output = with_cuts(spark, 2), str(tmp_path / "output")
    (tmp_path / "in").mkdir()

    def add(number: int) -> None:
        lines = f'{{"k": {number}}}\n' * 3
        (tmp_path / "in" / f"{number}.json").write_text(lines, encoding="utf-8")

    add(0)
    rows = session.readStream.schema("k int").json(str(tmp_path / "in")).dropDuplicates()
    writer = rows.writeStream.format("json").option("checkpointLocation", str(tmp_path / "q"))
    query = writer.start(output)
    query.processAllAvailable()
    with pytest.raises(RequestError, match="pass the path as file_sink"):
        coordinator(query).rescale(4)
    epoch = coordinator(query).rescale(4, file_sink=output).epoch
    for number in range(1, 12):
        add(number)
        query.processAllAvailable()
    query.stop()
    assert (tmp_path / "output" / "_spark_metadata" / f"{epoch}").exists() or epoch % 10 == 9
    emitted = session.read.json(output).collect()
    assert sorted(row.k for row in emitted) == list(range(12))


@long
def test_the_operation_can_be_repeated_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """A run that has committed no epoch has no plan from which it could continue."""
    counts = RescaledCounts(with_cuts(spark, 2), tmp_path)
    counts.add()
    first = counts.start()
    first.processAllAvailable()
    assert cleancut.stop(first) == 0
    query = counts.start()
    wait_until(lambda: query.status["message"] == "Waiting for data to arrive")
    with pytest.raises(RequestError, match="no epoch of this run has ended"):
        coordinator(query).rescale(4, timeout=0.5)
    counts.add()
    query.processAllAvailable()
    coordinator(query).rescale(4)
    query.processAllAvailable()
    query.stop()
    assert counts.stored() == counts.published() == counts.expected()
