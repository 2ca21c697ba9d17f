"""What a target decides by what it remembers of the epochs that it has taken."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import Act, QuerySide
from cleancut.sinks._core.runs import (
    KEPT_EPOCHS,
    NO_EPOCH,
    LedgerEpoch,
    Run,
    UndoRefusedError,
    fenced,
    not_published,
    taken_over,
    way_back,
)
from cleancut.sinks._files.manifest import check_same_input

# Where the rules look and what they change: a transaction, or a document that is written in one.
Of = TypeVar("Of")
# Undoes epochs, the last ones of a query, together with what is noted.
Undo = Callable[[Of, Sequence[LedgerEpoch]], None]


class LedgerRules(ABC, Generic[Of]):
    """Who may write to one target, which epochs it has taken, and how it goes back.

    Each call is to be made where nobody changes what is remembered between its first look and its
    last change.

    Attributes:
        sink: what tells the target from others in the same place.
        kept_epochs: how many are remembered one by one; of older ones only that they have been.
    """

    kept_epochs = KEPT_EPOCHS

    def __init__(self, sink: str) -> None:
        self.sink = sink

    @abstractmethod
    def _run(self, of: Of, query_id: str) -> Run | None:
        """What is remembered of a query, which nobody else changes from now on."""

    @abstractmethod
    def _insert(self, of: Of, batch: Batch, run: Run) -> None: ...

    @abstractmethod
    def _update(self, of: Of, batch: Batch, run: Run) -> None: ...

    @abstractmethod
    def _epochs(
        self, of: Of, query_id: str, epoch: int | None = None
    ) -> list[tuple[LedgerEpoch, bool]]:
        """All, or those of one number, ascending; and of each whether it was undone."""

    @abstractmethod
    def _add(self, of: Of, batch: Batch, epoch: LedgerEpoch) -> None: ...

    @abstractmethod
    def _mark_undone(self, of: Of, query_id: str, bound: int, act: int) -> None:
        """Marks the epochs after one that an act has undone."""

    @abstractmethod
    def _drop(self, of: Of, query_id: str, *, until: int = NO_EPOCH, after: int = 2**62) -> None:
        """Forgets the epochs up to one, and those after another one."""

    @abstractmethod
    def _set_back(self, of: Of, query_id: str, last: int) -> None:
        """Has a later epoch not be the last one any more."""

    def begin_in(self, of: Of, side: QuerySide, owner: int, undo: Undo[Of] | None) -> None:
        """Takes the target over for a run, and goes back with the query.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED.
        """
        batch = side.batch
        found = self._run(of, batch.query_id)
        run = taken_over(found, batch, owner, self.sink)
        if run is None:
            return
        if found is None:
            self._insert(of, batch, run)
            return
        self._update(of, batch, self._gone_back(of, batch, run, side.acts(run.last), undo))

    def _gone_back(
        self, of: Of, batch: Batch, run: Run, acts: Sequence[Act], undo: Undo[Of] | None
    ) -> Run:
        known = self._epochs(of, batch.query_id) if acts else []
        back = way_back(run, acts, known, batch, self.sink, kept=self.kept_epochs)
        if back is None:
            return run
        if back.later:
            if undo is None:
                reason = "it does not know which rows these epochs wrote"
                raise back.refused.because(reason, back.later)
            try:
                undo(of, back.later)
            except UndoRefusedError as problem:
                raise back.refused.because(str(problem), back.later) from None
            self._mark_undone(of, batch.query_id, back.bound, back.run.incarnation)
        return back.run

    def find(self, of: Of, batch: Batch) -> LedgerEpoch | None:
        """The epoch, if it is published.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_TAKEN, with other input; CLEANCUT_SINK_REFUSED, later
                epochs are published, and it is not.
        """
        run = self._run(of, batch.query_id)
        return None if run is None else self._found(of, batch, run)

    def lock(self, of: Of, batch: Batch) -> LedgerEpoch | None:
        """What `find` gives, in a transaction that no other run of the query comes between.

        Raises:
            FencedError: CLEANCUT_FENCED, another run has begun.
            RequestError: as `find`.
        """
        run = self._run(of, batch.query_id)
        if run is None or run.run_id != batch.run_id:
            raise fenced(batch, run, self.sink)
        return self._found(of, batch, run)

    def _found(self, of: Of, batch: Batch, run: Run) -> LedgerEpoch | None:
        for found, undone in self._epochs(of, batch.query_id, batch.epoch):
            if undone:
                continue
            check_same_input(found, batch, self.sink)
            return found
        if batch.epoch <= run.last:
            raise not_published(self.sink, run, batch)
        return None

    def publish(self, of: Of, batch: Batch, handle: str, rows: int) -> None:
        """Notes an epoch as published, where `lock` was called."""
        run = self._run(of, batch.query_id)
        assert run is not None, "it was locked"
        now = time.time_ns() // 1_000_000
        noted = LedgerEpoch(
            run.incarnation, batch.epoch, batch.planned_ms, batch.run_id, handle, rows, now
        )
        self._add(of, batch, noted)
        self._update(of, batch, replace(run, last=batch.epoch))
        self._drop(of, batch.query_id, until=batch.epoch - self.kept_epochs)

    def published(self, of: Of, query_id: str) -> list[LedgerEpoch]:
        """The epochs of a query that count and are remembered, ascending."""
        return [epoch for epoch, undone in self._epochs(of, query_id) if not undone]

    def forget_in(self, of: Of, query_id: str, after: int) -> int:
        """Takes epochs for undone whose rows somebody has taken back by hand; how many."""
        found = [epoch for epoch in self.published(of, query_id) if epoch.epoch > after]
        self._drop(of, query_id, after=after)
        self._set_back(of, query_id, after)
        return len(found)
