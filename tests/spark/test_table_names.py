"""One table has one ledger, for each spelling of its name and each kind of sink."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy.dialects import postgresql

from cleancut.sinks import EpochSink, PostgresSink, SqlSink
from cleancut.sinks._core.database import Transaction
from cleancut.sinks._ledgers.ledger import Ledger
from cleancut.sinks._tables.postgres import PostgresDatabase
from cleancut.sinks._tables.sql import SqlDatabase, SqlStatements
from cleancut.sinks._tables.table import TableOptions
from cleancut.testing._simulated_query import SimulatedQuery
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.mariadb import MariaDbServer, mariadb_server, needs_mariadb
from tests.support.refusals import refusal
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        started.rows("CREATE SCHEMA shop")
        yield started


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDbServer]:
    with mariadb_server() as started:
        started.rows("CREATE DATABASE other")
        yield started


def give_in_turn(spark: SparkSession, query: SimulatedQuery, sinks: list[EpochSink]) -> list[int]:
    """Each sink processes epoch 0 in a separate run; returns the epochs that each knows."""
    known = []
    for sink in sinks:
        query.start().give(sink, spark.range(3), 0)
        table_sink: Any = sink
        known.append(len(table_sink.epochs(query.query_id)))
    return known


def check_older_runs(
    spark: SparkSession, query: SimulatedQuery, one: EpochSink, two: EpochSink
) -> None:
    """A run that writes to one spelling is fenced by a later one that writes to the other."""
    older = query.start()
    older.give(one, spark.range(3), 1)
    # The first run still considers itself the owner, so only the ledger can refuse it.
    other = SimulatedQuery(query_id=query.query_id, runs=query.runs)
    other.start().give(two, spark.range(3), 2)
    error = refusal(lambda: older.give(one, spark.range(3), 3))
    assert error.error_id == "CLEANCUT_FENCED"


@pytest.mark.parametrize("name", ["counts", "Odd counts"])
def test_postgresql_identifies_a_table_with_and_without_its_schema(
    spark: SparkSession, postgres: PostgresServer, name: str
) -> None:
    query = SimulatedQuery()
    plain, public = (PostgresSink(postgres.dsn, table) for table in (name, f"public.{name}"))
    assert give_in_turn(spark, query, [plain, public, plain]) == [1, 1, 1]
    assert postgres.rows(f'SELECT count(*) FROM "{name}"') == [(3,)]
    check_older_runs(spark, query, public, plain)
    # Names are case-sensitive, as in quotes: this one is another table.
    other = PostgresSink(postgres.dsn, name.upper())
    assert give_in_turn(spark, query, [other]) == [1]
    assert postgres.rows(f'SELECT count(*) FROM "{name.upper()}"') == [(3,)]


def test_postgresql_resolves_a_table_by_the_search_path(
    spark: SparkSession, postgres: PostgresServer
) -> None:
    """With another search path, a name without a schema is another table."""
    query = SimulatedQuery()
    inside = f"{postgres.dsn}?options=-csearch_path%3Dshop,public"
    for schema in ("shop", "public"):
        postgres.rows(f"CREATE TABLE {schema}.rows (id bigint)")
    by_path = PostgresSink(inside, "rows")
    assert give_in_turn(spark, query, [by_path, PostgresSink(inside, "shop.rows")]) == [1, 1]
    assert postgres.rows("SELECT count(*) FROM shop.rows") == [(3,)]
    assert postgres.rows("SELECT count(*) FROM public.rows") == [(0,)]
    # The ledger is in the first schema of the path, so that of `public` has no record.
    assert give_in_turn(spark, query, [PostgresSink(postgres.dsn, "rows")]) == [1]
    assert postgres.rows("SELECT count(*) FROM public.rows") == [(3,)]


def test_sql_sink_and_postgres_sink_have_one_ledger(
    spark: SparkSession, postgres: PostgresServer
) -> None:
    """`SqlSink` resolves the name by the same query; its driver is not installed here."""
    database = PostgresDatabase(postgres.dsn)

    dialect: Any = postgresql

    def key_of(table: str) -> tuple[str, str]:
        options = TableOptions(table, (), "", "", "", "", 0, True)
        with database.transaction() as opened:
            stub: Any = SimpleNamespace(
                run=opened.run, connection=SimpleNamespace(dialect=dialect.dialect())
            )
            transaction: Transaction = stub
            return SqlStatements(options, {}, transaction).resolved(transaction)

    postgres.rows("CREATE TABLE both_sinks (id bigint)")
    for name in ("both_sinks", "public.both_sinks"):
        assert key_of(name) == ("public", "both_sinks")
        sink = PostgresSink(postgres.dsn, name)
        query = SimulatedQuery()
        give_in_turn(spark, query, [sink])
        assert sink._ledger.sink == "table public.both_sinks"


@pytest.mark.parametrize(
    "former", ["SqlSink taken", "PostgresSink taken", "PostgresSink public.taken"]
)
def test_postgresql_records_under_a_former_key_are_migrated(
    spark: SparkSession, postgres: PostgresServer, former: str
) -> None:
    query = SimulatedQuery()
    sink = PostgresSink(postgres.dsn, "taken")
    give_in_turn(spark, query, [sink])
    rows = postgres.rows("SELECT count(*) FROM taken")
    # As written by a release that used the sink's class and the given name as key.
    for table in ("cleancut_runs", "cleancut_epochs"):
        postgres.rows(f"UPDATE {table} SET sink = '{former}' WHERE query_id = '{query.query_id}'")
    assert give_in_turn(spark, query, [PostgresSink(postgres.dsn, "public.taken")]) == [1]
    assert postgres.rows("SELECT count(*) FROM taken") == rows
    left = Ledger(PostgresDatabase(postgres.dsn), former, 5)
    assert left.within(lambda transaction: left.published(transaction, query.query_id)) == []


@needs_mariadb
def test_mariadb_identifies_a_table_with_and_without_its_database(
    spark: SparkSession, mariadb: MariaDbServer
) -> None:
    query = SimulatedQuery()
    [(database,)] = mariadb.rows("SELECT DATABASE()")
    plain, named = (SqlSink(mariadb.url, table) for table in ("counts", f"{database}.counts"))
    assert give_in_turn(spark, query, [plain, named, plain]) == [1, 1, 1]
    assert mariadb.rows("SELECT count(*) FROM counts") == [(3,)]
    check_older_runs(spark, query, named, plain)
    # The same name in another database is another table.
    assert give_in_turn(spark, query, [SqlSink(mariadb.url, "other.counts")]) == [1]
    assert mariadb.rows("SELECT count(*) FROM other.counts") == [(3,)]


@needs_mariadb
def test_mariadb_records_under_a_former_key_are_migrated(
    spark: SparkSession, mariadb: MariaDbServer
) -> None:
    query = SimulatedQuery()
    give_in_turn(spark, query, [SqlSink(mariadb.url, "taken")])
    for table in ("cleancut_runs", "cleancut_epochs"):
        mariadb.rows(
            f"UPDATE {table} SET sink = 'SqlSink taken' WHERE query_id = '{query.query_id}'"
        )
    [(database,)] = mariadb.rows("SELECT DATABASE()")
    assert give_in_turn(spark, query, [SqlSink(mariadb.url, f"{database}.taken")]) == [1]
    assert mariadb.rows("SELECT count(*) FROM taken") == [(3,)]
    left = Ledger(SqlDatabase(mariadb.url), "SqlSink taken", 5)
    assert left.within(lambda transaction: left.published(transaction, query.query_id)) == []
