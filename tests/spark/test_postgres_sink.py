"""`PostgresSink` on a server: types, keys, deletions, refusals, secrets, lost connections."""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cleancut import CleancutError, RequestError, RetryableError
from cleancut.sinks import PostgresSink
from cleancut.sinks._tables.postgres import PostgresDatabase
from cleancut.testing._simulated_query import SimulatedQuery
from demo.job import QUERIES
from demo.postgres_server import PASSWORD, PostgresServer, postgres_server
from demo.tables import VARIABLE, Reader
from tests.support.refusals import refusal
from tests.support.tiers import long

pytestmark = pytest.mark.spark

# For each type: its column in Spark SQL, and the text that PostgreSQL returns.
TYPES = {
    "truth": ("true", "boolean", "true"),
    "tiny": ("tinyint(-128)", "smallint", "-128"),
    "small": ("smallint(32767)", "smallint", "32767"),
    "whole": ("int(-2147483648)", "integer", "-2147483648"),
    "large": ("bigint(9223372036854775807)", "bigint", "9223372036854775807"),
    "single": ("float(1.5)", "real", "1.5"),
    "double": ("double('-Infinity')", "double precision", "-Infinity"),
    "exact": (
        "cast('12345678901234567890.123456' as decimal(38,6))",
        "numeric(38,6)",
        "12345678901234567890.123456",
    ),
    "words": ("'ä ''\"\\\\ \\t☃'", "text", "ä '\"\\ \t☃"),
    "fixed": ("cast('ab' as varchar(5))", "text", "ab"),
    "bytes": ("unhex('00FF')", "bytea", "\\x00ff"),
    "day": ("date'0001-01-01'", "date", "0001-01-01"),
    "moment": (
        "timestamp'2024-03-31 02:30:00.123456'",
        "timestamp with time zone",
        "2024-03-31 02:30:00.123456+00",
    ),
    "local": (
        "timestamp_ntz'1600-02-29 23:59:59.999999'",
        "timestamp without time zone",
        "1600-02-29 23:59:59.999999",
    ),
    "lasting": ("interval '-1 02:03:04.5' day to second", "interval", "-26:03:04.5"),
    "months": ("interval '-1-2' year to month", "interval", "-1 years -2 mons"),
    "list": ("array(1, null, 3)", "integer[]", "{1,NULL,3}"),
    "exacts": ("array(cast(1.5 as decimal(4,2)))", "numeric(4,2)[]", "{1.50}"),
    "nested": ("array(array(1), null)", "jsonb", "[[1], null]"),
    "struct": (
        "named_struct('a', 1, 'b', array('x'), 'c', int(null))",
        "jsonb",
        '{"a": 1, "b": ["x"]}',
    ),
    "map": (
        "map('k', timestamp_ntz'2024-01-01 00:00:00.000001')",
        "jsonb",
        '{"k": "2024-01-01T00:00:00.000001"}',
    ),
    "variant": ("parse_json('{\"z\": [1, null]}')", "jsonb", '{"z": [1, null]}'),
    'odd "%:name': ("'colon :x %s'", "text", "colon :x %s"),
}
REFUSED = {
    "nothing": "null",
    "calendar": "make_interval(1, 2, 3)",
    "inner": "array(make_interval(1))",
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture
def table(request: pytest.FixtureRequest, server: PostgresServer) -> Iterator[str]:
    """Returns the name of a table of this test."""
    yield f"t_{abs(hash(request.node.name)):x}"
    for name in staging_tables(server):
        server.rows(f"DROP TABLE {name}")


Give = Callable[[PostgresSink, DataFrame, int], None]


@pytest.fixture
def give() -> Give:
    """Passes an epoch of a simulated query to a sink, each in a separate run."""
    query = SimulatedQuery()
    return lambda sink, rows, epoch: query.start().give(sink, rows, epoch)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_each_type_of_spark_round_trips(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    one = ", ".join(f"{sql} AS `{name}`" for name, (sql, _, _) in TYPES.items())
    void = ", ".join(f"if(id = 0, {sql}, null) AS `{name}`" for name, (sql, _, _) in TYPES.items())
    rows = spark.sql(f"SELECT id, {void} FROM (SELECT explode(array(0, 1)) AS id)")
    assert [field.nullable for field in rows.schema.fields[1:]] == [True] * len(TYPES)
    assert one
    give(PostgresSink(server.dsn, table), rows, 0)
    shown = ", ".join(
        f"CASE WHEN {quoted(name)} IS NOT NULL THEN {quoted(name)}::text END" for name in TYPES
    )
    written = server.rows(f"SELECT {shown} FROM {table} ORDER BY id")
    # The server prints timestamps in its own time zone, which is UTC here.
    assert dict(zip(TYPES, written[0], strict=True)) == {
        name: text for name, (_, _, text) in TYPES.items()
    }
    assert set(written[1]) == {None}
    types = server.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 1"
    )
    assert dict(types) == {name: kind for name, (_, kind, _) in TYPES.items()}


def test_an_unsupported_type_is_refused_before_any_write(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    columns = ", ".join(f"{sql} AS {name}" for name, sql in REFUSED.items())
    rows = spark.sql(f"SELECT 1 AS id, {columns}")
    error = refusal(lambda: give(PostgresSink(server.dsn, table), rows, 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    for name in REFUSED:
        assert f"{name} (" in str(error)
    assert "id (" not in str(error)
    assert server.rows(f"SELECT to_regclass('{table}')::text") == [(None,)]
    assert staged(server) == []


def staging_tables(server: PostgresServer) -> list[str]:
    tables = server.rows("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
    return [name for (name,) in tables if name.startswith("cleancut_staged")]


def staged(server: PostgresServer) -> list[str]:
    """Returns the staging tables that contain rows."""
    tables = staging_tables(server)
    return [name for name in tables if server.rows(f"SELECT count(*) FROM {name}") != [(0,)]]


def test_rows_replace_and_delete_those_with_their_keys(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    sink = PostgresSink(
        server.dsn, table, keys=["a", "b"], order_by="at", delete_when="gone", keep_undo=5
    )

    def epoch(number: int, *rows: tuple[int, str, int, str, bool | None]) -> None:
        schema = "a int, b string, at int, v string, gone boolean"
        give(sink, spark.createDataFrame(list(rows), schema), number)

    epoch(0, (1, "x", 1, "one", False), (1, "y", 1, "two", None), (2, "x", 1, "three", False))
    assert server.rows(f"SELECT a, b, v FROM {table} ORDER BY a, b") == [
        (1, "x", "one"),
        (1, "y", "two"),
        (2, "x", "three"),
    ]
    # The last of several rows of a key counts: a deletion, or a row after one.
    epoch(
        1,
        *((1, "x", 5, "", True), (1, "x", 4, "late", False)),
        *((1, "y", 2, "", True), (1, "y", 3, "again", False)),
        (7, "z", 1, "", True),
    )
    assert server.rows(f"SELECT a, b, at, v FROM {table} ORDER BY a, b") == [
        (1, "y", 3, "again"),
        (2, "x", 1, "three"),
    ]


def test_ambiguous_keys_are_refused(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    sink = PostgresSink(server.dsn, table, keys="k")
    give(sink, spark.sql("SELECT 1 AS k, 'a' AS v"), 0)
    twice = spark.sql("SELECT explode(array(2, 3, 3)) AS k, 'b' AS v")
    assert "1 keys are duplicated" in str(refusal(lambda: give(sink, twice, 1)))
    null = spark.sql("SELECT explode(array(2, null)) AS k, 'b' AS v")
    assert "1 rows of the epoch have a key that is null" in str(
        refusal(lambda: give(sink, null, 1))
    )
    assert server.rows(f"SELECT * FROM {table}") == [(1, "a")]
    give(sink, spark.sql("SELECT 2 AS k, 'b' AS v"), 1)
    assert server.rows(f"SELECT count(*) FROM {table}") == [(2,)]
    # The staged rows of refused epochs are deleted with the first accepted epoch.
    assert staged(server) == []


@pytest.mark.parametrize(
    ("made", "options", "problem"),
    [
        ("(k int primary key)", {}, "has no columns v"),
        ("(k int, v text)", {"keys": "k"}, "no unique index of exactly k"),
        ("(k int, v text, unique (k, v))", {"keys": "k"}, "no unique index of exactly k"),
        ("(k int, v text)", {"epoch_column": "e"}, "has no columns e"),
        ("(k int, v text)", {"epoch_column": "v"}, "the batch has a column v itself"),
        ("(k int primary key, v text)", {"keys": "k", "order_by": "o"}, "no columns o"),
        ("(k int primary key, v text)", {"keys": "k", "delete_when": "v"}, "which marks deletes"),
        (None, {"create": False}, "there is no table"),
    ],
)
def test_an_incompatible_table_is_refused(
    made: str | None,
    options: dict[str, Any],
    problem: str,
    spark: SparkSession,
    server: PostgresServer,
    table: str,
    give: Give,
) -> None:
    if made:
        server.rows(f"CREATE TABLE {table} {made}")
    sink = PostgresSink(server.dsn, table, **options)
    error = refusal(lambda: give(sink, spark.sql("SELECT 1 AS k, 'a' AS v"), 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert problem in str(error)
    assert staged(server) == []


@long
def test_a_table_of_other_types_accepts_convertible_values(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    """Texts are converted to the type of the column, and nothing is truncated."""
    server.rows(f'CREATE SCHEMA "S {table}"')
    place = f'"S {table}"."T t"'
    server.rows(
        f"CREATE TABLE {place} (u uuid, j jsonb, n numeric(6, 2), s varchar(3), i smallint,"
        " more int DEFAULT 7, twice int GENERATED ALWAYS AS (i * 2) STORED)"
    )
    sink = PostgresSink(server.dsn, f"S {table}.T t")
    uuid = "00000000-0000-4000-8000-000000000001"
    columns = f"'{uuid}' AS u, '[1]' AS j, 1.5 AS n, %s AS s, %s AS i"
    give(sink, spark.sql("SELECT " + columns % ("'abc'", "7L")), 0)
    seen = server.rows(f"SELECT u::text, j::text, n::text, s, i, more, twice FROM {place}")
    assert seen == [(uuid, "[1]", "1.50", "abc", 7, 7, 14)]
    for s, i in (("'abcd'", "7L"), ("'abc'", "70000L")):
        rows = spark.sql("SELECT " + columns % (s, i))
        error = refusal(lambda rows=rows: give(sink, rows, 1))  # type: ignore[misc]
        assert (error.error_id, type(error)) == ("CLEANCUT_SINK_REFUSED", RequestError)
    assert server.rows(f"SELECT count(*) FROM {place}") == [(1,)]


def test_the_password_is_masked(
    spark: SparkSession,
    server: PostgresServer,
    table: str,
    give: Give,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = (PASSWORD, server.dsn.split(":")[2].split("@")[0])
    texts: list[str] = []
    # As separate parameters, and with a wrong password.
    words = f"host=127.0.0.1 port={server.port} user=writer dbname=postgres password="
    handles: list[str] = []

    class LeakingSink(PostgresSink):
        def publish(self, handle: str, batch: Any) -> None:
            handles.append(handle)
            super().publish(handle, batch)

    for dsn in (server.dsn, f"{words}'{PASSWORD}'"):
        sink = LeakingSink(dsn, table)
        give(sink, spark.sql("SELECT 1 AS k"), len(handles))
        texts += [repr(sink), sink.name, repr(sink._database)]
    assert server.rows(f"SELECT count(*) FROM {table}") == [(2,)]
    wrong = f"{PASSWORD}!"
    for dsn in (f"{words}'{wrong}'", f"postgresql://writer:{wrong}@127.0.0.1:nowhere/x"):
        other = PostgresSink(dsn, table, retry_for_s=0.1)
        with pytest.raises(CleancutError) as raised:
            give(other, spark.sql("SELECT 1 AS k"), 7)
        texts += traceback.format_exception(raised.value)
    # A task that cannot reach its server, as on another host.
    other, elsewhere = (
        PostgresSink(dsn, table, retry_for_s=1.0)
        for dsn in (server.dsn, server.dsn.replace("127.0.0.1", "127.0.0.9"))
    )
    other._database = elsewhere._database
    with pytest.raises(Exception, match="CLEANCUT_SINK_UNREACHABLE") as failed:
        give(other, spark.sql("SELECT 1 AS k"), 8)
    texts += traceback.format_exception(failed.value)
    texts += [*handles, caplog.text]
    assert handles
    for secret in secrets:
        assert not [text for text in texts if secret in text]


@long
def test_lost_connections_are_reopened(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    """The server repeatedly kills all connections that write to the table."""
    sink = PostgresSink(server.dsn, table, epoch_column="epoch", retry_for_s=60)
    is_over, thrown = threading.Event(), []

    def kill_connections() -> None:
        while not is_over.wait(0.12):
            # Connections of tasks are kept: Spark retries a task only a few times.
            thrown.extend(
                server.rows(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>"
                    " pg_backend_pid() AND backend_type = 'client backend'"
                    " AND query NOT LIKE 'COPY %cleancut_staged%FROM%'"
                )
            )

    killer = threading.Thread(target=kill_connections, daemon=True)
    killer.start()
    try:
        for epoch in range(6):
            rows = spark.range(100 * epoch, 100 * epoch + 100, 1, 2)
            # A task whose connection was killed fails the epoch, which runs again.
            for _ in range(5):
                with suppress(Exception):
                    give(sink, rows, epoch)
                    break
    finally:
        is_over.set()
        killer.join()
    assert len(thrown) > 3
    assert server.rows(f"SELECT count(*), count(DISTINCT id), max(epoch) FROM {table}") == [
        (600, 600, 5)
    ]


def test_an_unreachable_server_fails_the_epoch_at_the_deadline(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    sink = PostgresSink(server.dsn.replace(str(server.port), "1"), table, retry_for_s=0.3)
    error = refusal(lambda: give(sink, spark.sql("SELECT 1 AS k"), 0))
    assert isinstance(error, RetryableError)
    assert error.error_id == "CLEANCUT_SINK_UNREACHABLE"
    assert "0.3 seconds" in str(error)


@long
def test_lost_staged_rows_are_staged_again(
    spark: SparkSession, server: PostgresServer, table: str
) -> None:
    """As after a crash of the server, which truncates unlogged tables."""
    query = SimulatedQuery(keeps_seals=True)
    rows = spark.range(10)

    class TruncatingSink(PostgresSink):
        def publish(self, handle: str, batch: Any) -> None:
            [name] = staged(server)
            server.rows(f"TRUNCATE {name}")
            super().publish(handle, batch)

    error = refusal(lambda: query.start().give(TruncatingSink(server.dsn, table), rows, 0))
    assert isinstance(error, RetryableError)
    assert error.error_id == "CLEANCUT_SINK_STAGED_LOST"
    assert server.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    # The seal of that run names rows that no longer exist.
    query.start().give(PostgresSink(server.dsn, table), rows, 0)
    assert server.rows(f"SELECT count(*) FROM {table}") == [(10,)]
    assert staged(server) == []


@long
def test_staged_rows_of_another_query_are_kept(
    spark: SparkSession, server: PostgresServer, table: str
) -> None:
    """They were taken for those of an earlier run of this query."""
    one, other = SimulatedQuery(), SimulatedQuery()

    class WaitingSink(PostgresSink):
        def publish(self, handle: str, batch: Any) -> None:
            one.start().give(PostgresSink(server.dsn, table), spark.range(5), 3)
            super().publish(handle, batch)

    other.start().give(WaitingSink(server.dsn, table), spark.range(10, 20), 0)
    assert server.rows(f"SELECT count(*), max(id) FROM {table}") == [(15, 19)]
    assert staged(server) == []


def test_all_epochs_of_a_query_are_staged_in_one_table(
    spark: SparkSession, server: PostgresServer, table: str
) -> None:
    """One table per epoch bloats the catalog of a query with many epochs."""
    query = SimulatedQuery()

    def oids() -> set[Any]:
        return {
            server.rows(f"SELECT '{name}'::regclass::oid")[0] for name in staging_tables(server)
        }

    seen: set[Any] = set()
    for epoch in range(4):
        query.start().give(PostgresSink(server.dsn, table), spark.range(3), epoch)
        seen |= oids()
        assert staged(server) == []
    assert len(seen) == 1
    assert server.rows(f"SELECT count(*) FROM {table}") == [(12,)]
    # Other columns require another table, and the first one is unchanged.
    wider = spark.sql("SELECT id FROM VALUES (7), (null) AS t(id)")
    server.rows(f"ALTER TABLE {table} ADD COLUMN note text")
    query.start().give(
        PostgresSink(server.dsn, table), wider.selectExpr("bigint(id) AS id", "'n' AS note"), 4
    )
    assert len(oids()) == 2
    assert staged(server) == []
    assert server.rows(f"SELECT count(*), count(note) FROM {table}") == [(14, 2)]


def test_rows_of_two_runs_in_one_table_are_not_mixed(
    spark: SparkSession, server: PostgresServer, table: str
) -> None:
    """A run pauses between stage and publication, and another run follows it."""
    query = SimulatedQuery()
    seen: list[list[tuple[Any, ...]]] = []

    class WaitingSink(PostgresSink):
        def publish(self, handle: str, batch: Any) -> None:
            query.start().give(PostgresSink(server.dsn, table), spark.range(10, 15), 0)
            [name] = staging_tables(server)
            seen.append(server.rows(f"SELECT count(*) FROM {name}"))
            super().publish(handle, batch)

    first = query.start()
    error = refusal(lambda: first.give(WaitingSink(server.dsn, table), spark.range(3), 0))
    assert error.error_id == "CLEANCUT_FENCED"
    assert server.rows(f"SELECT min(id), count(*) FROM {table}") == [(10, 5)]
    # The second run has deleted the rows that the first one staged for the epoch.
    assert seen == [[(0,)]]
    query.start().give(PostgresSink(server.dsn, table), spark.range(20, 22), 1)
    assert server.rows(f"SELECT min(id), count(*) FROM {table}") == [(10, 7)]
    assert staged(server) == []


def test_concurrently_staged_rows_are_kept(
    spark: SparkSession, server: PostgresServer, table: str
) -> None:
    """Rows of a later epoch or of a running task: only an empty table may be truncated."""
    query = SimulatedQuery()

    class ConcurrentTask(PostgresSink):
        def publish(self, handle: str, batch: Any) -> None:
            [name] = staging_tables(server)
            server.rows(f"INSERT INTO {name} VALUES (99, '{batch.epoch + 1:016}later')")
            super().publish(handle, batch)

    query.start().give(ConcurrentTask(server.dsn, table), spark.range(3), 0)
    [name] = staging_tables(server)
    assert server.rows(f"SELECT id FROM {name}") == [(99,)]
    with PostgresDatabase(server.dsn).transaction() as open_one:
        open_one.run(f"INSERT INTO {name} VALUES (98, '{2:016}later')")
        query.start().give(PostgresSink(server.dsn, table), spark.range(3, 5), 1)
    assert server.rows(f"SELECT id FROM {name}") == [(98,)]
    query.start().give(PostgresSink(server.dsn, table), spark.range(5, 7), 2)
    assert staged(server) == []
    assert server.rows(f"SELECT count(*), max(id) FROM {table}") == [(7, 6)]


@long
def test_rows_of_repeated_tasks_count_once(
    spark: SparkSession, server: PostgresServer, table: str, give: Give
) -> None:
    """A task fails after its rows are written, and its second attempt writes them again."""
    from pyspark.sql import functions as F  # noqa: N812

    @F.udf("long")
    def failing_once(value: int) -> int:
        import os
        from pathlib import Path

        mark = Path(os.environ.get("TMPDIR", "/tmp")) / f"cleancut-{table}-{value}"
        if value == 99 and not mark.exists():
            mark.touch()
            raise OSError("the first try fails")
        return value

    rows = spark.range(0, 100, 1, 2).select(failing_once("id").alias("id"))
    give(PostgresSink(server.dsn, table), rows, 0)
    assert server.rows(f"SELECT count(*), count(DISTINCT id) FROM {table}") == [(100, 100)]


@long
def test_the_reader_of_the_demo_detects_incomplete_epochs(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, server.dsn)
    for query in QUERIES:
        server.rows(f"CREATE TABLE {query} (epoch bigint, n int)")
    writes = [
        "INSERT INTO hourly VALUES (0, 1), (0, 2)",
        "INSERT INTO hourly VALUES (2, 3)",
        # The third answer is a part of an epoch, and so is the fourth.
        "INSERT INTO hourly VALUES (4, 4)",
        "INSERT INTO hourly VALUES (4, 5)",
        "INSERT INTO hourly VALUES (4, 6)",
        # An epoch that appears late, and rows that change.
        "INSERT INTO rotations VALUES (3, 1)",
        "INSERT INTO rotations VALUES (1, 1)",
        "UPDATE rotations SET n = 2 WHERE epoch = 1",
    ]
    with Reader() as reader:
        # Before the first epoch it reads nothing.
        for write in ["SELECT 1", *writes]:
            server.rows(write)
            looked = reader.polls
            while reader.polls < looked + 2:
                time.sleep(0.01)
    seen = reader.judge()
    for query in QUERIES:
        server.rows(f"DROP TABLE {query}")
    assert (seen.torn, seen.states) == (4, 6 + 4)
