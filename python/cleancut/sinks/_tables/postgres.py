"""PostgreSQL: executors copy an epoch concurrently, and one transaction publishes it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

from cleancut._packages import extra_package
from cleancut.sinks._core.columns import Forms, column_names, postgres_form
from cleancut.sinks._core.database import Transaction, masked
from cleancut.sinks._core.sqlstate import sqlstate_verdict
from cleancut.sinks._tables.statements import TRY, TableStatements, TargetColumn
from cleancut.sinks._tables.table import TableOptions, TableSink

if TYPE_CHECKING:
    import pyarrow as pa


# A bind parameter; quoted text contains none.
_VALUE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![:\w]):([a-z_]+)\b""")
# Conflicts of two runs that create the same table or ledger concurrently.
_AGAIN_IN = {"42P07": "cleancut_", "23505": "cleancut_|pg_type|pg_class", "XX000": "concurrently"}
# Permanent errors that the driver reports before there is an SQLSTATE of the server.
_NEVER = re.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|invalid URI|"
    'invalid connection option|invalid port|missing "="|(role|database) .* does not exist'
)
_LOCK_TIMEOUT_MS = 5000
_PASSWORD_IN_URL = re.compile(r"://[^:/@\s]*:([^@\s]+)@")
_PASSWORD_IN_WORDS = re.compile(r"(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S+)")


@dataclass(frozen=True)
class PostgresDatabase:
    """Implements `Database`.

    Attributes:
        dsn: libpq connection string; libpq's variables complete it.
    """

    dsn: str = field(repr=False)
    lock: str = "FOR UPDATE"
    text: str = "TEXT"
    made_with: str = ""

    @property
    def label(self) -> str:
        return masked(self.dsn)

    def secrets(self) -> Sequence[str]:
        passwords = _PASSWORD_IN_URL.findall(self.dsn) + _PASSWORD_IN_WORDS.findall(self.dsn)
        plain = [secret.strip("'") for secret in passwords]
        # Both as written and unescaped.
        return [*plain, *map(unquote, plain)]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with closing(_connected(self.dsn)) as connection, closing(connection.cursor()) as cursor:
            transaction = _PostgresTransaction(connection, cursor)
            # A longer wait would be for a hanging run; the transaction is retried.
            transaction.run(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
            try:
                yield transaction
            except BaseException:
                # If the connection is lost, the server rolls back.
                with suppress(Exception):
                    connection.rollback()
                raise
            connection.commit()

    def verdict(self, failure: Exception) -> str:
        state = getattr(failure, "sqlstate", None)
        if type(failure).__module__.partition(".")[0] != "adbc_driver_manager":
            return "foreign"
        if state is None:
            # The driver has no SQLSTATE if it cannot reach the server.
            is_lost = type(failure).__name__ == "OperationalError"
            return "lost" if is_lost and not _NEVER.search(str(failure)) else "error"
        at_once = state in _AGAIN_IN and re.search(_AGAIN_IN[state], str(failure))
        return "again" if at_once else sqlstate_verdict(state) or "error"

    def ingest(
        self, transaction: Transaction, table: str, batches: "Iterator[pa.RecordBatch]"
    ) -> int:
        import pyarrow as pa

        first = next(batches)
        schema, _, name = table.rpartition(".")

        def all_of_them() -> "Iterator[pa.RecordBatch]":
            yield first
            yield from batches

        reader = pa.RecordBatchReader.from_batches(first.schema, all_of_them())
        with closing(transaction.connection.cursor()) as cursor:
            rows: int = cursor.adbc_ingest(
                name, reader, mode="append", db_schema_name=schema or None
            )
        return rows


class _PostgresTransaction:
    """Implements `Transaction`."""

    def __init__(self, connection: Any, cursor: Any) -> None:
        self.connection = connection
        self._cursor = cursor

    def run(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        bound: list[Any] = []

        def placed(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0]
            value, kind = _bindable(values[match[1]])
            if value is None:
                # A parameter would be a typed null, which not every column accepts.
                return "NULL"
            bound.append(value)
            place = f"${len(bound)}"
            if kind is None:
                return place
            # The server cannot always infer the type of a parameter.
            of_text = isinstance(value, str) and kind != "text"
            return f"CAST({f'CAST({place} AS text)' if of_text else place} AS {kind})"

        self._cursor.execute(_VALUE.sub(placed, sql), tuple(bound) or None)
        if not self._cursor.description:
            return []
        return list(self._cursor.fetchall())


# The first matching class counts: a boolean is an integer too, and a datetime a date.
_KINDS: Mapping[type, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    str: "text",
    bytes: "bytea",
    Decimal: "numeric",
    datetime: "timestamp",
    date: "date",
    time: "time",
    UUID: "uuid",
}
_AS_TEXT = (Decimal, date, time, UUID)
_LARGEST_BIGINT = 2**63 - 1


def _bindable(value: Any) -> tuple[Any, str | None]:
    """A value as the driver binds it, and its server type; None if the driver infers it."""
    kind = next(
        (kind for python_type, kind in _KINDS.items() if isinstance(value, python_type)), None
    )
    if kind == "bigint" and abs(value) > _LARGEST_BIGINT:
        return str(value), "numeric"
    if kind == "timestamp" and value.tzinfo is not None:
        kind = "timestamptz"
    return (str(value) if isinstance(value, _AS_TEXT) else value), kind


def resolved_in_postgres(
    statements: TableStatements, transaction: Transaction, literal: str
) -> tuple[str, str]:
    """Implements `resolved` for PostgreSQL.

    Args:
        statements: the statements of the table.
        transaction: an open transaction.
        literal: the quoted name of the table, as an SQL literal.
    """
    names = transaction.run(
        "SELECT CAST(n.nspname AS text), CAST(c.relname AS text) FROM pg_class c"
        f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass({literal})"
    )
    if not names:
        schema, table = statements.spelled
        names = [(schema or transaction.run("SELECT CAST(current_schema() AS text)")[0][0], table)]
    schema, table = names[0]
    return str(schema), str(table)


class PostgresStatements(TableStatements):
    """Implements `TableStatements`."""

    texts_are_cast = True
    # Creating and dropping tables bloats the catalog, and all sessions must read it again.
    shares_staging = True
    # Staged rows need not survive a crash of the server: the epoch is staged again.
    staging = "UNLOGGED TABLE"

    def role(self, transaction: Transaction) -> str:
        # Another role may have no access to the tables of this one.
        [(name,)] = transaction.run("SELECT CAST(current_user AS text)")
        return str(name)

    def empty_staging(self, transaction: Transaction, table: str, until: str) -> None:
        name = self.qualified(table)
        attempt = f'substr({self.quoted(TRY)}, 1, {len(until)}) COLLATE "C"'
        delete = f"DELETE FROM {name} WHERE {attempt} <= {self.literal(until)}"
        others = f"SELECT 1 FROM {name} WHERE {attempt} > {self.literal(until)}"
        # While the lock is held no task of another run writes, so all rows are visible. If a task
        # is writing, it holds a lock itself, and rows are deleted one by one.
        transaction.run(
            f"DO $staging$ BEGIN LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE NOWAIT;"
            f" IF EXISTS ({others}) THEN {delete}; ELSE TRUNCATE {name}; END IF;"
            f" EXCEPTION WHEN lock_not_available THEN {delete}; END $staging$"
        )

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def takes_text(self, kind: str) -> bool:
        return kind in ("text", "varchar", "bpchar", "name", "citext")

    def columns_of(self, transaction: Transaction, table: str) -> dict[str, TargetColumn]:
        rows = transaction.run(
            "SELECT a.attname::text, t.typname::text, format_type(a.atttypid, a.atttypmod)::text"
            " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            " WHERE a.attnum > 0 AND NOT a.attisdropped"
            f" AND a.attrelid = to_regclass({self.literal(self.qualified(table))})"
            " AND a.attgenerated = '' ORDER BY a.attnum"
        )
        return {name: TargetColumn(name, kind, declared) for name, kind, declared in rows}

    def resolved(self, transaction: Transaction) -> tuple[str, str]:
        return resolved_in_postgres(self, transaction, self.literal(self.target))

    def unique_keys(self, transaction: Transaction) -> list[frozenset[str]]:
        rows = transaction.run(
            "SELECT i.indexrelid::bigint, a.attname::text FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            f" WHERE i.indrelid = to_regclass({self.literal(self.target)}) AND i.indisunique"
            " AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indimmediate"
        )
        indexes = {index for index, _ in rows}
        return [frozenset(name for of_, name in rows if of_ == index) for index in indexes]

    def staging_tables(self, transaction: Transaction, prefix: str) -> list[str]:
        # LIKE treats an underscore as a wildcard; names contain no other wildcards.
        like = prefix.replace("_", "\\_") + "%"
        schema = "current_schema()"
        if "." in self.options.table:
            schema = self.literal(self.options.table.rpartition(".")[0])
        names = transaction.run(
            f"SELECT tablename::text FROM pg_tables WHERE schemaname = {schema}"
            f" AND tablename LIKE '{like}'"
        )
        return [name for (name,) in names]

    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        keys = [self.quoted(key) for key in self.options.keys]
        changed = [f"{name} = EXCLUDED.{name}" for name in names if name not in keys]
        action = f"UPDATE SET {', '.join(changed)}" if changed else "NOTHING"
        return [
            f"{self._insert(names, values, source)} ON CONFLICT ({', '.join(keys)}) DO {action}"
        ]


class PostgresSink(TableSink):
    """Writes each epoch of a query exactly once into a table of PostgreSQL.

    The executors copy an epoch concurrently into an unlogged staging table. The driver publishes it
    in one transaction, which also writes the ledger (tables `cleancut_runs` and `cleancut_epochs`
    in the same schema). So readers see complete epochs at every isolation level.

        counts.writeStream.outputMode("update").foreachBatch(
            PostgresSink("postgresql://writer@db/shop", "counts", keys=["day", "shop"])
        ).start()

    The driver and the executors need the extra `cleancut[postgres]` and access to the server.
    """

    _kind = "PostgresSink"

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        keys: str | Sequence[str] = (),
        order_by: str = "",
        delete_when: str = "",
        epoch_column: str = "",
        query_column: str = "",
        keep_undo: int = 0,
        create: bool = True,
        retry_for_s: float = 60.0,
    ) -> None:
        """Creates the sink; it connects at the first epoch.

        Args:
            dsn: libpq connection string, such as `postgresql://user@host:5432/database`. A
                password in it is in no log, error and plan. Alternatively set libpq's variables and
                files (`PGPASSWORD`, `PGPASSFILE`) on the driver and the executors.
            table: name of the table, with its schema if that is not the first of the search path.
            keys: key columns: a row replaces the row with the same keys. Without keys, all rows are
                appended. The table needs a primary key or a unique index of exactly these columns.
            order_by: column that selects the row with the greatest value if an epoch has several
                rows with the same keys; without it such rows are refused.
            delete_when: boolean column that the table does not have; a row in which it is true
                deletes the row with the same keys.
            epoch_column: bigint column of the table for the epoch of each row. Without keys, it
                allows rows to be undone when the query is rolled back.
            query_column: text column of the table for Spark's query id. It allows rows to be undone
                if several queries write to the table.
            keep_undo: with keys, number of epochs for which replaced rows are kept, so that they
                can be restored when the query is rolled back.
            create: create the table if it does not exist.
            retry_for_s: seconds for which a lost connection is retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments are contradictory.
        """
        named = column_names(keys)
        options = TableOptions(
            table, named, order_by, delete_when, epoch_column, query_column, keep_undo, create
        )
        super().__init__(PostgresDatabase(dsn), options, retry_for_s)

    def _forms(self) -> Forms:
        return postgres_form

    def _statements(self, transaction: Transaction) -> PostgresStatements:
        table = self._options.table.rpartition(".")[2]
        columns = PostgresStatements(self._options, {}).columns_of(transaction, table)
        return PostgresStatements(self._options, columns)


def _connected(dsn: str) -> Any:
    dbapi = extra_package(
        "adbc_driver_postgresql.dbapi",
        feature="PostgreSQL",
        package="adbc-driver-postgresql",
        extra="postgres",
    )
    return dbapi.connect(dsn)
