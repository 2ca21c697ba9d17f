"""The base class of sinks: writes an epoch exactly once, in idempotent steps."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cleancut._error_messages import safe_for_spark
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.open_epoch import OpenEpoch, open_epoch
from cleancut.sinks._core.query_side import QuerySide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Shared by all sinks, because a sink is pickled for Spark Connect.
_ENTERING = threading.Lock()


class EpochSink(ABC):
    """A sink that writes each epoch of a query exactly once; a function for `foreachBatch`.

    For each epoch Cleancut calls these methods, in this order:

    1. `begin`, before the first epoch of a run: fences older runs, and undoes epochs that a
       rollback of the query has left.
    2. `published`: returns the handle of the epoch if it is published.
    3. `stage`: writes the rows invisibly and returns a *handle*, with which this run or a later one
       publishes them. Then the epoch is sealed; a seal that is an object contains the handle.
    4. `publish`: makes the epoch visible atomically and once, even if it is called repeatedly or by
       several runs concurrently.
    5. `clean_up`: deletes staged output that will never be published.

    If the epoch is published, `stage` and `publish` are not called. If an earlier run has sealed it
    with a handle that `can_publish` accepts, `stage` is not called.

    A sink object can be used by several queries in turn, and not by two concurrently. Handles and
    `name` must not contain secrets.

    Attributes:
        reads_rows_once: whether `stage` always reads all rows in one job, and only once. That job
            then runs the tasks of the query, and the rows are not persisted. With several sinks for
            one batch they are persisted in any case.
    """

    reads_rows_once = False
    # The current run, and the queries of all runs so far.
    _run_id: str | None = None
    _runs: Mapping[str, str] = MappingProxyType({})
    # The query whose epoch is open.
    _serves: str | None = None
    _gaps: tuple[tuple[int, int], ...] = ()
    _moves: tuple[str, ...] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifies the sink among those of one batch; the same in each run."""

    @property
    def ledger_key(self) -> str:
        """Identifies the target in the checkpoint, which records the published epochs.

        It must not depend on how the target is addressed, nor on the class of the sink.
        """
        return self.name

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts that the target has lost epochs of the query; their rows remain missing.

        Call it before the query starts, after CLEANCUT_SINK_EPOCHS_LOST. Other losses are still
        refused, so the call may remain in the program.

        Args:
            first: the first lost epoch.
            last: the last lost epoch.
        """
        self._gaps = (*self._gaps, (first, last))

    def accept_move(self, checkpoint: str) -> None:
        """Accepts that the query continues a checkpoint that was moved by copying its files.

        Call it before the query starts, after CLEANCUT_SINK_CHECKPOINT_UNKNOWN. Runs at the former
        location are fenced from then on. `clone`, `migrate` and `replicate` do not need it.

        Args:
            checkpoint: the former location.
        """
        self._moves = (*self._moves, checkpoint)

    def _expected(self, batch: Batch) -> Expected:
        """The epochs that the target must have before a batch."""
        return Expected(batch.published_to(self.ledger_key), self._gaps, self._moves)

    def begin(self, side: QuerySide, session: Any) -> None:  # noqa: B027  # few have to
        """Prepares the target for a run, before its first epoch.

        Args:
            side: the epoch, the generation of the run, and the rollbacks of the query.
            session: the Spark session of the batch.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has started.
            RequestError: the target belongs to another query, or cannot follow a rollback.
        """

    @abstractmethod
    def published(self, batch: Batch) -> str | None:
        """The handle of the published epoch; None if the epoch is not published.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, the epoch is published with other input.
        """

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the staged output of an earlier run still exists, or is published.

        Args:
            handle: the handle of an earlier run, from the seal.
            batch: the epoch.
            published: the result of `published`.
        """
        return False

    @abstractmethod
    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the rows of an epoch invisibly; returns their handle.

        The rows are computed and persisted, unless `reads_rows_once`.
        """

    @abstractmethod
    def publish(self, handle: str, batch: Batch) -> None:
        """Makes the staged output visible, unless the epoch is published already.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has started to write; nothing was changed.
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT.
        """

    def leaves_record(self, handle: str) -> bool:
        """Whether the target records that the epoch of this handle was published."""
        return True

    def clean_up(self, batch: Batch) -> None:  # noqa: B027  # some targets keep nothing
        """Deletes leftovers of this epoch and earlier ones; must not raise."""

    def epoch(self, df: "DataFrame", epoch: int) -> AbstractContextManager[OpenEpoch]:
        """One epoch as a context manager, for `foreachBatch` functions that do more than write it.

        `fresh` is whether the epoch must be written. The block stages rows with `write`; its end
        seals and publishes them once. A block without a `write` publishes an epoch without rows. An
        exception leaves the epoch unpublished and ends the query; the next run writes the epoch.

            def write(df, epoch):
                with sink.epoch(df, epoch) as e:
                    if e.fresh:
                        e.write(e.rows.where("amount > 0"))

        Other effects of the block must be idempotent.

        Args:
            df: the batch that Spark passes to the `foreachBatch` function.
            epoch: the epoch that Spark passes to it.

        Raises:
            CleancutError: as the call of the sink; when the block is entered, or left.
        """
        return open_epoch((self,), df, epoch)

    def _enter(self, batch: Batch) -> None:
        """Refuses the epoch of a query while another one uses this object.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED.
        """
        query = batch.query_id
        with _ENTERING:
            current = self._serves
            if self._run_id is not None and batch.run_id != self._run_id:
                # The run of the previous query ended; one of another query has begun.
                last = self._runs[self._run_id]
                current = last if last != query and batch.run_id in self._runs else current
            if current not in (None, query):
                raise error_of(
                    "CLEANCUT_SINK_REFUSED",
                    sink=self.name,
                    reason=f"the same object writes for the query {current}, and the query {query}"
                    " uses it at the same time; create a sink object for each query",
                )
            self._serves = query

    def _leave(self) -> None:
        self._serves = None

    def _begin_once(self, side: QuerySide, session: Any) -> None:
        batch = side.batch
        if self._run_id != batch.run_id:
            self.begin(side, session)
            self._run_id = batch.run_id
            self._runs = {**self._runs, batch.run_id: batch.query_id}

    def __call__(self, df: "DataFrame", epoch: int) -> None:
        """Writes an epoch once.

        If an earlier run has sealed the epoch with its rows, it is completed from that seal: those
        rows are published, and the state is that of the seal.

        Args:
            df: the batch that Spark passes to the `foreachBatch` function.
            epoch: the epoch that Spark passes to it.

        Raises:
            FencedError: CLEANCUT_FENCED, another run owns the query; nothing was published.
            RetryableError: CLEANCUT_EPOCH_INCOMPLETE; nothing was published.
            RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query; or the
                target refuses the rows.
            CorruptedError: the sealed or published record of the epoch cannot be read.
        """
        with safe_for_spark(), self.epoch(df, epoch) as opened:
            opened.write()


class FanOut:
    """Several sinks that write the same epochs; a function for `foreachBatch`."""

    def __init__(self, sinks: Sequence[EpochSink]) -> None:
        self._sinks = tuple(sinks)

    def __repr__(self) -> str:
        return f"fan_out({', '.join(map(repr, self._sinks))})"

    def epoch(self, df: "DataFrame", epoch: int) -> AbstractContextManager[OpenEpoch]:
        """One epoch as a context manager that writes to each sink; see `EpochSink`."""
        return open_epoch(self._sinks, df, epoch)

    def __call__(self, df: "DataFrame", epoch: int) -> None:
        """Writes an epoch to each sink exactly once.

        If the driver fails in between, some sinks have the epoch; the next run writes it to the
        others.

        Args:
            df: the batch that Spark passes to the `foreachBatch` function.
            epoch: the epoch that Spark passes to it.

        Raises:
            CleancutError: as for `EpochSink`.
        """
        with safe_for_spark(), self.epoch(df, epoch) as opened:
            opened.write()


def fan_out(*sinks: EpochSink) -> FanOut:
    """Combines several sinks into one function for `foreachBatch`.

    The query's tasks run once for all sinks, and the epoch is sealed once, after all have staged
    it. An epoch becomes visible in one target after the other.

    Args:
        sinks: sinks with different names.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED, there is no sink, two are equal, or an argument is not
            a sink.
    """
    given: Sequence[object] = sinks
    others = [sink for sink in given if not isinstance(sink, EpochSink)]
    if others:
        raise error_of(
            "CLEANCUT_SINK_REFUSED",
            sink="fan_out",
            reason=f"{others[0]!r} is no sink; wrap a function by exactly_once, or write within the"
            " block of a sink (sink.epoch)",
        )
    names = [sink.name for sink in sinks]
    if not names or len(set(names)) < len(names):
        raise error_of(
            "CLEANCUT_SINK_REFUSED",
            sink=f"fan_out of {', '.join(names) or 'nothing'}",
            reason="it needs at least one sink, and each once",
        )
    return FanOut(sinks)
