"""How sinks classify failures of the server, of the user's function, and of Spark."""

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from cleancut.errors import CleancutError, FencedError, RequestError, RetryableError, error_of
from cleancut.sinks import KafkaSink, SqlLedger, exactly_once
from cleancut.sinks._core.database import retried
from cleancut.sinks._kafka.cluster import confluent_kafka
from cleancut.sinks._kafka.transactions import commit
from cleancut.sinks._tables.mysql import mysql_verdict
from cleancut.sinks._tables.postgres import PostgresDatabase
from cleancut.sinks._tables.sql import SqlDatabase
from cleancut.sinks._tables.staging import stage_partition
from tests.unit.test_sink_ledger import BATCH, Side

POSTGRES = PostgresDatabase("postgresql://writer@host/shop")


class DriverError(Exception):
    """The exception of the PostgreSQL driver."""

    def __init__(self, text: str, sqlstate: str | None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


DriverError.__module__ = "adbc_driver_manager"


class LostExecutorError(Exception):
    """The exception that PySpark raises for a failed job."""


LostExecutorError.__module__ = "pyspark.errors.exceptions.captured"


@pytest.mark.parametrize(
    "failure",
    [
        KeyError("shop"),
        LostExecutorError("ExecutorLostFailure (executor 3 exited)"),
        ValueError("connection refused"),
        error_of("CLEANCUT_SINK_STAGED_LOST", sink="s", epoch=1, detail="d"),
    ],
    ids=repr,
)
def test_exceptions_of_a_function_pass_through(failure: Exception, tmp_path: Path) -> None:
    calls: list[int] = []

    @exactly_once(ledger=SqlLedger(f"sqlite:///{tmp_path}/db", "totals", retry_for_s=5))
    def write(rows: Any, epoch: int, transaction: Any) -> None:
        calls.append(epoch)
        raise failure

    side: Any = Side(BATCH)
    rows: Any = "rows"
    write.begin(side, rows)
    with pytest.raises(type(failure)) as raised:
        write.publish(write.stage(rows, BATCH), BATCH)
    assert raised.value is failure
    assert raised.traceback[-1].name == "write"
    assert calls == [0]
    assert write.published(BATCH) is None


def test_a_statement_that_the_database_refuses_is_a_request_error(tmp_path: Path) -> None:
    @exactly_once(ledger=SqlLedger(f"sqlite:///{tmp_path}/db", "totals", retry_for_s=5))
    def write(rows: Any, epoch: int, transaction: Any) -> None:
        transaction.run("INSERT INTO no_such_table VALUES (1)")

    side: Any = Side(BATCH)
    rows: Any = "rows"
    write.begin(side, rows)
    with pytest.raises(RequestError, match="no_such_table") as raised:
        write.publish(write.stage(rows, BATCH), BATCH)
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


def test_an_exception_of_spark_is_no_failure_of_the_server() -> None:
    failure = LostExecutorError("gone")

    def once() -> None:
        raise failure

    with pytest.raises(LostExecutorError) as raised:
        retried(once, lambda _: "error", (), 5, "sink")
    assert raised.value is failure


# States of a server that pass without a change of the query.
TRANSIENT = {
    "08006": "connection failure",
    "25006": "read-only transaction, after a failover",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "53000": "insufficient resources",
    "53100": "disk full",
    "53200": "out of memory",
    "53300": "too many connections",
    "55000": "not accepting connections",
    "55P03": "lock not available",
    "57014": "statement timeout",
    "57P01": "shutdown by an administrator",
    "57P03": "starting up",
    "58030": "input or output error",
}
PERMANENT = {"42P01": "undefined table", "23505": "unique violation", "28P01": "wrong password"}


@pytest.mark.parametrize("state", [*TRANSIENT, *PERMANENT])
def test_states_of_postgresql(state: str) -> None:
    verdict = POSTGRES.verdict(DriverError({**TRANSIENT, **PERMANENT}[state], state))
    assert (verdict in ("again", "lost")) == (state in TRANSIENT)
    assert verdict != "foreign"


def of_sqlalchemy(original: Exception) -> Exception:
    import sqlalchemy

    return sqlalchemy.exc.OperationalError("UPDATE counts", {}, original)


class PsycopgError(Exception):
    def __init__(self, text: str, sqlstate: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("url", "original", "verdict"),
    [
        ("postgresql+psycopg://h/d", Exception("deadlock detected"), "again"),
        ("postgresql+psycopg://h/d", Exception("connection refused"), "lost"),
        ("postgresql+psycopg://h/d", PsycopgError("too many clients", "53300"), "lost"),
        ("postgresql+psycopg://h/d", PsycopgError("could not serialize", "40001"), "again"),
        ("postgresql+psycopg://h/d", PsycopgError("no such table", "42P01"), "error"),
        ("mssql+pyodbc://h/d", Exception("40001", "Transaction was deadlocked"), "again"),
        ("mysql+pymysql://h/d", Exception(1290, "running with the --read-only option"), "lost"),
        ("mysql+pymysql://h/d", Exception(1021, "Disk full"), "lost"),
        ("mysql+pymysql://h/d", Exception(1213, "Deadlock found"), "again"),
        ("mysql+pymysql://h/d", Exception(1146, "Table doesn't exist"), "error"),
        ("sqlite:///d", Exception("database is locked"), "again"),
        ("sqlite:///d", Exception("disk I/O error"), "lost"),
        ("sqlite:///d", Exception("database or disk is full"), "lost"),
        ("sqlite:///d", Exception("no such table: deadlock"), "error"),
    ],
    ids=str,
)
def test_failures_that_sqlalchemy_wraps(url: str, original: Exception, verdict: str) -> None:
    assert SqlDatabase(url).verdict(of_sqlalchemy(original)) == verdict


def test_other_failures_are_no_failures_of_the_database() -> None:
    import sqlalchemy

    assert SqlDatabase("sqlite:///d").verdict(KeyError("connection refused")) == "foreign"
    assert SqlDatabase("sqlite:///d").verdict(sqlalchemy.exc.ArgumentError("bad URL")) == "error"
    assert POSTGRES.verdict(OSError("connection refused")) == "foreign"
    assert mysql_verdict(1045, "") is None


def kafka_error(code: str, *, is_retriable: bool = False) -> Exception:
    kafka = confluent_kafka()
    of_code = getattr(kafka.KafkaError, code)
    failure: Exception = kafka.KafkaException(
        kafka.KafkaError(of_code, "brokers are away", False, is_retriable, False)
    )
    return failure


class Producer:
    """A transactional producer whose commits fail in turn.

    Attributes:
        notes: the last record of each key that was committed.
    """

    notes: ClassVar[dict[Any, Any]] = {}

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self._records: list[dict[str, Any]] = []

    def begin_transaction(self) -> None: ...
    def produce(self, **record: Any) -> None:
        self._records.append(record)

    def purge(self) -> None: ...
    def poll(self, seconds: float) -> None: ...
    def abort_transaction(self, seconds: float) -> None: ...
    def commit_transaction(self, seconds: float) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.notes.update({record["key"]: record["value"] for record in self._records})


def connected(sink: Any, producers: Callable[[], Any]) -> None:
    object.__setattr__(sink._cluster, "create_control", lambda _: None)
    object.__setattr__(sink._cluster, "admin", lambda _: None)
    object.__setattr__(sink._cluster, "control_id", lambda *_: "id")
    object.__setattr__(sink._cluster, "producer", lambda *_: producers())
    object.__setattr__(sink._cluster, "last_record", lambda key, *_, **__: Producer.notes.get(key))


class Rows(list[Any]):
    def release(self) -> None: ...


def test_brokers_that_are_away_within_a_commit_are_unreachable() -> None:
    """For longer than a transaction may be open."""
    sink: Any = KafkaSink(
        "broker:9092", topic="t", options={"transaction.timeout.ms": 1}, retry_for_s=0.2
    )
    connected(sink, Producer)
    side: Any = Side(BATCH)
    sink.begin(side, None)
    sink._producer = None
    timeouts = [kafka_error("_TIMED_OUT", is_retriable=True) for _ in range(1000)]

    class Away(Producer):
        def commit_transaction(self, seconds: float) -> None:
            time.sleep(0.01)
            super().commit_transaction(seconds)

    connected(sink, lambda: Away(*timeouts))
    sink._rows = Rows([(b"k", b"v", None, None, None)])
    with pytest.raises(RetryableError) as raised:
        sink.publish("", BATCH)
    assert raised.value.error_id == "CLEANCUT_SINK_UNREACHABLE"


def test_a_run_paused_in_a_transaction_is_fenced_by_its_successor() -> None:
    """The broker has ended its transaction, which was open for too long."""
    sink: Any = KafkaSink("broker:9092", topic="t", options={"transaction.timeout.ms": 1})
    connected(sink, Producer)
    side: Any = Side(BATCH)
    sink.begin(side, None)

    class Paused(Producer):
        def commit_transaction(self, seconds: float) -> None:
            newer: Any = KafkaSink("broker:9092", topic="t")
            connected(newer, Producer)
            newer.begin(Side(replace(BATCH, run_id="newer")), None)
            time.sleep(0.01)
            super().commit_transaction(seconds)

    sink._producer = Paused(kafka_error("INVALID_PRODUCER_EPOCH"))
    sink._rows = Rows([(b"k", b"v", None, None, None)])
    with pytest.raises(FencedError) as raised:
        sink.publish("", BATCH)
    assert raised.value.error_id == "CLEANCUT_FENCED"


def test_a_transaction_that_ended_while_brokers_were_away_is_repeated() -> None:
    """The broker ended it by its timeout; the epoch is not too large."""
    failures = [kafka_error("_TIMED_OUT", is_retriable=True), kafka_error("INVALID_TXN_STATE")]
    kafka = confluent_kafka()
    with pytest.raises(kafka.KafkaException) as raised:
        commit(Producer(*failures), 5)
    assert raised.value.args[0].code() == kafka.KafkaError._TIMED_OUT
    with pytest.raises(kafka.KafkaException) as raised:
        commit(Producer(kafka_error("INVALID_TXN_STATE")), 5)
    assert raised.value.args[0].code() == kafka.KafkaError.INVALID_TXN_STATE


class Flaky(SqlDatabase):
    """A database that accepts a connection at the third attempt."""

    attempts = 0

    @contextmanager
    def transaction(self) -> Any:
        type(self).attempts += 1
        if type(self).attempts < 3:
            raise of_sqlalchemy(Exception("database is locked"))
        with super().transaction() as opened:
            yield opened


def test_a_staging_task_connects_again(tmp_path: Path) -> None:
    database: Any = Flaky(f"sqlite:///{tmp_path}/db")
    with SqlDatabase(database.url).transaction() as opened:
        opened.run("CREATE TABLE staged (k BIGINT, cleancut_try VARCHAR(32))")
    batches = iter([pa.RecordBatch.from_pydict({"k": [1, 2]})])
    (report,) = stage_partition(database, "staged", "SqlSink counts", 0, batches, seconds=5)
    assert report["rows"].to_pylist() == [2]
    with SqlDatabase(database.url).transaction() as opened:
        assert opened.run("SELECT COUNT(*) FROM staged") == [(2,)]


def test_a_staging_task_ends_if_the_database_stays_away(tmp_path: Path) -> None:
    database: Any = Flaky(f"sqlite:///{tmp_path}/db")
    type(database).attempts = -1000
    batches = iter([pa.RecordBatch.from_pydict({"k": [1, 2]})])
    with pytest.raises(CleancutError) as raised:
        next(stage_partition(database, "staged", "SqlSink counts", 0, batches, seconds=0.1))
    assert raised.value.error_id == "CLEANCUT_SINK_UNREACHABLE"
    type(database).attempts = 0
