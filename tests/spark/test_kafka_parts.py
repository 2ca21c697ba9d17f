"""`KafkaPartsSink` on a broker: the contract, and what dies between two parts of an epoch."""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from cleancut import CleancutError, RequestError
from cleancut.sinks import Batch, KafkaPartsSink, KafkaSink
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._kafka.parts import PartSender
from cleancut.testing._acted_query import ActedQuery
from tests.spark.test_kafka_sink import KafkaContract, values
from tests.spark.test_sink_pages import Page, counted
from tests.support.kafka_server import KafkaBroker, kafka_broker, needs_kafka
from tests.support.s3_servers import s3proxy
from tests.support.sink_places import Bucket, credentials, session_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), long, needs_kafka]

PARTS = 4


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as started:
        yield started


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: KafkaBroker) -> str:
    name = f"p-{abs(hash(request.node.name)):x}"
    broker.make_topic(name)
    return name


class Records(KafkaPartsSink):
    """Each row as JSON."""

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        return super().stage(rows.selectExpr("to_json(struct(*)) AS value"), batch)


class TestKafkaParts(KafkaContract):
    tears = True

    def make_sink(self, home: Path) -> KafkaPartsSink:
        return Records(self.broker.servers, home / "parts", topic=home.name)


@dataclass(frozen=True)
class Dying(PartSender):
    """Its process ends around the commit of a part, as often as there are files to remove.

    Attributes:
        home: of these files.
        is_sent: whether the part is committed by then.
    """

    home: str = ""
    is_sent: bool = True

    def commit(self, producer: Any, slot: int) -> None:
        if self.is_sent:
            super().commit(producer, slot)
        with contextlib.suppress(FileNotFoundError):
            (Path(self.home) / str(slot)).unlink()
            os._exit(1)
        if not self.is_sent:
            super().commit(producer, slot)


def of_fields(sender: PartSender) -> dict[str, Any]:
    return {field.name: getattr(sender, field.name) for field in fields(PartSender)}


class Half(PartSender):
    """Cannot send the parts of odd slots."""

    def commit(self, producer: Any, slot: int) -> None:
        if slot % 2:
            raise OSError("an executor is gone")
        super().commit(producer, slot)


class Halved(KafkaPartsSink):
    def _sender(self, sender: PartSender) -> PartSender:
        return Half(**of_fields(sender))


def dying(home: Path, broker: KafkaBroker, topic: str, *, is_sent: bool) -> KafkaPartsSink:
    class Sink(KafkaPartsSink):
        def _sender(self, sender: PartSender) -> PartSender:
            return Dying(**of_fields(sender), home=str(home), is_sent=is_sent)

    return Sink(broker.servers, home / "parts", topic=topic)


def rows(spark: SparkSession, count: int = 100) -> DataFrame:
    return spark.range(0, count, 1, PARTS).selectExpr("string(id) AS value")


def seen(broker: KafkaBroker, topic: str) -> Counter[str]:
    return Counter(values(broker, topic))


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_task_that_dies_around_the_commit_of_its_part_sends_it_once(
    is_sent: bool, spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """Spark runs it again, in the same epoch."""
    for slot in range(PARTS):
        (tmp_path / str(slot)).touch()
    sink = dying(tmp_path, broker, topic, is_sent=is_sent)
    ActedQuery().start().give(sink, rows(spark), 0)
    assert not [of for of in tmp_path.iterdir() if of.is_file()]
    assert seen(broker, topic) == Counter(map(str, range(100)))


def test_an_epoch_that_a_run_has_sent_in_part_is_finished_by_the_next(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """With other rows of its own: those of the files that were decided are sent, and no others."""
    query = ActedQuery()

    broken = Halved(broker.servers, tmp_path / "parts", topic=topic)
    with pytest.raises(PythonException):
        query.start().give(broken, rows(spark), 0)
    first = seen(broker, topic)
    assert 0 < first.total() < 100
    assert KafkaPartsSink(broker.servers, tmp_path, topic=topic).epochs(query.query_id) == []
    with pytest.raises(RequestError, match="KafkaPartsSink"):
        query.start().give(KafkaSink(broker.servers, topic=topic), rows(spark), 0)
    sink = KafkaPartsSink(broker.servers, tmp_path / "parts", topic=topic)
    others = spark.range(0, 100, 1, 2 * PARTS).selectExpr("string(id + 1000) AS value")
    query.start().give(sink, others, 0)
    assert seen(broker, topic) == Counter(map(str, range(100)))
    [noted] = sink.epochs(query.query_id)
    assert (noted.epoch, noted.rows) == (0, 100)
    # And it goes on.
    query.start().give(KafkaSink(broker.servers, topic=topic), rows(spark), 1)
    assert seen(broker, topic).total() == 200


def test_an_epoch_in_part_is_refused_where_the_query_goes_back_behind_it(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    query = ActedQuery()
    query.start().give(KafkaPartsSink(broker.servers, tmp_path, topic=topic), rows(spark), 0)

    with pytest.raises(PythonException):
        query.start().give(Halved(broker.servers, tmp_path, topic=topic), rows(spark), 1)
    query.acts.append(Act(epoch=2, source=0))
    with pytest.raises(CleancutError) as raised:
        query.start().give(KafkaPartsSink(broker.servers, tmp_path, topic=topic), rows(spark), 3)
    assert raised.value.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "epoch 1 (100 rows)" in str(raised.value)


def test_parts_keep_their_order_and_what_is_sent_is_deleted(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    broker.make_topic("ordered", partitions=1)
    sink = KafkaPartsSink(broker.servers, tmp_path / "parts", topic="ordered", epoch_header="e")
    run, epochs = ActedQuery().start(), 40
    for epoch in range(epochs):
        made = spark.range(0, 30, 1, 3).selectExpr(
            "string(id div 10) AS key", "string(id) AS value"
        )
        run.give(sink, made, epoch)
    last: dict[tuple[bytes, bytes], int] = {}
    found = broker.records("ordered")
    assert len(found) == 30 * epochs
    for record in found:
        place = (record.headers()[0][1], record.key())
        assert int(record.value()) > last.get(place, -1)
        last[place] = int(record.value())
    assert len(list((tmp_path / "parts").rglob("*.parquet"))) <= 3 * 33


def test_large_files_are_not_read_in_pieces(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """However small the pieces are that the query itself reads files in."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1k")
    try:
        sink = KafkaPartsSink(broker.servers, tmp_path / "parts", topic=topic)
        ActedQuery().start().give(sink, rows(spark, 20_000), 0)
        assert spark.conf.get("spark.sql.files.maxPartitionBytes") == "1k"
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert seen(broker, topic) == Counter(map(str, range(20_000)))


def test_parts_are_in_a_bucket_that_only_the_session_of_the_query_reaches(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """The files were read in a session without what was set in that of the query at run time."""
    with s3proxy(tmp_path) as server, credentials(spark):
        place = Bucket(server.endpoint, "parts")
        session = session_at(spark, place)
        sink = KafkaPartsSink(broker.servers, place.location, topic=topic)
        ActedQuery().start().give(sink, rows(session), 0)
    assert seen(broker, topic) == Counter(map(str, range(100)))


def test_a_row_without_a_topic_is_refused(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    sink = KafkaPartsSink(broker.servers, tmp_path / "parts")
    none = spark.sql("SELECT 'v' AS value, string(null) AS topic")
    with pytest.raises(PythonException, match=r"CLEANCUT_SINK_REFUSED.*without a topic"):
        ActedQuery().start().give(sink, none, 0)


def test_the_documented_sink(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    page = Page("docs/guides/sinks/kafka.md", spark, tmp_path)
    assert page.number == 2
    page.run(1, replaced={"broker:9092": broker.servers, "s3://bucket/parts": str(tmp_path / "p")})
    newest: dict[tuple[str, int], int] = {}
    for record in broker.records("counts-by-part"):
        row = json.loads(record.value())
        place = row["day"], row["k"]
        newest[place] = max(newest.get(place, 0), row["count"])
    found: Counter[int] = Counter()
    for (_, key), count in newest.items():
        found[key] += count
    assert found == counted(page, spark, tmp_path)
