"""`Channel` between queries: each epoch once and in order, and the errors of readers."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from cleancut import Channel, RequestError
from cleancut.errors import error_of
from cleancut.sinks import EpochFiles
from tests.support.counting_proxy import counting_proxy
from tests.support.documented import blocks
from tests.support.patience import PATIENCE_S
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.sessions import with_cuts
from tests.support.sink_places import Bucket, Disk, Place, credentials, session_at
from tests.support.tiers import long

pytestmark = pytest.mark.spark

ROWS = 30
KEYS = 7
SCHEMA = "k BIGINT, v BIGINT"
PAGE = "docs/use/channels.md"


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started, credentials(spark):
        yield started


@pytest.fixture(params=["disk", pytest.param("bucket", marks=long)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "disk":
        return Disk(tmp_path / "channel")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return Bucket(request.getfixturevalue("server").endpoint, f"lake/{tmp_path.name}/channel")


class Flow:
    """A query that sends one file per epoch, and queries that count the rows of the channel."""

    def __init__(self, spark: SparkSession, home: Path, place: Place) -> None:
        self.spark = with_cuts(spark, 2)
        for key, value in place.settings.items():
            self.spark.conf.set(key, value)
        self.spark.conf.set("spark.sql.streaming.minBatchesToRetain", "3")
        self.home = home
        self.channel = Channel(place.location)
        self.endpoint = place.settings.get("spark.sql.streaming.stateStore.cleancut.s3.endpoint")
        self.files = 0
        (home / "in").mkdir()

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            first = self.files * ROWS
            rows = [{"k": v % KEYS, "v": v} for v in range(first, first + ROWS)]
            path = self.home / "in" / f"{self.files:05}.json"
            path.write_text("\n".join(map(json.dumps, rows)))
            os.utime(path, (self.files, self.files))
            self.files += 1

    def declared(self, schema: str) -> Channel:
        return Channel(self.channel.path, schema=schema)

    def at(self, name: str) -> str:
        return str(self.home / name / "checkpoint")

    def send(self, change: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> None:
        """Sends all available files, one per epoch."""
        rows = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            change(rows.json(str(self.home / "in")))
            .writeStream.foreachBatch(self.channel)
            .option("checkpointLocation", self.at("sender"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def read(self, name: str, *, channel: Channel | None = None, **bounds: Any) -> "Read":
        """Reads and counts all rows that were sent so far."""
        read = Read()
        stream = (channel or self.channel).stream(self.spark, tag_column="tag", **bounds)
        query = (
            stream.groupBy("k")
            .agg(F.count("*").alias("n"), F.sum("v").alias("s"), F.max("tag.epoch").alias("e"))
            .writeStream.outputMode("update")
            .foreachBatch(read)
            .option("checkpointLocation", self.at(name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return read

    def expected(self, files: int | None = None) -> dict[int, tuple[int, int]]:
        counts: Counter[int] = Counter()
        sums: Counter[int] = Counter()
        for v in range((self.files if files is None else files) * ROWS):
            counts[v % KEYS] += 1
            sums[v % KEYS] += v
        return {k: (counts[k], sums[k]) for k in counts}

    def expire(self) -> list[int]:
        return [epoch.epoch for epoch in self.channel.expire(grace="0s", endpoint=self.endpoint)]

    def held(self) -> list[int]:
        return [epoch.epoch for epoch in self.channel.epochs(endpoint=self.endpoint)]


class Read:
    """The rows of a reader: the last row of each key, and the newest epoch in each batch."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        self.epochs: list[int] = []

    def __call__(self, df: DataFrame, epoch: int) -> None:
        rows = df.collect()
        self.last |= {row["k"]: (row["n"], row["s"]) for row in rows}
        self.epochs += [max(row["e"] for row in rows)] if rows else []


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path, place: Place) -> Flow:
    return Flow(spark, tmp_path, place)


@pytest.fixture
def on_disk(spark: SparkSession, tmp_path: Path) -> Flow:
    return Flow(spark, tmp_path, Disk(tmp_path / "channel"))


def refused(error_id: str, flow: Flow, name: str, **options: Any) -> str:
    with pytest.raises(StreamingQueryException) as failure:
        flow.read(name, **options)
    assert error_id in str(failure.value)
    return str(failure.value)


def test_each_reader_reads_each_epoch_once_and_in_order(flow: Flow) -> None:
    flow.add(3)
    flow.send()
    one = flow.read("one", max_epochs=1)
    assert (one.epochs, one.last) == ([0, 1, 2], flow.expected())
    flow.add(2)
    flow.send()
    assert flow.read("one", max_rows=ROWS + 1).epochs == [3, 4]
    assert flow.read("one").epochs == []
    two = flow.read("two")
    assert (two.epochs, two.last) == ([4], flow.expected())
    readers = flow.channel.readers(endpoint=flow.endpoint)
    # It has read one epoch of the channel in each epoch of its own.
    oldest = cleancut.Checkpoint(flow.at("one")).cuts()[0].epoch
    assert sorted((reader.oldest, reader.newest) for reader in readers) == [(oldest, 4), (4, 4)]
    assert oldest > 0
    rows = flow.channel.read(flow.spark, epochs=[1, 3]).collect()
    assert {row["v"] for row in rows} == {
        v for file in (1, 3) for v in range(file * ROWS, (file + 1) * ROWS)
    }


def test_each_row_has_a_unique_tag(on_disk: Flow) -> None:
    on_disk.add(2)
    on_disk.send(lambda rows: rows.repartition(3))
    tagged: list[Any] = []
    query = (
        on_disk.channel.stream(on_disk.spark, tag_column="from")
        .writeStream.foreachBatch(lambda df, _: tagged.extend(df.collect()))
        .option("checkpointLocation", on_disk.at("tags"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    sender = json.loads((Path(on_disk.at("sender")) / "metadata").read_text())["id"]
    assert {row["from"]["sender"] for row in tagged} == {sender}
    tags = {
        (tag["epoch"], tag["partition"], tag["sequence"]) for tag in (r["from"] for r in tagged)
    }
    assert len(tags) == len(tagged) == 2 * ROWS
    assert {epoch for epoch, _, _ in tags} == {0, 1}
    assert sorted(row["v"] for row in tagged) == list(range(2 * ROWS))
    # The files can be read without Spark, too.
    table = pyarrow.dataset.dataset(on_disk.channel.paths()).to_table()
    assert sorted(table["v"].to_pylist()) == list(range(2 * ROWS))


def test_only_used_columns_are_read(on_disk: Flow) -> None:
    on_disk.add()
    on_disk.send()
    stream = on_disk.channel.stream(on_disk.spark).select("v").where("v > 3")
    writer = stream.writeStream.format("noop").option("checkpointLocation", on_disk.at("one"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    running: Any = query
    plan = running._jsq.explainInternal(False)
    assert "ReadSchema: struct<v:bigint>" in plan
    assert "PushedFilters: [IsNotNull(v), GreaterThan(v,3)]" in plan


def test_a_reader_is_rolled_back_with_its_sender(on_disk: Flow) -> None:
    on_disk.add(4)
    on_disk.send()
    assert on_disk.read("one", max_epochs=1).epochs == [0, 1, 2, 3]
    cleancut.rollback(on_disk.at("sender"), 2).apply()
    on_disk.add()
    on_disk.send()
    assert on_disk.held() == [0, 1, 2, 6]
    message = refused("CLEANCUT_CHANNEL_ROLLED_BACK", on_disk, "one")
    assert "follows epoch 2, and this reader has already read up to epoch 3" in message
    # Its epochs have the numbers of the channel's, because it has read one at a time.
    cleancut.rollback(on_disk.at("one"), 2).apply()
    again = on_disk.read("one")
    assert again.epochs == [6]
    assert again.last == {k: on_disk.expected()[k] for k in again.last}
    assert on_disk.read("other").last == on_disk.expected()


def test_epochs_are_retained_for_cuts_and_savepoints(on_disk: Flow) -> None:
    on_disk.add(6)
    on_disk.send()
    # No reader has read any of it.
    assert on_disk.expire() == []
    on_disk.read("one", max_epochs=1)
    checkpoint = cleancut.Checkpoint(on_disk.at("one"))
    checkpoint.create_savepoint("kept", epoch=checkpoint.cuts()[0].epoch)
    oldest = checkpoint.cuts()[0].epoch
    assert on_disk.expire() == list(range(oldest + 1))
    on_disk.add(5)
    on_disk.send()
    on_disk.read("one", max_epochs=1)
    assert checkpoint.cuts()[0].epoch > oldest
    assert on_disk.expire() == []
    cleancut.rollback(on_disk.at("one"), "kept").apply()
    assert on_disk.read("one").last == on_disk.expected()
    checkpoint.drop_savepoint("kept")
    for _ in range(6):
        on_disk.add()
        on_disk.send()
        on_disk.read("one")
    gone = on_disk.expire()
    assert gone
    assert gone[0] == oldest + 1
    assert on_disk.held()[0] == gone[-1] + 1
    # A late reader starts with the oldest available epoch.
    late = on_disk.read("late", max_epochs=1)
    assert late.epochs == on_disk.held()
    # A second call deletes the epochs that the first released, and a reader that needs one fails.
    on_disk.expire()
    assert all(epoch.epoch > gone[-1] for epoch in on_disk.channel.epochs())


def test_a_lost_reader_is_named_and_can_be_released(on_disk: Flow) -> None:
    on_disk.add(3)
    on_disk.send()
    on_disk.read("one")
    on_disk.read("two")
    note = next(
        file
        for file in (on_disk.home / "channel/_readers").glob("*.json")
        if "two" in file.read_text()
    )
    body = note.read_text()
    note.write_text(body.replace("/two/", "/lost/"))
    with pytest.raises(RequestError, match="CLEANCUT_CHANNEL_READER_LOST") as lost:
        on_disk.expire()
    query = lost.value.params["query"]
    assert query == json.loads(body)["queryId"]
    # A restart from the new location records that location.
    on_disk.read("two")
    assert note.read_text() == body
    assert on_disk.expire() == [0, 1]
    assert on_disk.channel.remove_reader(query)
    assert not on_disk.channel.remove_reader(query)
    assert [reader.query_id == query for reader in on_disk.channel.readers()] == [False]


@long
def test_the_offset_log_of_a_reader_of_any_provider_retains_epochs(on_disk: Flow) -> None:
    on_disk.spark.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "false")
    on_disk.add(6)
    on_disk.send()
    on_disk.read("level 0", max_epochs=1)
    logged = [int(entry.name) for entry in Path(on_disk.at("level 0"), "offsets").glob("[0-9]*")]
    assert on_disk.channel.readers()[0].oldest == min(logged) > 0
    assert on_disk.expire() == list(range(min(logged) + 1))


def test_columns_may_be_added_but_not_removed_or_changed(on_disk: Flow) -> None:
    on_disk.add()
    on_disk.send()
    on_disk.add()
    on_disk.send(lambda rows: rows.withColumn("w", F.col("v") * 2))
    wide = on_disk.channel.stream(on_disk.spark)
    assert wide.columns == ["k", "v", "w"]
    on_disk.add()
    for change, problem in [
        (lambda rows: rows.drop("v"), "they have no column v, which is bigint"),
        (lambda rows: rows.withColumn("v", F.col("v").cast("string")), "was bigint"),
        (lambda rows: rows.withColumn("cleancut_epoch", F.lit(1)), "cleancut_epoch is reserved"),
    ]:
        with pytest.raises(
            StreamingQueryException, match="CLEANCUT_CHANNEL_SCHEMA_MISMATCH"
        ) as failure:
            on_disk.send(change)
        assert problem in str(failure.value)
    on_disk.send(lambda rows: rows.withColumn("w", F.col("v") * 2))
    assert on_disk.read("one").last == on_disk.expected()


def test_a_channel_can_be_read_before_its_first_epoch(on_disk: Flow) -> None:
    with pytest.raises(Exception, match="CLEANCUT_CHANNEL_EMPTY"):
        on_disk.channel.stream(on_disk.spark)
    declared = on_disk.declared(SCHEMA)
    assert on_disk.read("one", channel=declared).epochs == []
    # From then on the columns of the query are recorded.
    offset = cleancut.Checkpoint(on_disk.at("one")).cut(0).offsets["0"]
    assert json.loads(offset or "")["epoch"] == -1
    assert on_disk.read("one", channel=declared).epochs == []
    assert len(cleancut.Checkpoint(on_disk.at("one")).cuts()) == 1
    on_disk.add(2)
    on_disk.channel = declared
    on_disk.send()
    assert on_disk.read("one", max_epochs=1).epochs == [0, 1]
    on_disk.add()
    on_disk.channel = on_disk.declared(f"{SCHEMA}, w DOUBLE")
    with pytest.raises(StreamingQueryException, match="they have no column w, which is double"):
        on_disk.send()


def test_the_directory_of_another_sink_is_no_channel(on_disk: Flow) -> None:
    path = on_disk.home / "files"
    sender = on_disk.channel
    on_disk.channel = EpochFiles(path)  # type: ignore[assignment]
    on_disk.add()
    on_disk.send()
    with pytest.raises(Exception, match="CLEANCUT_CHANNEL_INVALID"):
        Channel(path).stream(on_disk.spark)
    assert refused("CLEANCUT_CHANNEL_INVALID", on_disk, "one", channel=Channel(path, schema=SCHEMA))
    assert sender.name != on_disk.channel.name


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({"max_epochs": 0}, "maxEpochsPerTrigger is 0"),
        ({"max_rows": -1}, "maxRowsPerTrigger is -1"),
        ({"max_bytes": "much"}, "maxBytesPerTrigger is much"),
        ({"poll_interval": "soon"}, "pollInterval is soon"),
    ],
)
def test_an_invalid_limit_is_refused(on_disk: Flow, bounds: dict[str, Any], problem: str) -> None:
    with pytest.raises(Exception, match="CLEANCUT_CONF_INVALID") as failure:
        Channel(on_disk.channel._path, schema=SCHEMA).stream(on_disk.spark, **bounds)
    assert problem in str(failure.value)


def test_an_epoch_in_a_bucket_is_read_by_three_requests(
    spark: SparkSession, server: S3Server, tmp_path: Path, show: Callable[[str], None]
) -> None:
    with counting_proxy(server.endpoint) as proxy:
        on_disk = Flow(spark, tmp_path, Bucket(server.endpoint, f"lake/{tmp_path.name}/channel"))
        far = session_at(on_disk.spark, Bucket(proxy.endpoint, f"lake/{tmp_path.name}/channel"))
        on_disk.add()
        on_disk.send(lambda rows: rows.coalesce(1))
        taken: list[int] = []
        query = (
            on_disk.channel.stream(far, poll_interval="100ms")
            .writeStream.foreachBatch(lambda df, _: taken.append(df.count()))
            .option("checkpointLocation", on_disk.at("reader"))
            .start()
        )
        try:
            query.processAllAvailable()
            assert taken == [ROWS]
            before = len(proxy.requests)
            on_disk.add()
            on_disk.send(lambda rows: rows.coalesce(1))
            deadline = time.monotonic() + PATIENCE_S
            while len(taken) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            requests = Counter(
                (method, path.partition("/channel/")[2].partition("/")[0])
                for method, path in proxy.requests[before:]
            )
        finally:
            query.stop()
    show(f"requests of a reader, polls that found nothing included: {dict(requests)}")
    assert taken == [ROWS, ROWS]
    files = {key: count for key, count in requests.items() if key[1] == "_files"}
    assert files == {("HEAD", "_files"): 1, ("GET", "_files"): 1}
    # One of the polls found the manifest; a listing may happen now and then.
    assert requests[("GET", "_epochs")] >= 1


def test_the_documented_channel(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = Flow(spark, tmp_path, Disk(tmp_path / "channel"))
    flow.add(2)
    counted: dict[int, int] = {}

    def counts(df: DataFrame, _: int) -> None:
        counted.update((row["customer"], row["count"]) for row in df.collect())

    rows = flow.spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    source = rows.withColumnRenamed("k", "customer")
    names: dict[str, Any] = {"source": source, "spark": flow.spark, "counts": counts}
    sending, reading, keeping, _ = (
        code.replace("s3://bucket", str(tmp_path)) for code in blocks(PAGE, "python")
    )
    exec(sending, names)
    try:
        names["sender"].processAllAvailable()
        exec(reading, names)
        try:
            names["reader"].processAllAvailable()
        finally:
            names["reader"].stop()
    finally:
        names["sender"].stop()
    assert counted == {k: count for k, (count, _) in flow.expected().items()}
    exec(keeping, names)
    printed = capsys.readouterr().out
    # A table has a limited width, and the reader ID is truncated there.
    assert [reader.query_id for reader in names["orders"].readers()] == [names["reader"].id]
    assert names["reader"].id[:20] in printed
    assert printed.endswith("(none)\n")


def test_errors_of_channels_are_found_by_id() -> None:
    for name in (
        *("READER_LOST", "SCHEMA_MISMATCH", "EMPTY", "EXPIRED", "INVALID", "ROLLED_BACK"),
        "CORRUPTED",
    ):
        assert error_of(f"CLEANCUT_CHANNEL_{name}").error_id.endswith(name)
