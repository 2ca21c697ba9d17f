"""The SQL of a table sink: one text for all databases, but for a few words of each."""

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

# The column of a staging table that says which try of a task has written a row.
TRY = "cleancut_try"
_RANK = "cleancut_rank"
# Columns of the table of rows that epochs have replaced.
_EPOCH, _QUERY, _WAS = "cleancut_epoch", "cleancut_query", "cleancut_was"


@dataclass(frozen=True)
class TargetColumn:
    """A column of the target, as the database has it.

    Attributes:
        name: of the column.
        kind: the name of its type, without length or precision.
        declared: the type as a column is declared with it.
    """

    name: str
    kind: str
    declared: str


class TableStatements(ABC):
    """What is said to a database in one transaction, for one table.

    Attributes:
        columns: of the target, by name; none where it is not there.
    """

    # Whether values of text are put into columns of other types by a cast of their own.
    texts_are_cast = False
    # Whether all epochs of a query with the same columns are staged in one table.
    shares_staging = False
    staging = "TABLE"

    def __init__(self, options: "TableOptions", columns: Mapping[str, TargetColumn]) -> None:
        self.options = options
        self.columns = columns

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name as it stands in a statement, whatever letters it has."""

    @abstractmethod
    def columns_of(self, of: "Transaction", table: str) -> dict[str, TargetColumn]:
        """The columns of a table next to the target that can be written; none if it is not there.

        Args:
            of: an open transaction.
            table: its name, without a schema.
        """

    @abstractmethod
    def resolved(self, of: "Transaction") -> tuple[str, str]:
        """Schema and name by which the database knows the target, however its name is spelled.

        Those that the table would get, if it is not there.
        """

    @abstractmethod
    def unique_keys(self, of: "Transaction") -> list[frozenset[str]]:
        """The sets of columns of which the target promises that no two rows have the same."""

    @abstractmethod
    def staging_tables(self, of: "Transaction", prefix: str) -> list[str]:
        """The tables beside the target whose names begin so."""

    @abstractmethod
    def upsert(self, names: Sequence[str], values: Sequence[str], source: str) -> list[str]:
        """The statements that put the rows of a source in the place of those with their keys.

        Args:
            names: of the columns of the target, quoted.
            values: what they get of the source.
            source: as it stands after FROM.
        """

    def is_true(self, column: str) -> str:
        """Whether a column of booleans is true; null is not."""
        return f"COALESCE({column}, FALSE)"

    @property
    def made_with(self) -> str:
        """What stands after the columns of a table that is made."""
        return ""

    @property
    def spelled(self) -> tuple[str, str]:
        """Schema, or "", and name of the table as they were given."""
        schema, _, table = self.options.table.rpartition(".")
        return schema, table

    @property
    def target(self) -> str:
        """The table, quoted, with its schema if it was given."""
        return ".".join(map(self.quoted, self.options.table.split(".")))

    def beside(self, table: str) -> str:
        """A table in the schema of the target, quoted."""
        parts = [*self.options.table.split(".")[:-1], table]
        return ".".join(map(self.quoted, parts))

    def make_staging(self, of: "Transaction", table: str, columns: Sequence[StagedColumn]) -> None:
        """Makes the table that the executors write an epoch into."""
        typed = zip(columns, self.staged_types(of, columns), strict=True)
        parts = [f"{self.quoted(column.name)} {kind}" for column, kind in typed]
        parts.append(f"{self.quoted(TRY)} VARCHAR(32) NOT NULL")
        name = f"{'IF NOT EXISTS ' if self.shares_staging else ''}{self.beside(table)}"
        of.run(f"CREATE {self.staging} {name} ({', '.join(parts)}){self.made_with}")

    def staged_types(self, of: "Transaction", columns: Sequence[StagedColumn]) -> list[str]:
        """The types that columns of a batch have in a staging table."""
        return [column.form.staged for column in columns]

    def role(self, of: "Transaction") -> str:
        """Who owns the tables that are made; "" if it does not matter."""
        return ""

    def empty_staging(self, of: "Transaction", table: str, until: str) -> None:
        """Removes rows from a table that several epochs share.

        Args:
            of: an open transaction.
            table: its name.
            until: what the names of the last attempts begin with whose rows are removed.
        """
        attempt = f"SUBSTR({self.quoted(TRY)}, 1, {len(until)})"
        of.run(f"DELETE FROM {self.beside(table)} WHERE {attempt} <= {self.literal(until)}")

    def drop_staging(self, of: "Transaction", table: str) -> None:
        """Drops it, if it is there."""
        of.run(f"DROP TABLE IF EXISTS {self.beside(table)}")

    def make_target(self, of: "Transaction", columns: Sequence[StagedColumn]) -> None:
        """Makes the table for the columns of a batch."""
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
        of.run(f"CREATE TABLE IF NOT EXISTS {self.target} ({', '.join(parts)}){self.made_with}")

    def key_type(self, column: StagedColumn) -> str:
        """The type of a column of a target that is made."""
        return column.form.target

    def problem(self, of: "Transaction", columns: Sequence[StagedColumn]) -> str | None:
        """Why the target does not take such a batch."""
        options = self.options
        if not self.columns:
            return f"there is no table {options.table}"
        given = [column.name for column in columns]
        wanted = [name for name in given if name != options.delete_when]
        own = [name for name in (options.epoch_column, options.query_column) if name]
        lost = [name for name in [*wanted, *own] if name not in self.columns]
        if lost:
            return f"the table {options.table} has no columns {', '.join(lost)}"
        if set(own) & set(given):
            return f"the batch has a column {' or '.join(own)} itself"
        of_batch = [*options.keys, options.order_by, options.delete_when]
        absent = [name for name in of_batch if name and name not in given]
        if absent:
            return f"the batch has no columns {', '.join(absent)}"
        if options.delete_when in self.columns:
            return f"the table has a column {options.delete_when}, by which rows are deleted"
        if options.keys and frozenset(options.keys) not in self.unique_keys(of):
            keys = ", ".join(options.keys)
            return f"the table has no primary key and no unique index of exactly {keys}"
        return None

    def source(self, table: str, tries: Sequence[str], columns: Sequence[StagedColumn]) -> str:
        """The rows that count, as they stand after FROM."""
        counted = ", ".join(f"'{attempt}'" for attempt in tries)
        rows = f"{self.beside(table)} s WHERE s.{self.quoted(TRY)} IN ({counted})"
        if not self.options.order_by:
            return f"(SELECT s.* FROM {rows}) s"
        keys = ", ".join(f"s.{self.quoted(key)}" for key in self.options.keys)
        [by] = [column for column in columns if column.name == self.options.order_by]
        order = f"PARTITION BY {keys} ORDER BY {self.ordering(by)} DESC"
        ranked = f"SELECT s.*, ROW_NUMBER() OVER ({order})"
        return f"(SELECT * FROM ({ranked} AS {_RANK} FROM {rows}) r WHERE {_RANK} = 1) s"

    def ordering(self, column: StagedColumn) -> str:
        """A staged column, in a type whose order is that of its values."""
        return f"s.{self.quoted(column.name)}"

    def key_problem(self, of: "Transaction", source: str) -> str | None:
        """Why rows of an epoch cannot be told by their keys."""
        keys = [self.quoted(key) for key in self.options.keys]
        empty = " OR ".join(f"s.{key} IS NULL" for key in keys)
        [(nulls,)] = of.run(f"SELECT COUNT(*) FROM {source} WHERE {empty}")
        if nulls:
            return f"{nulls} rows of the epoch have a key that is null"
        if self.options.order_by:
            return None
        listed = ", ".join(f"s.{key}" for key in keys)
        [(doubled,)] = of.run(
            f"SELECT COUNT(*) FROM (SELECT {listed} FROM {source} GROUP BY {listed}"
            " HAVING COUNT(*) > 1) d"
        )
        if doubled:
            return f"{doubled} keys come more than once in the epoch; say which counts (order_by)"
        return None

    def apply(
        self,
        of: "Transaction",
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
            self.delete(of, source, f"AND {dead}")
            rows = f"(SELECT * FROM {source} WHERE NOT {dead}) s"
        names, values = self._assigned(columns, query_id, epoch)
        if not options.keys:
            of.run(self._insert(names, values, rows))
        else:
            for statement in self.upsert(names, values, rows):
                of.run(statement)

    def delete(self, of: "Transaction", source: str, more: str = "") -> None:
        """Deletes the rows of the target whose keys are in a source."""
        of.run(f"DELETE FROM {self.target} WHERE {self._exists(source, more)}")

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
        """A staged column in the type of the target's."""
        found = f"s.{self.quoted(column.name)}"
        if column.form.read is not None:
            return column.form.read.format(found)
        kind = self.columns[column.name].kind
        if self.texts_are_cast and column.form.staged == "text" and not self.takes_text(kind):
            return f"CAST({found} AS {kind})"
        return found

    def takes_text(self, kind: str) -> bool:
        """Whether a type takes texts without a cast, which could shorten them."""
        return True

    def literal(self, text: str) -> str:
        """A text as it stands in a statement; those here have neither quotes nor backslashes."""
        return "'" + text.replace("'", "''") + "'"

    def _insert(self, names: Sequence[str], values: Sequence[str], source: str) -> str:
        return (
            f"INSERT INTO {self.target} ({', '.join(names)})"
            f" SELECT {', '.join(values)} FROM {source}"
        )

    def _exists(self, source: str, more: str = "") -> str:
        """Whether a source has a row with the keys of one of the target."""
        return f"EXISTS (SELECT 1 FROM {source} WHERE {self._same('s', self.target)} {more})"

    def _same(self, left: str, right: str) -> str:
        keys = map(self.quoted, self.options.keys)
        return " AND ".join(f"{left}.{key} = {right}.{key}" for key in keys)

    @property
    def undo_table(self) -> str:
        """The name of the table of replaced rows, next to the target."""
        told = hashlib.sha256(self.options.table.encode()).hexdigest()[:12]
        return f"cleancut_undo_{told}"

    @property
    def _undo(self) -> str:
        return self.beside(self.undo_table)

    def keep_undo(self, of: "Transaction", source: str, query_id: str, epoch: int) -> None:
        """Keeps the rows that an epoch is about to replace, and the keys that are new with it."""
        names = ", ".join(self.quoted(name) for name in self.columns)
        keys = ", ".join(self.quoted(key) for key in self.options.keys)
        of.run(
            f"INSERT INTO {self._undo} ({names}, {_EPOCH}, {_QUERY}, {_WAS}) SELECT {names},"
            f" {int(epoch)}, {self.literal(query_id)}, 1 FROM {self.target}"
            f" WHERE {self._exists(source)}"
        )
        fresh = f"NOT EXISTS (SELECT 1 FROM {self.target} t WHERE {self._same('t', 's')})"
        listed = ", ".join(f"s.{self.quoted(key)}" for key in self.options.keys)
        of.run(
            f"INSERT INTO {self._undo} ({keys}, {_EPOCH}, {_QUERY}, {_WAS}) SELECT {listed},"
            f" {int(epoch)}, {self.literal(query_id)}, 0 FROM {source} WHERE {fresh}"
        )
        of.run(
            f"DELETE FROM {self._undo} WHERE {_QUERY} = :query AND {_EPOCH} <= :old",
            query=query_id,
            old=epoch - self.options.keep_undo,
        )

    def prepare_undo(self, of: "Transaction") -> None:
        """Creates the table of replaced rows, or adds columns that the target has gained.

        A server may commit the transaction with it.
        """
        there = self.columns_of(of, self.undo_table)
        if not there:
            self._create_undo(of)
            return
        for column in self.columns.values():
            if column.name not in there:
                added = f"{self.quoted(column.name)} {column.declared}"
                of.run(f"ALTER TABLE {self._undo} ADD COLUMN {added}")

    def _create_undo(self, of: "Transaction") -> None:
        names = ", ".join(self.quoted(name) for name in self.columns)
        of.run(
            f"CREATE TABLE IF NOT EXISTS {self._undo}{self.made_with} AS SELECT {names},"
            f" CAST(0 AS {self.whole}) AS {_EPOCH}, CAST('' AS CHAR(64)) AS {_QUERY},"
            f" 0 AS {_WAS} FROM {self.undo_source} WHERE 1 = 0"
        )
        of.run(f"CREATE INDEX {self.undo_index} ({_EPOCH}, {_QUERY})")

    @property
    def undo_index(self) -> str:
        """The name of the index of replaced rows, and its table."""
        return f"IF NOT EXISTS {self.quoted(f'{self.undo_table}_epochs')} ON {self._undo}"

    whole = "BIGINT"

    @property
    def undo_source(self) -> str:
        """What has the columns that the table of replaced rows is made with, after FROM."""
        return self.target

    def undo(self, of: "Transaction", query_id: str, epochs: Sequence[int]) -> None:
        """Takes back what the last epochs of a query have changed.

        Raises:
            UndoRefusedError: what they replaced is not kept any more.
        """
        options = self.options
        if not options.keys:
            column = self.quoted(options.epoch_column)
            of_query = ""
            if options.query_column:
                named = self.literal(query_id)
                of_query = f" AND {self.quoted(options.query_column)} = {named}"
            listed = ", ".join(str(int(epoch)) for epoch in epochs)
            of.run(f"DELETE FROM {self.target} WHERE {column} IN ({listed}){of_query}")
            return
        kept = of.run(
            f"SELECT DISTINCT {_EPOCH} FROM {self._undo} WHERE {_QUERY} = :query", query=query_id
        )
        lost = sorted(set(epochs) - {epoch for (epoch,) in kept})
        if lost:
            raise UndoRefusedError(
                f"the rows that epochs {lost[0]} to {lost[-1]} replaced are gone"
            )
        names = ", ".join(self.quoted(name) for name in self.columns)
        for epoch in sorted(epochs, reverse=True):
            mine = f"{_QUERY} = {self.literal(query_id)} AND {_EPOCH} = {int(epoch)}"
            source = f"(SELECT * FROM {self._undo} WHERE {mine}) s"
            self.delete(of, source)
            of.run(
                f"INSERT INTO {self.target} ({names}) SELECT {names} FROM {self._undo}"
                f" WHERE {mine} AND {_WAS} = 1"
            )
            of.run(f"DELETE FROM {self._undo} WHERE {mine}")
