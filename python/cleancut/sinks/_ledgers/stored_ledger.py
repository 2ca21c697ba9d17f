"""Applies the decisions of `ledger` to the records that a target stores."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.ledger_errors import UndoRefusedError, error_for, undo_refused
from cleancut.sinks._core.query_side import QuerySide

# The holder of the records: a transaction, or a document that is written as a whole.
Of = TypeVar("Of")
In = TypeVar("In", contravariant=True)
# Undoes the last epochs of a query, in the transaction that records it.
UndoFunction = Callable[[Of, Sequence[LedgerEpoch]], None]


class LedgerStore(Protocol[In]):
    """The records of one target, by query.

    Attributes:
        kept_epochs: number of epochs of a query that are recorded individually.
    """

    @property
    def kept_epochs(self) -> int: ...

    def run(self, transaction: In, query_id: str) -> Run | None:
        """The record of a query, locked until the transaction ends."""

    def add_run(self, transaction: In, query_id: str, run: Run) -> None:
        """Records the first run of a query."""

    def put_run(self, transaction: In, query_id: str, run: Run) -> None:
        """Replaces the record of a query, except for its epochs."""

    def epochs(
        self, transaction: In, query_id: str, epoch: int | None = None
    ) -> list[RecordedEpoch]:
        """All recorded epochs, or those with one number, ascending."""

    def add(self, transaction: In, query_id: str, epoch: LedgerEpoch) -> None:
        """Records a published epoch."""

    def mark_undone(self, transaction: In, query_id: str, bound: int, operation: int) -> None:
        """Marks the published epochs after `bound` as undone by an operation."""

    def drop(self, transaction: In, query_id: str, *, first: int, last: int) -> None:
        """Removes the records of the epochs from `first` to `last`."""


@dataclass(frozen=True)
class StoredLedger(Generic[Of]):
    """The owner of one target, its published epochs, and the rollback of both.

    Each call must be in a transaction: nothing else may change the records between its first read
    and its last write.

    Attributes:
        sink: name of the target, unique in its database or server.
        store: store of the records.
        gaps: lost epochs that the operator accepted.
        moves: former locations of the checkpoint that the operator accepted.
    """

    sink: str
    store: LedgerStore[Of]
    gaps: tuple[tuple[int, int], ...] = ()
    moves: tuple[str, ...] = ()

    def _expected(self, batch: Batch) -> Expected:
        """The epochs that the target should have before a batch."""
        return Expected(batch.published_to(self.sink), self.gaps, self.moves)

    def begin(
        self, transaction: Of, side: QuerySide, owner: int, undo: UndoFunction[Of] | None
    ) -> None:
        """Takes over the target for a run, and rolls it back with the query.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED, CLEANCUT_SINK_ROWS_MISSING,
                CLEANCUT_SINK_EPOCHS_LOST, CLEANCUT_SINK_CHECKPOINT_UNKNOWN; nothing has changed.
        """
        batch, store = side.batch, self.store
        expected = self._expected(batch)
        recorded = store.run(transaction, batch.query_id)
        operations = () if recorded is None else side.operations(recorded.position)
        is_moved = recorded is not None and recorded.checkpoint != batch.checkpoint
        epochs = store.epochs(transaction, batch.query_id) if operations or is_moved else []
        published = [
            recorded_epoch.epoch.epoch for recorded_epoch in epochs if not recorded_epoch.is_undone
        ]
        first = published[0] if len(published) >= store.kept_epochs else 0
        match ledger.begin(
            recorded,
            epochs,
            batch,
            owner,
            operations,
            first=first,
            kept=store.kept_epochs,
            expected=expected,
        ):
            case ledger.Begin(run):
                pass
            case ledger.Undo(run, surplus, bound):
                self._undo(transaction, batch, surplus, bound, undo)
                store.mark_undone(transaction, batch.query_id, bound, run.incarnation)
            case denial:
                raise error_for(denial, batch, self.sink)
        if recorded is None:
            store.add_run(transaction, batch.query_id, run)
        elif run != recorded:
            store.put_run(transaction, batch.query_id, run)

    def _undo(
        self,
        transaction: Of,
        batch: Batch,
        epochs: Sequence[LedgerEpoch],
        bound: int,
        undo: UndoFunction[Of] | None,
    ) -> None:
        try:
            if undo is None:
                raise UndoRefusedError("it does not know which rows these epochs wrote")
            undo(transaction, epochs)
        except UndoRefusedError as problem:
            raise undo_refused(problem, epochs, bound, batch, self.sink) from None

    def find(self, transaction: Of, batch: Batch) -> LedgerEpoch | None:
        """The epoch, if it is published.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, it has other input; CLEANCUT_SINK_REFUSED,
                later epochs are published, and it is not.
        """
        return self._found(transaction, batch, self.store.run(transaction, batch.query_id))

    def check_lost(self, transaction: Of, batch: Batch) -> None:
        """Compares the records with those of the checkpoint.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_LOST.
        """
        lost = ledger.find_lost(
            self.store.run(transaction, batch.query_id), batch, self._expected(batch)
        )
        if lost is not None:
            raise error_for(lost, batch, self.sink)

    def lock(self, transaction: Of, batch: Batch) -> LedgerEpoch | None:
        """As `find`, and locks the query against other runs until the transaction ends.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: as `find`; CLEANCUT_SINK_EPOCHS_LOST.
        """
        match ledger.owned(self.store.run(transaction, batch.query_id), batch):
            case Run() as run:
                return self._found(transaction, batch, run)
            case denial:
                if denial.run is None:
                    self.check_lost(transaction, batch)
                raise error_for(denial, batch, self.sink)

    def _found(self, transaction: Of, batch: Batch, run: Run | None) -> LedgerEpoch | None:
        epochs = [] if run is None else self.store.epochs(transaction, batch.query_id, batch.epoch)
        match ledger.find(run, epochs, batch, self._expected(batch)):
            case None:
                return None
            case LedgerEpoch() as epoch:
                return epoch
            case denial:
                raise error_for(denial, batch, self.sink)

    def publish(self, transaction: Of, batch: Batch, handle: str, rows: int) -> None:
        """Records an epoch as published, in the transaction in which `lock` returned None.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
        """
        recorded = self.store.run(transaction, batch.query_id)
        decided = ledger.publish(recorded, batch, handle, rows, time.time_ns() // 1_000_000)
        if isinstance(decided, ledger.Fenced):
            raise error_for(decided, batch, self.sink)
        run, epoch = decided
        self.store.add(transaction, batch.query_id, epoch)
        self.store.put_run(transaction, batch.query_id, run)
        last = batch.epoch - self.store.kept_epochs
        self.store.drop(transaction, batch.query_id, first=0, last=last)

    def published(self, transaction: Of, query_id: str) -> list[LedgerEpoch]:
        """The epochs of a query that are published and recorded, ascending."""
        return [
            recorded_epoch.epoch
            for recorded_epoch in self.store.epochs(transaction, query_id)
            if not recorded_epoch.is_undone
        ]

    def mark_unpublished_in(self, transaction: Of, query_id: str, after: int) -> int:
        """Removes the records of epochs whose rows you have deleted; returns how many."""
        epochs = [epoch for epoch in self.published(transaction, query_id) if epoch.epoch > after]
        self.store.drop(transaction, query_id, first=after + 1, last=2**62)
        run = self.store.run(transaction, query_id)
        if run is not None and run.last > after:
            self.store.put_run(transaction, query_id, replace(run, last=after))
        return len(epochs)
