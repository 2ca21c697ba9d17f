"""Reads the state that a query has written, without a JVM, and compares it with Spark's reader."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import open_root
from cleancut._checkpoint.tables.lookup import Operator
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._unsafe_rows.encoder import cells_of
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import from_java
from tests.support.processors import OUTPUT, RowLedger
from tests.support.tiers import long

pytestmark = pytest.mark.spark

LEVEL = "spark.sql.streaming.stateStore.cleancut.compressionLevel"


class Feed:
    """A stream of JSON files; each batch is an epoch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.source = directory / "source"
        self.checkpoint = directory / "checkpoint"
        self.source.mkdir()
        self.epoch = 0

    def frame(self) -> DataFrame:
        reader = self.spark.readStream.schema("k string, v long, at timestamp")
        return reader.option("maxFilesPerTrigger", 1).json(str(self.source))

    def add(self, lines: list[str]) -> None:
        self.epoch += 1
        text = "\n".join(lines)
        (self.source / f"{self.epoch:04d}.json").write_text(text, encoding="utf-8")

    def run(self, frame: DataFrame, mode: str) -> None:
        writer = frame.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        query.awaitTermination()

    def rows_of_spark(self, **options: Any) -> list[Any]:
        """Returns the rows of Spark's own state reader through the same provider."""
        reader = self.spark.read.format("statestore")
        for name, value in options.items():
            reader = reader.option(name, value)
        rows = reader.load(str(self.checkpoint)).select("key", "value", "partition_id").collect()
        return in_order(rows)


def values(value: Any) -> Any:
    """Returns values without field names, which may be ambiguous, and with times as in Spark."""
    match value:
        case datetime(tzinfo=zone) if zone is not None:
            # PySpark returns local time without a zone.
            return value.astimezone().replace(tzinfo=None)
        case dict():
            return [values(item) for item in value.values()]
        case list() | tuple():
            return [values(item) for item in value]
    return value


def in_order(rows: Sequence[Any]) -> list[Any]:
    return sorted((values(row) for row in rows), key=str)


def rows_of(checkpoint: Checkpoint, **options: Any) -> list[Any]:
    return in_order(checkpoint.state(0, **options).to_pylist())


def max_partitions_of_lookup(
    checkpoint: Checkpoint, store: str = "default", family: str = "default"
) -> int:
    """Looks up each key of a state; returns the maximum number of partitions read for one key."""
    by_key: dict[str, list[Any]] = {}
    for row in checkpoint.state(0, store=store, family=family).to_pylist():
        by_key.setdefault(repr(row["key"]), []).append(row)
    assert by_key
    for rows in by_key.values():
        matches = checkpoint.lookup(0, rows[0]["key"], store=store, family=family)
        assert matches.to_pylist() == rows
    root = open_root(checkpoint.location)
    stored = History(root).named(None).of(0, store)
    operator = Operator.at(root.checkpoint, 0, store, family, stored.version - 1)
    families = stored.keyed(stored.partitions[0]).families
    (matching,) = (known for known in families if known.name == family)
    schema = struct_of(matching.key_schema, "key")
    keys = [cells_of(schema, rows[0]["key"], "key") for rows in by_key.values()]
    return max(len(operator.partitions(matching, key, stored.partitions)) for key in keys)


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Iterator[Feed]:
    spark.conf.set(PROVIDER_KEY, PROVIDER_CLASS)
    yield Feed(spark, tmp_path)
    spark.conf.unset(LEVEL)


def test_the_state_of_an_aggregation_is_what_spark_reads(feed: Feed) -> None:
    counts = feed.frame().groupBy("k").agg(f.count("*"), f.avg("v"), f.collect_list("v"))
    for epoch in range(3):
        feed.add([f'{{"k": "key {i % 7}", "v": {i * epoch}}}' for i in range(20)])
    feed.run(counts, "update")
    checkpoint = Checkpoint(feed.checkpoint)
    stores = checkpoint.stores()
    assert len(stores) > 1
    assert {store.versions for store in stores} == {(1, 2, 3)}
    rows = rows_of(checkpoint)
    assert len(rows) == 7
    assert rows == feed.rows_of_spark()
    assert max_partitions_of_lookup(checkpoint) == 1
    absent = checkpoint.lookup(0, "key 8")
    assert (absent.num_rows, absent.schema) == (0, checkpoint.lookup(0, "key 1").schema)
    first = rows_of(checkpoint, version=1)
    assert first == feed.rows_of_spark(batchId=0)
    assert first != rows
    report = checkpoint.verify()
    assert report.ok, report
    assert report.loadable == 3 * len(stores)


def test_the_stores_of_a_join_are_read_by_name(feed: Feed) -> None:
    left = feed.frame().withWatermark("at", "1 hour").alias("l")
    right = feed.frame().withWatermark("at", "1 hour").alias("r")
    condition = f.expr("l.k = r.k and r.at between l.at and l.at + interval 1 hour")
    feed.add([f'{{"k": "{k}", "v": 1, "at": "2013-01-01T00:00:00Z"}}' for k in "abc"])
    feed.run(left.join(right, condition), "append")
    checkpoint = Checkpoint(feed.checkpoint)
    names = {store.store for store in checkpoint.stores()}
    assert {"left-keyToNumValues", "left-keyWithIndexToValue"} <= names
    for name in names:
        assert rows_of(checkpoint, store=name) == feed.rows_of_spark(storeName=name)
        assert max_partitions_of_lookup(checkpoint, name) == 1
    assert checkpoint.verify().ok


OPERATORS = ["windows", "sessions", "dropDuplicates", "within watermark", "all rows"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_key_is_found_in_its_partition(feed: Feed, operator: str) -> None:
    rows = feed.frame().withWatermark("at", "1 hour")
    frame = {
        "windows": rows.groupBy(f.window("at", "10 minutes"), "k").count(),
        "sessions": rows.groupBy(f.session_window("at", "10 minutes"), "k", "v").count(),
        "dropDuplicates": rows.dropDuplicates(["k", "v"]),
        "within watermark": rows.dropDuplicatesWithinWatermark(["v", "k"]),
        "all rows": rows.agg(f.sum("v")),
    }[operator]
    for epoch in range(2):
        at = f"2013-01-01T0{epoch}:00:00Z"
        feed.add([f'{{"k": "key {i % 7}", "v": {i * epoch}, "at": "{at}"}}' for i in range(20)])
    feed.run(frame, "update" if operator in ("windows", "all rows") else "append")
    assert max_partitions_of_lookup(Checkpoint(feed.checkpoint)) == 1


@long
def test_keys_of_state_variables_are_found_in_the_partition_of_their_group(feed: Feed) -> None:
    for epoch in range(2):
        feed.add([f'{{"k": "{i % 7}", "v": {i * epoch}}}' for i in range(30)])
    rows = feed.frame().select(f.col("k").cast("int").alias("k"), f.col("v").cast("int"))
    rows = rows.withColumns({"t": f.col("v").cast("long"), "s": f.lit("x")})
    rows = rows.withColumn("ts", f.timestamp_seconds("t"))
    ledger = RowLedger(event_time=True)
    keyed = rows.withWatermark("ts", "1 hour").groupBy("k")
    feed.run(keyed.transformWithState(ledger, OUTPUT, "update", "eventTime"), "update")
    checkpoint = Checkpoint(feed.checkpoint)
    names = [
        family.name for family in checkpoint.families(0) if not family.is_internal and family.keys
    ]
    assert len(names) == 6  # a value, a list and a map, twice
    assert {
        name: max_partitions_of_lookup(checkpoint, family=name) for name in names
    } == dict.fromkeys(names, 1)


def test_a_key_is_found_after_a_rescale(feed: Feed) -> None:
    feed.add([f'{{"k": "key {i % 7}", "v": {i}}}' for i in range(20)])
    feed.run(feed.frame().groupBy("k").count(), "update")
    cleancut.rescale(str(feed.checkpoint), 5).apply()
    checkpoint = Checkpoint(feed.checkpoint)
    assert len(checkpoint.stores()) == 5
    assert max_partitions_of_lookup(checkpoint) == 5


def test_a_refused_configuration_is_reported_by_its_error(feed: Feed) -> None:
    feed.spark.conf.set(LEVEL, "99")
    feed.add(['{"k": "a", "v": 1}'])
    with pytest.raises(Exception, match=r"STREAM_FAILED|CLEANCUT") as raised:
        feed.run(feed.frame().groupBy("k").count(), "update")
    error = from_java(raised.value)
    assert isinstance(error, RequestError)
    assert error.error_id == "CLEANCUT_CONF_INVALID"
    assert LEVEL in error.params["problems"]
    assert error.__cause__ is raised.value
