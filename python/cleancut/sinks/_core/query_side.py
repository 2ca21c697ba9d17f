"""The interface between a sink and the query of its epoch: a running query, or a test's."""

import json
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from cleancut._query import sealing
from cleancut._session.driver import driver_of
from cleancut.errors import CleancutError, translating
from cleancut.sinks._core.batch import Batch, batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Operation:
    """An operation on the checkpoint of a query.

    Attributes:
        epoch: the epoch number that it has used.
        source: the epoch whose result it has: the previous one, or the target of a rollback.
    """

    epoch: int
    source: int


class OperationSource(Protocol):
    """Returns the operations on the checkpoint of a query."""

    def operations(self, after: int) -> Sequence[Operation]:
        """The operations after an epoch and before this one, incomplete ones too; ascending."""


class QuerySide(OperationSource, Protocol):
    """One epoch of one run of a query.

    `sealed_output` may come first; then either `finish`, or `compute` or `hold`, and `close`.
    """

    @property
    def batch(self) -> Batch:
        """The identity of the epoch and of its run."""

    def generation(self) -> int | None:
        """The generation of the run; None if the checkpoint has no generations."""

    def sealed_output(self) -> str | None:
        """The text that an earlier run passed to `close`."""

    def finish(self) -> bool:
        """Completes the epoch from an earlier run's seal; False if there is no seal."""

    def compute(self) -> "DataFrame":
        """Runs the tasks and caches the rows; the caller unpersists them."""

    def hold(self) -> "DataFrame":
        """The rows without a cache; exactly one job must read all of them, and runs the tasks."""

    def close(self, output: str) -> None:
        """Makes the state of the epoch durable; its output may become visible then."""

    def seal(self) -> "DataFrame":
        """`compute` and `close` together, for sinks without staged output."""

    def published(self, sinks: Sequence[str]) -> None:
        """Records in the checkpoint that sinks have published, by the keys of their ledgers."""


class RunningSide:
    """Implements `QuerySide` for a batch that Spark passes to a `foreachBatch` function."""

    def __init__(self, df: "DataFrame", epoch: int) -> None:
        self._df = df
        self._epoch = epoch

    @cached_property
    def batch(self) -> Batch:
        return batch_of(self._df, self._epoch)

    def generation(self) -> int | None:
        driver = driver_of(self._df.sparkSession)
        try:
            with translating():
                status = driver.side("coordinator").status
                described = json.loads(status(self.batch.checkpoint, driver.session))
        except CleancutError as error:
            if error.error_id != "CLEANCUT_COORDINATOR_MISSING":
                raise
            return None
        # Before the first task of a run, the coordinator may have the status of another run.
        return described["generation"] if described.get("runId") == self.batch.run_id else None

    def operations(self, after: int) -> Sequence[Operation]:
        return [
            Operation(**operation) for operation in sealing.operations(self._df, after, self._epoch)
        ]

    def sealed_output(self) -> str | None:
        return sealing.sealed_output(self._df, self._epoch)

    def finish(self) -> bool:
        return sealing.finish(self._df, self._epoch)

    def compute(self) -> "DataFrame":
        return sealing.compute(self._df, self._epoch)

    def hold(self) -> "DataFrame":
        sealing.hold(self._df, self._epoch)
        return self._df

    def close(self, output: str) -> None:
        sealing.close(self._df, self._epoch, output)

    def seal(self) -> "DataFrame":
        return sealing.seal(self._df, self._epoch)

    def published(self, sinks: Sequence[str]) -> None:
        sealing.published(self._df, self._epoch, sinks)


# Replaces the query in tests, per thread.
acted: ContextVar[QuerySide | None] = ContextVar("cleancut.sinks.acted", default=None)


def query_side(df: "DataFrame", epoch: int) -> QuerySide:
    """The query of a batch.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query;
            CLEANCUT_CONNECT_UNSUPPORTED.
    """
    by_test = acted.get()
    return RunningSide(df, epoch) if by_test is None else by_test


def kept_until(operations: Sequence[Operation]) -> int | None:
    """The last epoch that still counts after some operations; None if all count.

    No epoch may have been published between these operations.
    """
    bound: int | None = None
    for operation in reversed(operations):
        # Epochs after the source of a later operation were discarded by it, complete or not.
        if bound is None or operation.epoch <= bound:
            bound = operation.source
    return bound


def counts(epoch: int, until: int, operations: Sequence[Operation]) -> bool:
    """Whether an epoch counts for a query at a later epoch.

    Args:
        epoch: the published epoch.
        until: the later epoch.
        operations: all operations up to then, ascending.
    """
    for operation in reversed(operations):
        if operation.epoch <= until:
            if epoch > operation.epoch:
                return True
            if epoch > operation.source:
                return False
            until = operation.source
    return True
