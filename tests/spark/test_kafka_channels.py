"""`Channel` whose rows lie in a topic: the contract, what dies in between, and what is lost."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Channel, CleancutError, KafkaTopic
from cleancut.testing import SinkContract
from cleancut.testing._acted_query import ActedQuery
from tests.support.contracts import WENT_BACK
from tests.support.documented import blocks
from tests.support.kafka_server import (
    KafkaBroker,
    kafka_broker,
    needs_connector,
    needs_kafka,
)
from tests.support.patience import PATIENCE_S
from tests.support.refusals import refusal
from tests.support.sessions import with_cuts
from tests.support.tiers import long
from tests.support.topic_victim import SCHEMA, STEPS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    long,
    needs_kafka,
    needs_connector,
]

ROOT = Path(__file__).resolve().parents[2]
VICTIM_S = 180
ROWS = 30
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker, tmp_path: Path) -> KafkaTopic:
    """A topic of this test's own."""
    broker.make_topic(tmp_path.name)
    return KafkaTopic(broker.servers, tmp_path.name, retry_for_s=20.0)


class TopicContract(SinkContract):
    broker: KafkaBroker
    crashes = 12

    @pytest.fixture(autouse=True)
    def given_broker(self, broker: KafkaBroker, tmp_path: Path) -> None:
        self.broker = broker
        broker.make_topic(tmp_path.name)

    def make_sink(self, home: Path) -> Channel:
        return Channel(home / "channel", topic=KafkaTopic(self.broker.servers, home.name))


class TestTopic(TopicContract):
    """What readers of the channel see."""

    def read(self, home: Path) -> Iterable[Row]:
        channel = Channel(home / "channel")
        if not (home / "channel").exists() or not channel.epochs():
            return []
        rows = channel.read(self.session()).select("id", "word", "n")
        return [tuple(row) for row in rows.collect()]


class TestTopicForOthers(TopicContract):
    """What everybody else sees who reads what is committed, as long as the query goes forward."""

    def read(self, home: Path) -> Iterable[Row]:
        found = [json.loads(of.value()) for of in self.broker.records(home.name)]
        return [(of["id"], of["word"], of["n"]) for of in found]


setattr(TestTopicForOthers, WENT_BACK, None)


def give(
    channel: Channel, spark: SparkSession, epoch: int, rows: DataFrame | None = None
) -> DataFrame:
    """Has a channel take an epoch of a query that is new; gives its rows."""
    made = spark.range(epoch * ROWS, (epoch + 1) * ROWS, 1, 3) if rows is None else rows
    QUERIES.setdefault(channel.path, ActedQuery()).start().give(channel, made, epoch)
    return made


QUERIES: dict[str, ActedQuery] = {}


def read(channel: Channel, spark: SparkSession, checkpoint: Path, **options: Any) -> list[Any]:
    """What a query reads that goes on from its checkpoint."""
    found: list[Any] = []
    query = (
        channel.stream(spark, **options)
        .writeStream.foreachBatch(lambda df, _: found.extend(df.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def put(home: Path, files: range) -> None:
    """Input of a sender, of which it takes a file an epoch."""
    (home / "in").mkdir(exist_ok=True)
    for file in files:
        rows = [{"k": v % 7, "v": v} for v in range(file * ROWS, (file + 1) * ROWS)]
        path = home / "in" / f"{file:05}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (file, file))


def victim(home: Path, topic: KafkaTopic, step: str, epoch: int) -> int:
    """Runs a sender in a process of its own; how that ended."""
    told = [str(home), topic.servers, topic.name, step, str(epoch)]
    with (home / f"{step}-{epoch}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.topic_victim", *told],
            cwd=ROOT,
            # It ends, with all its group, when this end is closed.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        with process:
            return process.wait(VICTIM_S)


def test_a_sender_that_is_killed_around_its_transaction_sends_each_row_once(
    spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    """By SIGKILL: before the commit, between that and the manifest, and behind the manifest."""
    session, channel = with_cuts(spark, 2), Channel(tmp_path / "channel", schema=SCHEMA)
    put(tmp_path, range(8))
    received: list[Any] = []
    held: list[int] = []
    for step, epoch in zip(STEPS, (1, 3, 5), strict=True):
        assert victim(tmp_path, topic, step, epoch) == -signal.SIGKILL
        held.append(len(channel.epochs()))
        received += read(channel, session, tmp_path / "reader", tag_column="tag")
        assert {row["tag"]["epoch"] for row in received} == set(range(held[-1]))
    # What was committed and not published is there for everybody else, and for no reader.
    assert held == [1, 3, 6]
    assert victim(tmp_path, topic, "none", -1) == 0, (tmp_path / "none--1.log").read_text()[-2000:]
    received += read(channel, session, tmp_path / "reader", tag_column="tag")
    batch = session.read.schema(SCHEMA).json(str(tmp_path / "in")).collect()
    assert Counter((row["k"], row["v"]) for row in received) == Counter(map(tuple, batch))
    assert len({tuple(row["tag"]) for row in received}) == len(batch) == 8 * ROWS
    others = [json.loads(of.value()) for of in broker.records(topic.name)]
    assert Counter((of["k"], of["v"]) for of in others) == Counter(map(tuple, batch))
    whole = channel.read(session, epoch_column="e").collect()
    assert Counter(map(tuple, whole)) == Counter((*row, row["v"] // ROWS) for row in batch)


def test_what_a_sender_has_gone_back_behind_is_in_the_topic_and_read_by_nobody(
    spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    session, channel = with_cuts(spark, 2), Channel(tmp_path / "channel", topic=topic)

    def send() -> None:
        rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        writer = rows.json(str(tmp_path / "in")).writeStream.foreachBatch(channel)
        writer = writer.option("checkpointLocation", str(tmp_path / "sender"))
        writer.trigger(availableNow=True).start().awaitTermination()

    put(tmp_path, range(4))
    send()
    cleancut.rollback(str(tmp_path / "sender"), 1).apply()
    put(tmp_path, range(4, 6))
    send()
    values = [row["v"] for row in read(channel, session, tmp_path / "reader")]
    assert sorted(values) == list(range(6 * ROWS))
    assert sorted(row["v"] for row in channel.read(session).collect()) == sorted(values)
    # Epochs two and three, once as they were left.
    assert len(broker.records(topic.name)) == 8 * ROWS


def test_records_of_others_in_the_topic_are_none_of_the_channel(
    spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    """Of another channel, without headers, and of a transaction that was given up."""
    from confluent_kafka import Producer

    one, other = (Channel(tmp_path / name, topic=topic) for name in ("one", "other"))
    plain = Producer({"bootstrap.servers": broker.servers})
    given_up = Producer({"bootstrap.servers": broker.servers, "transactional.id": "others"})
    given_up.init_transactions(20)
    for epoch in range(4):
        give(one, spark, epoch)
        for partition in range(2):
            plain.produce(topic.name, b'{"id": -1}', partition=partition)
        plain.flush(20)
        give(other, spark, epoch + 100)
        given_up.begin_transaction()
        given_up.produce(topic.name, b'{"id": -2}', partition=epoch % 2)
        given_up.flush(20)
        given_up.abort_transaction(20)
    assert sorted(row["id"] for row in one.read(spark).collect()) == list(range(4 * ROWS))
    found = read(one, spark, tmp_path / "reader", tag_column="tag", max_epochs=3)
    assert sorted(row["id"] for row in found) == list(range(4 * ROWS))
    tags = sorted(tuple(row["tag"])[1:] for row in found)
    ranges = [of for info in one.epochs() for of in ranges_of(tmp_path / "one", info.epoch)]
    assert tags == sorted((e, p, n) for e, p, rows in ranges for n in range(rows))


def ranges_of(channel: Path, epoch: int) -> list[tuple[int, int, int]]:
    manifest = json.loads((channel / "_epochs" / f"{epoch:020}.json").read_text())
    assert (manifest["formatVersion"], manifest["format"], manifest["files"]) == (2, "kafka", [])
    return [(epoch, of["partition"], of["rows"]) for of in manifest["topic"]["ranges"]]


@pytest.mark.parametrize("loss", ["a part", "an epoch", "all"])
def test_rows_that_the_topic_has_deleted_are_told_and_not_passed_over(
    loss: str, spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    from confluent_kafka import Producer, TopicPartition

    channel = Channel(tmp_path / "channel", topic=topic)
    for epoch in range(3):
        give(channel, spark, epoch)
    [(_, partition, _)] = ranges_of(tmp_path / "channel", 1)
    manifest = json.loads((tmp_path / "channel/_epochs" / f"{1:020}.json").read_text())
    [lies] = manifest["topic"]["ranges"]
    if loss == "all":
        # With records of somebody else where those of the channel were.
        broker.remake_topic(topic.name, 2)
        plain = Producer({"bootstrap.servers": broker.servers})
        for number in range(8 * ROWS):
            plain.produce(topic.name, b"{}", partition=number % 2)
        plain.flush(20)
    else:
        before = lies["first"] + 5 if loss == "a part" else lies["last"] + 1
        admin: Any = broker.admin()
        asked = admin.delete_records([TopicPartition(topic.name, partition, before)])
        [answer] = asked.values()
        answer.result(PATIENCE_S)
    with pytest.raises(StreamingQueryException) as failure:
        read(channel, spark, tmp_path / "reader", max_epochs=1)
    told = str(failure.value)
    assert "CLEANCUT_FLOW_ROWS_GONE" in told
    assert f"of {ROWS} rows" in told
    with pytest.raises(Exception, match="CLEANCUT_FLOW_ROWS_GONE"):
        channel.read(spark).collect()


def test_values_come_as_they_were_sent(
    spark: SparkSession, topic: KafkaTopic, tmp_path: Path
) -> None:
    columns = (
        "id",
        "id % 2 = 0 AS yes",
        "tinyint(id) AS b",
        "float(id / 3) AS f",
        "CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN double('-Infinity') ELSE id / 7 END AS d",
        "CAST(id * 1234567.0123456789 AS DECIMAL(38, 10)) AS dec",
        "if(id = 3, NULL, concat('wörd \"', id, '\\n\\u0000')) AS s",
        "unhex('00FF7F') AS bin",
        "date_sub(DATE'0001-03-01', -int(id)) AS day",
        "timestamp_micros(-11644473599999999 + id) AS early",
        "timestamp_micros(1700000000123456 + id) AS at",
        "TIMESTAMP_NTZ'2024-02-29 23:59:59.999999' AS local",
        "array(1, NULL, int(id)) AS list",
        "map('a', NULL, 'b.c', id) AS m",
        "if(id = 2, NULL, struct(id AS `x.y`, string(NULL) AS `q``r`)) AS st",
        "id AS `a.b c`",
    )
    rows = spark.range(0, 5, 1, 2).selectExpr(*columns)
    channel = Channel(tmp_path / "channel", topic=topic)
    give(channel, spark, 0, rows)
    sent = sorted(map(repr, rows.collect()))
    assert sorted(map(repr, channel.read(spark).collect())) == sent
    assert sorted(map(repr, read(channel, spark, tmp_path / "reader"))) == sent
    assert channel.stream(spark).select("`a.b c`", "st.`x.y`").columns == ["a.b c", "x.y"]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("map(1, 2)", "column c is map<int,int>, which does not come back out of JSON"),
        ("array(INTERVAL '1' DAY)", "column c is array<interval day>"),
        ("struct(parse_json('1') AS v)", "column c is struct<v:variant>"),
    ],
)
def test_values_that_json_does_not_keep_are_refused(
    column: str, told: str, spark: SparkSession, topic: KafkaTopic, tmp_path: Path
) -> None:
    channel = Channel(tmp_path / "channel", topic=topic)
    error = refusal(lambda: give(channel, spark, 0, spark.sql(f"SELECT {column} AS c")))
    assert error.error_id == "CLEANCUT_FLOW_SCHEMA"
    assert told in str(error)


def test_a_topic_that_cannot_keep_rows_is_refused(
    spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    broker.make_topic(f"{topic.name}-compacted", cleanup_policy="compact")
    for name, told in (("none", "there is no topic"), ("compacted", "cleanup.policy compact")):
        of = KafkaTopic(broker.servers, f"{topic.name}-{name}", retry_for_s=5.0)
        channel = Channel(tmp_path / name, topic=of)
        error = refusal(lambda channel=channel: give(channel, spark, 0))  # type: ignore[misc]
        assert error.error_id == "CLEANCUT_SINK_REFUSED"
        assert told in str(error)
        assert channel.epochs() == []
    assert f"{topic.name}-none" not in broker.admin().list_topics(timeout=PATIENCE_S).topics


def test_a_channel_keeps_to_what_it_began_with(
    spark: SparkSession, topic: KafkaTopic, tmp_path: Path
) -> None:
    for first, then in ((topic, None), (None, topic)):
        path = tmp_path / ("topic" if first else "files")
        give(Channel(path, topic=first), spark, 0)
        moved = Channel(path, topic=then)
        error = refusal(lambda moved=moved: give(moved, spark, 1))  # type: ignore[misc]
        assert error.error_id == "CLEANCUT_SINK_REFUSED"
        assert f"epoch 1 is to lie in {'files' if first else 'a topic'}" in str(error)
        give(Channel(path, topic=first), spark, 1)


def test_a_reader_whose_brokers_are_away_is_told_and_goes_on(
    spark: SparkSession, topic: KafkaTopic, tmp_path: Path
) -> None:
    give(Channel(tmp_path / "channel", topic=topic), spark, 0)
    soon = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    away = KafkaTopic(
        topic.servers, topic.name, reader_options=soon | {"bootstrap.servers": "127.0.0.1:9"}
    )
    channel = Channel(tmp_path / "channel", topic=away)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_FLOW_TOPIC"):
        read(channel, spark, tmp_path / "reader")
    found = read(Channel(tmp_path / "channel"), spark, tmp_path / "reader")
    assert sorted(row["id"] for row in found) == list(range(ROWS))


def test_a_topic_is_no_files(spark: SparkSession, topic: KafkaTopic, tmp_path: Path) -> None:
    from cleancut.sinks import EpochFiles

    channel = Channel(tmp_path / "channel", topic=topic)
    for epoch in range(4):
        give(channel, spark, epoch)
    files = EpochFiles(tmp_path / "channel")
    acts = (channel.paths, lambda: files.read(spark), lambda: files.compact(spark, keep=1))
    for act in acts:
        with pytest.raises(CleancutError) as refused:
            act()
        assert refused.value.error_id == "CLEANCUT_FLOW_IN_TOPIC"
    assert channel.read(spark).count() == 4 * ROWS


def test_the_documented_topic(
    spark: SparkSession, broker: KafkaBroker, topic: KafkaTopic, tmp_path: Path
) -> None:
    put(tmp_path, range(2))
    [code] = [of for of in blocks("docs/guides/channels.md", "python") if "KafkaTopic(" in of]
    code = code.replace("s3://bucket", str(tmp_path)).replace("broker:9092", topic.servers)
    session, counted = with_cuts(spark, 2), dict[int, int]()
    rows = session.readStream.schema(SCHEMA).json(str(tmp_path / "in"))

    def counts(df: DataFrame, _: int) -> None:
        counted.update((row["customer"], row["count"]) for row in df.collect())

    names: dict[str, Any] = {
        "source": rows.withColumnRenamed("k", "customer"),
        "spark": session,
        "counts": counts,
    }
    broker.make_topic("orders")
    exec(code, names)
    for name in ("sender", "reader"):
        names[name].processAllAvailable()
    total = sum(counted.values())
    for name in ("reader", "sender"):
        names[name].stop()
    assert total == 2 * ROWS
    assert len(broker.records("orders")) == 2 * ROWS
