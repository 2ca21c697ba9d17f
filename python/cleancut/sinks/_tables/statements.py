"""The SQL of a table sink: one text for all databases, with a few parts of each dialect."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleancut.sinks._core.columns import StagedColumn
from cleancut.sinks._core.ledger_errors import UndoRefusedError

if TYPE_CHECKING:
    from cleancut.sinks._core.database import Transaction
    from cleancut.sinks._tables.table import TableOptions

# The column of a staging table with the task attempt that wrote a row.
TRY = "cleancut_try"
_RANK = "cleancut_rank"
# Columns of the table of replaced rows.
_EPOCH, _QUERY, _WAS = "cleancut_epoch", "cleancut_query", "cleancut_was"


@dataclass(frozen=True)
class TargetColumn:
    """A column of the target.

    Attributes:
        name: name of the column.
        kind: name of its type, without length or precision.
        declared: the type as in a column definition.
    """

    name: str
    kind: str
    declared: str


class TableStatements(ABC):
    """The statements of one transaction on one table.

    Attributes:
        columns: the columns of the target, by name; empty if it does not exist.
    """

    # Whether text values require a cast to columns of other types.
    texts_are_cast = False
    # Whether all epochs of a query with the same columns share one staging table.
    shares_staging = False
    staging = "TABLE"

    def __init__(self, options: "TableOptions", columns: Mapping[str, TargetColumn]) -> None:
        self.options = options
        self.columns = columns

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A quoted name, with any characters."""

    @abstractmethod
    def columns_of(self, transaction: "Transaction", table: str) -> dict[str, TargetColumn]:
        """The writable columns of a table next to the target; empty if it does not exist.

        Args:
            transaction: an open transaction.
            table: its name, without a schema.
        """

    @abstractmethod
    def resolved(self, transaction: "Transaction") -> tuple[str, str]:
        """Schema and name of the target in the database, independent of their spelling.

        If the table does not exist, those that it would get.
        """

    @abstractmethod
    def unique_keys(self, transaction: "Transaction") -> list[frozenset[str]]:
        """The sets of columns that the target declares unique."""

    @abstractmethod
    def staging_tables(self, transaction: "Transaction", prefix: str) -> list[str]:
        """The tables next to the target whose names have a prefix."""

    @abstractmethod
    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        """The statements that insert rows of a source, or replace the rows with the same keys.

        Args:
            names: the quoted columns of the target.
            values: the expressions of these columns over the source.
            source: the FROM clause of the source.
        """

    def is_true(self, column: str) -> str:
        """The condition that a boolean column is true; null is not."""
        return f"COALESCE({column}, FALSE)"

    @property
    def made_with(self) -> str:
        """The last words of CREATE TABLE, after the columns."""
        return ""

    @property
    def spelled(self) -> tuple[str, str]:
        """Schema, or "", and name of the table as configured."""
        schema, _, table = self.options.table.rpartition(".")
        return schema, table

    @property
    def target(self) -> str:
        """The quoted table, with its schema if it is configured."""
        return ".".join(map(self.quoted, self.options.table.split(".")))

    def qualified(self, table: str) -> str:
        """The quoted name of a table in the schema of the target."""
        parts = [*self.options.table.split(".")[:-1], table]
        return ".".join(map(self.quoted, parts))

    def make_staging(
        self, transaction: "Transaction", table: str, columns: Sequence[StagedColumn]
    ) -> None:
        """Creates the staging table of an epoch."""
        typed = zip(columns, self.staged_types(transaction, columns), strict=True)
        parts = [f"{self.quoted(column.name)} {kind}" for column, kind in typed]
        parts.append(f"{self.quoted(TRY)} VARCHAR(32) NOT NULL")
        name = f"{'IF NOT EXISTS ' if self.shares_staging else ''}{self.qualified(table)}"
        transaction.run(f"CREATE {self.staging} {name} ({', '.join(parts)}){self.made_with}")

    def staged_types(
        self, transaction: "Transaction", columns: Sequence[StagedColumn]
    ) -> list[str]:
        """The types of a batch's columns in a staging table."""
        return [column.form.staged for column in columns]

    def role(self, transaction: "Transaction") -> str:
        """The owner of new tables; "" if it does not matter."""
        return ""

    def empty_staging(self, transaction: "Transaction", table: str, until: str) -> None:
        """Deletes rows from a shared staging table.

        Args:
            transaction: an open transaction.
            table: its name.
            until: prefix of the last attempts whose rows are deleted.
        """
        attempt = f"SUBSTR({self.quoted(TRY)}, 1, {len(until)})"
        transaction.run(
            f"DELETE FROM {self.qualified(table)} WHERE {attempt} <= {self.literal(until)}"
        )

    def drop_staging(self, transaction: "Transaction", table: str) -> None:
        """Drops a staging table, if it exists."""
        transaction.run(f"DROP TABLE IF EXISTS {self.qualified(table)}")

    def make_target(self, transaction: "Transaction", columns: Sequence[StagedColumn]) -> None:
        """Creates the target for the columns of a batch."""
        options = self.options
        parts = [
            f"{self.quoted(column.name)} {self.key_type(column)}"
            for column in columns
            if column.name != options.delete_when
        ]
        if options.epoch_column:
            parts.append(f"{self.quoted(options.epoch_column)} BIGINT")
        if options.query_column:
            parts.append(f"{self.quoted(options.query_column)} VARCHAR(64)")
        if options.keys:
            parts.append(f"PRIMARY KEY ({', '.join(map(self.quoted, options.keys))})")
        transaction.run(
            f"CREATE TABLE IF NOT EXISTS {self.target} ({', '.join(parts)}){self.made_with}"
        )

    def key_type(self, column: StagedColumn) -> str:
        """The type of a key column of a new target."""
        return column.form.target

    def problem(self, transaction: "Transaction", columns: Sequence[StagedColumn]) -> str | None:
        """The reason why the target does not accept a batch; None if it does."""
        options = self.options
        if not self.columns:
            return f"there is no table {options.table}"
        given = [column.name for column in columns]
        wanted = [name for name in given if name != options.delete_when]
        added = [name for name in (options.epoch_column, options.query_column) if name]
        lost = [name for name in [*wanted, *added] if name not in self.columns]
        if lost:
            return f"the table {options.table} has no columns {', '.join(lost)}"
        if set(added) & set(given):
            return f"the batch has a column {' or '.join(added)} itself"
        of_batch = [*options.keys, options.order_by, options.delete_when]
        absent = [name for name in of_batch if name and name not in given]
        if absent:
            return f"the batch has no columns {', '.join(absent)}"
        if options.delete_when in self.columns:
            return f"the table has the column {options.delete_when}, which marks deletes"
        if options.keys and frozenset(options.keys) not in self.unique_keys(transaction):
            keys = ", ".join(options.keys)
            return f"the table has no primary key and no unique index of exactly {keys}"
        return None

    def source(self, table: str, tries: Sequence[str], columns: Sequence[StagedColumn]) -> str:
        """The FROM clause of the counting rows."""
        counted = ", ".join(f"'{attempt}'" for attempt in tries)
        rows = f"{self.qualified(table)} s WHERE s.{self.quoted(TRY)} IN ({counted})"
        if not self.options.order_by:
            return f"(SELECT s.* FROM {rows}) s"
        keys = ", ".join(f"s.{self.quoted(key)}" for key in self.options.keys)
        [by] = [column for column in columns if column.name == self.options.order_by]
        order = f"PARTITION BY {keys} ORDER BY {self.ordering(by)} DESC"
        ranked = f"SELECT s.*, ROW_NUMBER() OVER ({order})"
        return f"(SELECT * FROM ({ranked} AS {_RANK} FROM {rows}) r WHERE {_RANK} = 1) s"

    def ordering(self, column: StagedColumn) -> str:
        """A staged column, in a type with the order of its values."""
        return f"s.{self.quoted(column.name)}"

    def key_problem(self, transaction: "Transaction", source: str) -> str | None:
        """The reason why the keys of an epoch's rows are invalid; None if they are valid."""
        keys = [self.quoted(key) for key in self.options.keys]
        empty = " OR ".join(f"s.{key} IS NULL" for key in keys)
        [(nulls,)] = transaction.run(f"SELECT COUNT(*) FROM {source} WHERE {empty}")
        if nulls:
            return f"{nulls} rows of the epoch have a key that is null"
        if self.options.order_by:
            return None
        listed = ", ".join(f"s.{key}" for key in keys)
        [(duplicates,)] = transaction.run(
            f"SELECT COUNT(*) FROM (SELECT {listed} FROM {source} GROUP BY {listed}"
            " HAVING COUNT(*) > 1) d"
        )
        if duplicates:
            return f"{duplicates} keys are duplicated in the epoch; select one row (order_by)"
        return None

    def apply(
        self,
        transaction: "Transaction",
        source: str,
        columns: Sequence[StagedColumn],
        query_id: str,
        epoch: int,
    ) -> None:
        """Changes the target by the rows of an epoch."""
        options = self.options
        rows = source
        if options.delete_when:
            dead = self.is_true(f"s.{self.quoted(options.delete_when)}")
            self.delete(transaction, source, f"AND {dead}")
            rows = f"(SELECT * FROM {source} WHERE NOT {dead}) s"
        names, values = self._assigned(columns, query_id, epoch)
        if not options.keys:
            transaction.run(self._insert(names, values, rows))
        else:
            for statement in self.upsert(names, values, rows):
                transaction.run(statement)

    def delete(self, transaction: "Transaction", source: str, more: str = "") -> None:
        """Deletes the rows of the target whose keys are in a source."""
        transaction.run(f"DELETE FROM {self.target} WHERE {self._exists(source, more)}")

    def _assigned(
        self, columns: Sequence[StagedColumn], query_id: str, epoch: int
    ) -> tuple[list[str], list[str]]:
        options = self.options
        names, values = [], []
        for column in columns:
            if column.name != options.delete_when:
                names.append(self.quoted(column.name))
                values.append(self._value(column))
        if options.epoch_column:
            names.append(self.quoted(options.epoch_column))
            values.append(str(int(epoch)))
        if options.query_column:
            names.append(self.quoted(options.query_column))
            values.append(self.literal(query_id))
        return names, values

    def _value(self, column: StagedColumn) -> str:
        """A staged column, converted to the type of the target's column."""
        staged = f"s.{self.quoted(column.name)}"
        if column.form.read is not None:
            return column.form.read.format(staged)
        kind = self.columns[column.name].kind
        if self.texts_are_cast and column.form.staged == "text" and not self.takes_text(kind):
            return f"CAST({staged} AS {kind})"
        return staged

    def takes_text(self, kind: str) -> bool:
        """Whether a type accepts text without a cast, which could shorten it."""
        return True

    def literal(self, text: str) -> str:
        """A literal; texts here have neither quotes nor backslashes."""
        return "'" + text.replace("'", "''") + "'"

    def _insert(self, names: Sequence[str], values: Sequence[str], source: str) -> str:
        return (
            f"INSERT INTO {self.target} ({', '.join(names)})"
            f" SELECT {', '.join(values)} FROM {source}"
        )

    def _exists(self, source: str, more: str = "") -> str:
        """The condition that a source has a row with the keys of the target's row."""
        return f"EXISTS (SELECT 1 FROM {source} WHERE {self._same('s', self.target)} {more})"

    def _same(self, left: str, right: str) -> str:
        keys = map(self.quoted, self.options.keys)
        return " AND ".join(f"{left}.{key} = {right}.{key}" for key in keys)

    @property
    def undo_table(self) -> str:
        """The name of the table of replaced rows, next to the target."""
        digest = hashlib.sha256(self.options.table.encode()).hexdigest()[:12]
        return f"cleancut_undo_{digest}"

    @property
    def _undo(self) -> str:
        return self.qualified(self.undo_table)

    def keep_undo(self, transaction: "Transaction", source: str, query_id: str, epoch: int) -> None:
        """Stores the rows that an epoch is about to replace, and its new keys."""
        names = ", ".join(self.quoted(name) for name in self.columns)
        keys = ", ".join(self.quoted(key) for key in self.options.keys)
        transaction.run(
            f"INSERT INTO {self._undo} ({names}, {_EPOCH}, {_QUERY}, {_WAS}) SELECT {names},"
            f" {int(epoch)}, {self.literal(query_id)}, 1 FROM {self.target}"
            f" WHERE {self._exists(source)}"
        )
        fresh = f"NOT EXISTS (SELECT 1 FROM {self.target} t WHERE {self._same('t', 's')})"
        listed = ", ".join(f"s.{self.quoted(key)}" for key in self.options.keys)
        transaction.run(
            f"INSERT INTO {self._undo} ({keys}, {_EPOCH}, {_QUERY}, {_WAS}) SELECT {listed},"
            f" {int(epoch)}, {self.literal(query_id)}, 0 FROM {source} WHERE {fresh}"
        )
        transaction.run(
            f"DELETE FROM {self._undo} WHERE {_QUERY} = :query AND {_EPOCH} <= :old",
            query=query_id,
            old=epoch - self.options.keep_undo,
        )

    def prepare_undo(self, transaction: "Transaction") -> None:
        """Creates the table of replaced rows, or adds columns that the target has gained.

        Some servers commit the transaction when they execute it.
        """
        there = self.columns_of(transaction, self.undo_table)
        if not there:
            self._create_undo(transaction)
            return
        for column in self.columns.values():
            if column.name not in there:
                added = f"{self.quoted(column.name)} {column.declared}"
                transaction.run(f"ALTER TABLE {self._undo} ADD COLUMN {added}")

    def _create_undo(self, transaction: "Transaction") -> None:
        names = ", ".join(self.quoted(name) for name in self.columns)
        transaction.run(
            f"CREATE TABLE IF NOT EXISTS {self._undo}{self.made_with} AS SELECT {names},"
            f" CAST(0 AS {self.whole}) AS {_EPOCH}, CAST('' AS CHAR(64)) AS {_QUERY},"
            f" 0 AS {_WAS} FROM {self.undo_source} WHERE 1 = 0"
        )
        transaction.run(f"CREATE INDEX {self.undo_index} ({_EPOCH}, {_QUERY})")

    @property
    def undo_index(self) -> str:
        """The name of the index of replaced rows, and its table."""
        return f"IF NOT EXISTS {self.quoted(f'{self.undo_table}_epochs')} ON {self._undo}"

    whole = "BIGINT"

    @property
    def undo_source(self) -> str:
        """The FROM clause that defines the columns of the table of replaced rows."""
        return self.target

    def undo(self, transaction: "Transaction", query_id: str, epochs: Sequence[int]) -> None:
        """Undoes the changes of the last epochs of a query.

        Raises:
            UndoRefusedError: the rows that they replaced are not stored any more.
        """
        options = self.options
        if not options.keys:
            column = self.quoted(options.epoch_column)
            of_query = ""
            if options.query_column:
                named = self.literal(query_id)
                of_query = f" AND {self.quoted(options.query_column)} = {named}"
            listed = ", ".join(str(int(epoch)) for epoch in epochs)
            transaction.run(f"DELETE FROM {self.target} WHERE {column} IN ({listed}){of_query}")
            return
        kept = transaction.run(
            f"SELECT DISTINCT {_EPOCH} FROM {self._undo} WHERE {_QUERY} = :query", query=query_id
        )
        lost = sorted(set(epochs) - {epoch for (epoch,) in kept})
        if lost:
            raise UndoRefusedError(
                f"the rows that epochs {lost[0]} to {lost[-1]} replaced are deleted"
            )
        names = ", ".join(self.quoted(name) for name in self.columns)
        for epoch in sorted(epochs, reverse=True):
            mine = f"{_QUERY} = {self.literal(query_id)} AND {_EPOCH} = {int(epoch)}"
            source = f"(SELECT * FROM {self._undo} WHERE {mine}) s"
            self.delete(transaction, source)
            transaction.run(
                f"INSERT INTO {self.target} ({names}) SELECT {names} FROM {self._undo}"
                f" WHERE {mine} AND {_WAS} = 1"
            )
            transaction.run(f"DELETE FROM {self._undo} WHERE {mine}")
