"""Records of queries in the log of a lake table.

Each commit of a query contains an `Entry`: the state of the query, and the effect of this commit.
An entry references the previous one, so a chain leads through the epochs of one query, past commits
of other writers. This module does not depend on a table format.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cleancut._format.fields import typed
from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.ledger_errors import error_for, fenced
from cleancut.sinks._core.lineage import decode_checkpoints, encode_checkpoints
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._epoch_log.manifest import FORMAT_VERSION, decoded


@dataclass(frozen=True)
class Entry:
    """The record of one commit about a query.

    Attributes:
        query_id: Spark's query id.
        run: state of the query after this commit.
        previous: position of the previous entry: a table version or a snapshot; None for the first.
        epoch: the epoch that this commit published; None if none.
        undone_after: the epoch after which this commit undid all epochs; None if it undid none.
        latest: the last published epoch. It stays known after the commit that published it is
            deleted.
    """

    query_id: str
    run: Run
    previous: int | None = None
    epoch: LedgerEpoch | None = None
    undone_after: int | None = None
    latest: LedgerEpoch | None = None

    def fields(self) -> dict[str, Any]:
        """The entry as JSON values."""
        run = self.run
        fields = {
            "formatVersion": FORMAT_VERSION,
            "queryId": self.query_id,
            "checkpoint": encode_checkpoints(run.checkpoints),
            "runId": run.run_id,
            "formerRuns": list(run.former),
            "generation": run.generation,
            "ownerGeneration": run.owner,
            "incarnation": run.incarnation,
            "lastEpoch": run.last,
            "acts": [[operation.epoch, operation.source] for operation in run.operations],
            "previous": self.previous,
            "undoneAfter": self.undone_after,
        }
        if self.epoch is not None:
            fields["epoch"] = _epoch_fields(self.epoch)
        elif self.latest is not None:
            fields["latest"] = _epoch_fields(self.latest)
        return fields

    @staticmethod
    def parse(fields: Mapping[str, Any], place: str) -> "Entry":
        """Parses the result of `fields`.

        Args:
            fields: the JSON values in the log.
            place: location of the entry, for errors.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        return decoded(json.dumps(fields).encode(), place, _parsed)


def _epoch_fields(epoch: LedgerEpoch) -> dict[str, Any]:
    return {
        "incarnation": epoch.incarnation,
        "epoch": epoch.epoch,
        "plannedMs": epoch.planned_ms,
        "runId": epoch.run_id,
        "handle": epoch.handle,
        "rows": epoch.rows,
        "publishedMs": epoch.published_ms,
    }


def _epoch(fields: dict[str, Any] | None) -> LedgerEpoch | None:
    if fields is None:
        return None
    return LedgerEpoch(
        incarnation=typed(fields, "incarnation", int),
        epoch=typed(fields, "epoch", int),
        planned_ms=typed(fields, "plannedMs", int),
        run_id=typed(fields, "runId", str),
        handle=typed(fields, "handle", str),
        rows=typed(fields, "rows", int),
        published_ms=typed(fields, "publishedMs", int),
    )


def _parsed(fields: dict[str, Any]) -> Entry:
    epoch = _epoch(fields.get("epoch"))
    return Entry(
        query_id=typed(fields, "queryId", str),
        run=Run(
            run_id=typed(fields, "runId", str),
            former=tuple(map(str, fields["formerRuns"])),
            owner=typed(fields, "ownerGeneration", int),
            incarnation=typed(fields, "incarnation", int),
            last=typed(fields, "lastEpoch", int),
            operations=tuple(
                Operation(int(operation), int(source)) for operation, source in fields["acts"]
            ),
            generation=typed(fields, "generation", int),
        ).with_checkpoints(decode_checkpoints(typed(fields, "checkpoint", str))),
        previous=fields["previous"],
        undone_after=fields["undoneAfter"],
        epoch=epoch,
        latest=epoch or _epoch(fields.get("latest")),
    )


@dataclass(frozen=True)
class Placed:
    """An entry with its position in the log."""

    at: int
    entry: Entry


class LakeLog(Protocol):
    """The log of a table, at one version."""

    def head(self, query_id: str) -> Placed | None:
        """The last entry of a query that the table includes; None if there is none.

        Entries after the target of a table restore do not count.
        """

    def entry(self, at: int, query_id: str) -> Entry | None:
        """The entry at a position; None if the log does not go back so far."""


@dataclass(frozen=True)
class PastEpoch(RecordedEpoch):
    """An epoch of a chain.

    Attributes:
        at: position of its entry.
    """

    at: int = 0


def chain(log: LakeLog, head: Placed | None) -> Iterator[Placed]:
    """The entries of a query, the last one first, as far back as the log goes."""
    placed = head
    while placed is not None:
        yield placed
        before, query_id = placed.entry.previous, placed.entry.query_id
        entry = None if before is None else log.entry(before, query_id)
        placed = None if entry is None or before is None else Placed(before, entry)


def past(entries: Iterable[Placed]) -> Iterator[PastEpoch]:
    """The epochs of a chain, the last one first.

    Their numbers descend: none is reused, even after a rollback.
    """
    bound: int | None = None
    for placed in entries:
        entry = placed.entry
        if entry.epoch is not None:
            undone = bound is not None and entry.epoch.epoch > bound
            yield PastEpoch(entry.epoch, is_undone=undone, at=placed.at)
        if entry.undone_after is not None:
            # A later operation may have rolled back further.
            bound = entry.undone_after if bound is None else min(bound, entry.undone_after)


def find_epoch(
    log: LakeLog, batch: Batch, sink: str, expected: Expected = ledger.EXPECT_NOTHING
) -> LedgerEpoch | None:
    """The epoch, if it is published.

    Raises:
        RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, it has other input; CLEANCUT_SINK_REFUSED, later
            epochs are published, and it is not; CLEANCUT_SINK_EPOCHS_LOST.
    """
    head = log.head(batch.query_id)
    run = None if head is None else head.entry.run
    match ledger.find(run, _of_number(log, head, batch.epoch), batch, expected):
        case None:
            return None
        case LedgerEpoch() as epoch:
            return epoch
        case denial:
            raise error_for(denial, batch, sink)


def _of_number(log: LakeLog, head: Placed | None, epoch: int) -> list[RecordedEpoch]:
    """The recorded epochs of a query with one number."""
    if head is None or epoch > head.entry.run.last:
        return []
    latest = head.entry.latest
    if latest is not None and latest.epoch == epoch:
        return [RecordedEpoch(latest)]
    epochs: list[RecordedEpoch] = []
    for past_epoch in past(chain(log, head)):
        if past_epoch.epoch.epoch < epoch:
            break
        if past_epoch.epoch.epoch == epoch:
            epochs.append(past_epoch)
    return epochs


def handles_of(log: LakeLog, head: Placed, epoch: int) -> list[str] | None:
    """The handles of an epoch that were ever published: old table versions may reference them.

    Returns:
        None if the log does not go back far enough.
    """
    handles: list[str] = []
    for placed in chain(log, head):
        epoch_of_entry = placed.entry.epoch
        if epoch_of_entry is not None and epoch_of_entry.epoch < epoch:
            return handles
        if epoch_of_entry is not None and epoch_of_entry.epoch == epoch:
            if not epoch_of_entry.handle:
                return None
            handles.append(epoch_of_entry.handle)
        if placed.entry.previous is None:
            return handles
    return None


def last_included(
    log: LakeLog, head: Placed | None, is_included: Callable[[int], bool]
) -> Placed | None:
    """The last entry of a chain that the current state of a table includes."""
    return next((placed for placed in chain(log, head) if is_included(placed.at)), None)


def owned_head(log: LakeLog, batch: Batch, sink: str) -> Placed:
    """The last entry of the query, which must be of this run.

    FencedError: CLEANCUT_FENCED, a newer run has begun.
    FencedError: CLEANCUT_FENCED, another run has begun.
    """
    head = log.head(batch.query_id)
    if head is None:
        raise fenced(batch, None, sink)
    owned = ledger.owned(head.entry.run, batch)
    if isinstance(owned, ledger.Fenced):
        raise error_for(owned, batch, sink)
    return head


def publishing(head: Placed, batch: Batch, handle: str, rows: int, sink: str) -> Entry:
    """The entry of the commit that publishes an epoch.

    Raises:
        FencedError: CLEANCUT_FENCED, a newer run has begun.
    """
    decided = ledger.publish(head.entry.run, batch, handle, rows, time.time_ns() // 1_000_000)
    if isinstance(decided, ledger.Fenced):
        raise error_for(decided, batch, sink)
    run, epoch = decided
    return replace(
        head.entry, run=run, previous=head.at, undone_after=None, epoch=epoch, latest=epoch
    )


def last_of(epochs: Iterable[PastEpoch], until: int) -> LedgerEpoch | None:
    """The last published epoch up to a given one."""
    counting = [
        past_epoch.epoch
        for past_epoch in epochs
        if not past_epoch.is_undone and past_epoch.epoch.epoch <= until
    ]
    return max(counting, key=lambda past_epoch: past_epoch.epoch, default=None)
