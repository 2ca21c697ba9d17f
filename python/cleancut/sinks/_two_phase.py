"""Targets of two phases: what is prepared before the seal is committed or undone after it."""

import json
import logging
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import Act, QuerySide, counts, kept_until
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.going_back import acts_of, note
from cleancut.sinks._files.manifest import check_input, claim, decoded, encoded
from cleancut.sinks._files.names import (
    ACTS,
    EPOCHS,
    PREPARED,
    Prepared,
    manifest_epochs,
    manifest_name,
    prepared_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("cleancut.sinks")


class Committer(ABC):
    """A target that can prepare rows, and later show or drop what it has prepared.

    A *handle* is a text of letters, digits and underscores, made before anything is prepared: the
    name of a prepared transaction, of a branch, of a directory. All calls bear being repeated, also
    after their answer was lost, by another process, and at the same time.
    """

    @abstractmethod
    def stage(self, rows: "DataFrame", handle: str) -> None:
        """Prepares the rows of an epoch under a handle that is new; nobody sees them."""

    @abstractmethod
    def commit(self, handle: str) -> None:
        """Shows what was prepared, once; does nothing where that is shown already."""

    @abstractmethod
    def abort(self, handle: str) -> None:
        """Drops what was prepared, whole, in part or not at all; never called behind `commit`."""

    def is_staged(self, handle: str) -> bool:
        """Whether all that was prepared is there still, or is shown."""
        return True

    def undo(self, handle: str) -> None:
        """Takes back what is shown, when the query was rolled back; the last handle comes first.

        Raises:
            NotImplementedError: it cannot; the query is refused then.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class _Decision:
    """What is published of an epoch: once this record is there, its handle is to be committed."""

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
        def parsed(of: dict[str, Any]) -> _Decision:
            return _Decision(
                prepared=Prepared(epoch, typed(of, "token", str)),
                query_id=typed(of, "queryId", str),
                run_id=typed(of, "runId", str),
                planned_ms=typed(of, "plannedMs", int),
            )

        return decoded(body, path, parsed)


class TwoPhaseSink(EpochSink):
    """Writes epochs by a `Committer`, each once; a function for `foreachBatch`.

    Which epochs count is decided by small records at a path of its own, each created if absent, as
    the manifests of `EpochFiles` are. What a crash has left is committed or aborted by the next
    run: committed if its epoch was decided, else aborted once that epoch is.

        TwoPhaseSink(MyCommitter(), decisions="s3://bucket/orders-decisions")
    """

    def __init__(self, committer: Committer, *, decisions: str | os.PathLike[str]) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            committer: of the target.
            decisions: a place for the records, as the path of `EpochFiles`; it belongs to one
                query.
        """
        self._committer = committer
        self._path = os.fspath(decisions)
        self._records: SinkDirectory | None = None

    def __repr__(self) -> str:
        return f"TwoPhaseSink({self._committer!r}, decisions={self._path!r})"

    @property
    def name(self) -> str:
        """The path of the records."""
        return f"TwoPhaseSink {self._path}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Finishes what the run before has left, and goes back with the query; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNED, another query writes here;
                CLEANCUT_SINK_UNDO_REFUSED.
        """
        records = SinkDirectory(session, self._path)
        self._records = records
        records.prepare()
        claim(records, side.batch)
        for left in prepared_in(records.names(PREPARED)):
            decision = self._decision(left.epoch)
            if decision is not None and decision.prepared == left:
                self._finish(left)
        self._go_back(side, records)

    def _go_back(self, side: QuerySide, records: SinkDirectory) -> None:
        decided = manifest_epochs(records.names(EPOCHS))
        noted = manifest_epochs(records.names(ACTS))
        if not decided:
            return
        last = max([*decided, *noted])
        acts = side.acts(last)
        bound = kept_until(acts)
        if bound is None:
            return
        former = acts_of(records, noted)
        live = [epoch for epoch in decided if counts(epoch, last, former)]
        again = [of for of in decided if of not in live and of <= bound]
        again = [of for of in again if counts(of, bound, former)]
        later = [epoch for epoch in live if epoch > bound]

        def refused(what: str, epochs: Sequence[int]) -> Exception:
            return error_of(
                "CLEANCUT_SINK_UNDO_REFUSED",
                sink=self.name,
                query=side.batch.query_id,
                epoch=bound,
                reason=f"its committer cannot {what}",
                published=", ".join(f"epoch {epoch}" for epoch in epochs),
            )

        if again:
            raise refused("undo an undo", again)
        try:
            self._undo(later)
        except NotImplementedError:
            raise refused("undo", later) from None
        if bound < last:
            note(records, Act(acts[-1].epoch, bound))

    def _undo(self, epochs: Sequence[int]) -> None:
        for epoch in reversed(epochs):
            decision = self._decision(epoch)
            if decision is not None:
                self._committer.undo(decision.prepared.handle)

    def published(self, batch: Batch) -> str | None:
        """What is decided of the epoch; see `EpochSink`."""
        found = self._decision(batch.epoch)
        if found is None:
            return None
        check_input(found, batch, self._of_run().location)
        return _encoded(found.prepared)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all that was prepared is there; see `EpochSink`."""
        if published is not None:
            return handle == published
        return self._committer.is_staged(_decoded(handle).handle)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the committer prepare the rows, after a record says that it may have."""
        prepared = Prepared(batch.epoch, secrets.token_hex(8))
        self._of_run().create(f"{prepared.directory}/prepared.json", encoded({}))
        self._committer.stage(rows, prepared.handle)
        return _encoded(prepared)

    def publish(self, handle: str, batch: Batch) -> None:
        """Decides the epoch, unless it is decided, and commits what was; see `EpochSink`."""
        prepared = _decoded(handle)
        mine = _Decision(prepared, batch.query_id, batch.run_id, batch.planned_ms)
        found: _Decision | None = mine
        if not self._of_run().create(manifest_name(batch.epoch), mine.encode()):
            found = self._decision(batch.epoch)
        if found is None:
            raise error_of(
                "CLEANCUT_SINK_DAMAGED",
                path=self._of_run().at(manifest_name(batch.epoch)),
                detail="it was removed while the epoch was published",
            )
        check_input(found, batch, self._of_run().location)
        self._finish(found.prepared)
        if found.prepared != prepared:
            self._drop(prepared)

    def sweep(self, batch: Batch) -> None:
        """Aborts what was prepared up to this epoch and is not decided."""
        try:
            for left in prepared_in(self._of_run().names(PREPARED)):
                if left.epoch <= batch.epoch:
                    decision = self._decision(left.epoch)
                    if decision is None or decision.prepared != left:
                        self._drop(left)
        except Exception as failure:  # whatever the committer raises: the epoch is published
            _LOG.warning("%s: what was left could not be dropped: %s", self.name, failure)

    def _finish(self, prepared: Prepared) -> None:
        self._committer.commit(prepared.handle)
        # Last: as long as it is there, the handle may have to be committed.
        self._of_run().delete(prepared.directory)

    def _drop(self, prepared: Prepared) -> None:
        self._committer.abort(prepared.handle)
        self._of_run().delete(prepared.directory)

    def _decision(self, epoch: int) -> _Decision | None:
        name = manifest_name(epoch)
        body = self._of_run().read(name)
        return None if body is None else _Decision.decode(body, self._of_run().at(name), epoch)

    def _of_run(self) -> SinkDirectory:
        assert self._records is not None, "a sink begins before it is asked"
        return self._records


def _encoded(prepared: Prepared) -> str:
    return json.dumps([prepared.epoch, prepared.token])


def _decoded(handle: str) -> Prepared:
    return Prepared(*json.loads(handle))
