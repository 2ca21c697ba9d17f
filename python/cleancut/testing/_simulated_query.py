"""A simulated query for tests: its runs, the input of its epochs, its seals, and operations."""

import itertools
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import EpochRanges
from cleancut.sinks._core.lineage import Origin
from cleancut.sinks._core.query_side import Operation, acted, counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIRST_MS = 1_700_000_000_000


@dataclass
class SimulatedQuery:
    """The checkpoint of a query, which outlives its runs.

    Attributes:
        query_id: a query id in Spark's form.
        keeps_seals: whether each seal is an object, as with in-flight rows.
        runs: number of runs that have begun; the last one owns the query.
        operations: the operations on the checkpoint.
        planned_ms: time at which each epoch was planned.
        seals: the text of each epoch's seal.
        moves: number of moves to another checkpoint.
        lineage: the checkpoints that its checkpoint continues, oldest first.
        published: the epochs that were committed after sinks had published them, by ledger key.
    """

    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    keeps_seals: bool = False
    runs: int = 0
    operations: list[Operation] = field(default_factory=list)
    planned_ms: dict[int, int] = field(default_factory=dict)
    seals: dict[int, str] = field(default_factory=dict)
    moves: int = 0
    lineage: tuple[Origin, ...] = ()
    published: dict[str, set[int]] = field(default_factory=dict)
    _clock: "itertools.count[int]" = field(default_factory=lambda: itertools.count(_FIRST_MS))

    def recorded_before(self, epoch: int) -> dict[str, EpochRanges]:
        """The record of sinks in the checkpoint before an epoch."""

        def is_kept(number: int) -> bool:
            return number < epoch and counts(number, epoch - 1, self.operations)

        return {
            sink: EpochRanges.of(filter(is_kept, epochs)) for sink, epochs in self.published.items()
        }

    def commit(self, epoch: int, sinks: Iterable[str]) -> None:
        """Commits an epoch that sinks have published."""
        for sink in sinks:
            self.published.setdefault(sink, set()).add(epoch)

    @property
    def checkpoint(self) -> str:
        """Its location, which each move changes."""
        return f"simulated:/{self.query_id}" + "/moved" * self.moves

    def move(self, *, is_recorded: bool = True) -> "SimulatedQuery":
        """The query at another checkpoint, which continues this one; this one can still run.

        Args:
            is_recorded: whether the new checkpoint records the one that it continues.
        """
        last = max(
            [*self.planned_ms, *(operation.epoch for operation in self.operations)], default=-1
        )
        origin = (Origin(self.checkpoint, self.runs, last),) if is_recorded else ()
        return replace(
            self,
            runs=0,
            moves=self.moves + 1,
            lineage=(*self.lineage, *origin),
            operations=list(self.operations),
            planned_ms=dict(self.planned_ms),
            seals={},
            published={sink: set(epochs) for sink, epochs in self.published.items()},
        )

    def start(self) -> "SimulatedRun":
        """Starts another run, which owns the query from now on."""
        self.runs += 1
        return SimulatedRun(self, self.runs, str(uuid.uuid4()))

    def plan(self, epoch: int, *, again: bool = False) -> int:
        """The time at which an epoch was planned; plans it again only on request."""
        if again or epoch not in self.planned_ms:
            self.planned_ms[epoch] = next(self._clock)
        return self.planned_ms[epoch]


@dataclass(frozen=True)
class SimulatedRun:
    """One run of a query.

    Attributes:
        query: the query.
        generation: number of runs so far, this one included.
        run_id: a run id in Spark's form.
    """

    query: SimulatedQuery
    generation: int
    run_id: str

    def give(
        self,
        sink: "Callable[[DataFrame, int], Any]",
        rows: "DataFrame",
        epoch: int,
        sealed: Callable[[], None] = lambda: None,
    ) -> None:
        """Passes an epoch to a sink, as `foreachBatch` does.

        Args:
            sink: the function for `foreachBatch`.
            rows: rows of the epoch.
            epoch: number of the epoch.
            sealed: function that is called after the seal.
        """
        batch = Batch(
            epoch=epoch,
            query_id=self.query.query_id,
            run_id=self.run_id,
            checkpoint=self.query.checkpoint,
            planned_ms=self.query.plan(epoch),
            recorded=self.query.recorded_before(epoch),
            lineage=self.query.lineage,
        )
        side = _SimulatedSide(self, batch, rows, sealed)
        # Not in the package of sinks, at whose lines a test may stop.
        token = acted.set(side)
        try:
            sink(rows, epoch)
        finally:
            acted.reset(token)
        if self.generation == self.query.runs:
            self.query.commit(epoch, side.publishers)


class _SimulatedSide:
    """Implements `QuerySide`."""

    def __init__(
        self, run: SimulatedRun, batch: Batch, rows: "DataFrame", sealed: Callable[[], None]
    ) -> None:
        self._run = run
        self._batch = batch
        self._rows = rows
        self._sealed = sealed
        self.publishers: set[str] = set()

    @property
    def batch(self) -> Batch:
        return self._batch

    def generation(self) -> int | None:
        return self._run.generation

    def operations(self, after: int) -> Sequence[Operation]:
        return [
            operation
            for operation in self._run.query.operations
            if after < operation.epoch < self._batch.epoch
        ]

    def sealed_output(self) -> str | None:
        return self._run.query.seals.get(self._batch.epoch)

    def finish(self) -> bool:
        self._check_owner()
        return self._batch.epoch in self._run.query.seals

    def compute(self) -> "DataFrame":
        kept = self._rows.persist()
        kept.count()
        return kept

    def hold(self) -> "DataFrame":
        return self._rows

    def close(self, output: str) -> None:
        self._check_owner()
        if self._run.query.keeps_seals:
            self._run.query.seals.setdefault(self._batch.epoch, output)
        self._sealed()

    def seal(self) -> "DataFrame":
        rows = self.compute()
        self.close("")
        return rows

    def published(self, sinks: Sequence[str]) -> None:
        self.publishers.update(sinks)

    def _check_owner(self) -> None:
        query = self._run.query
        if self._run.generation < query.runs:
            raise error_of(
                "CLEANCUT_FENCED",
                location=self._batch.checkpoint,
                owner=f"run {query.runs}",
                epoch=self._batch.epoch,
            )
