"""`SqlSink` on a MariaDB server: the contract, types, keys, rollbacks, lost connections."""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cleancut import RequestError
from cleancut.sinks import LedgerEpoch, SqlLedger, SqlSink, Transaction, exactly_once
from cleancut.testing import SinkContract
from cleancut.testing._simulated_query import SimulatedQuery
from demo.postgres_server import PASSWORD
from tests.support.contracts import in_a_block
from tests.support.mariadb import MariaDbServer, mariadb_server, needs_mariadb
from tests.support.refusals import refusal
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), long, needs_mariadb]

Row = tuple[Any, ...]
Give = Callable[[SqlSink, DataFrame, int], None]

# For each type: its column in Spark SQL, its type in the table, and the text that a reader sees.
TYPES = {
    "truth": ("true", "tinyint(1)", "1"),
    "tiny": ("tinyint(-128)", "smallint(6)", "-128"),
    "small": ("smallint(32767)", "smallint(6)", "32767"),
    "whole": ("int(-2147483648)", "int(11)", "-2147483648"),
    "large": ("bigint(9223372036854775807)", "bigint(20)", "9223372036854775807"),
    "single": ("float(1.5)", "double", "1.5"),
    "double": ("double(-1.7976931348623157e308)", "double", "-1.7976931348623157e308"),
    "exact": (
        "cast('12345678901234567890.123456' as decimal(38,6))",
        "decimal(38,6)",
        "12345678901234567890.123456",
    ),
    "words": ("'ä ''\"\\\\ \\t☃🙂'", "longtext", "ä '\"\\ \t☃🙂"),
    "long": ("repeat('ß', 100000)", "longtext", "ß" * 100_000),
    "fixed": ("cast('ab' as varchar(5))", "longtext", "ab"),
    "day": ("date'0001-01-01'", "date", "0001-01-01"),
    "moment": (
        "timestamp'2024-03-31 02:30:00.123456'",
        "datetime(6)",
        "2024-03-31 02:30:00.123456",
    ),
    "local": (
        "timestamp_ntz'1600-02-29 23:59:59.999999'",
        "datetime(6)",
        "1600-02-29 23:59:59.999999",
    ),
    "list": ("array(1, null, 3)", "longtext", "[1,null,3]"),
    "struct": ("named_struct('a', 1, 'b', array('x'))", "longtext", '{"a":1,"b":["x"]}'),
    "map": ("map('k', date'2024-01-01')", "longtext", '{"k":"2024-01-01"}'),
    'odd "%:name': ("'colon :x %s'", "longtext", "colon :x %s"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with mariadb_server() as started:
        yield started


@pytest.fixture
def table(request: pytest.FixtureRequest, server: MariaDbServer) -> Iterator[str]:
    """Returns the name of a table of this test."""
    yield f"t_{abs(hash(request.node.name)):x}"
    # Staging tables of refused epochs.
    for name in staged(server):
        server.rows(f"DROP TABLE {name}")


@pytest.fixture
def give() -> Give:
    """Passes an epoch of a simulated query to a sink, each in a separate run."""
    query = SimulatedQuery()
    return lambda sink, rows, epoch: query.start().give(sink, rows, epoch)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def staged(server: MariaDbServer) -> list[str]:
    return [name for (name,) in server.rows("SHOW TABLES LIKE 'cleancut\\_staged%'")]


class OnMariaDb(SinkContract):
    server: MariaDbServer

    @pytest.fixture(autouse=True)
    def given_server(self, server: MariaDbServer) -> None:
        self.server = server

    def table(self, home: Path) -> str:
        # All tests of a run share the server.
        return f"{home.name}_{type(self).__name__}"[:60]

    def read(self, home: Path) -> Iterable[Row]:
        return self.server.rows(f"SELECT id, word, n FROM {self.table(home)}")

    def save(self, home: Path) -> str:
        """Copies the complete database, like a dump; no other test runs at the same time."""
        saved = f"saved_{uuid.uuid4().hex}"
        self.server.rows(f"CREATE DATABASE {saved}")
        self._copy("shop", saved)
        return saved

    def restore(self, home: Path, saved: str) -> None:
        self.drop(home)
        self._copy(saved, "shop")

    def drop(self, home: Path) -> None:
        for table in self._tables("shop"):
            self.server.rows(f"DROP TABLE shop.{quoted(table)}")

    def _tables(self, database: str) -> list[str]:
        return [table for (table,) in self.server.rows(f"SHOW TABLES FROM {database}")]

    def _copy(self, database: str, into: str) -> None:
        for table in map(quoted, self._tables(database)):
            self.server.rows(f"CREATE TABLE {into}.{table} LIKE {database}.{table}")
            self.server.rows(f"INSERT INTO {into}.{table} SELECT * FROM {database}.{table}")


class TestRowsThatReplace(OnMariaDb):
    """Replaces rows, and keeps the replaced ones for a rollback."""

    keys = ("id",)

    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(self.server.url, self.table(home), keys="id", keep_undo=9)


class TestRowsThatAreAdded(OnMariaDb):
    """Appends rows, which a rollback deletes by their epoch."""

    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(
            self.server.url, self.table(home), epoch_column="epoch", query_column="query"
        )


@in_a_block
class TestRowsThatReplaceInABlock(OnMariaDb):
    keys = ("id",)

    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(self.server.url, self.table(home), keys="id", keep_undo=9)


class TestRowsThatStay(OnMariaDb):
    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(self.server.url, self.table(home))


class TestFunction(OnMariaDb):
    """A user's function in the transaction of a ledger."""

    def make_sink(self, home: Path) -> Callable[[DataFrame, int], None]:
        table = self.table(home)
        self.server.rows(
            f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT, word TEXT, n INT, epoch BIGINT)"
        )

        def undo(transaction: Transaction, epochs: Iterable[LedgerEpoch]) -> None:
            for epoch in epochs:
                transaction.run(f"DELETE FROM {table} WHERE epoch = :epoch", epoch=epoch.epoch)

        @exactly_once(ledger=SqlLedger(self.server.url, table), undo=undo)
        def write(rows: DataFrame, epoch: int, transaction: Transaction) -> None:
            for row in rows.collect():
                transaction.run(
                    f"INSERT INTO {table} VALUES (:id, :word, :n, :epoch)",
                    id=row["id"],
                    word=row["word"],
                    n=row["n"],
                    epoch=epoch,
                )

        return write


def test_each_type_of_spark_round_trips(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    columns = ", ".join(
        f"if(id = 0, {sql}, null) AS `{name.replace('`', '``')}`"
        for name, (sql, _, _) in TYPES.items()
    )
    rows = spark.sql(
        f"SELECT id, {columns}, if(id = 0, unhex('00FF5C27'), null) AS bytes"
        " FROM (SELECT explode(array(0, 1)) AS id)"
    )
    give(SqlSink(server.url, table), rows, 0)
    shown = ", ".join(f"CAST({quoted(name)} AS CHAR)" for name in TYPES)
    written = server.rows(f"SELECT {shown}, bytes FROM {table} ORDER BY id")
    assert dict(zip(TYPES, written[0], strict=False)) == {
        name: text for name, (_, _, text) in TYPES.items()
    }
    assert written[0][-1] == b"\x00\xff\\'"
    assert set(written[1]) == {None}
    kinds = dict(
        server.rows(
            "SELECT column_name, column_type FROM information_schema.columns"
            f" WHERE table_name = '{table}' AND column_name NOT IN ('id', 'bytes')"
        )
    )
    assert kinds == {name: kind for name, (_, kind, _) in TYPES.items()}


def test_unsupported_numbers_are_refused(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    rows = spark.sql("SELECT double('NaN') AS x")
    with pytest.raises(Exception, match="CLEANCUT_SINK_REFUSED"):
        give(SqlSink(server.url, table), rows, 0)
    assert server.rows(f"SELECT * FROM {table}") == []


def test_rows_replace_and_delete_those_with_their_keys(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    """Of several rows of a key the one with the greatest decimal counts, although '9' > '10' as
    text.
    """
    sink = SqlSink(
        server.url, table, keys=["a", "b"], order_by="at", delete_when="gone", keep_undo=5
    )

    def epoch(number: int, *rows: tuple[int, str, str, str, bool | None]) -> None:
        schema = "a int, b string, at string, v string, gone boolean"
        made = spark.createDataFrame(list(rows), schema)
        give(sink, made.withColumn("at", made["at"].cast("decimal(20,2)")), number)

    def table_rows() -> list[Row]:
        return server.rows(f"SELECT a, b, v FROM {table} ORDER BY a, b")

    epoch(0, (1, "x", "1", "one", False), (1, "y", "1", "two", None), (2, "x", "1", "three", False))
    assert table_rows() == [(1, "x", "one"), (1, "y", "two"), (2, "x", "three")]
    epoch(
        1,
        *((1, "x", "10", "", True), (1, "x", "9", "late", False)),
        *((1, "y", "9", "", True), (1, "y", "10", "again", False)),
        (7, "z", "1", "", True),
    )
    assert table_rows() == [(1, "y", "again"), (2, "x", "three")]


def test_text_keys_are_compared_like_in_spark(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    """Case, accents and trailing spaces; the server's default collation ignores them."""
    sink = SqlSink(server.url, table, keys=["k", "b"])
    keys = ["a", "A", "ä", "a ", "a\t", ""]
    for epoch in (0, 1):
        rows = [(key, bytearray(key.encode()), epoch) for key in keys]
        give(sink, spark.createDataFrame(rows, "k string, b binary, v int"), epoch)
    written = server.rows(f"SELECT k, v FROM {table}")
    assert sorted(written) == sorted((key, 1) for key in keys)


def test_equal_keys_by_collation_are_refused_within_an_epoch(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    """In an existing table whose keys ignore case."""
    server.rows(
        f"CREATE TABLE {table} (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)"
        " CHARACTER SET utf8mb4"
    )
    sink = SqlSink(server.url, table, keys="k", delete_when="gone")
    one = "SELECT explode(array('a', 'b')) AS k, 1 AS v, false AS gone"
    give(sink, spark.sql(one), 0)
    both = spark.sql("SELECT explode(array('a', 'A')) AS k, 2 AS v, false AS gone")
    assert "1 keys are duplicated" in str(refusal(lambda: give(sink, both, 1)))
    give(sink, spark.sql("SELECT 'A' AS k, 3 AS v, false AS gone"), 1)
    give(sink, spark.sql("SELECT 'B' AS k, 3 AS v, true AS gone"), 2)
    assert [(k.lower(), v) for k, v in server.rows(f"SELECT k, v FROM {table}")] == [("a", 3)]
    long_one = spark.sql("SELECT 'aaaaaaaaaa' AS k, 3 AS v, false AS gone")
    with pytest.raises(Exception, match=r"CLEANCUT_SINK_REFUSED.*too long for column 'k'"):
        give(sink, long_one, 3)


@pytest.mark.parametrize(
    ("made", "options", "problem"),
    [
        ("(k INT PRIMARY KEY)", {}, "has no columns v"),
        ("(k INT, v TEXT)", {"keys": "k"}, "no unique index of exactly k"),
        ("(k INT, v TEXT, UNIQUE (v(3)))", {"keys": "v"}, "no unique index of exactly v"),
        (
            "(k INT PRIMARY KEY, v VARCHAR(9) UNIQUE)",
            {"keys": "k"},
            "unique indexes other than its key",
        ),
        ("(k INT PRIMARY KEY, v TEXT) ENGINE=MyISAM", {"keys": "k"}, "has no transactions"),
        (None, {"create": False}, "there is no table"),
    ],
)
def test_an_incompatible_table_is_refused(
    made: str | None,
    options: dict[str, Any],
    problem: str,
    spark: SparkSession,
    server: MariaDbServer,
    table: str,
    give: Give,
) -> None:
    if made:
        server.rows(f"CREATE TABLE {table} {made}")
    sink = SqlSink(server.url, table, **options)
    error = refusal(lambda: give(sink, spark.sql("SELECT 1 AS k, 'a' AS v"), 0))
    assert (error.error_id, type(error)) == ("CLEANCUT_SINK_REFUSED", RequestError)
    assert problem in str(error)
    assert staged(server) == []


def test_an_existing_table_is_written_and_rolled_back(
    spark: SparkSession, server: MariaDbServer, table: str
) -> None:
    """With an auto-increment column, columns that refuse nulls, a computed one, and a time zone."""
    server.rows(
        f"CREATE TABLE {table} (no INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL UNIQUE,"
        " v VARCHAR(3) NOT NULL, at TIMESTAMP(6) NOT NULL, twice INT AS (k * 2) STORED)"
    )
    query = SimulatedQuery()

    def epoch(number: int, values: str) -> None:
        sink = SqlSink(server.url, f"shop.{table}", keys="k", keep_undo=5)
        rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(k, v)").selectExpr(
            "k", "v", "timestamp'2024-01-01 12:00:00 UTC' AS at"
        )
        query.start().give(sink, rows, number)

    seen = (
        f"SELECT k, v, CAST(CONVERT_TZ(at, @@time_zone, '+00:00') AS CHAR), twice FROM {table}"
        " ORDER BY k"
    )
    noon = "2024-01-01 12:00:00.000000"
    epoch(0, "(0, 'a'), (1, 'b')")
    epoch(1, "(1, 'c'), (2, 'd')")
    assert server.rows(seen) == [(0, "a", noon, 0), (1, "c", noon, 2), (2, "d", noon, 4)]
    with pytest.raises(Exception, match=r"CLEANCUT_SINK_REFUSED.*too long"):
        epoch(2, "(3, 'long')")
    from cleancut.sinks._core.query_side import Operation

    query.operations.append(Operation(epoch=3, source=0))
    epoch(4, "(5, 'e')")
    assert server.rows(seen) == [(0, "a", noon, 0), (1, "b", noon, 2), (5, "e", noon, 10)]


def test_two_queries_write_to_one_table_concurrently(
    spark: SparkSession, server: MariaDbServer, table: str
) -> None:
    """They wait for each other's row locks, or a deadlock repeats one; no epoch is lost."""
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        query, sink = SimulatedQuery(), SqlSink(server.url, table, keys="k")
        run = query.start()
        try:
            for epoch in range(5):
                rows = spark.range(50).selectExpr("id AS k", f"int({10 * epoch + writer}) AS v")
                run.give(sink, rows, epoch)
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    [(rows, low, high)] = server.rows(f"SELECT COUNT(*), MIN(v), MAX(v) FROM {table}")
    assert rows == 50
    assert low in (41, 42)
    assert high == low
    assert staged(server) == []


def test_lost_connections_are_reopened(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    """The server repeatedly kills all connections that write to the table."""
    sink = SqlSink(server.url, table, epoch_column="epoch", retry_for_s=60)
    is_over, killed = threading.Event(), []

    def kill_connections() -> None:
        # Connections exist for a few statements only, so the polling one stays open.
        with closing(server.connected()) as connection, connection.cursor() as cursor:
            while not is_over.wait(0.1):
                cursor.execute(
                    "SELECT id FROM information_schema.processlist WHERE user = 'writer'"
                    " AND id <> CONNECTION_ID()"
                )
                for (thread,) in cursor.fetchall():
                    with suppress(Exception):
                        cursor.execute(f"KILL {thread}")
                        killed.append(thread)

    killer = threading.Thread(target=kill_connections, daemon=True)
    killer.start()
    try:
        for epoch in range(6):
            # A task that lost two connections fails the epoch, which runs again.
            for _ in range(10):
                with suppress(Exception):
                    give(sink, spark.range(100 * epoch, 100 * epoch + 100, 1, 2), epoch)
                    break
    finally:
        is_over.set()
        killer.join()
    assert len(killed) > 1
    assert server.rows(f"SELECT COUNT(*), COUNT(DISTINCT id), MAX(epoch) FROM {table}") == [
        (600, 600, 5)
    ]


def test_a_query_continues_after_a_kill_of_the_server(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    sink = SqlSink(server.url, table, keys="id", retry_for_s=60)

    class KillingSink(SqlSink):
        def publish(self, handle: str, batch: Any) -> None:
            server.kill()
            starts = threading.Timer(0.5, server.start)
            starts.start()
            super().publish(handle, batch)
            starts.join()

    give(sink, spark.range(100), 0)
    give(KillingSink(server.url, table, keys="id", retry_for_s=60), spark.range(50, 150), 1)
    give(sink, spark.range(140, 160), 2)
    assert server.rows(f"SELECT COUNT(*), MAX(id) FROM {table}") == [(160, 159)]
    assert staged(server) == []


def test_rows_larger_than_a_packet_are_refused_by_name(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    [(packet,)] = server.rows("SELECT @@max_allowed_packet")
    rows = spark.sql(f"SELECT repeat('x', {packet}) AS v")
    with pytest.raises(Exception, match="max_allowed_packet"):
        give(SqlSink(server.url, table), rows, 0)


def test_the_password_is_masked_and_a_wrong_one_is_refused(
    spark: SparkSession, server: MariaDbServer, table: str, give: Give
) -> None:
    sink = SqlSink(server.url, table)
    encoded = server.url.split(":")[2].split("@")[0]
    wrong = SqlSink(server.url.replace(encoded, f"{encoded}x"), table, retry_for_s=0.1)
    error = refusal(lambda: give(wrong, spark.range(1), 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    away = SqlSink(server.url.replace(str(server.port), "1"), table, retry_for_s=0.1)
    lost = refusal(lambda: give(away, spark.range(1), 0))
    assert lost.error_id == "CLEANCUT_SINK_UNREACHABLE"
    for text in (repr(sink), sink.name, str(error), str(lost)):
        assert PASSWORD not in text
        assert encoded not in text
