"""The base of table sinks: executors stage an epoch, and one transaction publishes it."""

import functools
import json
import logging
import secrets
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleancut._display.info_list import InfoList
from cleancut.errors import CleancutError, RequestError, error_of, from_java
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import Form, Forms, StagedColumn, prepared, staged_columns
from cleancut.sinks._core.database import Database, Transaction, within
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import LedgerEpoch
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._ledgers.ledger import Ledger
from cleancut.sinks._tables.staging import StagingNames, attempts_of, stage_partition
from cleancut.sinks._tables.statements import TRY, TableStatements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("cleancut.sinks")
# Prefix of the table's name, in the key of its ledger.
_KEY = "table "
# Prefix of former keys: the class of the sink and the table as it was configured.
_FORMER_KINDS = ("PostgresSink", "SqlSink")
_REPORT = "attempt string, rows bigint"


@dataclass(frozen=True)
class TableOptions:
    """Options of writes to a table.

    Attributes:
        table: name of the table, optionally with its schema.
        keys: key columns, by which a row replaces another one; empty if all rows are appended.
        order_by: column that selects the row with the greatest value if an epoch has several rows
            with the same keys; "" refuses such rows.
        delete_when: boolean column that the table does not have: a row in which it is true deletes
            the row with the same keys; "" if none.
        epoch_column: integer column of the table for the epoch of each row.
        query_column: text column of the table for Spark's query id.
        keep_undo: with keys, number of epochs for which replaced rows are stored.
        create: whether a missing table is created.
    """

    table: str
    keys: tuple[str, ...]
    order_by: str
    delete_when: str
    epoch_column: str
    query_column: str
    keep_undo: int
    create: bool

    def problem(self) -> str | None:
        """The reason why the options contradict each other; None if they do not."""
        if not self.table:
            return "it needs the name of a table"
        if not self.keys and (self.order_by or self.delete_when or self.keep_undo):
            return "order_by, delete_when and keep_undo need keys"
        if self.query_column and not self.epoch_column:
            return "a query_column needs an epoch_column"
        if self.keep_undo < 0:
            return "keep_undo is a number of epochs"
        return None


class TableSink(EpochSink):
    """Base of sinks for databases.

    The executors write an epoch into a staging table, each partition in a transaction. The driver
    publishes it in one transaction, together with its ledger entry. Each row has the name of the
    attempt that wrote it, and the handle lists the attempts that count: rows of other epochs and
    runs may be in the same table.
    """

    # Kind of the sink in the ledger and in errors; subclasses inherit it.
    _kind = "TableSink"
    reads_rows_once = True

    def __init__(self, database: Database, options: TableOptions, retry_for_s: float) -> None:
        """Sets the options; connects later.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the options contradict each other.
        """
        self._database = database
        self._options = options
        self._retry_for_s = retry_for_s
        self._found_ledger: Ledger | None = None
        self._staging: StagingNames | None = None
        self._swept: str | None = None
        self._columns: tuple[StagedColumn, ...] | None = None
        problem = options.problem()
        if problem is not None:
            raise self._refusal(problem)

    def __repr__(self) -> str:
        return f"{self._kind}({self._database.label!r}, {self._options.table!r})"

    @property
    def name(self) -> str:
        """The kind of sink, the table, and the database, without a password."""
        return f"{self._kind} {self._options.table} of {self._database.label}"

    @property
    def ledger_key(self) -> str:
        """The table, by its name in the database; see `EpochSink`."""
        return self._ledger.sink

    @abstractmethod
    def _forms(self) -> Forms:
        """The conversion of values of Spark's types for the database."""

    @abstractmethod
    def _statements(self, transaction: Transaction) -> TableStatements:
        """The statements of the table; reads its columns from the database."""

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the table for a run, and rolls it back with the query; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        self._columns = self._found_ledger = None
        # One per query: another query may stage for the same table.
        self._staging = StagingNames(f"{self._ledger.sink} {side.batch.query_id}")
        undo = functools.partial(self._undo, side.batch.query_id)
        spelled = {self._options.table, self._options.table.rpartition(".")[2]}
        spelled.add(self._ledger.sink.removeprefix(_KEY))
        former = [f"{kind} {table}" for kind in _FORMER_KINDS for table in spelled]
        self._ledger.begin(side, undo, former=former)

    @property
    def _ledger(self) -> Ledger:
        """The ledger of the table, by its name in the database, for all kinds of sinks."""
        if self._found_ledger is None:
            database, seconds = self._database, self._retry_for_s
            schema, table = within(
                database,
                seconds,
                lambda transaction: self._statements(transaction).resolved(transaction),
                self.name,
            )
            key = f"{_KEY}{schema}.{table}" if schema else f"{_KEY}{table}"
            self._found_ledger = Ledger(database, key, seconds)
            for gap in self._gaps:
                self._found_ledger.accept_gap(*gap)
            for checkpoint in self._moves:
                self._found_ledger.accept_move(checkpoint)
        return self._found_ledger

    def published(self, batch: Batch) -> str | None:
        """The handle of the epoch in the ledger; see `EpochSink`."""
        return self._ledger.handle_of(batch)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the staging table exists, with all rows."""
        if published is not None:
            return handle == published
        staged = _Staged.decode(handle)

        def is_whole(transaction: Transaction) -> bool:
            there = staged.table in self._statements(transaction).staging_tables(
                transaction, staged.table
            )
            return there and self._found(transaction, staged) == staged.tries

        return bool(self._ledger.within(is_whole))

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the executors write the rows; returns the staging table and the attempts.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, a column has no type, or the table does not accept
                the rows. Nothing is written then.
            FencedError: CLEANCUT_FENCED, a newer run has begun, and has deleted the staged rows.
        """
        columns = self._checked(rows, batch)
        table: str = self._ledger.within(
            lambda transaction: self._make_staging(transaction, columns, batch.epoch)
        )
        schema, point, _ = self._options.table.rpartition(".")
        place = f"{schema}{point}{table}"
        write = functools.partial(
            stage_partition,
            self._database,
            place,
            self.name,
            batch.epoch,
            seconds=self._retry_for_s,
        )
        try:
            reports = rows.select(prepared(columns)).mapInArrow(write, _REPORT).collect()
        except Exception as failure:
            if isinstance(from_java(failure), RequestError):
                # A newer run deletes the staging tables of older ones.
                self._ledger._in_run(
                    batch, lambda transaction: self._ledger.lock(transaction, batch)
                )
            raise
        return _Staged(table, {row["attempt"]: row["rows"] for row in reports}, columns).encode()

    def _make_staging(
        self, transaction: Transaction, columns: Sequence[StagedColumn], epoch: int
    ) -> str:
        statements, names = self._statements(transaction), self._names()
        table = names.fresh(epoch, secrets.token_hex(8))
        if statements.shares_staging:
            table = names.shared(columns, statements.role(transaction))
        if not (
            statements.shares_staging and table in statements.staging_tables(transaction, table)
        ):
            statements.make_staging(transaction, table, columns)
        return table

    def publish(self, handle: str, batch: Batch) -> None:
        """Writes the rows to the table, and the epoch to the ledger; see `EpochSink`.

        Raises:
            RetryableError: CLEANCUT_SINK_STAGED_LOST, the server has lost the staged rows;
                CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_EPOCHS_LOST, the table or its ledger was dropped.
        """
        staged = _Staged.decode(handle)
        if self._options.keep_undo and staged.rows:
            # The target may have gained a column since the run began. Not in the publishing
            # transaction, because MySQL commits a transaction when it alters a table.
            self._in_run(
                batch, lambda transaction: self._statements(transaction).prepare_undo(transaction)
            )
        self._in_run(batch, lambda transaction: self._publish(transaction, staged, handle, batch))
        self._drop([staged.table], batch.epoch)

    def _in_run(self, batch: Batch, work: Callable[[Transaction], None]) -> None:
        try:
            self._ledger._in_run(batch, work)
        except RequestError as refusal:
            if refusal.error_id == "CLEANCUT_SINK_REFUSED":
                self._ledger.within(lambda transaction: self._check_target(transaction, batch))
            raise

    def _check_target(self, transaction: Transaction, batch: Batch) -> None:
        """Refuses a table that was dropped although its ledger has epochs."""
        if not self._statements(transaction).columns:
            self._ledger.check_creation(transaction, batch)

    def _publish(
        self, transaction: Transaction, staged: "_Staged", handle: str, batch: Batch
    ) -> None:
        if self._ledger.lock(transaction, batch) is not None:
            return
        if staged.rows:
            statements = self._statements(transaction)
            counts = self._found(transaction, staged)
            if counts != staged.tries:
                raise error_of(
                    "CLEANCUT_SINK_STAGED_LOST",
                    sink=self.name,
                    epoch=batch.epoch,
                    detail=f"{staged.table} has {sum(counts.values())} of {staged.rows} rows",
                )
            source = statements.source(staged.table, sorted(staged.tries), staged.columns)
            self._check_keys(transaction, statements, source)
            if self._options.keep_undo:
                statements.keep_undo(transaction, source, batch.query_id, batch.epoch)
            statements.apply(transaction, source, staged.columns, batch.query_id, batch.epoch)
        self._ledger.publish(transaction, batch, handle, staged.rows)

    def _check_keys(
        self, transaction: Transaction, statements: TableStatements, source: str
    ) -> None:
        if not self._options.keys:
            return
        problem = statements.key_problem(transaction, source)
        if problem is not None:
            raise self._refusal(problem)

    def _found(self, transaction: Transaction, staged: "_Staged") -> dict[str, int]:
        """The number of existing rows of the epoch, by attempt."""
        if not staged.tries:
            return {}
        statements = self._statements(transaction)
        of_try, table = statements.quoted(TRY), statements.qualified(staged.table)
        tries = ", ".join(map(statements.literal, staged.tries))
        where = f"WHERE {of_try} IN ({tries}) GROUP BY {of_try}"
        return dict(transaction.run(f"SELECT {of_try}, COUNT(*) FROM {table} {where}"))

    def _undo(self, query_id: str, transaction: Transaction, epochs: Sequence[LedgerEpoch]) -> None:
        if not any(epoch.rows for epoch in epochs):
            return
        since = min(epoch.published_ms for epoch in epochs)
        others = [
            other for other in self._ledger.queries_since(transaction, since) if other != query_id
        ]
        options = self._options
        if not options.keys:
            if not options.epoch_column:
                raise UndoRefusedError("its rows do not have their epoch (epoch_column)")
            if others and not options.query_column:
                raise UndoRefusedError(f"the queries {', '.join(others)} have written to it since")
        else:
            if others:
                raise UndoRefusedError(f"the queries {', '.join(others)} have written to it since")
            if not options.keep_undo:
                raise UndoRefusedError(
                    "the rows that these epochs replaced are not stored (keep_undo)"
                )
        self._statements(transaction).undo(
            transaction, query_id, [epoch.epoch for epoch in epochs if epoch.rows]
        )

    def clean_up(self, batch: Batch) -> None:
        """Deletes rows that attempts up to this epoch have staged, once in a run."""
        if self._swept == batch.run_id:
            return
        names = self._names()
        try:
            tables: list[str] = self._ledger.within(
                lambda transaction: self._statements(transaction).staging_tables(
                    transaction, names.prefix
                )
            )
        except CleancutError as failure:
            _LOG.warning("%s: staging tables could not be listed: %s", self.name, failure)
            return
        of_epochs = [name for name in tables if names.epoch(name) <= batch.epoch]
        self._drop([*of_epochs, *filter(names.is_shared, tables)], batch.epoch)
        self._swept = batch.run_id

    def _names(self) -> StagingNames:
        assert self._staging is not None, "begin() must be called first"
        return self._staging

    def _drop(self, tables: Sequence[str], epoch: int) -> None:
        """Deletes rows that attempts up to an epoch have staged."""
        for table in tables:
            try:
                self._ledger.within(functools.partial(self._drop_one, table, epoch))
            except CleancutError as failure:
                # The epoch is published; leftover staged rows change no result.
                _LOG.warning("%s: %s could not be removed: %s", self.name, table, failure)

    def _drop_one(self, table: str, epoch: int, transaction: Transaction) -> None:
        statements, names = self._statements(transaction), self._names()
        if not names.is_shared(table):
            statements.drop_staging(transaction, table)
            return
        # Another run may be about to write to it, so it is not dropped.
        statements.empty_staging(transaction, table, attempts_of(epoch))

    def _checked(self, rows: "DataFrame", batch: Batch) -> tuple[StagedColumn, ...]:
        """The columns of the batch; compares them with those of the table once in a run."""
        columns = staged_columns(rows.schema, self._forms(), self.name)
        if columns == self._columns:
            return columns

        def check(transaction: Transaction) -> str | None:
            statements = self._statements(transaction)
            if not statements.columns and self._options.create:
                self._ledger.check_creation(transaction, batch)
                statements.make_target(transaction, columns)
                statements = self._statements(transaction)
            problem = statements.problem(transaction, columns)
            if problem is None and self._options.keep_undo:
                statements.prepare_undo(transaction)
            return problem

        problem = self._ledger.within(check)
        if problem is not None:
            raise self._refusal(problem)
        self._columns = columns
        return columns

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self.name, reason=reason)

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The recorded epochs of a query, ascending.

        Args:
            query_id: Spark's query id.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED, the ledger does not exist.
        """
        epochs: list[LedgerEpoch] = self._ledger.within(
            lambda transaction: self._ledger.published(transaction, query_id)
        )
        return InfoList(epochs)

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Marks later epochs as unpublished, after you have undone their rows in the table.

        For a query that was rolled back further than the sink can undo. The query must not run.

        Args:
            query_id: Spark's query id.
            after: the last epoch that remains published; -1 for none.

        Returns:
            The number of marked epochs.
        """
        return self._ledger.mark_unpublished(query_id, after)


@dataclass(frozen=True)
class _Staged:
    """The handle of an epoch: its table, the counting attempts with their rows, and its columns.

    A later run may publish it without the batch, so it has the columns.
    """

    table: str
    tries: dict[str, int]
    columns: tuple[StagedColumn, ...]

    @property
    def rows(self) -> int:
        return sum(self.tries.values())

    def encode(self) -> str:
        forms = [
            (column.name, column.form.staged, column.form.target, column.form.read)
            for column in self.columns
        ]
        return json.dumps({"table": self.table, "tries": self.tries, "columns": forms})

    @staticmethod
    def decode(handle: str) -> "_Staged":
        fields = json.loads(handle)
        columns = tuple(
            StagedColumn(name, Form(staged, target, read=read))
            for name, staged, target, read in fields["columns"]
        )
        return _Staged(fields["table"], fields["tries"], columns)
