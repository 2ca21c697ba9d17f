"""SQLite, MariaDB and MySQL through SQLAlchemy: executors insert, one transaction publishes."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cleancut._packages import extra_package
from cleancut.errors import error_of
from cleancut.sinks._core.columns import Forms, StagedColumn, column_names, sqlalchemy_form
from cleancut.sinks._core.database import Transaction, masked
from cleancut.sinks._core.sqlstate import sqlstate_of, sqlstate_verdict
from cleancut.sinks._tables.mysql import (
    MYSQL,
    MYSQL_SESSION,
    MYSQL_TABLE,
    MYSQL_TYPES,
    MySqlStatements,
    check_rows,
    largest_statement,
    mysql_verdict,
)
from cleancut.sinks._tables.postgres import resolved_in_postgres
from cleancut.sinks._tables.statements import TableStatements, TargetColumn
from cleancut.sinks._tables.table import TableOptions, TableSink

if TYPE_CHECKING:
    import pyarrow as pa

_BUSY_S = 30
_DIALECTS = ("sqlite", *MYSQL, "postgresql")
# Messages of temporary failures, for drivers that report no code.
_WORDS = {
    "deadlock": "again",
    "connection refused": "lost",
    "connection reset": "lost",
    "connection timed out": "lost",
    "could not connect": "lost",
    "can't connect": "lost",
    "could not translate host name": "lost",
    "server closed the connection": "lost",
    "too many connections": "lost",
}
_WORDS_OF_SQLITE = {
    "locked": "again",
    "busy": "again",
    "disk i/o error": "lost",
    "disk is full": "lost",
}


@dataclass(frozen=True)
class SqlDatabase:
    """Implements `Database`.

    Attributes:
        url: SQLAlchemy URL.
    """

    url: str = field(repr=False)

    @property
    def kind(self) -> str:
        """SQLAlchemy's name of the dialect."""
        return self.url.partition(":")[0].partition("+")[0]

    @property
    def lock(self) -> str:
        # A writer of SQLite locks the whole database when it begins.
        return "" if self.kind == "sqlite" else "FOR UPDATE"

    @property
    def text(self) -> str:
        return "LONGTEXT" if self.kind in MYSQL else "TEXT"

    @property
    def made_with(self) -> str:
        return MYSQL_TABLE if self.kind in MYSQL else ""

    @property
    def label(self) -> str:
        return masked(self.url)

    def secrets(self) -> Sequence[str]:
        from urllib.parse import unquote

        authority, is_there, _ = self.url.partition("://")[2].rpartition("@")
        password = authority.partition(":")[2] if is_there else ""
        return [password, unquote(password)]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        sqlalchemy = _sqlalchemy()
        engine = self._engine(sqlalchemy)
        try:
            with engine.connect() as connection:
                transaction = _SqlTransaction(connection, sqlalchemy)
                if self.kind in MYSQL:
                    connection.exec_driver_sql(MYSQL_SESSION)
                begin = "BEGIN IMMEDIATE" if self.kind == "sqlite" else "START TRANSACTION"
                connection.exec_driver_sql(begin)
                try:
                    yield transaction
                except BaseException:
                    # If the connection is lost, the server rolls back.
                    with suppress(Exception):
                        connection.exec_driver_sql("ROLLBACK")
                    raise
                connection.exec_driver_sql("COMMIT")
        finally:
            engine.dispose()

    def _engine(self, sqlalchemy: Any) -> Any:
        # Connections are not pooled, because transactions may be hours apart. A statement begins
        # the transaction, because the driver of SQLite would begin it too late.
        arguments: dict[str, Any] = {"timeout": _BUSY_S} if self.kind == "sqlite" else {}
        url = sqlalchemy.make_url(self.url)
        if url.drivername.endswith("+pymysql") and url.password:
            # As text it would have to be latin-1.
            arguments["password"] = str(url.password).encode()
        try:
            return sqlalchemy.create_engine(
                url,
                poolclass=sqlalchemy.pool.NullPool,
                isolation_level="AUTOCOMMIT",
                connect_args=arguments,
                hide_parameters=True,
            )
        except ModuleNotFoundError as problem:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=self.label,
                reason=f"the driver in the URL is not installed: {problem}",
            ) from None

    def verdict(self, failure: Exception) -> str:
        sqlalchemy = _sqlalchemy()
        if not isinstance(failure, sqlalchemy.exc.SQLAlchemyError):
            return "foreign"
        if not isinstance(failure, sqlalchemy.exc.DBAPIError):
            return "error"
        if self.kind == "sqlite":
            return _verdict_of_words(str(failure.orig), _WORDS_OF_SQLITE) or "error"
        if failure.connection_invalidated:
            return "lost"
        if self.kind in MYSQL:
            code = next(iter(getattr(failure.orig, "args", ())), None)
            verdict = mysql_verdict(code, str(failure.statement))
        else:
            verdict = sqlstate_verdict(sqlstate_of(failure.orig))
        of_server = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError)
        if verdict is None and isinstance(failure, of_server):
            verdict = _verdict_of_words(str(failure.orig), _WORDS)
        return verdict or "error"

    def ingest(
        self, transaction: Transaction, table: str, batches: "Iterator[pa.RecordBatch]"
    ) -> int:
        rows = 0
        quote = functools.partial(_quoted, transaction.connection.dialect)
        place = ".".join(map(quote, table.split(".")))
        largest = largest_statement(transaction) if self.kind in MYSQL else None
        for batch in batches:
            check_rows(batch, largest)
            names = batch.schema.names
            values = [f":v{at}" for at in range(len(names))]
            statement = _sqlalchemy().text(
                f"INSERT INTO {place} ({', '.join(map(quote, names))}) VALUES ({', '.join(values)})"
            )
            columns = [_plain(column) for column in batch.columns]
            given = [
                {f"v{at}": value for at, value in enumerate(row)}
                for row in zip(*columns, strict=True)
            ]
            transaction.connection.execute(statement, given)
            rows += batch.num_rows
        return rows


def sql_database(url: str, sink: str) -> SqlDatabase:
    """The database of an SQLAlchemy URL.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED, its kind is not supported.
    """
    database = SqlDatabase(url)
    if database.kind not in _DIALECTS:
        raise error_of(
            "CLEANCUT_SINK_REFUSED",
            sink=sink,
            reason=f"SQLite, MariaDB, MySQL and PostgreSQL are supported, and {database.kind} is"
            " not",
        )
    return database


def _verdict_of_words(message: str, words: Mapping[str, str]) -> str | None:
    lower = message.lower()
    return next((verdict for text, verdict in words.items() if text in lower), None)


def _quoted(dialect: Any, name: str) -> str:
    """A quoted name, escaped for SQLAlchemy's text()."""
    quoted = str(dialect.identifier_preparer.quote_identifier(name))
    if dialect.paramstyle in ("format", "pyformat"):
        # SQLAlchemy escapes it for the driver when it compiles the text.
        quoted = quoted.replace("%%", "%")
    return quoted.replace(":", "\\:")


def _plain(column: "pa.Array") -> list[Any]:
    """The values as drivers accept them: times without a zone, in UTC."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    return list(column.to_pylist())


class _SqlTransaction:
    """Implements `Transaction`."""

    def __init__(self, connection: Any, sqlalchemy: Any) -> None:
        self.connection = connection
        self._text = sqlalchemy.text

    def run(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        if self.connection.dialect.name == "sqlite":
            # Its driver binds no decimals. A numeric column converts the text.
            values = {
                name: str(value) if isinstance(value, Decimal) else value
                for name, value in values.items()
            }
        # Bound separately, so that SQLAlchemy infers the types of values.
        result = self.connection.execute(self._text(sql).bindparams(**values))
        return [tuple(row) for row in result] if result.returns_rows else []


class SqlStatements(TableStatements):
    """Implements `TableStatements`, by SQLAlchemy's knowledge of a dialect."""

    def __init__(
        self, options: TableOptions, columns: Mapping[str, TargetColumn], transaction: Transaction
    ) -> None:
        super().__init__(options, columns)
        self._dialect: Any = transaction.connection.dialect
        self._kind: str = self._dialect.name

    def quoted(self, name: str) -> str:
        return _quoted(self._dialect, name)

    def is_true(self, column: str) -> str:
        return f"COALESCE({column}, 0) = 1" if self._kind == "sqlite" else super().is_true(column)

    def ordering(self, column: StagedColumn) -> str:
        ordering = super().ordering(column)
        # Decimals are staged as text, where "9" comes after "10".
        is_text = column.form.staged != column.form.target and "NUMERIC" in column.form.target
        return f"CAST({ordering} AS {column.form.target})" if is_text else ordering

    def columns_of(self, column: Transaction, table: str) -> dict[str, TargetColumn]:
        inspector, _, schema = self._inspected(column)
        if not inspector.has_table(table, schema):
            return {}
        columns = [
            column for column in inspector.get_columns(table, schema) if not column.get("computed")
        ]
        return {
            column["name"]: TargetColumn(column["name"], str(column["type"]), str(column["type"]))
            for column in columns
        }

    def resolved(self, transaction: Transaction) -> tuple[str, str]:
        schema, table = self.spelled
        if self._kind == "postgresql":
            return resolved_in_postgres(self, transaction, self.literal(self.target))
        default = _sqlalchemy().inspect(transaction.connection).default_schema_name
        names = (schema or str(default or ""), table)
        # Names in SQLite are case-insensitive.
        return (names[0].lower(), names[1].lower()) if self._kind == "sqlite" else names

    def unique_keys(self, transaction: Transaction) -> list[frozenset[str]]:
        inspector, table, schema = self._inspected(transaction)
        unique = [inspector.get_pk_constraint(table, schema)["constrained_columns"]]
        unique += [one["column_names"] for one in inspector.get_unique_constraints(table, schema)]
        unique += [
            one["column_names"] for one in inspector.get_indexes(table, schema) if one["unique"]
        ]
        return [frozenset(columns) for columns in unique if all(columns)]

    def staging_tables(self, transaction: Transaction, prefix: str) -> list[str]:
        inspector, _, schema = self._inspected(transaction)
        return [name for name in inspector.get_table_names(schema) if name.startswith(prefix)]

    @property
    def undo_index(self) -> str:
        if self._kind != "sqlite":
            return super().undo_index
        # In SQLite the schema qualifies the name of the index.
        index = self.qualified(f"{self.undo_table}_epochs")
        return f"IF NOT EXISTS {index} ON {self.quoted(self.undo_table)}"

    def _inspected(self, transaction: Transaction) -> tuple[Any, str, str | None]:
        schema, _, table = self.options.table.rpartition(".")
        return _sqlalchemy().inspect(transaction.connection), table, schema or None

    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        keys = [self.quoted(key) for key in self.options.keys]
        others = [name for name in names if name not in keys]
        insert = self._insert(names, values, source)
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        action = f"UPDATE SET {changed}" if others else "NOTHING"
        # Without the WHERE the parser of SQLite takes ON for a join condition.
        return [f"{insert} WHERE 1 = 1 ON CONFLICT ({', '.join(keys)}) DO {action}"]


class _OnMySql(MySqlStatements, SqlStatements):
    """The statements of MariaDB and MySQL, with names quoted by SQLAlchemy."""

    def __init__(
        self, options: TableOptions, columns: Mapping[str, TargetColumn], transaction: Transaction
    ) -> None:
        super().__init__(options, columns, transaction)
        self.is_mariadb = self._dialect.is_mariadb


class SqlSink(TableSink):
    """Writes each epoch of a query exactly once into a table of SQLite, MariaDB or MySQL.

    It works like `PostgresSink`, with inserts. It also supports PostgreSQL, where `PostgresSink` is
    faster because it copies. Tests run with SQLite and MariaDB.

        counts.writeStream.outputMode("update").foreachBatch(
            SqlSink("mysql+pymysql://writer@db/shop", "counts", keys=["day", "shop"])
        ).start()

    The driver and the executors need the extra `cleancut[sqlalchemy]`, the database driver of the
    URL, and access to the database. Timestamps with time zone are written in UTC, without zone.
    """

    _kind = "SqlSink"

    def __init__(
        self,
        url: str,
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
            url: SQLAlchemy URL, such as `sqlite:////data/shop.db`. A password in it is in no log,
                error and plan.
            table: as for `PostgresSink`.
            keys: as for `PostgresSink`.
            order_by: as for `PostgresSink`.
            delete_when: as for `PostgresSink`.
            epoch_column: as for `PostgresSink`.
            query_column: as for `PostgresSink`.
            keep_undo: as for `PostgresSink`.
            create: as for `PostgresSink`.
            retry_for_s: as for `PostgresSink`.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments are contradictory, or the database is
                not supported.
        """
        named = column_names(keys)
        options = TableOptions(
            table, named, order_by, delete_when, epoch_column, query_column, keep_undo, create
        )
        self._url = url
        super().__init__(sql_database(url, f"{self._kind} {table}"), options, retry_for_s)

    def _forms(self) -> Forms:
        sqlalchemy = _sqlalchemy()
        dialect = sqlalchemy.make_url(self._url).get_dialect()()

        is_mysql = dialect.name in MYSQL

        def named(kind: str) -> str:
            if is_mysql and kind in MYSQL_TYPES:
                return MYSQL_TYPES[kind]
            return str(getattr(sqlalchemy, kind)().compile(dialect=dialect))

        # No driver of SQLite accepts a decimal.
        return sqlalchemy_form(named, _json_name(named), takes_decimals=is_mysql)

    def _statements(self, transaction: Transaction) -> SqlStatements:
        # SQLAlchemy cannot read back all names of MySQL.
        kind = _OnMySql if transaction.connection.dialect.name in MYSQL else SqlStatements
        table = self._options.table.rpartition(".")[2]
        return kind(
            self._options,
            kind(self._options, {}, transaction).columns_of(transaction, table),
            transaction,
        )


def _json_name(named: Callable[[str], str]) -> bool:
    try:
        named("JSON")
    except Exception:  # dialects without the type raise different errors
        return False
    return True


def _sqlalchemy() -> Any:
    return extra_package(
        "sqlalchemy", feature="a sink for databases", package="sqlalchemy", extra="sqlalchemy"
    )
