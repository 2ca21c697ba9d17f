"""What a sink asks of the query whose epoch it writes: a running one, or one that a test acts."""

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
class Act:
    """An act on the checkpoint of a query, from which the query went on.

    Attributes:
        epoch: the number that it has taken.
        source: the epoch whose result it has: that before it, or the one that was gone back to.
    """

    epoch: int
    source: int


class Acted(Protocol):
    """What tells how a query has gone back."""

    def acts(self, after: int) -> Sequence[Act]:
        """Those after an epoch and before this one, also such as were not done; ascending."""


class QuerySide(Acted, Protocol):
    """One epoch of one run, as the query has it.

    `sealed_output` may come first; then either `finish`, or `compute` or `hold`, and `close`.
    """

    @property
    def batch(self) -> Batch:
        """Which epoch of which run it is."""

    def generation(self) -> int | None:
        """How many runs have owned the query; None where nothing counts them."""

    def sealed_output(self) -> str | None:
        """What an earlier run gave to `close`."""

    def finish(self) -> bool:
        """Takes over what an earlier run has sealed; False if there is no seal."""

    def compute(self) -> "DataFrame":
        """Runs the tasks and keeps the rows, which the caller unpersists."""

    def hold(self) -> "DataFrame":
        """The rows as they are; one job has to read all of them, once, which runs the tasks."""

    def close(self, output: str) -> None:
        """Makes the epoch durable; it may be shown then."""

    def seal(self) -> "DataFrame":
        """`compute` and `close` in one, for who stages nothing in between."""

    def published(self, sinks: Sequence[str]) -> None:
        """Has the checkpoint record that sinks, by the keys of their ledgers, have published."""


class RunningSide:
    """Implements `QuerySide` for the batch that Spark hands to a function of `foreachBatch`."""

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
                found = json.loads(status(self.batch.checkpoint, driver.session))
        except CleancutError as error:
            if error.error_id != "CLEANCUT_COORDINATOR_MISSING":
                raise
            return None
        # Before the first task of a run it may be that of another one.
        return found["generation"] if found.get("runId") == self.batch.run_id else None

    def acts(self, after: int) -> Sequence[Act]:
        return [Act(**act) for act in sealing.acts(self._df, after, self._epoch)]

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


# What a test has in the place of a query, in its own thread.
acted: ContextVar[QuerySide | None] = ContextVar("cleancut.sinks.acted", default=None)


def query_side(df: "DataFrame", epoch: int) -> QuerySide:
    """The query of a batch.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, there is none; CLEANCUT_CONNECT_UNSUPPORTED.
    """
    by_test = acted.get()
    return RunningSide(df, epoch) if by_test is None else by_test


def kept_until(acts: Sequence[Act]) -> int | None:
    """The last epoch before some acts that still counts for the query after them; None if all do.

    Nothing may have been published between these acts.
    """
    bound: int | None = None
    for act in reversed(acts):
        # What comes after the source of a later one was left by it, done or not.
        if bound is None or act.epoch <= bound:
            bound = act.source
    return bound


def counts(epoch: int, until: int, acts: Sequence[Act]) -> bool:
    """Whether an epoch counts for a query that stands after another one.

    Args:
        epoch: that was published at some time.
        until: the other one, which does not come before it.
        acts: all that were done up to then, ascending.
    """
    for act in reversed(acts):
        if act.epoch <= until:
            if epoch > act.epoch:
                return True
            if epoch > act.source:
                return False
            until = act.source
    return True
