"""The SQL of MariaDB and MySQL, and their errors that permit a retry."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.columns import StagedColumn
from cleancut.sinks._core.database import Transaction
from cleancut.sinks._tables.statements import TableStatements, TargetColumn

if TYPE_CHECKING:
    import pyarrow as pa

# SQLAlchemy's names of these dialects.
MYSQL = ("mysql", "mariadb")
# Types that replace SQLAlchemy's defaults, by which texts and bytes end at 64 KB, and times at
# seconds.
MYSQL_TYPES = {"Text": "LONGTEXT", "LargeBinary": "LONGBLOB", "DateTime": "DATETIME(6)"}
# Strict mode truncates no value, a zero is not replaced by a generated number, times are in UTC,
# and a transaction waits only briefly for a row of a hanging run.
MYSQL_SESSION = (
    "SET SESSION time_zone = '+00:00', innodb_lock_wait_timeout = 5,"
    " sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO')"
)
# Independent of the server's default: an engine with transactions, and a binary collation.
MYSQL_TABLE = " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
# The same with significant trailing spaces.
_MARIADB_TABLE = MYSQL_TABLE.replace("utf8mb4_bin", "utf8mb4_nopad_bin")

# Size of an INSERT in addition to its values, in bytes.
_AROUND_VALUES = 4096

# A key requires a length; 190 letters fit into every index format.
_KEY_TYPES = {"LONGTEXT": "VARCHAR(190)", "LONGBLOB": "VARBINARY(190)"}

# Deadlock, lock timeout, a row or a table that has changed since the transaction began, an index
# that another run has created.
_AGAIN = {1205, 1213, 1020, 1412, 1061}
# Too many connections, no server, a shutdown, a killed statement, a cluster node that is not ready,
# a full disk, no memory, a server that is read-only during a failover, a lost connection.
_LOST = {1021, 1037, 1040, 1047, 1053, 1203, 1290, 1317, 1836, 1927, 2002, 2003, 2006, 2013}
_DUPLICATE = 1062


def mysql_verdict(code: object, statement: str) -> str | None:
    """The verdict on an error number, as `Database.verdict`; None if there is none."""
    # Two runs that begin the ledger concurrently.
    if code in _AGAIN or (code == _DUPLICATE and "cleancut_runs" in statement):
        return "again"
    return "lost" if code in _LOST else None


def largest_statement(transaction: Transaction) -> int:
    """Maximum size of a statement in bytes; the server closes connections that exceed it."""
    [(size,)] = transaction.run("SELECT @@max_allowed_packet")
    return int(size)


def check_rows(batch: "pa.RecordBatch", largest: int | None) -> None:
    """Checks that each row of a batch can be sent.

    Args:
        batch: a batch of a partition.
        largest: result of `largest_statement`; None if there is no limit.

    Raises:
        ValueError: a row is too large; the text names the setting.
    """
    # Most batches are smaller than the limit as a whole.
    if largest is None or batch.nbytes + _AROUND_VALUES < largest:
        return
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        size = sum(len(value) for value in row if isinstance(value, str | bytes))
        if size + _AROUND_VALUES > largest:
            raise ValueError(
                f"a row has {size} letters, and the server takes statements of {largest} bytes;"
                " set its max_allowed_packet"
            )


class MySqlStatements(TableStatements):
    """Implements `TableStatements`, except for quoted names, which SQLAlchemy provides."""

    whole = "SIGNED"
    # The dialect of the connection determines it.
    is_mariadb = False

    @property
    def made_with(self) -> str:
        return _MARIADB_TABLE if self.is_mariadb else MYSQL_TABLE

    def columns_of(self, transaction: Transaction, table: str) -> dict[str, TargetColumn]:
        rows = self._read_schema(
            transaction,
            "SELECT column_name, data_type, column_type FROM information_schema.columns",
            " AND extra NOT LIKE '%GENERATED' ORDER BY ordinal_position",
            table=table,
        )
        return {name: TargetColumn(name, kind, declared) for name, kind, declared in rows}

    def key_type(self, column: StagedColumn) -> str:
        is_key = column.name in self.options.keys
        return (
            _KEY_TYPES.get(column.form.target, column.form.target)
            if is_key
            else super().key_type(column)
        )

    def staged_types(self, transaction: Transaction, columns: Sequence[StagedColumn]) -> list[str]:
        # Keys must compare as in the table, for example regardless of case.
        rows = self._read_schema(
            transaction,
            "SELECT column_name, column_type, character_set_name, collation_name"
            " FROM information_schema.columns",
        )
        exact = {
            name: f"{kind} CHARACTER SET {letters} COLLATE {collation}" if collation else kind
            for name, kind, letters, collation in rows
            if name in self.options.keys and (collation or "binary" in kind or "blob" in kind)
        }
        return [exact.get(column.name, column.form.staged) for column in columns]

    def unique_keys(self, transaction: Transaction) -> list[frozenset[str]]:
        rows = self._indexes(transaction)
        # An index of a column's prefix does not identify keys.
        partial = {name for name, _, length in rows if length is not None}
        return [
            frozenset(column for of_, column, _ in rows if of_ == name)
            for name in {name for name, _, _ in rows} - partial
        ]

    def _indexes(self, transaction: Transaction) -> list[tuple[Any, ...]]:
        return self._read_schema(
            transaction,
            "SELECT index_name, column_name, sub_part FROM information_schema.statistics",
            " AND non_unique = 0",
        )

    def resolved(self, transaction: Transaction) -> tuple[str, str]:
        [(database, is_lower)] = transaction.run("SELECT DATABASE(), @@lower_case_table_names")
        schema, table = self.spelled
        names = (schema or str(database or ""), table)
        return (names[0].lower(), names[1].lower()) if int(is_lower) else names

    def staging_tables(self, transaction: Transaction, prefix: str) -> list[str]:
        names = transaction.run(
            "SELECT table_name FROM information_schema.tables WHERE table_schema ="
            " COALESCE(NULLIF(:place, ''), DATABASE())",
            place=self.spelled[0],
        )
        return [name for (name,) in names if name.startswith(prefix)]

    def problem(self, transaction: Transaction, columns: Sequence[StagedColumn]) -> str | None:
        problem = super().problem(transaction, columns)
        if problem is not None:
            return problem
        [(engine,)] = self._read_schema(transaction, "SELECT engine FROM information_schema.tables")
        if engine in ("MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE"):
            return f"the engine of the table {self.options.table}, {engine}, has no transactions"
        if not self.options.keys:
            return None
        # ON DUPLICATE KEY would replace a row that matches any other unique index.
        numbered = {
            name
            for (name,) in self._read_schema(
                transaction,
                "SELECT column_name FROM information_schema.columns",
                " AND extra LIKE '%auto_increment%'",
            )
        } - {column.name for column in columns}
        keys = frozenset(self.options.keys)
        others = sorted(
            index
            for index in {name for name, _, _ in self._indexes(transaction)}
            if (at := {column for name, column, _ in self._indexes(transaction) if name == index})
            != keys
            and not at & numbered
        )
        if others:
            return (
                f"the table {self.options.table} has unique indexes other than its key:"
                f" {', '.join(others)}; rows that match by these would be replaced"
            )
        return None

    def delete(self, transaction: Transaction, source: str, more: str = "") -> None:
        # A join, because older servers evaluate EXISTS for each row of the table.
        same = self._same("s", self.target)
        transaction.run(f"DELETE {self.target} FROM {self.target} JOIN {source} ON {same} {more}")

    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        keys = [self.quoted(key) for key in self.options.keys]
        others = [name for name in names if name not in keys]
        changed = ", ".join(f"{name} = VALUES({name})" for name in others or keys)
        return [f"{self._insert(names, values, source)} ON DUPLICATE KEY UPDATE {changed}"]

    @property
    def undo_source(self) -> str:
        # A row of nulls makes columns nullable that are not in the table: for a new key, the undo
        # table stores no values.
        names = ", ".join(map(self.quoted, self.columns))
        nulls = ", ".join("NULL" for _ in self.columns)
        return f"(SELECT {names} FROM {self.target} WHERE 1 = 0 UNION ALL SELECT {nulls}) u"

    @property
    def undo_index(self) -> str:
        # MySQL has no IF NOT EXISTS for an index.
        return super().undo_index.removeprefix("IF NOT EXISTS ")

    def _read_schema(
        self, transaction: Transaction, sql: str, more: str = "", *, table: str = ""
    ) -> list[tuple[Any, ...]]:
        schema, target = self.spelled
        return transaction.run(
            f"{sql} WHERE table_schema = COALESCE(NULLIF(:place, ''), DATABASE())"
            f" AND table_name = :table{more}",
            place=schema,
            table=table or target,
        )
