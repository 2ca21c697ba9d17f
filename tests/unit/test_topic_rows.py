"""What a manifest says of rows in a topic, and what a sender makes of a broker's answers."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    VariantType,
)

from cleancut import Channel, DamagedError, KafkaTopic, RequestError
from cleancut._dataflow.json_rows import not_in_json
from cleancut._dataflow.topic_sender import TopicSender, manifest_of
from cleancut.sinks._core.runs import LedgerEpoch, Run
from cleancut.sinks._files.manifest import Link, Manifest, refuse_topic
from cleancut.sinks._files.topic_rows import TopicRange, TopicRows
from cleancut.sinks._ledgers.document import LedgerDocument
from tests.unit.sink_records import BATCH, MANIFEST

RANGES = (TopicRange(0, 12, 16, 3, 90), TopicRange(3, 4, 5, 2, 61))
IN_TOPIC = dataclasses.replace(
    MANIFEST,
    files=(),
    partition_by=(),
    format="kafka",
    rows=5,
    link=Link(None),
    topic=TopicRows("broker:9092", "orders", RANGES),
)


def sender(**options: Any) -> TopicSender:
    return TopicSender(KafkaTopic("broker:9092", "orders", options=options), "mem:/channel")


def test_a_manifest_says_where_the_rows_lie() -> None:
    assert Manifest.decode(IN_TOPIC.encode(), "/m", IN_TOPIC.epoch) == IN_TOPIC
    # As SentTopicSuite.scala has it.
    told = json.loads(IN_TOPIC.encode())
    assert (told["formatVersion"], told["format"], told["files"]) == (2, "kafka", [])
    assert told["topic"] == {
        "servers": "broker:9092",
        "name": "orders",
        "ranges": [
            {"partition": 0, "first": 12, "last": 16, "rows": 3, "bytes": 90},
            {"partition": 3, "first": 4, "last": 5, "rows": 2, "bytes": 61},
        ],
    }
    assert json.loads(MANIFEST.encode())["formatVersion"] == 1
    assert (IN_TOPIC.size_bytes, MANIFEST.size_bytes) == (151, 512)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"rows":3', b'"rows":6'),
        (b'"rows":3', b'"rows":0'),
        (b'"first":12,', b""),
        (b'"topic":', b'"other":'),
        (b'"last":16', b'"last":"16"'),
    ],
)
def test_ranges_that_cannot_be_are_damage(before: bytes, after: bytes) -> None:
    with pytest.raises(DamagedError) as damaged:
        Manifest.decode(IN_TOPIC.encode().replace(before, after), "/m")
    assert damaged.value.error_id == "CLEANCUT_SINK_DAMAGED"


def test_a_later_version_is_refused_and_one_of_files_has_no_topic() -> None:
    later = IN_TOPIC.encode().replace(b'"formatVersion":2', b'"formatVersion":3')
    with pytest.raises(RequestError) as refused:
        Manifest.decode(later, "/m")
    assert refused.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
    assert refused.value.params["supported"] == "2"
    first = IN_TOPIC.encode().replace(b'"formatVersion":2', b'"formatVersion":1')
    assert Manifest.decode(first, "/m").topic is None


def test_who_looks_for_files_is_told_of_the_topic() -> None:
    refuse_topic(MANIFEST, "/channel")
    with pytest.raises(RequestError) as refused:
        refuse_topic(IN_TOPIC, "/channel")
    assert refused.value.error_id == "CLEANCUT_FLOW_IN_TOPIC"
    assert refused.value.params["topic"] == "orders"


def test_options_that_a_channel_decides_are_refused_and_none_is_shown() -> None:
    topic = KafkaTopic("broker:9092", "orders", options={"sasl.password": "t0p"})
    assert "t0p" not in repr(topic)
    assert Channel("/channel", topic=topic).topic == topic
    with pytest.raises(RequestError, match="acks") as refused:
        KafkaTopic("broker:9092", "orders", options={"acks": "1"})
    assert refused.value.error_id == "CLEANCUT_SINK_REFUSED"


class Producer:
    """Acknowledges records when it is flushed, each at the next offset but for some."""

    def __init__(self, lost: int | None = None, error: Any = None) -> None:
        self.given: list[dict[str, Any]] = []
        self._lost, self._error, self._offsets = lost, error, dict[int, int]()

    def produce(self, **record: Any) -> None:
        self.given.append(record)

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        for number, record in enumerate(self.given):
            partition = record["partition"]
            at = self._offsets[partition] = self._offsets.get(partition, 99) + 1
            offset = -1001 if number == self._lost else at
            message = SimpleNamespace(partition=lambda p=partition: p, offset=lambda o=offset: o)
            record["on_delivery"](self._error if number == self._lost else None, message)
        return 0


ROWS = [(None, b"x" * (1 + n % 3), None, None, None) for n in range(1700)]


def test_rows_go_to_all_partitions_and_each_record_tells_where_it_is_from() -> None:
    producer = Producer()
    found = sender()._hand_over(producer, ROWS, IN_TOPIC, 3)
    assert [(of.partition, of.first, of.last, of.rows) for of in found] == [
        (0, 100, 599, 500),
        (1, 100, 799, 700),
        (2, 100, 599, 500),
    ]
    assert sum(of.bytes for of in found) == sum(len(row[1]) for row in ROWS)
    for partition in range(3):
        headers = [dict(of["headers"]) for of in producer.given if of["partition"] == partition]
        assert [int(of["cleancut-sequence"]) for of in headers] == list(range(len(headers)))
        one = headers[0]
        assert one["cleancut-attempt"] == IN_TOPIC.attempt.token.encode()
        assert (one["cleancut-epoch"], one["cleancut-sender"]) == (b"7", b"q-1")


def test_an_epoch_whose_offsets_are_not_told_is_sent_again() -> None:
    kafka: Any = pytest.importorskip("confluent_kafka")
    of = sender()
    with pytest.raises(kafka.KafkaException) as unknown:
        of._hand_over(Producer(lost=3), ROWS, IN_TOPIC, 3)
    from cleancut.sinks._kafka.cluster import verdict

    assert verdict(unknown.value) == "again"
    failed = kafka.KafkaError(kafka.KafkaError._MSG_TIMED_OUT)
    with pytest.raises(kafka.KafkaException) as lost:
        of._hand_over(Producer(lost=3, error=failed), ROWS, IN_TOPIC, 3)
    assert verdict(lost.value) == "lost"


def test_a_note_has_the_last_epoch_for_the_same_input_unless_it_was_taken_back() -> None:
    of = sender()
    rules: Any = of._rules
    noted = LedgerDocument(Run(BATCH.run_id, last=6))
    assert rules.lock(noted, BATCH) is None
    rules.publish(noted, BATCH, IN_TOPIC.encode().decode(), 5)
    found = rules.lock(LedgerDocument.decode(noted.encode(), "notes"), BATCH)
    assert manifest_of(found, "notes") == IN_TOPIC
    assert rules.lock(noted, dataclasses.replace(BATCH, planned_ms=1)) is None
    following = dataclasses.replace(BATCH, epoch=8)
    rules.publish(noted, following, "{}", 1)
    assert [epoch.epoch for epoch, _ in noted.epochs] == [8]
    rules.publish(noted, BATCH, IN_TOPIC.encode().decode(), 5)
    rules.passed_over = IN_TOPIC.attempt
    assert rules.lock(noted, BATCH) is None
    with pytest.raises(DamagedError):
        manifest_of(LedgerEpoch(0, 8, 0, "r", "{}", 1, 0), "notes")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (MapType(StringType(), ArrayType(DecimalType(10, 2))), None),
        (TimestampNTZType(), None),
        (MapType(LongType(), StringType()), "column c is map<bigint,string>"),
        (ArrayType(DayTimeIntervalType(0, 0)), "column c is array<interval day>"),
        (StructType().add("v", VariantType()), "column c is struct<v:variant>"),
    ],
)
def test_types_that_do_not_come_back_out_of_json_are_named(
    kind: DataType, told: str | None
) -> None:
    found = not_in_json(StructType().add("c", kind))
    assert found is None if told is None else told in str(found)
