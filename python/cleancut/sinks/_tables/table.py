"""A table that takes epochs: staged by the executors, published in one transaction."""

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
# Before the name of a table, in the key of its ledger.
_KEY = "table "
# Keys began with the class of the sink, and named the table as it was given.
_FORMER_KINDS = ("PostgresSink", "SqlSink")
_REPORT = "attempt string, rows bigint"


@dataclass(frozen=True)
class TableOptions:
    """How the rows of an epoch change a table.

    Attributes:
        table: its name, which may have that of a schema before it.
        keys: columns by which a row replaces another one; none adds all rows.
        order_by: of several rows with the same keys in one epoch the one with the greatest value
            counts; "" refuses such rows.
        delete_when: a column of booleans, which the table does not have: rows in which it is true
            delete that with their keys; "" deletes none.
        epoch_column: one of the table, of whole numbers, that is to have the epoch of each row.
        query_column: one of texts, that is to have Spark's id of the query.
        keep_undo: for how many epochs the rows that they replace are kept, with keys.
        create: whether the table is made if it is not there.
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
        """What does not go together."""
        if not self.table:
            return "it needs the name of a table"
        if not self.keys and (self.order_by or self.delete_when or self.keep_undo):
            return "order_by, delete_when and keep_undo need keys"
        if self.query_column and not self.epoch_column:
            return "a query_column needs an epoch_column beside it"
        if self.keep_undo < 0:
            return "keep_undo is a number of epochs"
        return None


class TableSink(EpochSink):
    """What sinks for databases have in common.

    The executors write an epoch into a staging table, each partition in a transaction. The driver
    publishes it in one transaction, with the row of the ledger that says so. Each row has the name
    of the attempt that wrote it, and those that count are in the handle: rows of other epochs and
    runs may be in the same table.
    """

    # Of the sink, in the ledger and in errors; derived classes have it, too.
    _kind = "TableSink"
    reads_rows_once = True

    def __init__(self, database: Database, options: TableOptions, retry_for_s: float) -> None:
        """Names the table; nothing is looked at yet.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the options do not go together.
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
        """The table, as the database knows it; see `EpochSink`."""
        return self._ledger.sink

    @abstractmethod
    def _forms(self) -> Forms:
        """How values of Spark's types go to the database."""

    @abstractmethod
    def _statements(self, of: Transaction) -> TableStatements:
        """What is said to the database, which is asked for the columns of the table."""

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        self._columns = self._found_ledger = None
        # Of this query: another one may have staged for the same table.
        self._staging = StagingNames(f"{self._ledger.sink} {side.batch.query_id}")
        undo = functools.partial(self._undo, side.batch.query_id)
        spelled = {self._options.table, self._options.table.rpartition(".")[2]}
        spelled.add(self._ledger.sink.removeprefix(_KEY))
        former = [f"{kind} {table}" for kind in _FORMER_KINDS for table in spelled]
        self._ledger.begin(side, undo, former=former)

    @property
    def _ledger(self) -> Ledger:
        """Of the table, by the name that the database knows it by, whichever sink writes to it."""
        if self._found_ledger is None:
            database, seconds = self._database, self._retry_for_s
            schema, table = within(
                database, seconds, lambda of: self._statements(of).resolved(of), self.name
            )
            key = f"{_KEY}{schema}.{table}" if schema else f"{_KEY}{table}"
            self._found_ledger = Ledger(database, key, seconds)
            for gap in self._gaps:
                self._found_ledger.accept_gap(*gap)
            for checkpoint in self._moves:
                self._found_ledger.accept_move(checkpoint)
        return self._found_ledger

    def published(self, batch: Batch) -> str | None:
        """What the ledger has of the epoch; see `EpochSink`."""
        return self._ledger.handle_of(batch)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the staging table is there, with all rows."""
        if published is not None:
            return handle == published
        staged = _Staged.decode(handle)

        def is_whole(of: Transaction) -> bool:
            there = staged.table in self._statements(of).staging_tables(of, staged.table)
            return there and self._found(of, staged) == staged.tries

        return bool(self._ledger.within(is_whole))

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the executors write the rows; gives the name of the staging table and who wrote it.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, a column has no type, or the table is not one that
                takes these rows; before anything is written.
            FencedError: CLEANCUT_FENCED, a newer run has begun, and has deleted what was staged.
        """
        columns = self._checked(rows, batch)
        table: str = self._ledger.within(lambda of: self._make_staging(of, columns, batch.epoch))
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
            found = rows.select(prepared(columns)).mapInArrow(write, _REPORT).collect()
        except Exception as failure:
            if isinstance(from_java(failure), RequestError):
                # A newer run deletes the staging tables of older ones.
                self._ledger._in_run(batch, lambda of: self._ledger.lock(of, batch))
            raise
        return _Staged(table, {row["attempt"]: row["rows"] for row in found}, columns).encode()

    def _make_staging(self, of: Transaction, columns: Sequence[StagedColumn], epoch: int) -> str:
        statements, names = self._statements(of), self._names()
        table = names.fresh(epoch, secrets.token_hex(8))
        if statements.shares_staging:
            table = names.shared(columns, statements.role(of))
        if not (statements.shares_staging and table in statements.staging_tables(of, table)):
            statements.make_staging(of, table, columns)
        return table

    def publish(self, handle: str, batch: Batch) -> None:
        """Puts the rows into the table, and the epoch into the ledger; see `EpochSink`.

        Raises:
            RetryableError: CLEANCUT_SINK_STAGED_LOST, the server has lost what was staged;
                CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_EPOCHS_LOST, the table or its ledger was dropped.
        """
        staged = _Staged.decode(handle)
        if self._options.keep_undo and staged.rows:
            # A column may have been added to the target since the run began. Not in the transaction
            # that publishes, because MySQL commits a transaction when it changes a table.
            self._in_run(batch, lambda of: self._statements(of).prepare_undo(of))
        self._in_run(batch, lambda of: self._publish(of, staged, handle, batch))
        self._drop([staged.table], batch.epoch)

    def _in_run(self, batch: Batch, work: Callable[[Transaction], None]) -> None:
        try:
            self._ledger._in_run(batch, work)
        except RequestError as refusal:
            if refusal.error_id == "CLEANCUT_SINK_REFUSED":
                self._ledger.within(lambda of: self._check_target(of, batch))
            raise

    def _check_target(self, of: Transaction, batch: Batch) -> None:
        """Refuses a table that was dropped although its ledger has epochs."""
        if not self._statements(of).columns:
            self._ledger.check_creation(of, batch)

    def _publish(self, of: Transaction, staged: "_Staged", handle: str, batch: Batch) -> None:
        if self._ledger.lock(of, batch) is not None:
            return
        if staged.rows:
            statements = self._statements(of)
            found = self._found(of, staged)
            if found != staged.tries:
                raise error_of(
                    "CLEANCUT_SINK_STAGED_LOST",
                    sink=self.name,
                    epoch=batch.epoch,
                    detail=f"{staged.table} has {sum(found.values())} of {staged.rows} rows",
                )
            source = statements.source(staged.table, sorted(staged.tries), staged.columns)
            self._check_keys(of, statements, source)
            if self._options.keep_undo:
                statements.keep_undo(of, source, batch.query_id, batch.epoch)
            statements.apply(of, source, staged.columns, batch.query_id, batch.epoch)
        self._ledger.publish(of, batch, handle, staged.rows)

    def _check_keys(self, of: Transaction, statements: TableStatements, source: str) -> None:
        if not self._options.keys:
            return
        problem = statements.key_problem(of, source)
        if problem is not None:
            raise self._refusal(problem)

    def _found(self, of: Transaction, staged: "_Staged") -> dict[str, int]:
        """By who wrote them, the rows that are there of what is to be published."""
        if not staged.tries:
            return {}
        statements = self._statements(of)
        of_try, table = statements.quoted(TRY), statements.beside(staged.table)
        tries = ", ".join(map(statements.literal, staged.tries))
        where = f"WHERE {of_try} IN ({tries}) GROUP BY {of_try}"
        return dict(of.run(f"SELECT {of_try}, COUNT(*) FROM {table} {where}"))

    def _undo(self, query_id: str, of: Transaction, epochs: Sequence[LedgerEpoch]) -> None:
        if not any(epoch.rows for epoch in epochs):
            return
        since = min(epoch.published_ms for epoch in epochs)
        others = [other for other in self._ledger.queries_since(of, since) if other != query_id]
        options = self._options
        if not options.keys:
            if not options.epoch_column:
                raise UndoRefusedError("its rows do not say of which epoch they are (epoch_column)")
            if others and not options.query_column:
                raise UndoRefusedError(f"the queries {', '.join(others)} have written to it since")
        else:
            if others:
                raise UndoRefusedError(f"the queries {', '.join(others)} have written to it since")
            if not options.keep_undo:
                raise UndoRefusedError(
                    "the rows that these epochs replaced are not kept (keep_undo)"
                )
        self._statements(of).undo(of, query_id, [epoch.epoch for epoch in epochs if epoch.rows])

    def clean_up(self, batch: Batch) -> None:
        """Removes what attempts up to this epoch have staged, once in a run."""
        if self._swept == batch.run_id:
            return
        names = self._names()
        try:
            found: list[str] = self._ledger.within(
                lambda of: self._statements(of).staging_tables(of, names.prefix)
            )
        except CleancutError as failure:
            _LOG.warning("%s: staging tables could not be listed: %s", self.name, failure)
            return
        of_epochs = [name for name in found if names.epoch(name) <= batch.epoch]
        self._drop([*of_epochs, *filter(names.is_shared, found)], batch.epoch)
        self._swept = batch.run_id

    def _names(self) -> StagingNames:
        assert self._staging is not None, "a sink begins before it is asked"
        return self._staging

    def _drop(self, tables: Sequence[str], epoch: int) -> None:
        """Removes what attempts up to an epoch have staged."""
        for table in tables:
            try:
                self._ledger.within(functools.partial(self._drop_one, table, epoch))
            except CleancutError as failure:
                # The epoch is published; rows that stay staged change no result.
                _LOG.warning("%s: %s could not be removed: %s", self.name, table, failure)

    def _drop_one(self, table: str, epoch: int, of: Transaction) -> None:
        statements, names = self._statements(of), self._names()
        if not names.is_shared(table):
            statements.drop_staging(of, table)
            return
        # Another run may be about to write into it, so it stays.
        statements.empty_staging(of, table, attempts_of(epoch))

    def _checked(self, rows: "DataFrame", batch: Batch) -> tuple[StagedColumn, ...]:
        """The columns of the batch; once in a run they are compared with those of the table."""
        columns = staged_columns(rows.schema, self._forms(), self.name)
        if columns == self._columns:
            return columns

        def check(of: Transaction) -> str | None:
            statements = self._statements(of)
            if not statements.columns and self._options.create:
                self._ledger.check_creation(of, batch)
                statements.make_target(of, columns)
                statements = self._statements(of)
            found = statements.problem(of, columns)
            if found is None and self._options.keep_undo:
                statements.prepare_undo(of)
            return found

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
        found: list[LedgerEpoch] = self._ledger.within(
            lambda of: self._ledger.published(of, query_id)
        )
        return InfoList(found)

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Marks later epochs as unpublished, after you have undone their rows in the table.

        For a query that was rolled back further than the sink can undo. The query must not run.

        Args:
            query_id: Spark's query id.
            after: the last epoch that remains published; -1 for none.

        Returns:
            How many epochs these were.
        """
        return self._ledger.mark_unpublished(query_id, after)


@dataclass(frozen=True)
class _Staged:
    """The handle of an epoch: its table, how many rows of each task in it count, and its columns.

    A later run publishes by it without a batch, hence the columns.
    """

    table: str
    tries: dict[str, int]
    columns: tuple[StagedColumn, ...]

    @property
    def rows(self) -> int:
        return sum(self.tries.values())

    def encode(self) -> str:
        forms = [(of.name, of.form.staged, of.form.target, of.form.read) for of in self.columns]
        return json.dumps({"table": self.table, "tries": self.tries, "columns": forms})

    @staticmethod
    def decode(handle: str) -> "_Staged":
        fields = json.loads(handle)
        columns = tuple(
            StagedColumn(name, Form(staged, target, read=read))
            for name, staged, target, read in fields["columns"]
        )
        return _Staged(fields["table"], fields["tries"], columns)
