"""The SQL of MariaDB and MySQL, and what they say when a transaction is to be begun again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cleancut.sinks._core.columns import StagedColumn
from cleancut.sinks._core.database import Transaction
from cleancut.sinks._tables.statements import TableStatements, TargetColumn

if TYPE_CHECKING:
    import pyarrow as pa

# SQLAlchemy's names of these dialects.
MYSQL = ("mysql", "mariadb")
# What SQLAlchemy's types have to be: by themselves texts and bytes end at 64 KB, and times at
# seconds.
MYSQL_TYPES = {"Text": "LONGTEXT", "LargeBinary": "LONGBLOB", "DateTime": "DATETIME(6)"}
# Nothing is shortened, a zero is no request for a number, columns that know zones are told UTC, and
# whoever waits longer for a row waits for a run that hangs.
MYSQL_SESSION = (
    "SET SESSION time_zone = '+00:00', innodb_lock_wait_timeout = 5,"
    " sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO')"
)
# Whatever the server's default is: an engine with transactions, and a collation to which texts are
# the same if their letters are.
MYSQL_TABLE = " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
# The same, to which spaces at the end are letters too.
_MARIADB_TABLE = MYSQL_TABLE.replace("utf8mb4_bin", "utf8mb4_nopad_bin")

# What an INSERT has beside the values.
_AROUND_VALUES = 4096

# A key has a length there; 190 letters fit into every kind of index.
_KEY_TYPES = {"LONGTEXT": "VARCHAR(190)", "LONGBLOB": "VARBINARY(190)"}

# Two transactions that wait for each other, or too long; a row or a table that has changed since
# the transaction looked first; an index that another run has created.
_AGAIN = {1205, 1213, 1020, 1412, 1061}
# Too many connections, no server, a shutdown, a killed statement, a node of a cluster that is not
# ready; a full disk, no memory, a server that is read-only during a failover; a lost connection.
_LOST = {1021, 1037, 1040, 1047, 1053, 1203, 1290, 1317, 1836, 1927, 2002, 2003, 2006, 2013}
_DUPLICATE = 1062


def mysql_verdict(code: object, statement: str) -> str | None:
    """What a number of an error says, as `Database.verdict`; None if it says nothing."""
    # Two that begin the ledger at once.
    if code in _AGAIN or (code == _DUPLICATE and "cleancut_runs" in statement):
        return "again"
    return "lost" if code in _LOST else None


def largest_statement(of: Transaction) -> int:
    """How many bytes the server takes at once; it hangs up on who sends more."""
    [(size,)] = of.run("SELECT @@max_allowed_packet")
    return int(size)


def check_rows(batch: "pa.RecordBatch", largest: int | None) -> None:
    """Looks whether each row of a batch can be sent.

    Args:
        batch: of a partition.
        largest: as `largest_statement`; None where there is no such bound.

    Raises:
        ValueError: one cannot; with what to set.
    """
    # Most batches are smaller as a whole.
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
    """Implements `TableStatements` but for names, which SQLAlchemy quotes."""

    whole = "SIGNED"
    # Known by the dialect of the connection.
    is_mariadb = False

    @property
    def made_with(self) -> str:
        return _MARIADB_TABLE if self.is_mariadb else MYSQL_TABLE

    def columns_of(self, of: Transaction, table: str) -> dict[str, TargetColumn]:
        found = self._asked(
            of,
            "SELECT column_name, data_type, column_type FROM information_schema.columns",
            " AND extra NOT LIKE '%GENERATED' ORDER BY ordinal_position",
            table=table,
        )
        return {name: TargetColumn(name, kind, declared) for name, kind, declared in found}

    def key_type(self, column: StagedColumn) -> str:
        is_key = column.name in self.options.keys
        return (
            _KEY_TYPES.get(column.form.target, column.form.target)
            if is_key
            else super().key_type(column)
        )

    def staged_types(self, of: Transaction, columns: Sequence[StagedColumn]) -> list[str]:
        # Keys are the same to a try as they are to the table, for example in any case of letters.
        found = self._asked(
            of,
            "SELECT column_name, column_type, character_set_name, collation_name"
            " FROM information_schema.columns",
        )
        exact = {
            name: f"{kind} CHARACTER SET {letters} COLLATE {collation}" if collation else kind
            for name, kind, letters, collation in found
            if name in self.options.keys and (collation or "binary" in kind or "blob" in kind)
        }
        return [exact.get(column.name, column.form.staged) for column in columns]

    def unique_keys(self, of: Transaction) -> list[frozenset[str]]:
        found = self._indexes(of)
        # An index of the first letters of a column does not tell all keys apart.
        partial = {name for name, _, length in found if length is not None}
        return [
            frozenset(column for of_, column, _ in found if of_ == name)
            for name in {name for name, _, _ in found} - partial
        ]

    def _indexes(self, of: Transaction) -> list[tuple[Any, ...]]:
        return self._asked(
            of,
            "SELECT index_name, column_name, sub_part FROM information_schema.statistics",
            " AND non_unique = 0",
        )

    def resolved(self, of: Transaction) -> tuple[str, str]:
        [(database, is_lower)] = of.run("SELECT DATABASE(), @@lower_case_table_names")
        schema, table = self.spelled
        found = (schema or str(database or ""), table)
        return (found[0].lower(), found[1].lower()) if int(is_lower) else found

    def staging_tables(self, of: Transaction, prefix: str) -> list[str]:
        found = of.run(
            "SELECT table_name FROM information_schema.tables WHERE table_schema ="
            " COALESCE(NULLIF(:place, ''), DATABASE())",
            place=self.spelled[0],
        )
        return [name for (name,) in found if name.startswith(prefix)]

    def problem(self, of: Transaction, columns: Sequence[StagedColumn]) -> str | None:
        found = super().problem(of, columns)
        if found is not None:
            return found
        [(engine,)] = self._asked(of, "SELECT engine FROM information_schema.tables")
        if engine in ("MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE"):
            return f"the engine of the table {self.options.table}, {engine}, has no transactions"
        if not self.options.keys:
            return None
        # ON DUPLICATE KEY takes a row that is the same by any of them for the one to be replaced.
        numbered = {
            name
            for (name,) in self._asked(
                of,
                "SELECT column_name FROM information_schema.columns",
                " AND extra LIKE '%auto_increment%'",
            )
        } - {column.name for column in columns}
        keys = frozenset(self.options.keys)
        others = sorted(
            index
            for index in {name for name, _, _ in self._indexes(of)}
            if (at := {column for name, column, _ in self._indexes(of) if name == index}) != keys
            and not at & numbered
        )
        if others:
            return (
                f"the table {self.options.table} has other unique indexes than that of its keys:"
                f" {', '.join(others)}; rows that are the same by these would be replaced"
            )
        return None

    def delete(self, of: Transaction, source: str, more: str = "") -> None:
        # As a join, since older servers look at each row of the table for EXISTS.
        same = self._same("s", self.target)
        of.run(f"DELETE {self.target} FROM {self.target} JOIN {source} ON {same} {more}")

    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        keys = [self.quoted(key) for key in self.options.keys]
        others = [name for name in names if name not in keys]
        changed = ", ".join(f"{name} = VALUES({name})" for name in others or keys)
        return [f"{self._insert(names, values, source)} ON DUPLICATE KEY UPDATE {changed}"]

    @property
    def undo_source(self) -> str:
        # With a row of nulls, after which columns may be null that may not in the table: what is
        # kept of a key that is new has no values.
        names = ", ".join(map(self.quoted, self.columns))
        nulls = ", ".join("NULL" for _ in self.columns)
        return f"(SELECT {names} FROM {self.target} WHERE 1 = 0 UNION ALL SELECT {nulls}) u"

    @property
    def undo_index(self) -> str:
        # MySQL has no IF NOT EXISTS for an index.
        return super().undo_index.removeprefix("IF NOT EXISTS ")

    def _asked(
        self, of: Transaction, sql: str, more: str = "", *, table: str = ""
    ) -> list[tuple[Any, ...]]:
        schema, target = self.spelled
        return of.run(
            f"{sql} WHERE table_schema = COALESCE(NULLIF(:place, ''), DATABASE())"
            f" AND table_name = :of{more}",
            place=schema,
            of=table or target,
        )
