"""`KafkaSink` on a broker: the contract, columns, transactions, refusals, a broker that dies."""

import json
import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut import CleancutError, FencedError, RetryableError
from cleancut.sinks import KafkaSink
from cleancut.sinks._core.query_side import Operation
from cleancut.testing import SinkContract
from cleancut.testing._simulated_query import SimulatedQuery
from tests.spark.test_sink_pages import Page, counted
from tests.support.contracts import DIES, FOLLOWED, SEALED, briefly, in_a_block
from tests.support.documented import ROOT
from tests.support.kafka_server import KafkaBroker, kafka_broker, needs_kafka
from tests.support.kills import run_script
from tests.support.moving_tasks import until
from tests.support.patience import PATIENCE_S
from tests.support.refusals import refusal
from tests.support.server_victim import Records
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), long, needs_kafka]

Row = tuple[Any, ...]
# Spark's own source and sink.
CONNECTOR = ROOT / ".cache" / "spark-kafka.classpath"
# Where the sink records its epochs.
CONTROL = "cleancut-epochs"
# Where it listens nobody does; the password is one of nobody's.
SECRET = "t0p:s€cret"
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "writer",
    "sasl.password": SECRET,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as started:
        yield started


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: KafkaBroker) -> str:
    """A topic of this test's own."""
    name = f"t-{abs(hash(request.node.name)):x}"
    broker.make_topic(name)
    return name


def values(broker: KafkaBroker, topic: str, isolation: str = "read_committed") -> list[str]:
    return sorted(of.value().decode() for of in broker.records(topic, isolation))


class KafkaContract(SinkContract):
    broker: KafkaBroker

    @pytest.fixture(autouse=True)
    def given_broker(self, broker: KafkaBroker) -> None:
        self.broker = broker

    def make_sink(self, home: Path) -> KafkaSink:
        return Records(self.broker.servers, topic=home.name)

    def read(self, home: Path) -> Iterable[Row]:
        found = [json.loads(of.value()) for of in self.broker.records(home.name)]
        return [(of["id"], of["word"], of["n"]) for of in found]

    def save(self, home: Path) -> dict[str, list[Any]]:
        """The records of both topics, as a mirror on another cluster has them."""
        return {topic: self.broker.records(topic) for topic in (home.name, CONTROL)}

    def restore(self, home: Path, saved: dict[str, list[Any]]) -> None:
        self.drop(home)
        self.broker.make_topic(home.name)
        self.broker.make_topic(CONTROL, partitions=1, cleanup_policy="compact")
        for topic, records in saved.items():
            self.broker.write(topic, records)

    def drop(self, home: Path) -> None:
        for topic in (home.name, CONTROL):
            self.broker.delete_topic(topic)


class TestKafka(KafkaContract):
    pass


@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
class TestKafkaInABlock(KafkaContract):
    pass


def test_records_have_what_the_columns_say(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    rows = spark.sql(
        f"SELECT 'k' AS key, unhex('00FF') AS value, '{topic}' AS topic, 1 AS partition,"
        " array(named_struct('key', 'h', 'value', binary('x'))) AS headers, 7 AS other"
    )
    sink = KafkaSink(broker.servers, epoch_header="epoch")
    SimulatedQuery().start().give(sink, rows, 3)
    [found] = broker.records(topic)
    assert (found.key(), found.value(), found.partition()) == (b"k", b"\x00\xff", 1)
    assert found.headers() == [("h", b"x"), ("epoch", b"3")]
    query, plain = SimulatedQuery(), KafkaSink(broker.servers, topic=topic)
    query.start().give(plain, spark.sql("SELECT string(null) AS value, 'none' AS topic"), 0)
    [tombstone] = [of for of in broker.records(topic) if of.value() is None]
    assert (tombstone.key(), tombstone.headers()) == (None, None)
    [noted] = plain.epochs(query.query_id)
    assert (noted.epoch, noted.rows) == (0, 1)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("1 AS id", "no column value"),
        ("1 AS value", "the column value is of type int"),
        ("'v' AS value, 1L AS partition", "the column partition is of type bigint"),
        ("'v' AS value, array('h') AS headers", "the column headers is of type array<string>"),
        ("'v' AS value", "the sink has no topic"),
        ("'v' AS value, string(null) AS topic", "has a row without a topic"),
    ],
)
def test_rows_that_are_no_records_are_refused(
    columns: str, problem: str, spark: SparkSession, broker: KafkaBroker
) -> None:
    is_of_topic = "topic" in problem
    sink = KafkaSink(broker.servers, topic="" if is_of_topic else "refused")
    error = refusal(lambda: SimulatedQuery().start().give(sink, spark.sql(f"SELECT {columns}"), 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert problem in str(error)
    assert broker.records("refused") == []


def test_more_rows_than_the_queue_holds_go_through_it(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    options = {"queue.buffering.max.messages": 500}
    sink = KafkaSink(broker.servers, topic=topic, options=options)
    rows = spark.range(0, 20_000, 1, 4).selectExpr("string(id) AS value")
    SimulatedQuery().start().give(sink, rows, 0)
    found = values(broker, topic)
    assert len(found) == len(set(found)) == 20_000


def test_a_reader_sees_all_of_an_epoch_or_nothing(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    """And who reads what is not committed sees it, since it is in the topic by then."""
    seen: list[tuple[int, int]] = []

    class Looking(KafkaSink):
        def _commit(self, producer: Any) -> None:
            producer.flush()
            counts = (
                len(values(broker, topic, of)) for of in ("read_committed", "read_uncommitted")
            )
            seen.append(tuple(counts))  # type: ignore[arg-type]
            super()._commit(producer)

    run, sink = SimulatedQuery().start(), Looking(broker.servers, topic=topic)
    for epoch in (0, 1):
        run.give(sink, spark.range(10).selectExpr("string(id) AS value"), epoch)
    # The first is the begin of the run.
    assert seen == [(0, 0), (0, 10), (10, 20)]
    assert len(values(broker, topic)) == 20


def test_an_epoch_longer_than_a_transaction_is_refused_with_what_to_set(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    class Slow(KafkaSink):
        def _send(self, producer: Any, rows: Any, batch: Any) -> int:
            sent = super()._send(producer, rows, batch)
            producer.flush()
            time.sleep(5)
            return sent

    query, rows = SimulatedQuery(), spark.range(5).selectExpr("string(id) AS value")
    slow = Slow(broker.servers, topic=topic, options={"transaction.timeout.ms": 1500})
    error = refusal(lambda: query.start().give(slow, rows, 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "transaction.timeout.ms" in str(error)
    assert values(broker, topic) == []
    query.start().give(KafkaSink(broker.servers, topic=topic), rows, 0)
    assert len(values(broker, topic)) == 5


def test_rows_that_cannot_be_fetched_are_no_fault_of_kafka(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    """In the middle of the transaction."""

    class Failing(KafkaSink):
        def _produce(self, producer: Any, **record: Any) -> None:
            if record.get("value") == "7":
                raise OSError("an executor is gone")
            super()._produce(producer, **record)

    query, rows = SimulatedQuery(), spark.range(10).selectExpr("string(id) AS value")
    with pytest.raises(OSError, match="an executor is gone"):
        query.start().give(Failing(broker.servers, topic=topic), rows, 0)
    assert values(broker, topic) == []
    query.start().give(KafkaSink(broker.servers, topic=topic), rows, 0)
    assert len(values(broker, topic)) == 10


def test_a_timeout_that_the_broker_does_not_allow_is_refused(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    sink = KafkaSink(
        broker.servers, topic=topic, options={"transaction.timeout.ms": 7_200_000}, retry_for_s=5
    )
    rows = spark.range(5).selectExpr("string(id) AS value")
    error = refusal(lambda: SimulatedQuery().start().give(sink, rows, 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "transaction" in str(error)


def test_a_run_of_long_ago_does_not_stop_the_one_that_owns_the_query(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    """It begins anew after it was fenced, and finds that it was followed."""
    query, rows = SimulatedQuery(), spark.range(5).selectExpr("string(id) AS value")
    older, its_sink = query.start(), KafkaSink(broker.servers, topic=topic)
    older.give(its_sink, rows, 0)
    newer, sink = query.start(), KafkaSink(broker.servers, topic=topic)
    newer.give(sink, rows, 1)
    for epoch in (2, 3):
        # Its driver may think that it owns the query for as long as it likes.
        batch = its_sink
        with pytest.raises(FencedError):
            older.give(batch, rows, epoch)
        with pytest.raises(FencedError):
            older.give(KafkaSink(broker.servers, topic=topic), rows, epoch)
        newer.give(sink, rows, epoch)
    assert len(values(broker, topic)) == 20


def test_what_was_rolled_back_is_refused_until_it_is_forgotten(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    query = SimulatedQuery()

    def give(epoch: int) -> None:
        rows = spark.sql(f"SELECT 'of {epoch}' AS value")
        query.start().give(KafkaSink(broker.servers, topic=topic, epoch_header="e"), rows, epoch)

    for epoch in (0, 1, 2):
        give(epoch)
    query.operations.append(Operation(epoch=3, source=0))
    error = refusal(lambda: give(4))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "epoch 1 (1 rows), epoch 2 (1 rows)" in str(error)
    assert KafkaSink(broker.servers, topic=topic).mark_unpublished(query.query_id, after=0) == 2
    give(4)
    assert values(broker, topic) == ["of 0", "of 1", "of 2", "of 4"]


def test_a_broker_that_is_killed_in_between_is_written_on(
    spark: SparkSession, broker: KafkaBroker
) -> None:
    """Before the commit, and after it was asked for, whose answer nobody gets."""
    rows = spark.range(50).selectExpr("string(id) AS value")
    with kafka_broker() as other:
        other.make_topic("t", partitions=1)

        class Killing(KafkaSink):
            when = ""

            def _commit(self, producer: Any) -> None:
                when, Killing.when = Killing.when, ""
                if when == "before":
                    other.kill()
                    threading.Timer(0.5, other.start).start()
                super()._commit(producer)
                if when == "after":
                    # A broker that is the only one, and knows of no other yet when it starts, takes
                    # partitions for deleted whose part of a commit it had still to write.
                    until(lambda: values(other, "t") == values(other, "t", "read_uncommitted"))
                    other.kill()
                    threading.Timer(0.5, other.start).start()
                    raise self._lost()

            def _lost(self) -> Exception:
                import confluent_kafka as kafka

                return kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TRANSPORT, "lost"))

        run, sink = SimulatedQuery().start(), Killing(other.servers, topic="t", retry_for_s=120)
        run.give(sink, rows, 0)
        for epoch, when in ((1, "before"), (2, "after")):
            Killing.when = when
            run.give(sink, rows, epoch)
            assert len(values(other, "t")) == 50 * (epoch + 1), when


def test_a_topic_of_notes_that_forgets_is_refused(
    spark: SparkSession, broker: KafkaBroker, topic: str
) -> None:
    broker.make_topic("deleted", partitions=1, cleanup_policy="delete")
    sink = KafkaSink(broker.servers, topic=topic, control_topic="deleted")
    error = refusal(
        lambda: SimulatedQuery().start().give(sink, spark.sql("SELECT 'v' AS value"), 0)
    )
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "cleanup.policy delete" in str(error)


def test_a_broker_that_is_away_is_given_up_and_secrets_are_told_to_nobody(
    spark: SparkSession, broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    # One that is away, and one that knows nothing of passwords.
    for servers in ("127.0.0.1:1", broker.servers):
        sink = KafkaSink(servers, topic="t", options=SASL, retry_for_s=3)
        told += [repr(sink), sink.name, repr(sink._cluster), str(vars(sink)["_cluster"])]
        with pytest.raises(CleancutError) as raised:
            SimulatedQuery().start().give(sink, spark.sql("SELECT 'v' AS value"), 0)
        told += traceback.format_exception(raised.value)
        if servers != broker.servers:
            assert isinstance(raised.value, RetryableError)
            assert raised.value.error_id == "CLEANCUT_SINK_UNREACHABLE"
            assert "Connection refused" in str(raised.value)
    told.append(caplog.text)
    assert not [text for text in told if SECRET in text]


def test_the_documented_sink(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    page = Page("docs/use/sinks/kafka.md", spark, tmp_path)
    assert page.number == 1
    page.run(0, replaced={"broker:9092": broker.servers})
    last = {}
    for record in broker.records("counts"):
        row = json.loads(record.value())
        last[row["day"], row["k"]] = row["count"]
    found: Counter[int] = Counter()
    for (_, key), count in last.items():
        found[key] += count
    assert found == counted(page, spark, tmp_path)


def test_options_of_the_sink_itself_are_refused() -> None:
    error = refusal(lambda: KafkaSink("b:1", topic="t", options={"transactional.id": "x"}))
    assert "the sink sets these options itself: transactional.id" in str(error)


RECIPE = """
import sys
from tests.support.documented import blocks
from tests.support.sessions import builder

servers, home, jars = sys.argv[1:]
spark = builder("local[2]", {"spark.jars": jars.replace(":", ",")}).getOrCreate()
(code,) = blocks("docs/use/recipes.md", "python")
for text, by in (("broker:9092", servers), ("/checkpoints", home)):
    assert text in code
    code = code.replace(text, by)
given = {"spark": spark}
exec(code, given)
given["query"].processAllAvailable()
given["query"].stop()
"""


@pytest.mark.skipif(not CONNECTOR.exists(), reason="`make servers` has not been run")
def test_the_documented_recipe(broker: KafkaBroker, tmp_path: Path) -> None:
    """A separate process, because Spark's connector must be on the class path."""
    import confluent_kafka as kafka

    orders = [{"customer": f"c{n % 3}", "amount": n} for n in range(30)]
    for name in ("orders", "totals"):
        broker.make_topic(name)
    producer = kafka.Producer({"bootstrap.servers": broker.servers})
    for order in orders:
        producer.produce("orders", json.dumps(order).encode())
    assert producer.flush(PATIENCE_S) == 0
    answer = run_script(RECIPE, broker.servers, str(tmp_path), CONNECTOR.read_text().strip())
    assert answer.returncode == 0, answer.stderr[-4000:]
    rows = [json.loads(record.value()) for record in broker.records("totals")]
    totals: Counter[str] = Counter()
    for order in orders:
        totals[str(order["customer"])] += int(str(order["amount"]))
    assert {row["customer"]: row["total"] for row in rows} == totals
    assert len(rows) == len(totals), "a total was written twice"
