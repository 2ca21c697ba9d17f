"""What a target decides by what it remembers of the epochs that it has taken."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cleancut._display.brief import Brief
from cleancut.errors import error_of
from cleancut.sinks._batch import Batch
from cleancut.sinks._manifest import check_same_input
from cleancut.sinks._query_side import Act, QuerySide, counts, kept_until

_KEPT_RUNS = 50
_NO_EPOCH = -1


@dataclass(frozen=True, repr=False)
class LedgerEpoch(Brief):
    """An epoch that a target has taken.

    Attributes:
        incarnation: the act on the checkpoint after which it was published; 0 before any.
        epoch: Spark's batch id.
        planned_ms: when Spark chose its input, in Unix time.
        run_id: Spark's id of the run that published it.
        handle: what was published.
        rows: how many; -1 if nobody has counted them.
        published_ms: when, in Unix time.
    """

    incarnation: int
    epoch: int
    planned_ms: int
    run_id: str
    handle: str
    rows: int
    published_ms: int


@dataclass(frozen=True)
class LedgerRun:
    """The row of a query: the run that may write, and how far it has got."""

    run_id: str
    former: tuple[str, ...]
    generation: int
    owner: int
    incarnation: int
    last: int
    acts: tuple[Act, ...]


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

    kept_epochs = 1000

    def __init__(self, sink: str) -> None:
        self.sink = sink

    @abstractmethod
    def _run(self, of: Of, query_id: str) -> LedgerRun | None:
        """What is remembered of a query, which nobody else changes from now on."""

    @abstractmethod
    def _insert(self, of: Of, batch: Batch, run: LedgerRun) -> None: ...

    @abstractmethod
    def _update(self, of: Of, batch: Batch, run: LedgerRun) -> None: ...

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
    def _drop(self, of: Of, query_id: str, *, until: int = _NO_EPOCH, after: int = 2**62) -> None:
        """Forgets the epochs up to one, and those after another one."""

    @abstractmethod
    def _set_back(self, of: Of, query_id: str, last: int) -> None:
        """Has a later epoch not be the last one any more."""

    def begin_in(self, of: Of, side: QuerySide, owner: int, undo: Undo[Of] | None) -> None:
        batch = side.batch
        found = self._run(of, batch.query_id)
        if found is None:
            fresh = LedgerRun(batch.run_id, (), 1, owner, 0, _NO_EPOCH, ())
            self._insert(of, batch, fresh)
            return
        if found.run_id == batch.run_id:
            return
        if batch.run_id in found.former or owner < found.owner:
            raise self.fenced(batch, found)
        former = (*found.former, found.run_id)[-_KEPT_RUNS:]
        run = replace(
            found,
            run_id=batch.run_id,
            former=former,
            generation=found.generation + 1,
            owner=owner,
        )
        self._update(of, batch, self._gone_back(of, batch, run, side.acts(run.last), undo))

    def _gone_back(
        self, of: Of, batch: Batch, run: LedgerRun, acts: Sequence[Act], undo: Undo[Of] | None
    ) -> LedgerRun:
        bound = kept_until(acts)
        if bound is None:
            return run
        refused = _Refusal(self.sink, batch.query_id, bound)
        act = acts[-1].epoch
        known = self._epochs(of, batch.query_id)
        now = [epoch for epoch, undone in known if not undone]
        later = [epoch for epoch in now if epoch.epoch > bound]
        # Those of an act that was gone back behind in its turn.
        lost = [
            epoch
            for epoch, undone in known
            if undone and epoch.epoch <= bound and counts(epoch.epoch, bound, run.acts)
        ]
        if lost:
            raise refused.because("what was taken back of these epochs is not kept", lost)
        if bound >= run.last:
            return run
        if later:
            # Of an epoch that is not remembered any more nobody knows what it has written.
            oldest = min(epoch.epoch for epoch in now)
            if bound < oldest - 1 and len(now) >= self.kept_epochs:
                raise refused.because(f"only epochs from {oldest} on are remembered", later)
            if undo is None:
                raise refused.because("it does not know which rows these epochs wrote", later)
            try:
                undo(of, later)
            except UndoRefusedError as problem:
                raise refused.because(str(problem), later) from None
            self._mark_undone(of, batch.query_id, bound, act)
        return replace(run, incarnation=act, acts=(*run.acts, Act(act, bound)))

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
            raise self.fenced(batch, run)
        return self._found(of, batch, run)

    def _found(self, of: Of, batch: Batch, run: LedgerRun) -> LedgerEpoch | None:
        for found, undone in self._epochs(of, batch.query_id, batch.epoch):
            if undone:
                continue
            check_same_input(found, batch, self.sink)
            return found
        if batch.epoch <= run.last:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=self.sink,
                reason=f"epoch {run.last} of the query {batch.query_id} is published, and epoch "
                f"{batch.epoch}, which comes before it, was not published or is forgotten",
            )
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

    def fenced(self, batch: Batch, found: LedgerRun | None) -> Exception:
        """That another run may write."""
        owner = "nobody" if found is None else f"run {found.run_id}, by the ledger of {self.sink}"
        return error_of(
            "CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch
        )


class UndoRefusedError(Exception):
    """Why a target cannot take epochs back; the transaction is rolled back."""


@dataclass(frozen=True)
class _Refusal:
    sink: str
    query_id: str
    bound: int

    def because(self, reason: str, epochs: Sequence[LedgerEpoch]) -> Exception:
        shown = [f"epoch {of.epoch} ({_rows(of.rows)})" for of in epochs]
        return error_of(
            "CLEANCUT_SINK_UNDO_REFUSED",
            sink=self.sink,
            query=self.query_id,
            epoch=self.bound,
            reason=reason,
            published=", ".join(shown),
        )


def _rows(count: int) -> str:
    return "rows not counted" if count < 0 else f"{count} rows"
