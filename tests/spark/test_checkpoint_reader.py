"""The reader without a JVM against the state that a query has really written."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cleancut import Checkpoint, RequestError
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._reading.history import History
from cleancut._reading.lookup import Operator
from cleancut._reading.root import open_root
from cleancut._unsafe_rows.encoded import cells_of
from cleancut._unsafe_rows.schema import struct_of
from cleancut.errors import from_java

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
        """What Spark's own state reader says, through the same provider."""
        reader = self.spark.read.format("statestore")
        for name, value in options.items():
            reader = reader.option(name, value)
        rows = reader.load(str(self.checkpoint)).select("key", "value", "partition_id").collect()
        return in_order(rows)


def values(value: Any) -> Any:
    """Without the names of fields, which may occur twice, and with times as Spark gives them."""
    match value:
        case datetime(tzinfo=zone) if zone is not None:
            # PySpark gives local time without a zone.
            return value.astimezone().replace(tzinfo=None)
        case dict():
            return [values(item) for item in value.values()]
        case list() | tuple():
            return [values(item) for item in value]
    return value


def in_order(rows: Sequence[Any]) -> list[Any]:
    return sorted((values(row) for row in rows), key=str)


def rows_of(checkpoint: Checkpoint, **asked: Any) -> list[Any]:
    return in_order(checkpoint.state(0, **asked).to_pylist())


def found_by_key(checkpoint: Checkpoint, store: str = "default") -> int:
    """Looks up each key of a state; gives the most partitions that one was looked for in."""
    rows = checkpoint.state(0, store=store).to_pylist()
    assert rows
    for row in rows:
        assert checkpoint.lookup(0, row["key"], store=store).to_pylist() == [row]
    root = open_root(checkpoint.location)
    operator = Operator.at(root.checkpoint, 0, store)
    history = History(root)
    stored = history.named(None).of(0, store)
    (family,) = stored.keyed(stored.partitions[0]).families
    schema = struct_of(family.key_schema, "key")
    return max(
        len(operator.partitions(family, cells_of(schema, row["key"], "key"), stored.partitions))
        for row in rows
    )


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
    found = rows_of(checkpoint)
    assert len(found) == 7
    assert found == feed.rows_of_spark()
    assert found_by_key(checkpoint) == 1
    absent = checkpoint.lookup(0, "key 8")
    assert (absent.num_rows, absent.schema) == (0, checkpoint.lookup(0, "key 1").schema)
    first = rows_of(checkpoint, version=1)
    assert first == feed.rows_of_spark(batchId=0)
    assert first != found
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
        assert found_by_key(checkpoint, name) == len({of.partition for of in checkpoint.stores()})
    assert checkpoint.verify().ok


@pytest.mark.parametrize("operator", ["windows", "dropDuplicates", "within watermark", "all rows"])
def test_each_key_is_found_in_the_partition_where_it_is(feed: Feed, operator: str) -> None:
    rows = feed.frame().withWatermark("at", "1 hour")
    frame = {
        "windows": rows.groupBy(f.window("at", "10 minutes"), "k").count(),
        "dropDuplicates": rows.dropDuplicates(["k", "v"]),
        "within watermark": rows.dropDuplicatesWithinWatermark(["v", "k"]),
        "all rows": rows.agg(f.sum("v")),
    }[operator]
    for epoch in range(2):
        at = f"2013-01-01T0{epoch}:00:00Z"
        feed.add([f'{{"k": "key {i % 7}", "v": {i * epoch}, "at": "{at}"}}' for i in range(20)])
    feed.run(frame, "update" if operator in ("windows", "all rows") else "append")
    assert found_by_key(Checkpoint(feed.checkpoint)) == 1


def test_the_conf_that_the_jvm_refuses_comes_back_as_our_error(feed: Feed) -> None:
    feed.spark.conf.set(LEVEL, "99")
    feed.add(['{"k": "a", "v": 1}'])
    with pytest.raises(Exception, match=r"STREAM_FAILED|CLEANCUT") as raised:
        feed.run(feed.frame().groupBy("k").count(), "update")
    error = from_java(raised.value)
    assert isinstance(error, RequestError)
    assert error.error_id == "CLEANCUT_CONF_INVALID"
    assert LEVEL in error.params["problems"]
    assert error.__cause__ is raised.value
