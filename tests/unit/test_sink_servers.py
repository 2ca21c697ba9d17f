"""Sinks for Kafka, MariaDB and Redis without a server: keys, records, verdicts and refusals."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cleancut import CleancutError, CorruptedError, FencedError, RequestError
from cleancut.sinks import Batch, EpochSink, KafkaSink, RedisSink
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._kafka.cluster import KafkaCluster, verdict
from cleancut.sinks._ledgers.document import LedgerDocument, document_ledger
from cleancut.sinks._ledgers.stored_ledger import StoredLedger
from cleancut.sinks._redis.rows import KeyTemplate, RowPlan
from cleancut.sinks._redis.server import RedisServer
from cleancut.sinks._tables.mysql import mysql_verdict
from tests.unit.test_sink_ledger import BATCH, Side

SECRET = "t0p:s€cret"


def side(batch: Batch = BATCH, *operations: Operation) -> Any:
    """A query that begins a run."""
    return Side(batch, done=operations)


@pytest.mark.parametrize(
    ("template", "values", "key"),
    [
        ("k:{a}", ["x:y"], "k:x:y"),
        ("{a}:{b}", ["x", "y:z"], "x:y:z"),
        ("{a}::{b}!", [":x", "y!"], ":x::y!!"),
        ("{{tag}}{a}", ["x"], "{tag}x"),
        ("latest", [], "latest"),
    ],
)
def test_a_key_is_assembled_from_columns(template: str, values: list[str], key: str) -> None:
    assert KeyTemplate.parse(template).key(values) == key


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["x::y", "z"], "two rows could have the same key"),
        # As of "x" and ":z".
        (["x:", "z"], "two rows could have the same key"),
        (["x", None], "a row has no b"),
    ],
)
def test_an_ambiguous_key_is_refused(values: list[str | None], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        KeyTemplate.parse("{a}::{b}").key(values)


def test_rows_are_encoded_for_the_scripts() -> None:
    template = KeyTemplate.parse("k:{a}")
    hashes = RowPlan(template, "", "hash", ("a", "b"), deletes=True)
    assert hashes.parts(["1", "1", None, False]) == ["k:1", 2, "a", "1"]
    assert hashes.parts(["1", "1", None, True]) == ["k:1", -1]
    strings = RowPlan(template, "", "string", ("value",), deletes=False)
    assert strings.parts(["1", "{}"]) == ["k:1", 1, "{}"]
    stream = RowPlan(None, "s", "stream", ("a",), deletes=False)
    assert stream.parts([b"\xff"]) == ["s", 2, "a", b"\xff"]
    with pytest.raises(ValueError, match="only nulls"):
        stream.parts([None])


def written(
    rules: StoredLedger[LedgerDocument], note: LedgerDocument, batch: Batch
) -> LedgerDocument:
    """Returns the record after an epoch, as another process reads it."""
    assert rules.lock(note, batch) is None
    rules.publish(note, batch, f"handle {batch.epoch}", 3)
    return LedgerDocument.decode(note.encode(), "there")


def test_a_record_is_read_as_written() -> None:
    rules, note = document_ledger("RedisSink k"), LedgerDocument()
    rules.begin(note, side(), 1, None)
    for epoch in range(3):
        note = written(rules, note, replace(BATCH, epoch=epoch, planned_ms=epoch))
    assert [(epoch.epoch, epoch.handle, epoch.rows) for epoch in rules.published(note, "q-1")] == [
        (epoch, f"handle {epoch}", 3) for epoch in range(3)
    ]
    later = replace(BATCH, epoch=5, run_id="r-2")
    undone: list[int] = []
    rules.begin(
        note,
        side(later, Operation(4, 0)),
        2,
        lambda _, epochs: undone.extend(epoch.epoch for epoch in epochs),
    )
    note = LedgerDocument.decode(note.encode(), "there")
    assert undone == [1, 2]
    assert [epoch.epoch for epoch in rules.published(note, "q-1")] == [0]
    assert rules.lock(note, later) is None
    with pytest.raises(FencedError):
        rules.lock(note, replace(BATCH, epoch=3))
    assert rules.mark_unpublished_in(note, "q-1", -1) == 1
    assert note.run is not None
    assert (note.run.last, note.run.operations) == (-1, (Operation(4, 0),))


def test_a_record_keeps_only_the_last_epochs() -> None:
    rules, note = document_ledger("RedisSink k"), LedgerDocument()
    rules.begin(note, side(), 0, None)
    for epoch in range(150):
        rules.publish(note, replace(BATCH, epoch=epoch), "", 1)
    assert [epoch.epoch for epoch in rules.published(note, "q-1")] == list(range(50, 150))


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"formatVersion":2}', b"\xff", b"nil"])
def test_a_corrupted_record_is_reported_with_its_location(body: bytes) -> None:
    with pytest.raises(CorruptedError, match="published data at there") as raised:
        LedgerDocument.decode(body, "there")
    assert raised.value.error_id == "CLEANCUT_SINK_CORRUPTED"


@pytest.mark.parametrize(
    ("code", "statement", "verdict"),
    [
        (1213, "", "again"),
        (1020, "", "again"),
        (1062, "INSERT INTO cleancut_runs VALUES (1)", "again"),
        (1062, "INSERT INTO counts VALUES (1)", None),
        (1927, "", "lost"),
        (2003, "", "lost"),
        (1045, "", None),
        (None, "", None),
    ],
)
def test_errors_of_mariadb_are_classified(
    code: object, statement: str, verdict: str | None
) -> None:
    assert mysql_verdict(code, statement) == verdict


def test_errors_of_kafka_are_classified() -> None:
    from confluent_kafka import KafkaError, KafkaException

    def verdict_of(code: int, message: str = "") -> str:
        return verdict(KafkaException(KafkaError(code, message)))

    assert verdict_of(KafkaError._FENCED) == "again"
    assert verdict_of(KafkaError._ALL_BROKERS_DOWN) == "lost"
    assert verdict_of(KafkaError._TIMED_OUT) == "lost"
    assert verdict_of(KafkaError._TIMED_OUT, "SASL authentication error: no") == "error"
    assert verdict_of(KafkaError.TOPIC_AUTHORIZATION_FAILED) == "error"
    assert verdict_of(KafkaError.MSG_SIZE_TOO_LARGE) == "error"
    assert verdict(ValueError("anything")) == "foreign"


def test_secrets_are_recognized_in_all_options() -> None:
    options = {
        "sasl.password": SECRET,
        "ssl.key.password": "pass",
        "ssl.key.pem": "-----",
        "sasl.oauthbearer.client.secret": "shh",
        "client.id": "chosen",
        "linger.ms": 5,
    }
    cluster = KafkaCluster("b:1", options, "notes")
    assert set(cluster.secrets()) == {SECRET, "pass", "-----", "shh"}
    assert SECRET not in repr(cluster)
    server = RedisServer("rediss://me:t0p%3As%E2%82%ACcret@h:1/0?password=again")
    assert SECRET in server.secrets()
    assert server.label == "rediss://me:***@h:1/0?password=***"
    assert "t0p" not in repr(server)


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("redis", "redis", lambda: RedisSink("redis://h:1/0", key="{k}")),
        ("confluent_kafka", "kafka", lambda: KafkaSink("h:1", topic="t")),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(
    package: str, extra: str, make: Callable[[], EpochSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequestError) as raised:
        make().begin(side(), None)
    assert raised.value.error_id == "CLEANCUT_DEPENDENCY_MISSING"
    assert f".whl[{extra}]" in str(raised.value)


def test_contradictory_options_of_a_sink_are_refused() -> None:
    with pytest.raises(CleancutError, match=r"sets these options itself: acks, transactional\.id"):
        KafkaSink("h:1", topic="t", options={"acks": 1, "transactional.id": "x"})
