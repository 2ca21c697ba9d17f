"""What a database remembers of the epochs that it has taken, in two tables of its own."""

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cleancut._display.brief import Brief
from cleancut.errors import error_of
from cleancut.sinks._batch import Batch
from cleancut.sinks._database import Database, Transaction, within
from cleancut.sinks._manifest import check_same_input
from cleancut.sinks._query_side import Act, QuerySide, counts, kept_until, query_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNS = "cleancut_runs"
_EPOCHS = "cleancut_epochs"
# Epochs that are remembered one by one; of older ones only that they have been.
_KEPT_EPOCHS = 1000
_KEPT_RUNS = 50
_NO_EPOCH = -1

_TABLES = (
    f"""CREATE TABLE IF NOT EXISTS {_RUNS} (
        sink VARCHAR(190) NOT NULL, query_id VARCHAR(64) NOT NULL, checkpoint TEXT NOT NULL,
        run_id VARCHAR(64) NOT NULL, former_runs TEXT NOT NULL, generation BIGINT NOT NULL,
        owner_generation BIGINT NOT NULL, incarnation BIGINT NOT NULL, last_epoch BIGINT NOT NULL,
        acts TEXT NOT NULL, PRIMARY KEY (sink, query_id))""",
    f"""CREATE TABLE IF NOT EXISTS {_EPOCHS} (
        sink VARCHAR(190) NOT NULL, query_id VARCHAR(64) NOT NULL, incarnation BIGINT NOT NULL,
        epoch BIGINT NOT NULL, planned_ms BIGINT NOT NULL, run_id VARCHAR(64) NOT NULL,
        handle TEXT NOT NULL, row_count BIGINT NOT NULL, published_ms BIGINT NOT NULL,
        undone_by BIGINT NOT NULL, PRIMARY KEY (sink, query_id, incarnation, epoch))""",
)


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
class _Run:
    """The row of a query: the run that may write, and how far it has got."""

    run_id: str
    former: tuple[str, ...]
    generation: int
    owner: int
    incarnation: int
    last: int
    acts: tuple[Act, ...]


@dataclass(frozen=True)
class LedgerBlock:
    """An epoch in a transaction that is open.

    Attributes:
        fresh: whether it is to be written; else it was.
        transaction: what to write it in.
    """

    fresh: bool
    transaction: Transaction


# Undoes epochs, the last ones of a query, in the transaction that is open.
Undo = Callable[[Transaction, Sequence[LedgerEpoch]], None]


class Ledger:
    """Which epochs of which queries one target in a database has taken.

    The key of an epoch is the query, its *incarnation* (which act on the checkpoint it went on
    from) and the number. A run of a query takes the ledger over when it begins, and an older run
    writes nothing from then on.

    All of it is to be in the transaction that writes the rows.
    """

    def __init__(self, database: Database, sink: str, retry_for_s: float) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            database: where.
            sink: what tells the target from others in the same database.
            retry_for_s: for how many seconds a lost connection is made again.
        """
        self.database = database
        self.sink = sink
        self._retry_for_s = retry_for_s

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.database.label!r}, {self.sink!r})"

    @contextmanager
    def epoch(self, df: "DataFrame", epoch: int) -> Iterator[LedgerBlock]:
        """One epoch in one transaction, for code that does more than a decorated function may.

        The epoch is noted, and the transaction committed, at the end of the block; what the block
        raises rolls it back. Seal the batch first, and write what `seal` returns:

            rows = cleancut.seal(df, epoch)
            with ledger.epoch(df, epoch) as block:
                if block.fresh:
                    block.transaction.run("INSERT INTO totals VALUES (:n)", n=rows.count())

        Args:
            df: as Spark hands it to a function of `foreachBatch`.
            epoch: likewise.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run of the query has begun.
            RequestError: CLEANCUT_SINK_EPOCH_TAKEN, it is published with other input;
                CLEANCUT_SINK_UNDO_REFUSED, the query was rolled back behind what is published.
        """
        side = query_side(df, epoch)
        self.begin(side, None)
        with self.database.transaction() as of:
            fresh = self.lock(of, side.batch) is None
            yield LedgerBlock(fresh, of)
            if fresh:
                self.publish(of, side.batch, "", -1)

    def within(self, work: Callable[[Transaction], Any]) -> Any:
        """As `within` of the database, in the name of this target."""
        return within(self.database, self._retry_for_s, work, self.sink)

    def begin(self, side: QuerySide, undo: Undo | None) -> None:
        """Takes the ledger over for a run, and goes back with the query.

        Args:
            side: of the first epoch of the run.
            undo: takes rows of epochs back; None if the target cannot.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED.
        """
        for table in _TABLES:
            self.within(functools.partial(_said, sql=table))
        owner = side.generation()
        self.within(lambda of: self._begin(of, side, 0 if owner is None else owner, undo))

    def _begin(self, of: Transaction, side: QuerySide, owner: int, undo: Undo | None) -> None:
        batch = side.batch
        found = self._run(of, batch.query_id)
        if found is None:
            fresh = _Run(batch.run_id, (), 1, owner, 0, _NO_EPOCH, ())
            self._insert(of, batch, fresh)
            return
        if found.run_id == batch.run_id:
            return
        if batch.run_id in found.former or owner < found.owner:
            raise self._fenced(batch, found)
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
        self, of: Transaction, batch: Batch, run: _Run, acts: Sequence[Act], undo: Undo | None
    ) -> _Run:
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
            if bound < oldest - 1 and len(now) >= _KEPT_EPOCHS:
                raise refused.because(f"only epochs from {oldest} on are remembered", later)
            if undo is None:
                raise refused.because("it does not know which rows these epochs wrote", later)
            try:
                undo(of, later)
            except UndoRefusedError as problem:
                raise refused.because(str(problem), later) from None
            of.run(
                f"UPDATE {_EPOCHS} SET undone_by = :act WHERE sink = :sink AND query_id = :query"
                " AND epoch > :bound AND undone_by = 0",
                act=act,
                sink=self.sink,
                query=batch.query_id,
                bound=bound,
            )
        return replace(run, incarnation=act, acts=(*run.acts, Act(act, bound)))

    def find(self, of: Transaction, batch: Batch) -> LedgerEpoch | None:
        """The epoch, if it is published.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_TAKEN, with other input; CLEANCUT_SINK_REFUSED, later
                epochs are published, and it is not.
        """
        run = self._run(of, batch.query_id)
        return None if run is None else self._found(of, batch, run)

    def handle_of(self, batch: Batch) -> str | None:
        """What `find` gives, in a transaction of its own: the handle, if the epoch is published.

        Raises:
            RequestError: as `find`.
        """
        found: LedgerEpoch | None = self.within(lambda of: self.find(of, batch))
        return None if found is None else found.handle

    def lock(self, of: Transaction, batch: Batch) -> LedgerEpoch | None:
        """What `find` gives, in a transaction that no other run of the query comes between.

        Raises:
            FencedError: CLEANCUT_FENCED, another run has begun.
            RequestError: as `find`.
        """
        run = self._run(of, batch.query_id)
        if run is None or run.run_id != batch.run_id:
            raise self._fenced(batch, run)
        return self._found(of, batch, run)

    def _found(self, of: Transaction, batch: Batch, run: _Run) -> LedgerEpoch | None:
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

    def publish(self, of: Transaction, batch: Batch, handle: str, rows: int) -> None:
        """Notes an epoch as published, in the transaction that `lock` has begun."""
        run = self._run(of, batch.query_id)
        assert run is not None, "it was locked"
        of.run(
            f"INSERT INTO {_EPOCHS} VALUES (:sink, :query, :incarnation, :epoch, :planned, :run,"
            " :handle, :rows, :now, 0)",
            sink=self.sink,
            query=batch.query_id,
            incarnation=run.incarnation,
            epoch=batch.epoch,
            planned=batch.planned_ms,
            run=batch.run_id,
            handle=handle,
            rows=rows,
            now=time.time_ns() // 1_000_000,
        )
        self._update(of, batch, replace(run, last=batch.epoch))
        of.run(
            f"DELETE FROM {_EPOCHS} WHERE sink = :sink AND query_id = :query AND epoch <= :old",
            sink=self.sink,
            query=batch.query_id,
            old=batch.epoch - _KEPT_EPOCHS,
        )

    def published(self, of: Transaction, query_id: str) -> list[LedgerEpoch]:
        """The epochs of a query that count and are remembered, ascending."""
        return [epoch for epoch, undone in self._epochs(of, query_id) if not undone]

    def queries_since(self, of: Transaction, published_ms: int) -> list[str]:
        """Which queries have written to the target at that time or later."""
        found = of.run(
            f"SELECT DISTINCT query_id FROM {_EPOCHS} WHERE sink = :sink AND published_ms >= :at",
            sink=self.sink,
            at=published_ms,
        )
        return sorted(query for (query,) in found)

    def forget(self, query_id: str, after: int) -> int:
        """Takes epochs for undone whose rows somebody has taken back by hand; how many."""

        def work(of: Transaction) -> int:
            found = [epoch for epoch in self.published(of, query_id) if epoch.epoch > after]
            of.run(
                f"DELETE FROM {_EPOCHS} WHERE sink = :sink AND query_id = :query"
                " AND epoch > :after",
                sink=self.sink,
                query=query_id,
                after=after,
            )
            of.run(
                f"UPDATE {_RUNS} SET last_epoch = :after WHERE sink = :sink"
                " AND query_id = :query AND last_epoch > :after",
                sink=self.sink,
                query=query_id,
                after=after,
            )
            return len(found)

        return int(self.within(work))

    def _run(self, of: Transaction, query_id: str) -> _Run | None:
        found = of.run(
            "SELECT run_id, former_runs, generation, owner_generation, incarnation, last_epoch,"
            f" acts FROM {_RUNS} WHERE sink = :sink AND query_id = :query {self.database.lock}",
            sink=self.sink,
            query=query_id,
        )
        if not found:
            return None
        run_id, former, generation, owner, incarnation, last, acts = found[0]
        return _Run(
            run_id=run_id,
            former=tuple(json.loads(former)),
            generation=generation,
            owner=owner,
            incarnation=incarnation,
            last=last,
            acts=tuple(Act(*act) for act in json.loads(acts)),
        )

    def _insert(self, of: Transaction, batch: Batch, run: _Run) -> None:
        of.run(
            f"INSERT INTO {_RUNS} VALUES (:sink, :query, :checkpoint, :run, :former, :generation,"
            " :owner, :incarnation, :last, :acts)",
            **self._values(batch, run),
        )

    def _update(self, of: Transaction, batch: Batch, run: _Run) -> None:
        of.run(
            f"UPDATE {_RUNS} SET checkpoint = :checkpoint, run_id = :run, former_runs = :former,"
            " generation = :generation, owner_generation = :owner, incarnation = :incarnation,"
            " last_epoch = :last, acts = :acts WHERE sink = :sink AND query_id = :query",
            **self._values(batch, run),
        )

    def _values(self, batch: Batch, run: _Run) -> dict[str, int | str]:
        return {
            "sink": self.sink,
            "query": batch.query_id,
            "checkpoint": batch.checkpoint,
            "run": run.run_id,
            "former": json.dumps(run.former),
            "generation": run.generation,
            "owner": run.owner,
            "incarnation": run.incarnation,
            "last": run.last,
            "acts": json.dumps([(act.epoch, act.source) for act in run.acts]),
        }

    def _epochs(
        self, of: Transaction, query_id: str, epoch: int | None = None
    ) -> list[tuple[LedgerEpoch, bool]]:
        """All, or those of one number, ascending; and of each whether it was undone."""
        found = of.run(
            "SELECT incarnation, epoch, planned_ms, run_id, handle, row_count, published_ms,"
            f" undone_by FROM {_EPOCHS} WHERE sink = :sink AND query_id = :query"
            " AND epoch BETWEEN :first AND :last ORDER BY epoch, incarnation",
            sink=self.sink,
            query=query_id,
            first=0 if epoch is None else epoch,
            last=2**62 if epoch is None else epoch,
        )
        return [(LedgerEpoch(*row[:7]), row[7] != 0) for row in found]

    def _fenced(self, batch: Batch, found: _Run | None) -> Exception:
        owner = "nobody" if found is None else f"run {found.run_id}, by the ledger of {self.sink}"
        return error_of(
            "CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch
        )


class UndoRefusedError(Exception):
    """Why a target cannot take epochs back; the transaction is rolled back."""


def _said(of: Transaction, sql: str) -> None:
    of.run(sql)


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
