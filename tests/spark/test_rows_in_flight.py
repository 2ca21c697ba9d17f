"""A query that is cut on request while its tasks run, as in docs/concepts/cuts.md."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, RequestError, coordinator
from cleancut.sinks import sealed
from cleancut.testing import Block, EpochRows, SkewedInput, assert_same_rows
from tests.support.cutting import cut_at
from tests.support.documented import blocks
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
FILES = 8
ROWS = 400
PARTITIONS = 12


WITHOUT_EXTENSION = """
import sys
from pathlib import Path
from cleancut._session.settings import EXTENSIONS_KEY
from cleancut.testing import SkewedInput
from tests.support.sessions import builder, with_cuts
home = Path(sys.argv[1])
session = with_cuts(builder("local[2]").config(EXTENSIONS_KEY, "").getOrCreate(), 3)
rows = SkewedInput(home / "orders", seed=6, rows=400, hot=0.0).stream(session)
writer = rows.dropDuplicates(["key", "number"]).writeStream.format("noop")
writer = writer.option("checkpointLocation", str(home / "q"))
writer.trigger(availableNow=True).start().awaitTermination()
"""


def run_without_the_extension(home: Path) -> "subprocess.CompletedProcess[str]":
    """Starts a separate driver, because a session keeps its extensions."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTENSION, str(home)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = with_cuts(spark, PARTITIONS)
    session.conf.set(f"{KEYS}mode", "unaligned")
    return session


def values(file: int) -> list[int]:
    return [(file * 37 + i * i) % 150 for i in range(ROWS)]


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_sealing_query_is_detected_in_its_first_epoch(
    session: SparkSession, tmp_path: Path, wrapped: bool
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    source = SkewedInput(tmp_path / "source", seed=5)
    source.write(0, 1)
    reasons: dict[int, Mapping[int, str]] = {}
    started = threading.Event()

    def collect(batch: DataFrame, epoch: int) -> None:
        assert started.wait(PATIENCE_S)
        batch.collect()
        reasons[epoch] = coordinator(query).status().aligned

    query = (
        source.stream(session)
        .groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .foreachBatch(sealed(collect) if wrapped else collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        started.set()
        query.processAllAvailable()
        assert reasons.keys() == {0, 1}
        if wrapped:
            assert [dict(by_operator) for by_operator in reasons.values()] == [{}, {}]
        else:
            assert all("seal" in by_operator[0] for by_operator in reasons.values())
            assert not coordinator(query).cut_now()
    finally:
        query.stop()


def test_a_query_cut_on_request_counts_each_row_once(session: SparkSession, tmp_path: Path) -> None:
    source, location = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    for file in range(FILES):
        rows = "\n".join(f'{{"k": {k}}}' for k in values(file))
        (source / f"{file:04d}.json").write_text(rows, encoding="utf-8")
    emitted: dict[int, list[Row]] = {}
    seen: set[int] = set()

    @sealed
    def collect(batch: DataFrame, epoch: int) -> None:
        emitted[epoch] = batch.collect()

    reader = session.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    query = (
        reader.json(str(source))
        .groupBy("k")
        .count()
        .writeStream.outputMode("update")
        .foreachBatch(collect)
        .option("checkpointLocation", str(location))
        .start()
    )
    done = threading.Event()

    def cut() -> None:
        while not done.wait(0.15):
            coordinator(query).cut_now()
            seen.add(sum(channel.rows for channel in coordinator(query).status().in_flight))

    cutter = threading.Thread(target=cut)
    try:
        while not emitted:
            time.sleep(0.05)
        cutter.start()
        while len(emitted) < FILES:
            assert query.isActive, query.exception()
            time.sleep(0.05)
        done.set()
        cutter.join()
        query.processAllAvailable()
        assert coordinator(query).status().in_flight == ()
        for block in blocks("docs/concepts/cuts.md", "python"):
            exec(block, {"cleancut": cleancut, "query": query})
        last = query.lastProgress
        assert last is not None
        channels = last.stateOperators[-1]
        assert (channels.operatorName, channels.numRowsTotal) == ("cleancutInFlight", 0)
    finally:
        done.set()
        query.stop()
    counts = {row["k"]: row["count"] for epoch in sorted(emitted) for row in emitted[epoch]}
    assert counts == Counter(k for file in range(FILES) for k in values(file))

    checkpoint = Checkpoint(str(location))
    assert checkpoint.verify().problems == ()
    check_the_last_rows_in_flight(checkpoint)
    assert max(seen) > 0


def check_the_last_rows_in_flight(checkpoint: Checkpoint) -> None:
    """Reads the in-flight rows by their store, and checks their order."""
    open_cuts = [cut for cut in checkpoint.cuts() if cut.mode == "unaligned"]
    assert open_cuts, "no cut had in-flight rows"
    epoch, channel = open_cuts[-1].epoch, "cleancut-channel-0"
    channels = [
        channel_cut
        for channel_cut in checkpoint.cut(epoch).shuffle_inputs
        if channel_cut.in_flight_rows
    ]
    assert {(channel_cut.operator, channel_cut.store) for channel_cut in channels} == {(0, channel)}
    rows = checkpoint.state(0, store=channel, at=epoch)
    assert rows.num_rows == sum(channel_cut.in_flight_rows for channel_cut in channels) > 0
    flying = checkpoint.in_flight(0, at=epoch)
    in_order = sorted(rows.to_pylist(), key=lambda row: (row["partition"], row["key"]["number"]))
    assert flying.column("row").to_pylist() == [row["value"] for row in in_order]
    assert checkpoint.in_flight(0).num_rows == 0
    with pytest.raises(RequestError) as none:
        checkpoint.state(0, store=channel)
    assert none.value.error_id == "CLEANCUT_STATE_NOT_FOUND"
    assert {"k", "count"} <= {field.name for field in rows.schema.field("value").type}


def stop_with_rows_in_flight(query: StreamingQuery, orders: SkewedInput, block: Block) -> None:
    """Writes file 1, cuts its epoch while a task is blocked, and stops before the next epoch."""
    try:
        query.processAllAvailable()
        orders.write(1)
        block.wait_until_reached(PATIENCE_S)
        with coordinator(query)._held():
            cut_at(block, query)
            wait_until(lambda: coordinator(query).status().in_flight, otherwise=query.exception)
            query.stop()
    finally:
        block.release()
        query.stop()


def test_in_flight_rows_are_replayed_by_the_next_run_without_input(
    session: SparkSession, tmp_path: Path
) -> None:
    """As within a trigger interval, or after a crash directly after the cut: no epoch is planned
    yet.
    """
    session.conf.set(f"{KEYS}mode", "auto")
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    orders, location = SkewedInput(tmp_path / "orders", seed=6, rows=400, hot=0.0), tmp_path / "q"
    block, sink = Block(tmp_path / "block", timeout_s=PATIENCE_S), EpochRows()

    def distinct(rows: DataFrame, **changed: Column) -> DataFrame:
        odd = f.when(f.col("number") % 2 == 1, f.col("number"))
        return rows.withColumns({"odd": odd} | changed).dropDuplicates(["key", "number"])

    def start(*, drains: bool = True, **changed: Column) -> StreamingQuery:
        rows = distinct(orders.stream(session), **changed)
        rows = rows.withColumn("value", block.at("value", when=f.col("number") == 600))
        writer = rows.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(location))
        return (writer.trigger(availableNow=True) if drains else writer).start()

    orders.write(0)
    stop_with_rows_in_flight(start(drains=False), orders, block)
    checkpoint = Checkpoint(str(location))
    assert [cut.epoch for cut in checkpoint.cuts()] == [0, 1]
    left = sum(channel_cut.in_flight_rows for channel_cut in checkpoint.cut(1).shuffle_inputs)
    assert left > 0
    # A driver that cannot read them must not continue without them.
    refused = run_without_the_extension(tmp_path)
    assert refused.returncode != 0
    assert "[CLEANCUT_IN_FLIGHT_NOT_CONSUMED]" in refused.stderr, refused.stderr
    # Nor may a driver with other columns, which Spark itself would accept.
    number = f.col("number")
    without_null = f.coalesce(number, f.lit(0))
    for changed in (
        {"more": number},
        {"value": number.cast("string")},
        {"odd": without_null},
    ):
        other = start(drains=True, **changed)
        with pytest.raises(
            StreamingQueryException, match=r"\[CLEANCUT_IN_FLIGHT_SCHEMA_MISMATCH\]"
        ):
            other.awaitTermination()
    assert [cut.epoch for cut in checkpoint.cuts()] == [0, 1]
    for planned in (location / "offsets").glob("*2*"):
        planned.unlink()

    second = start()
    second.awaitTermination()
    # In-flight rows are processed first anyway.
    assert coordinator(second).status().aligned == {0: "the query ends with this epoch"}
    assert [cut.epoch for cut in checkpoint.cuts()] == [0, 1, 2]
    drained = checkpoint.cut(2).shuffle_inputs
    assert sum(channel_cut.in_flight_rows for channel_cut in drained) == 0
    assert_same_rows(sink.rows, distinct(orders.batch(session)))
    # The first run may have ended before its entry of epoch 1; then the second has written it.
    before = json.loads((location / "commits" / "1").read_text().splitlines()[1])
    planned = json.loads((location / "offsets" / "2").read_text().splitlines()[1])
    assert planned["batchWatermarkMs"] == before["nextBatchWatermarkMs"]

    # Without in-flight rows, a run without input does nothing.
    start().awaitTermination()
    assert [cut.epoch for cut in checkpoint.cuts()] == [0, 1, 2]


def test_a_run_with_the_trigger_once_processes_input_and_in_flight_rows(
    session: SparkSession, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # Only `cut_now` overtakes a task.
    session.conf.set(f"{KEYS}mode", "auto")
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    orders = SkewedInput(tmp_path / "orders", seed=13, rows=100, hot=0.0)
    block, sink = Block(tmp_path / "block", timeout_s=PATIENCE_S), EpochRows()

    def start(*numbers: int, **trigger: bool) -> StreamingQuery:
        orders.write(*numbers)
        rows = orders.stream(session).dropDuplicates(["key", "number"])
        rows = rows.withColumn("value", block.at("value", when=f.col("number") == 110))
        writer = rows.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    stop_with_rows_in_flight(start(0), orders, block)
    left = Checkpoint(str(tmp_path / "checkpoint")).in_flight(0).num_rows
    assert len(sink.rows) == 200 - left

    once = start(2, once=True)
    once.awaitTermination()
    assert [epoch["numInputRows"] for epoch in once.recentProgress] == [100]
    assert_same_rows(sink.rows, orders.batch(session).dropDuplicates(["key", "number"]))
    assert Checkpoint(str(tmp_path / "checkpoint")).in_flight(0).num_rows == 0
