"""The ledger of a database: the epochs that a target has published, in two tables."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cleancut.errors import CleancutError, RequestError, error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.database import Database, Transaction, within
from cleancut.sinks._core.expected import EpochRanges, Expected
from cleancut.sinks._core.ledger import (
    KEPT_EPOCHS,
    EpochsLost,
    LedgerEpoch,
    RecordedEpoch,
    Run,
)
from cleancut.sinks._core.ledger_errors import error_for
from cleancut.sinks._core.lineage import decode_checkpoints, encode_checkpoints
from cleancut.sinks._core.open_epoch import check_sealed, decode_handles, encode_handles
from cleancut.sinks._core.query_side import Operation, QuerySide, query_side
from cleancut.sinks._ledgers.stored_ledger import StoredLedger, UndoFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNS = "cleancut_runs"
_EPOCHS = "cleancut_epochs"
_REFUSED = "CLEANCUT_SINK_REFUSED"
_LOST = "CLEANCUT_SINK_EPOCHS_LOST"


def _tables(text: str, made_with: str) -> tuple[str, str]:
    """The statements that create them."""
    return (
        f"""CREATE TABLE IF NOT EXISTS {_RUNS} (
        sink VARCHAR(190) NOT NULL, query_id VARCHAR(64) NOT NULL, checkpoint {text} NOT NULL,
        run_id VARCHAR(64) NOT NULL, former_runs {text} NOT NULL, generation BIGINT NOT NULL,
        owner_generation BIGINT NOT NULL, incarnation BIGINT NOT NULL, last_epoch BIGINT NOT NULL,
        acts {text} NOT NULL, PRIMARY KEY (sink, query_id)){made_with}""",
        f"""CREATE TABLE IF NOT EXISTS {_EPOCHS} (
        sink VARCHAR(190) NOT NULL, query_id VARCHAR(64) NOT NULL, incarnation BIGINT NOT NULL,
        epoch BIGINT NOT NULL, planned_ms BIGINT NOT NULL, run_id VARCHAR(64) NOT NULL,
        handle {text} NOT NULL, row_count BIGINT NOT NULL, published_ms BIGINT NOT NULL,
        undone_by BIGINT NOT NULL, PRIMARY KEY (sink, query_id, incarnation, epoch)){made_with}""",
    )


@dataclass(frozen=True)
class LedgerBlock:
    """An epoch in an open transaction: the result of `epoch` of a ledger.

    Attributes:
        fresh: whether the epoch must be written; if False, it was written before.
        rows: rows of the epoch, cached until the end of the block; empty if it is not fresh.
        transaction: the transaction in which to write them.
    """

    fresh: bool
    rows: "DataFrame"
    transaction: Transaction


class Ledger:
    """The epochs that one target in a database has published, by query.

    The key of an epoch is the query, its *incarnation* (the last operation on its checkpoint that
    changed history) and the number. A run of a query takes over the ledger when it begins, and an
    older run writes nothing from then on.

    All calls must be in the transaction that writes the rows.
    """

    def __init__(self, database: Database, sink: str, retry_for_s: float) -> None:
        """Sets the target; connects later.

        Args:
            database: the database.
            sink: name of the target, unique in the database.
            retry_for_s: seconds for which a lost connection is retried.
        """
        self.database = database
        self.sink = sink
        self._tables = _LedgerTables(sink, database.lock)
        self._stored = StoredLedger(sink, self._tables)
        self._retry_for_s = retry_for_s

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.database.label!r}, {self.sink!r})"

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts that the database has lost epochs of the query, as `accept_gap` of a sink.

        Args:
            first: the first epoch that is lost.
            last: the last one.
        """
        self._stored = replace(self._stored, gaps=(*self._stored.gaps, (first, last)))

    def accept_move(self, checkpoint: str) -> None:
        """Accepts a former location of the checkpoint, as `accept_move` of a sink.

        Args:
            checkpoint: the location from which it was moved.
        """
        self._stored = replace(self._stored, moves=(*self._stored.moves, checkpoint))

    @contextmanager
    def epoch(self, df: "DataFrame", epoch: int) -> Iterator[LedgerBlock]:
        """One epoch in one transaction, for code that a decorated function cannot express.

        It works like the block of `epoch` of a sink, with a transaction instead of `write`.
        Entering it seals the epoch. Its end records the epoch and commits the transaction; an
        exception in the block rolls it back.

            def write(df, epoch):
                with ledger.epoch(df, epoch) as e:
                    if e.fresh:
                        e.transaction.run("INSERT INTO totals VALUES (:n)", n=e.rows.count())

        Args:
            df: the batch of `foreachBatch`.
            epoch: the batch ID of `foreachBatch`.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run of the query has begun.
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, it is published with other input;
                CLEANCUT_SINK_UNDO_REFUSED, the query was rolled back to before published epochs;
                CLEANCUT_SINK_REPLACED, an earlier run has sealed it for another sink.
        """
        side = query_side(df, epoch)
        # First, because it starts the run in the coordinator, which assigns the generation.
        check_sealed([self.sink], decode_handles(side.sealed_output()), side.batch)
        self.begin(side, None)
        if self.handle_of(side.batch) is not None and side.finish():
            side.published([self.sink])
            with self.database.transaction() as transaction:
                yield LedgerBlock(False, df.limit(0), transaction)
            return
        rows = side.compute()
        try:
            side.close(encode_handles({self.sink: ""}))
            with self.database.transaction() as transaction:
                fresh = self.lock(transaction, side.batch) is None
                yield LedgerBlock(fresh, rows if fresh else df.limit(0), transaction)
                if fresh:
                    self.publish(transaction, side.batch, "", -1)
            side.published([self.sink])
        finally:
            rows.unpersist()

    def within(self, work: Callable[[Transaction], Any]) -> Any:
        """As `within` of the database; errors name this target."""
        return within(self.database, self._retry_for_s, work, self.sink)

    def begin(
        self,
        side: QuerySide,
        undo: UndoFunction[Transaction] | None,
        *,
        former: Sequence[str] = (),
    ) -> None:
        """Takes over the ledger for a run, and rolls back with the query.

        Args:
            side: the query side of the run's first epoch.
            undo: undoes rows of epochs; None if the target cannot.
            former: other values of `sink` under which the target may have recorded the query.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED, CLEANCUT_SINK_ROWS_MISSING.
        """
        self._create()
        owner = side.generation()

        def begin(transaction: Transaction) -> None:
            self._tables.adopt(transaction, side.batch.query_id, former)
            self._stored.begin(transaction, side, owner or 0, undo)

        self.within(begin)

    def _create(self) -> None:
        for table in _tables(self.database.text, self.database.made_with):
            self.within(functools.partial(_execute, table))

    def _in_run(self, batch: Batch, work: Callable[[Transaction], Any]) -> Any:
        """As `within`, for a run that has begun, whose ledger may have been dropped since.

        Args:
            batch: the epoch.
            work: the function to call; it may be called several times.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_LOST, the database has lost epochs that the
                checkpoint records; as `within`.
        """
        try:
            return self.within(work)
        except RequestError as refusal:
            lost = self._find_lost(batch) if refusal.error_id == _REFUSED else None
            raise lost or refusal from None

    def _find_lost(self, batch: Batch) -> Exception | None:
        try:
            # Without the tables there is nothing to compare.
            self._create()
            self.within(lambda transaction: self._stored.check_lost(transaction, batch))
        except CleancutError as error:
            return error if error.error_id == _LOST else None
        return None

    def handle_of(self, batch: Batch) -> str | None:
        """The handle of the epoch if it is published; uses a separate transaction.

        Raises:
            RequestError: as `find`.
        """
        epoch: LedgerEpoch | None = self._in_run(
            batch, lambda transaction: self.find(transaction, batch)
        )
        return None if epoch is None else epoch.handle

    def queries_since(self, transaction: Transaction, published_ms: int) -> list[str]:
        """The queries that have written to the target at that time or later."""
        rows = transaction.run(
            f"SELECT DISTINCT query_id FROM {_EPOCHS} WHERE sink = :sink AND published_ms >= :at",
            sink=self.sink,
            at=published_ms,
        )
        return sorted(query for (query,) in rows)

    def find(self, transaction: Transaction, batch: Batch) -> LedgerEpoch | None:
        """The epoch, if it is published.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, it has other input; CLEANCUT_SINK_REFUSED,
                later epochs are published, and it is not.
        """
        return self._stored.find(transaction, batch)

    def lock(self, transaction: Transaction, batch: Batch) -> LedgerEpoch | None:
        """As `find`, and locks the query against other runs until the transaction ends.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: as `find`.
        """
        return self._stored.lock(transaction, batch)

    def publish(self, transaction: Transaction, batch: Batch, handle: str, rows: int) -> None:
        """Records an epoch as published, in the transaction in which `lock` returned None."""
        self._stored.publish(transaction, batch, handle, rows)

    def published(self, transaction: Transaction, query_id: str) -> list[LedgerEpoch]:
        """The epochs of a query that are published and recorded, ascending."""
        return self._stored.published(transaction, query_id)

    def check_creation(self, transaction: Transaction, batch: Batch) -> None:
        """Refuses to create the target again while the ledger has epochs of it.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_LOST; CLEANCUT_SINK_REFUSED, the epochs are those of
                other queries.
        """
        published = {
            query: self.published(transaction, query)
            for query in {batch.query_id, *self.queries_since(transaction, 0)}
        }
        lost = EpochRanges.of(epoch.epoch for epoch in published.pop(batch.query_id))
        lost = Expected(gaps=self._stored.gaps).unless_accepted(lost)
        if lost:
            raise error_for(EpochsLost(lost), batch, self.sink)
        others = sorted(query for query, epochs in published.items() if epochs)
        if others:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=self.sink,
                reason="it does not exist, and its ledger has epochs of the queries"
                f" {', '.join(others)}; restore the table, or call `forget(query_id, -1)` of the"
                " sink for each of these queries",
            )

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Removes the records of epochs whose rows you have deleted; returns how many."""
        return int(
            self.within(
                lambda transaction: self._stored.mark_unpublished_in(transaction, query_id, after)
            )
        )


@dataclass(frozen=True)
class _LedgerTables:
    """Implements `LedgerStore` by two tables of a database.

    Attributes:
        sink: name of the target.
        lock: last words of a SELECT that locks its rows for the transaction.
    """

    sink: str
    lock: str

    @property
    def kept_epochs(self) -> int:
        return KEPT_EPOCHS

    def run(self, transaction: Transaction, query_id: str) -> Run | None:
        rows = transaction.run(
            "SELECT run_id, former_runs, generation, owner_generation, incarnation, last_epoch,"
            f" acts, checkpoint FROM {_RUNS} WHERE sink = :sink AND query_id = :query {self.lock}",
            sink=self.sink,
            query=query_id,
        )
        if not rows:
            return None
        run_id, former, generation, owner, incarnation, last, operations, checkpoint = rows[0]
        return Run(
            run_id=run_id,
            former=tuple(json.loads(former)),
            generation=generation,
            owner=owner,
            incarnation=incarnation,
            last=last,
            operations=tuple(Operation(*operation) for operation in json.loads(operations)),
        ).with_checkpoints(decode_checkpoints(checkpoint))

    def adopt(self, transaction: Transaction, query_id: str, former: Sequence[str]) -> None:
        """Moves the records of a query from a former key, if this key has none."""
        if not former or self.run(transaction, query_id) is not None:
            return
        rows = transaction.run(
            f"SELECT last_epoch, sink FROM {_RUNS} WHERE query_id = :query {self.lock}",
            query=query_id,
        )
        known = [(last, sink) for last, sink in rows if sink in former]
        if not known:
            return
        for table in (_RUNS, _EPOCHS):
            transaction.run(
                f"UPDATE {table} SET sink = :sink WHERE sink = :former AND query_id = :query",
                sink=self.sink,
                former=max(known)[1],
                query=query_id,
            )

    def add_run(self, transaction: Transaction, query_id: str, run: Run) -> None:
        transaction.run(
            f"INSERT INTO {_RUNS} VALUES (:sink, :query, :checkpoint, :run, :former, :generation,"
            " :owner, :incarnation, :last, :acts)",
            **self._values(query_id, run),
        )

    def put_run(self, transaction: Transaction, query_id: str, run: Run) -> None:
        transaction.run(
            f"UPDATE {_RUNS} SET checkpoint = :checkpoint, run_id = :run, former_runs = :former,"
            " generation = :generation, owner_generation = :owner, incarnation = :incarnation,"
            " last_epoch = :last, acts = :acts WHERE sink = :sink AND query_id = :query",
            **self._values(query_id, run),
        )

    def _values(self, query_id: str, run: Run) -> dict[str, int | str]:
        return {
            "sink": self.sink,
            "query": query_id,
            "checkpoint": encode_checkpoints(run.checkpoints),
            "run": run.run_id,
            "former": json.dumps(run.former),
            "generation": run.generation,
            "owner": run.owner,
            "incarnation": run.incarnation,
            "last": run.last,
            "acts": json.dumps(
                [(operation.epoch, operation.source) for operation in run.operations]
            ),
        }

    def epochs(
        self, transaction: Transaction, query_id: str, epoch: int | None = None
    ) -> list[RecordedEpoch]:
        rows = transaction.run(
            "SELECT incarnation, epoch, planned_ms, run_id, handle, row_count, published_ms,"
            f" undone_by FROM {_EPOCHS} WHERE sink = :sink AND query_id = :query"
            " AND epoch BETWEEN :first AND :last ORDER BY epoch, incarnation",
            sink=self.sink,
            query=query_id,
            first=0 if epoch is None else epoch,
            last=2**62 if epoch is None else epoch,
        )
        return [RecordedEpoch(LedgerEpoch(*row[:7]), is_undone=row[7] != 0) for row in rows]

    def add(self, transaction: Transaction, query_id: str, epoch: LedgerEpoch) -> None:
        transaction.run(
            f"INSERT INTO {_EPOCHS} VALUES (:sink, :query, :incarnation, :epoch, :planned, :run,"
            " :handle, :rows, :now, 0)",
            sink=self.sink,
            query=query_id,
            incarnation=epoch.incarnation,
            epoch=epoch.epoch,
            planned=epoch.planned_ms,
            run=epoch.run_id,
            handle=epoch.handle,
            rows=epoch.rows,
            now=epoch.published_ms,
        )

    def mark_undone(
        self, transaction: Transaction, query_id: str, bound: int, operation: int
    ) -> None:
        transaction.run(
            f"UPDATE {_EPOCHS} SET undone_by = :operation WHERE sink = :sink"
            " AND query_id = :query AND epoch > :bound AND undone_by = 0",
            operation=operation,
            sink=self.sink,
            query=query_id,
            bound=bound,
        )

    def drop(self, transaction: Transaction, query_id: str, *, first: int, last: int) -> None:
        transaction.run(
            f"DELETE FROM {_EPOCHS} WHERE sink = :sink AND query_id = :query"
            " AND epoch BETWEEN :first AND :last",
            sink=self.sink,
            query=query_id,
            first=first,
            last=last,
        )


def _execute(table: str, transaction: Transaction) -> None:
    transaction.run(table)
