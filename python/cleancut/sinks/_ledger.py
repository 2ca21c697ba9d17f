"""What a database remembers of the epochs that it has taken, in two tables of its own."""

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cleancut.sinks._batch import Batch
from cleancut.sinks._database import Database, Transaction, within
from cleancut.sinks._manifest import check_same_input
from cleancut.sinks._query_side import Act, QuerySide, query_side
from cleancut.sinks._runs import (
    KEPT_EPOCHS,
    LedgerEpoch,
    Run,
    UndoRefusedError,
    fenced,
    not_published,
    taken_over,
    way_back,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNS = "cleancut_runs"
_EPOCHS = "cleancut_epochs"

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
        run = taken_over(found, batch, owner, self.sink)
        if run is None:
            return
        if found is None:
            self._insert(of, batch, run)
            return
        self._update(of, batch, self._gone_back(of, batch, run, side.acts(run.last), undo))

    def _gone_back(
        self, of: Transaction, batch: Batch, run: Run, acts: Sequence[Act], undo: Undo | None
    ) -> Run:
        known = self._epochs(of, batch.query_id) if acts else []
        back = way_back(run, acts, known, batch, self.sink)
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
            of.run(
                f"UPDATE {_EPOCHS} SET undone_by = :act WHERE sink = :sink AND query_id = :query"
                " AND epoch > :bound AND undone_by = 0",
                act=back.run.incarnation,
                sink=self.sink,
                query=batch.query_id,
                bound=back.bound,
            )
        return back.run

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
            raise fenced(batch, run, self.sink)
        return self._found(of, batch, run)

    def _found(self, of: Transaction, batch: Batch, run: Run) -> LedgerEpoch | None:
        for found, undone in self._epochs(of, batch.query_id, batch.epoch):
            if undone:
                continue
            check_same_input(found, batch, self.sink)
            return found
        if batch.epoch <= run.last:
            raise not_published(self.sink, run, batch)
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
            old=batch.epoch - KEPT_EPOCHS,
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

    def _run(self, of: Transaction, query_id: str) -> Run | None:
        found = of.run(
            "SELECT run_id, former_runs, generation, owner_generation, incarnation, last_epoch,"
            f" acts FROM {_RUNS} WHERE sink = :sink AND query_id = :query {self.database.lock}",
            sink=self.sink,
            query=query_id,
        )
        if not found:
            return None
        run_id, former, generation, owner, incarnation, last, acts = found[0]
        return Run(
            run_id=run_id,
            former=tuple(json.loads(former)),
            generation=generation,
            owner=owner,
            incarnation=incarnation,
            last=last,
            acts=tuple(Act(*act) for act in json.loads(acts)),
        )

    def _insert(self, of: Transaction, batch: Batch, run: Run) -> None:
        of.run(
            f"INSERT INTO {_RUNS} VALUES (:sink, :query, :checkpoint, :run, :former, :generation,"
            " :owner, :incarnation, :last, :acts)",
            **self._values(batch, run),
        )

    def _update(self, of: Transaction, batch: Batch, run: Run) -> None:
        of.run(
            f"UPDATE {_RUNS} SET checkpoint = :checkpoint, run_id = :run, former_runs = :former,"
            " generation = :generation, owner_generation = :owner, incarnation = :incarnation,"
            " last_epoch = :last, acts = :acts WHERE sink = :sink AND query_id = :query",
            **self._values(batch, run),
        )

    def _values(self, batch: Batch, run: Run) -> dict[str, int | str]:
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


def _said(of: Transaction, sql: str) -> None:
    of.run(sql)
