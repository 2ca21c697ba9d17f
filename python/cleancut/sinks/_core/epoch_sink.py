"""What every sink is: a target that takes an epoch once, in steps that can be repeated."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.open_epoch import OpenEpoch, open_epoch
from cleancut.sinks._core.query_side import QuerySide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Of all sinks, because a sink is pickled for Spark Connect.
_ENTERING = threading.Lock()


class EpochSink(ABC):
    """A target that takes each epoch of a query once; a function for `foreachBatch`.

    For each epoch these are called, in this order:

    1. `begin`, before the first epoch of a run, with `session` set: fences older runs, and undoes
       what the query has gone back behind.
    2. `published`: what is published of the epoch.
    3. `stage`: writes the rows where nobody sees them; gives a *handle*, by which this or a later
       run publishes them. Then the epoch is sealed, and the seal keeps the handle where it is an
       object.
    4. `publish`: makes the epoch visible, as a whole and once, whatever is called however often,
       also by several runs at once.
    5. `clean_up`: takes away what tries have left that will never be published.

    Where `published` finds the epoch, `stage` and `publish` are left out. Where an earlier run has
    sealed the epoch with a handle that `can_publish`, `stage` is.

    A sink object serves one query after another, and never two at once. Nothing that a handle or
    `name` says may be a secret.

    Attributes:
        reads_rows_once: whether `stage` always reads its rows in one job, whole, and only once.
            Then that job runs the tasks of the query, and the rows need not be kept. With several
            sinks in one batch they are kept in any case.
    """

    reads_rows_once = False
    # The run that has begun, and the queries of all that ever have.
    _run_id: str | None = None
    _runs: Mapping[str, str] = MappingProxyType({})
    # The query whose epoch is open.
    _serves: str | None = None
    _gaps: tuple[tuple[int, int], ...] = ()
    _moves: tuple[str, ...] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Tells the sink from others that take the same batch; the same in each run."""

    @property
    def ledger_key(self) -> str:
        """Names the target in the checkpoint of a query, which records what it has published.

        The same however the target is named, and whichever sink writes to it.
        """
        return self.name

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts that the target has lost epochs of the query, whose rows stay missing.

        Call it before the query starts, as CLEANCUT_SINK_EPOCHS_LOST says. Another loss is refused
        as before, so that the call may stay in the program.

        Args:
            first: the first epoch that is lost.
            last: the last one.
        """
        self._gaps = (*self._gaps, (first, last))

    def accept_move(self, checkpoint: str) -> None:
        """Accepts that the query continues a checkpoint whose files you have moved yourself.

        Call it before the query starts, as CLEANCUT_SINK_CHECKPOINT_UNKNOWN says. Runs at the
        former location are fenced from then on. After `clone`, `migrate` and `replicate` it is not
        needed.

        Args:
            checkpoint: the location from which it was moved.
        """
        self._moves = (*self._moves, checkpoint)

    def _expected(self, batch: Batch) -> Expected:
        """The epochs that the target should have before a batch."""
        return Expected(batch.published_to(self.ledger_key), self._gaps, self._moves)

    def begin(self, side: QuerySide, session: Any) -> None:  # noqa: B027  # few have to
        """Takes the target over for a run, before its first epoch.

        Args:
            side: the epoch, the generation of the run, and how the query has gone back.
            session: of Spark, in which the batch was made.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
            RequestError: the target is another query's, or cannot go back with the query.
        """

    @abstractmethod
    def published(self, batch: Batch) -> str | None:
        """The handle by which the epoch is published; None if it is not.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, it is published with other input.
        """

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether what an earlier run has staged is there still, or is what is published.

        Args:
            handle: that of an earlier run, from the seal.
            batch: the epoch.
            published: what `published` gave.
        """
        return False

    @abstractmethod
    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the rows of an epoch; gives their handle.

        The rows are computed and kept, unless `reads_rows_once`.
        """

    @abstractmethod
    def publish(self, handle: str, batch: Batch) -> None:
        """Makes visible what is staged, unless the epoch is published by then.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun to write; nothing was changed.
            RequestError: CLEANCUT_SINK_EPOCH_CONFLICT.
        """

    def leaves_record(self, handle: str) -> bool:
        """Whether the target knows later that the epoch with this handle was published."""
        return True

    def clean_up(self, batch: Batch) -> None:  # noqa: B027  # some targets keep nothing
        """Takes away what was left of this epoch and of those before it; never fails a query."""

    def epoch(self, df: "DataFrame", epoch: int) -> AbstractContextManager[OpenEpoch]:
        """One epoch as a block, for a function of `foreachBatch` that does more than to write it.

        Entering the block tells whether the epoch is `fresh`, the block stages rows by `write`, and
        leaving it seals and publishes them, once. A block that has written nothing publishes an
        epoch without rows. What it raises leaves the epoch unpublished and goes on to Spark, which
        ends the query; the next run writes the epoch.

            def write(df, epoch):
                with sink.epoch(df, epoch) as e:
                    if e.fresh:
                        e.write(e.rows.where("amount > 0"))

        What the block does elsewhere has to bear being repeated.

        Args:
            df: as Spark hands it to a function of `foreachBatch`.
            epoch: likewise.

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
                # A run that comes back after one of another query has begun.
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

        What an earlier run has sealed with its rows is finished as it is: these rows are published,
        and the state is that of the seal.

        Args:
            df: as Spark hands it to a function of `foreachBatch`.
            epoch: likewise.

        Raises:
            FencedError: CLEANCUT_FENCED, another run owns the query; nothing was published.
            RetryableError: CLEANCUT_EPOCH_INCOMPLETE; likewise.
            RequestError: CLEANCUT_SEAL_BATCH_INVALID, this is not the batch of a query that runs;
                what the target refuses.
            CorruptedError: what is sealed or published of the epoch cannot be read.
        """
        with self.epoch(df, epoch) as opened:
            opened.write()


class FanOut:
    """Several sinks that take the same epochs; a function for `foreachBatch`."""

    def __init__(self, sinks: Sequence[EpochSink]) -> None:
        self._sinks = tuple(sinks)

    def __repr__(self) -> str:
        return f"fan_out({', '.join(map(repr, self._sinks))})"

    def epoch(self, df: "DataFrame", epoch: int) -> AbstractContextManager[OpenEpoch]:
        """One epoch as a block, which writes the same rows to each of them; as that of a sink."""
        return open_epoch(self._sinks, df, epoch)

    def __call__(self, df: "DataFrame", epoch: int) -> None:
        """Writes an epoch to each of them, once.

        A driver that dies in between leaves it in some of them; the next one brings it to the rest.

        Args:
            df: as Spark hands it to a function of `foreachBatch`.
            epoch: likewise.

        Raises:
            CleancutError: as `EpochSink`.
        """
        with self.epoch(df, epoch) as opened:
            opened.write()


def fan_out(*sinks: EpochSink) -> FanOut:
    """Makes one function for `foreachBatch` of several sinks, each of which takes an epoch once.

    The query's tasks run once for all of them, and the epoch is sealed once, after all have staged
    it. Readers of two targets may see one epoch in the first and not yet in the second.

    Args:
        sinks: with names of their own.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED, two of them are the same, there is none, or one is no
            sink.
    """
    given: Sequence[object] = sinks
    others = [sink for sink in given if not isinstance(sink, EpochSink)]
    if others:
        raise error_of(
            "CLEANCUT_SINK_REFUSED",
            sink="fan_out",
            reason=f"{others[0]!r} is no sink; a function becomes one under exactly_once, or writes"
            " within the block of a sink (sink.epoch)",
        )
    names = [sink.name for sink in sinks]
    if not names or len(set(names)) < len(names):
        raise error_of(
            "CLEANCUT_SINK_REFUSED",
            sink=f"fan_out of {', '.join(names) or 'nothing'}",
            reason="it needs at least one sink, and each once",
        )
    return FanOut(sinks)
