"""SQLite, MariaDB and MySQL by SQLAlchemy: executors insert, one transaction publishes."""

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
# What drivers say of states that pass, where they report no code.
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
        url: SQLAlchemy's.
    """

    url: str = field(repr=False)

    @property
    def kind(self) -> str:
        """SQLAlchemy's name of the dialect."""
        return self.url.partition(":")[0].partition("+")[0]

    @property
    def lock(self) -> str:
        # A writer of SQLite has the whole database from its begin on.
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

        told, is_there, _ = self.url.partition("://")[2].rpartition("@")
        password = told.partition(":")[2] if is_there else ""
        return [password, unquote(password)]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        sqlalchemy = _sqlalchemy()
        engine = self._engine(sqlalchemy)
        try:
            with engine.connect() as connection:
                of = _SqlTransaction(connection, sqlalchemy)
                if self.kind in MYSQL:
                    connection.exec_driver_sql(MYSQL_SESSION)
                begin = "BEGIN IMMEDIATE" if self.kind == "sqlite" else "START TRANSACTION"
                connection.exec_driver_sql(begin)
                try:
                    yield of
                except BaseException:
                    # Where the connection is gone, the server does it.
                    with suppress(Exception):
                        connection.exec_driver_sql("ROLLBACK")
                    raise
                connection.exec_driver_sql("COMMIT")
        finally:
            engine.dispose()

    def _engine(self, sqlalchemy: Any) -> Any:
        # Nothing is kept between two transactions, which may be hours apart. The transaction is
        # begun by a statement, because the driver of SQLite would begin it too late.
        arguments: dict[str, Any] = {"timeout": _BUSY_S} if self.kind == "sqlite" else {}
        url = sqlalchemy.make_url(self.url)
        if url.drivername.endswith("+pymysql") and url.password:
            # As a text it would have to be one of latin-1.
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
                reason=f"the driver that the URL names is not installed: {problem}",
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
            found = mysql_verdict(code, str(failure.statement))
        else:
            found = sqlstate_verdict(sqlstate_of(failure.orig))
        of_server = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError)
        if found is None and isinstance(failure, of_server):
            found = _verdict_of_words(str(failure.orig), _WORDS)
        return found or "error"

    def ingest(self, of: Transaction, table: str, batches: "Iterator[pa.RecordBatch]") -> int:
        rows = 0
        quote = functools.partial(_quoted, of.connection.dialect)
        place = ".".join(map(quote, table.split(".")))
        largest = largest_statement(of) if self.kind in MYSQL else None
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
            of.connection.execute(statement, given)
            rows += batch.num_rows
        return rows


def sql_database(url: str, sink: str) -> SqlDatabase:
    """The database at a URL of SQLAlchemy.

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


def _verdict_of_words(told: str, words: Mapping[str, str]) -> str | None:
    lower = told.lower()
    return next((verdict for text, verdict in words.items() if text in lower), None)


def _quoted(dialect: Any, name: str) -> str:
    """A name as it stands in a text of SQLAlchemy's."""
    found = str(dialect.identifier_preparer.quote_identifier(name))
    if dialect.paramstyle in ("format", "pyformat"):
        # It is doubled for the driver when the text is compiled.
        found = found.replace("%%", "%")
    return found.replace(":", "\\:")


def _plain(column: "pa.Array") -> list[Any]:
    """The values as drivers take them: times without a zone, in UTC."""
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
            # Its driver binds no decimal. A column of numbers makes one of the text.
            values = {
                name: str(value) if isinstance(value, Decimal) else value
                for name, value in values.items()
            }
        # Bound by themselves, so that SQLAlchemy knows the types of values.
        found = self.connection.execute(self._text(sql).bindparams(**values))
        return [tuple(row) for row in found] if found.returns_rows else []


class SqlStatements(TableStatements):
    """Implements `TableStatements`, with what SQLAlchemy knows of a dialect."""

    def __init__(
        self, options: TableOptions, columns: Mapping[str, TargetColumn], of: Transaction
    ) -> None:
        super().__init__(options, columns)
        self._dialect: Any = of.connection.dialect
        self._kind: str = self._dialect.name

    def quoted(self, name: str) -> str:
        return _quoted(self._dialect, name)

    def is_true(self, column: str) -> str:
        return f"COALESCE({column}, 0) = 1" if self._kind == "sqlite" else super().is_true(column)

    def ordering(self, column: StagedColumn) -> str:
        found = super().ordering(column)
        # Decimals are staged as texts, of which "9" comes after "10".
        is_text = column.form.staged != column.form.target and "NUMERIC" in column.form.target
        return f"CAST({found} AS {column.form.target})" if is_text else found

    def columns_of(self, of: Transaction, table: str) -> dict[str, TargetColumn]:
        inspector, _, schema = self._inspected(of)
        if not inspector.has_table(table, schema):
            return {}
        found = [of for of in inspector.get_columns(table, schema) if not of.get("computed")]
        return {
            column["name"]: TargetColumn(column["name"], str(column["type"]), str(column["type"]))
            for column in found
        }

    def resolved(self, of: Transaction) -> tuple[str, str]:
        schema, table = self.spelled
        if self._kind == "postgresql":
            return resolved_in_postgres(self, of, self.literal(self.target))
        default = _sqlalchemy().inspect(of.connection).default_schema_name
        found = (schema or str(default or ""), table)
        # Names of SQLite are the same in any case of letters.
        return (found[0].lower(), found[1].lower()) if self._kind == "sqlite" else found

    def unique_keys(self, of: Transaction) -> list[frozenset[str]]:
        inspector, table, schema = self._inspected(of)
        found = [inspector.get_pk_constraint(table, schema)["constrained_columns"]]
        found += [one["column_names"] for one in inspector.get_unique_constraints(table, schema)]
        found += [
            one["column_names"] for one in inspector.get_indexes(table, schema) if one["unique"]
        ]
        return [frozenset(columns) for columns in found if all(columns)]

    def staging_tables(self, of: Transaction, prefix: str) -> list[str]:
        inspector, _, schema = self._inspected(of)
        return [name for name in inspector.get_table_names(schema) if name.startswith(prefix)]

    @property
    def undo_index(self) -> str:
        if self._kind != "sqlite":
            return super().undo_index
        # The schema belongs to the name of the index there.
        index = self.beside(f"{self.undo_table}_epochs")
        return f"IF NOT EXISTS {index} ON {self.quoted(self.undo_table)}"

    def _inspected(self, of: Transaction) -> tuple[Any, str, str | None]:
        schema, _, table = self.options.table.rpartition(".")
        return _sqlalchemy().inspect(of.connection), table, schema or None

    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        keys = [self.quoted(key) for key in self.options.keys]
        others = [name for name in names if name not in keys]
        insert = self._insert(names, values, source)
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        act = f"UPDATE SET {changed}" if others else "NOTHING"
        # Without the WHERE the parser of SQLite takes ON for that of a join.
        return [f"{insert} WHERE 1 = 1 ON CONFLICT ({', '.join(keys)}) DO {act}"]


class _OnMySql(MySqlStatements, SqlStatements):
    """The statements of MariaDB and MySQL, with names as SQLAlchemy quotes them."""

    def __init__(
        self, options: TableOptions, columns: Mapping[str, TargetColumn], of: Transaction
    ) -> None:
        super().__init__(options, columns, of)
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

        # No driver of SQLite takes a decimal.
        return sqlalchemy_form(named, _json_name(named), takes_decimals=is_mysql)

    def _statements(self, of: Transaction) -> SqlStatements:
        # SQLAlchemy does not read all names of MySQL back as they are.
        kind = _OnMySql if of.connection.dialect.name in MYSQL else SqlStatements
        table = self._options.table.rpartition(".")[2]
        return kind(self._options, kind(self._options, {}, of).columns_of(of, table), of)


def _json_name(named: Callable[[str], str]) -> bool:
    try:
        named("JSON")
    except Exception:  # a dialect says in its own way that it has none
        return False
    return True


def _sqlalchemy() -> Any:
    return extra_package(
        "sqlalchemy", feature="a sink for databases", package="sqlalchemy", extra="sqlalchemy"
    )
