"""Metrics of epochs with in-flight rows, compared with the events that a test causes."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint, coordinator
from cleancut.testing import Block, EpochRows, SkewedInput, assert_same_rows, slow
from cleancut.types import OperatorCut, ShuffleInputInfo
from tests.support.cutting import wait_until_overtaken
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sessions import with_cuts
from tests.support.tiers import long

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
PARTITIONS = 3
HELD_S = 0.8
BOUND = 4096


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return with_cuts(spark, PARTITIONS)


def unique(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["key", "number"])


def complete_tasks(query: StreamingQuery, epoch: int) -> int:
    """Returns the number of tasks of an epoch that have reported all of their stores."""
    at = coordinator(query).status().epoch
    return at.complete if at is not None and at.epoch == epoch else 0


def channels_of(progress: Mapping[str, object]) -> Mapping[str, int]:
    """Returns the in-flight metrics in the progress of an epoch."""
    operators = progress["stateOperators"]
    assert isinstance(operators, list)
    (in_flight,) = (
        operator for operator in operators if operator["operatorName"] == "cleancutInFlight"
    )
    return dict(in_flight["customMetrics"])


def test_a_partition_that_is_overtaken_is_measured_by_both_clocks(
    session: SparkSession, tmp_path: Path
) -> None:
    """A row blocks until some time after the order to cut, which only the test gives."""
    session.conf.set(f"{KEYS}mode", "auto")
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    orders = SkewedInput(tmp_path / "orders", seed=11, rows=240, hot=0.0)
    orders.write(0)
    block, sink = Block(tmp_path / "block", timeout_s=PATIENCE_S), EpochRows()
    query = (
        unique(orders.stream(session))
        .withColumn("value", block.at("value", when=f.col("number") == 300))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        fed_s = time.monotonic()
        orders.write(1)
        block.wait_until_reached(PATIENCE_S)
        wait_until(lambda: complete_tasks(query, epoch=1) == PARTITIONS - 1)
        arrived_s = time.monotonic()
        time.sleep(HELD_S)
        before_s = time.monotonic()
        assert coordinator(query).cut_now()
        ordered_s = time.monotonic()
        wait_until_overtaken(query)
        known_s = time.monotonic()
        time.sleep(HELD_S)
        released_s = time.monotonic()
        block.release()
        assert coordinator(query).wait_for(1, timeout=PATIENCE_S)
        done_s = time.monotonic()
        status = coordinator(query).status()
        query.processAllAvailable()
        history = {info.epoch: info for info in coordinator(query).history()}
        progress = {epoch["batchId"]: epoch for epoch in map(dict, query.recentProgress)}
    finally:
        query.stop()
    assert_same_rows(sink.rows, unique(orders.batch(session)))

    cut, after = history[1], history[2]
    assert (cut.mode, after.mode) == ("unaligned", "aligned")
    (operator,), (drained,) = cut.operators, after.operators
    at_least_ms, at_most_ms = (released_s - ordered_s) * 1e3, (done_s - before_s) * 1e3
    assert operator.barrier_to_capture_ms is not None
    assert operator.capture_ms is not None
    assert at_least_ms - 1 <= operator.barrier_to_capture_ms <= at_most_ms + 1
    # The executor receives the order later, and its clock stops earlier.
    captured_ms = (released_s - known_s) * 1e3
    assert captured_ms - 1 <= operator.capture_ms <= operator.barrier_to_capture_ms + 1
    assert operator.alignment_ms is not None
    aligned_ms = (released_s - arrived_s) * 1e3
    assert aligned_ms - 1 <= operator.alignment_ms <= (done_s - fed_s) * 1e3 + 1
    assert cut.barrier_to_capture_ms == operator.barrier_to_capture_ms

    whole = Checkpoint(str(tmp_path / "checkpoint")).cut(1)
    in_flight = [channel for channel in whole.shuffle_inputs if channel.in_flight_rows]
    assert [channel.partition for channel in in_flight] == list(operator.overtaken)
    assert len(in_flight) == 1
    assert 0 < operator.in_flight_rows < 240
    assert (drained.replayed_rows, drained.in_flight_rows) == (operator.in_flight_rows, 0)
    assert (drained.overtaken, drained.barrier_to_capture_ms) == ((), None)
    assert status.last is not None
    assert status.last.operators == history[status.last.epoch].operators
    for epoch in (1, 2):
        channels = Checkpoint(str(tmp_path / "checkpoint")).cut(epoch).shuffle_inputs
        expected = metrics_of(history[epoch].operators[0], channels)
        assert channels_of(progress[epoch]) == expected


def metrics_of(operator: OperatorCut, channels: Sequence[ShuffleInputInfo]) -> Mapping[str, int]:
    """Returns the metrics that the progress must have, by the cut of the epoch."""
    by_operator = {
        "isUnaligned": operator.mode == "unaligned",
        "inFlightRows": operator.in_flight_rows,
        "inFlightBytes": operator.in_flight_bytes,
        "replayedRows": operator.replayed_rows,
        "overLimitRows": 0,
        "partitionsOvertaken": len(operator.overtaken),
        "alignmentMs": operator.alignment_ms,
        "barrierToCaptureMs": operator.barrier_to_capture_ms,
        "captureMs": operator.capture_ms,
    }
    figures = {f"{name}.operator0": number or 0 for name, number in by_operator.items()}
    figures["partitionsInFlight"] = 1 if operator.in_flight_rows else 0
    for channel in channels:
        if channel.overtaken_ms is not None:
            figures[f"overtakenMs.operator0.partition{channel.partition}"] = channel.overtaken_ms
    return figures | {"barrierToCaptureMs": operator.barrier_to_capture_ms or 0}


@long
def test_a_permanently_overloaded_query_stays_at_its_limit_and_reports_it(
    session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """In each epoch one partition gets more rows than it processes before it is overtaken."""
    session.conf.set(f"{KEYS}mode", "unaligned")
    session.conf.set(f"{KEYS}maxInFlightBytes", f"{BOUND >> 10}k")
    files = 9
    orders = SkewedInput(tmp_path / "orders", seed=3, rows=300, hot=0.0)
    orders.write(*range(files))
    sink = EpochRows()
    said: dict[int, Mapping[int, str]] = {}
    started: list[StreamingQuery] = []

    def collect(batch: DataFrame, epoch: int) -> None:
        sink(batch, epoch)
        if started:
            # The warnings of the previous epoch: this one is not cut yet.
            said[epoch - 1] = coordinator(started[0]).status().overloaded

    query = (
        unique(orders.stream(session))
        .withColumn("value", slow("value", per_row_ms=8, when=f.spark_partition_id() == 0))
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        started.append(query)
        query.processAllAvailable()
        history = {info.epoch: info for info in coordinator(query).history()}
        progress = {event["batchId"]: channels_of(event) for event in query.recentProgress}
        last = coordinator(query).status()
    finally:
        query.stop()
    assert_same_rows(sink.rows, unique(orders.batch(session)))
    assert (last.in_flight, last.overloaded) == ((), {})

    epochs = [history[epoch].operators[0] for epoch in range(1, files)]
    in_flight_bytes = [epoch.in_flight_bytes or 0 for epoch in epochs]
    row_bytes = max(
        epoch.in_flight_bytes // epoch.in_flight_rows for epoch in epochs if epoch.in_flight_bytes
    )
    show(f"bytes in flight {in_flight_bytes}, of at most {BOUND}")
    show(f"rows beyond it {[epoch.over_limit_rows for epoch in epochs]}")
    # The in-flight bytes grow to the limit, and stay there while input arrives.
    assert max(in_flight_bytes) <= BOUND
    full = [number for number, epoch in enumerate(epochs, 1) if epoch.over_limit_rows]
    assert len(full) >= 4
    assert full == list(range(full[0], files))
    assert all(history[epoch].operators[0].overtaken == (0,) for epoch in full)
    assert all(in_flight_bytes[epoch - 1] > BOUND - row_bytes for epoch in full)
    assert in_flight_bytes[: full[0] - 1] == sorted(in_flight_bytes[: full[0] - 1])
    for epoch in full:
        rows = history[epoch].operators[0].over_limit_rows
        assert progress[epoch]["overLimitRows.operator0"] == rows
        assert said[epoch][0].startswith(f"{rows} rows did not stay in flight")
        assert said[epoch][0].endswith("partitions 0")
    assert all(said[epoch] == {} for epoch in range(1, full[0]))


@long
def test_a_draining_epoch_ends_before_all_rows_are_processed(
    session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    session.conf.set(f"{KEYS}mode", "unaligned")
    orders = SkewedInput(tmp_path / "orders", seed=5, rows=600, hot=0.0)
    orders.write(0)
    sink = EpochRows()
    query = (
        unique(orders.stream(session))
        .withColumn("value", slow("value", per_row_ms=25, when=f.spark_partition_id() == 0))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        orders.write(1)
        # Partition 0 has five seconds of work; its remaining rows are part of epoch 2.
        while (at := coordinator(query).status().epoch) is None or (at.epoch, at.attempts) < (2, 1):
            assert query.isActive, query.exception()
            time.sleep(0.02)
        orders.write(2)
        query.processAllAvailable()
        progress = {event["batchId"]: event for event in query.recentProgress}
    finally:
        query.stop()
    assert_same_rows(sink.rows, unique(orders.batch(session)))

    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    before, drains = (checkpoint.cut(epoch).shuffle_inputs for epoch in (1, 2))
    assert [progress[epoch]["numInputRows"] for epoch in (1, 2, 3)] == [600, 0, 600]
    usual_ms = max(channel.arrived_ms or 0 for channel in before if channel.overtaken_ms is None)
    (overtaken,) = (channel for channel in drains if channel.overtaken_ms is not None)
    least_ms = max(1000, usual_ms)
    show(f"epoch 1 took {usual_ms} ms, and epoch 2 was cut after {overtaken.overtaken_ms} ms")
    assert overtaken.overtaken_ms is not None
    assert least_ms <= overtaken.overtaken_ms
    assert overtaken.replayed_rows == sum(channel.in_flight_rows for channel in before)
    # Epoch 3 processes new input and the remaining rows.
    assert 0 < overtaken.in_flight_rows < overtaken.replayed_rows
    assert checkpoint.history()[3].operators[0].replayed_rows == overtaken.in_flight_rows


@long
def test_an_epoch_over_its_maximum_duration_is_cut_completely(
    session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """All partitions are equally slow, so that none is a straggler."""
    session.conf.set(f"{KEYS}mode", "auto")
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    session.conf.set(f"{KEYS}maxEpochDuration", "1s")
    orders = SkewedInput(tmp_path / "orders", seed=7, rows=450, hot=0.0)
    orders.write(0, 1)
    sink = EpochRows()
    query = (
        unique(orders.stream(session))
        .withColumn("value", slow("value", per_row_ms=20))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        history = coordinator(query).history()
    finally:
        query.stop()
    assert_same_rows(sink.rows, unique(orders.batch(session)))
    cut = Checkpoint(str(tmp_path / "checkpoint")).cut(1)
    overtaken = {
        channel.partition: channel.overtaken_ms
        for channel in cut.shuffle_inputs
        if channel.overtaken_ms
    }
    in_flight = sum(channel.in_flight_rows for channel in cut.shuffle_inputs)
    show(f"overtaken at {overtaken} ms, {in_flight} in-flight rows, {len(history)} epochs")
    assert len(overtaken) > 1
    assert min(overtaken.values()) >= 1000
    assert in_flight > 0
    assert history[-1].in_flight_rows == 0
