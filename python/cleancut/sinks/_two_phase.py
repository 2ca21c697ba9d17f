"""Sinks for two-phase targets: rows are prepared before the seal, then committed or aborted."""

import json
import logging
import os
import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import (
    NO_EPOCH,
    RecordedEpoch,
    RowsMissing,
    lost_after,
)
from cleancut.sinks._core.ledger_errors import (
    UndoRefusedError,
    error_for,
    rolled_back,
    undo_refused,
)
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._epoch_log.checkpoints import NO_MOVE, begin_checkpoint, check_followed
from cleancut.sinks._epoch_log.manifest import check_input, claim, decoded, encoded
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    PREPARED,
    UNDONE,
    Prepared,
    manifest_epochs,
    manifest_name,
    prepared_in,
    undone_epochs,
    undone_name,
)
from cleancut.sinks._epoch_log.operations import (
    counts_now,
    find_lost_before,
    find_lost_since,
    last_recorded,
    read_history,
    record_operations,
    record_start,
)
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._files.directory import SinkDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("cleancut.sinks")


class Committer(ABC):
    """A target that can prepare rows, and commit or abort them later.

    A *handle* is a text of letters, digits and underscores, created before any rows are prepared:
    the name of a prepared transaction, a branch, or a directory. All methods must be idempotent,
    also after a lost response, from another process, and concurrently.
    """

    @abstractmethod
    def stage(self, rows: "DataFrame", handle: str) -> None:
        """Prepares the rows of an epoch under a new handle, invisibly."""

    @abstractmethod
    def commit(self, handle: str) -> None:
        """Makes prepared rows visible once; does nothing if they are visible already or undone."""

    @abstractmethod
    def abort(self, handle: str) -> None:
        """Discards prepared rows, complete or partial; never called after `commit`."""

    def is_staged(self, handle: str) -> bool:
        """Whether all prepared rows still exist, or are visible."""
        return True

    def undo(self, handle: str) -> None:
        """Removes committed rows, after a rollback of the query; the last handle first.

        Raises:
            NotImplementedError: it cannot; the query is then refused.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class _Decision:
    """The decision of an epoch: once this record exists, its handle must be committed."""

    prepared: Prepared
    query_id: str
    run_id: str
    planned_ms: int

    def encode(self) -> bytes:
        fields = {"token": self.prepared.token, "queryId": self.query_id, "runId": self.run_id}
        decided = time.time_ns() // 1_000_000
        return encoded(fields | {"plannedMs": self.planned_ms, "decidedMs": decided})

    @staticmethod
    def decode(body: bytes, path: str, epoch: int) -> "_Decision":
        def parsed(fields: dict[str, Any]) -> _Decision:
            return _Decision(
                prepared=Prepared(epoch, typed(fields, "token", str)),
                query_id=typed(fields, "queryId", str),
                run_id=typed(fields, "runId", str),
                planned_ms=typed(fields, "plannedMs", int),
            )

        return decoded(body, path, parsed)


class TwoPhaseSink(EpochSink):
    """Writes each epoch once by a `Committer`; a function for `foreachBatch`.

    A decision per epoch, a small file that is created once, names the handle to commit. After a
    crash, the next run commits what was decided and aborts what was not. An epoch whose decision
    was recorded after a rollback of the query does not count, and is not committed.

        TwoPhaseSink(MyCommitter(), decisions="s3://bucket/orders-decisions")
    """

    def __init__(self, committer: Committer, *, decisions: str | os.PathLike[str]) -> None:
        """Sets the committer; accesses nothing yet.

        Args:
            committer: the committer of the target.
            decisions: location of the records, like the path of `EpochFiles`; it belongs to one
                query.
        """
        self._committer = committer
        self._path = os.fspath(decisions)
        self._records: Records | None = None
        self._move = NO_MOVE
        # The last epoch that the run has decided or found.
        self._last = NO_EPOCH

    def __repr__(self) -> str:
        return f"TwoPhaseSink({self._committer!r}, decisions={self._path!r})"

    @property
    def name(self) -> str:
        """The path of the records."""
        return f"TwoPhaseSink {self._path}"

    @property
    def ledger_key(self) -> str:
        """The path of the records, in Hadoop's form; see `EpochSink`."""
        return f"decisions {self._of_run().location}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Completes decisions of earlier runs, and undoes epochs that do not count.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes here;
                CLEANCUT_SINK_UNDO_REFUSED, CLEANCUT_SINK_ROWS_MISSING.
        """
        directory = SinkDirectory(session, self._path)
        directory.prepare()
        self._begin(side, directory)

    def _begin(self, side: QuerySide, records: Records) -> None:
        self._records = records
        self._last = NO_EPOCH
        expected = self._expected(side.batch)
        lost = lost_after(last_recorded(records), side.batch, expected)
        if lost is not None:
            raise error_for(lost, side.batch, self.name)
        claim(records, side.batch)
        self._move = begin_checkpoint(records, side.batch, expected)
        history = read_history(records, manifest_epochs(records.names(EPOCHS)))
        if history.until == NO_EPOCH:
            record_start(records, side.batch.epoch)
        lost = find_lost_before(records, side, history, expected)
        if lost is not None:
            raise error_for(lost, side.batch, self.name)
        history = record_operations(records, side, history)
        # Again: until then an older run could decide an epoch and not see the operations.
        decided = manifest_epochs(records.names(EPOCHS))
        for left in prepared_in(records.names(PREPARED)):
            decision = self._decision(left.epoch)
            if decision is not None and decision.prepared == left and history.counts(left.epoch):
                self._finish(left)
        undone = undone_epochs(records.names(UNDONE))
        surplus = history.compare(RecordedEpoch.numbered(decided, undone))
        if isinstance(surplus, RowsMissing):
            raise error_for(surplus, side.batch, self.name)
        try:
            for epoch in reversed(surplus):
                self._undo(epoch.epoch)
        except UndoRefusedError as problem:
            raise undo_refused(problem, surplus, history.bound, side.batch, self.name) from None

    def _undo(self, epoch: int) -> None:
        decision = self._decision(epoch)
        if decision is None:
            return
        # A run from before a rollback may have decided it after a newer run had aborted it.
        if self._committer.is_staged(decision.prepared.handle):
            # An older run may be about to commit it. After this, its commit does nothing.
            self._finish(decision.prepared)
            try:
                self._committer.undo(decision.prepared.handle)
            except NotImplementedError:
                raise UndoRefusedError("its committer cannot undo") from None
        self._of_run().create(undone_name(epoch), encoded({}))

    def published(self, batch: Batch) -> str | None:
        """The decision of the epoch; see `EpochSink`."""
        decision = self._decision(batch.epoch)
        if decision is None:
            return None
        check_input(decision, batch, self._of_run().location)
        self._last = batch.epoch
        return _encoded(decision.prepared)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all prepared rows exist; see `EpochSink`."""
        if published is not None:
            return handle == published
        return self._committer.is_staged(_decoded(handle).handle)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Records the handle, then has the committer prepare the rows.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_LOST, the committer has failed, and the records of
                epochs are lost.
        """
        prepared = Prepared(batch.epoch, secrets.token_hex(8))
        self._of_run().create(f"{prepared.directory}/prepared.json", encoded({}))
        try:
            self._committer.stage(rows, prepared.handle)
        except Exception:
            # The target may have been deleted together with the records.
            self._check_last(batch)
            raise
        return _encoded(prepared)

    def publish(self, handle: str, batch: Batch) -> None:
        """Decides the epoch, unless it is decided, and commits it; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED, the query was rolled back to before the epoch, or a run
                of a checkpoint has begun that continues this one.
            RequestError: CLEANCUT_SINK_EPOCHS_LOST since the run has decided its last epoch.
        """
        self._check_last(batch)
        prepared = _decoded(handle)
        mine = _Decision(prepared, batch.query_id, batch.run_id, batch.planned_ms)
        check_followed(self._of_run(), batch, self._move)
        decision: _Decision | None = mine
        if not self._of_run().create(manifest_name(batch.epoch), mine.encode()):
            decision = self._decision(batch.epoch)
        if decision is None:
            raise error_of(
                "CLEANCUT_SINK_CORRUPTED",
                path=self._of_run().at(manifest_name(batch.epoch)),
                detail="it was deleted while the epoch was published",
            )
        check_input(decision, batch, self._of_run().location)
        # After the decision is recorded: a newer run records its operations, then reads decisions.
        if not counts_now(self._of_run(), batch.epoch):
            if decision.prepared != prepared:
                self._drop(prepared)
            # A handle that is decided is never aborted: a newer run may be about to undo it.
            raise rolled_back(batch, self._path)
        self._finish(decision.prepared)
        self._last = batch.epoch
        if decision.prepared != prepared:
            self._drop(prepared)

    def _check_last(self, batch: Batch) -> None:
        if not NO_EPOCH < self._last < batch.epoch:
            return
        lost = find_lost_since(self._of_run(), batch, self._expected(batch), self._last)
        if lost is not None:
            raise error_for(lost, batch, self.name)

    def clean_up(self, batch: Batch) -> None:
        """Aborts rows that were prepared up to this epoch and are not decided."""
        try:
            for left in prepared_in(self._of_run().names(PREPARED)):
                if left.epoch <= batch.epoch:
                    decision = self._decision(left.epoch)
                    if decision is None or decision.prepared != left:
                        self._drop(left)
        except Exception as failure:  # any error of the committer: the epoch is published
            _LOG.warning("%s: leftovers could not be dropped: %s", self.name, failure)

    def _finish(self, prepared: Prepared) -> None:
        self._committer.commit(prepared.handle)
        # Last: while the record exists, the handle may have to be committed.
        self._of_run().remove(prepared.directory)

    def _drop(self, prepared: Prepared) -> None:
        self._committer.abort(prepared.handle)
        self._of_run().remove(prepared.directory)

    def _decision(self, epoch: int) -> _Decision | None:
        name = manifest_name(epoch)
        body = self._of_run().read(name)
        return None if body is None else _Decision.decode(body, self._of_run().at(name), epoch)

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Records epochs as undone whose rows you have deleted in the target.

        For a query that was rolled back if the committer cannot undo. The query must not run.

        Args:
            query_id: Spark's query id.
            after: the last epoch whose rows remain; -1 for none.

        Returns:
            The number of marked epochs.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes here.
        """
        from pyspark.sql import SparkSession

        records = SinkDirectory(SparkSession.active(), self._path)
        claim(records, Batch(after, query_id, "", "", 0))
        undone = undone_epochs(records.names(UNDONE))
        decided = [epoch for epoch in manifest_epochs(records.names(EPOCHS)) if epoch > after]
        return sum(
            records.create(undone_name(epoch), encoded({}))
            for epoch in decided
            if epoch not in undone
        )

    def _of_run(self) -> Records:
        assert self._records is not None, "begin() must be called first"
        return self._records


def _encoded(prepared: Prepared) -> str:
    return json.dumps([prepared.epoch, prepared.token])


def _decoded(handle: str) -> Prepared:
    return Prepared(*json.loads(handle))
