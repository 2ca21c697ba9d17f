"""What the log of a lake's table says of the queries that write to it.

Each commit of a query carries an `Entry`: all that is to be known of the query, and what this
commit did. An entry names the one before it, so that a chain leads back through the epochs of one
query, past what others have committed. Nothing here knows of a format of tables.
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
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._epoch_log.manifest import FORMAT_VERSION, decoded


@dataclass(frozen=True)
class Entry:
    """What one commit says of a query.

    Attributes:
        query_id: Spark's id of it.
        run: what is to be known of it after this commit.
        previous: where the entry before is: a version of the table, or a snapshot; None of the
            first one.
        epoch: what this commit has published; None if nothing.
        undone_after: the epoch after which this commit has taken all back; None if it has not.
        latest: the last epoch that counts. It stays known when the commit that has published it is
            deleted.
    """

    query_id: str
    run: Run
    previous: int | None = None
    epoch: LedgerEpoch | None = None
    undone_after: int | None = None
    latest: LedgerEpoch | None = None

    def fields(self) -> dict[str, Any]:
        """As values of JSON."""
        run = self.run
        found = {
            "formatVersion": FORMAT_VERSION,
            "queryId": self.query_id,
            "checkpoint": encode_checkpoints(run.checkpoints),
            "runId": run.run_id,
            "formerRuns": list(run.former),
            "generation": run.generation,
            "ownerGeneration": run.owner,
            "incarnation": run.incarnation,
            "lastEpoch": run.last,
            "acts": [[act.epoch, act.source] for act in run.acts],
            "previous": self.previous,
            "undoneAfter": self.undone_after,
        }
        if self.epoch is not None:
            found["epoch"] = _told(self.epoch)
        elif self.latest is not None:
            found["latest"] = _told(self.latest)
        return found

    @staticmethod
    def parse(fields: Mapping[str, Any], place: str) -> "Entry":
        """Reads what `fields` gave.

        Args:
            fields: as they stand in the log.
            place: where, for errors.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        return decoded(json.dumps(fields).encode(), place, _parsed)


def _told(of: LedgerEpoch) -> dict[str, Any]:
    return {
        "incarnation": of.incarnation,
        "epoch": of.epoch,
        "plannedMs": of.planned_ms,
        "runId": of.run_id,
        "handle": of.handle,
        "rows": of.rows,
        "publishedMs": of.published_ms,
    }


def _epoch(of: dict[str, Any] | None) -> LedgerEpoch | None:
    if of is None:
        return None
    return LedgerEpoch(
        incarnation=typed(of, "incarnation", int),
        epoch=typed(of, "epoch", int),
        planned_ms=typed(of, "plannedMs", int),
        run_id=typed(of, "runId", str),
        handle=typed(of, "handle", str),
        rows=typed(of, "rows", int),
        published_ms=typed(of, "publishedMs", int),
    )


def _parsed(of: dict[str, Any]) -> Entry:
    epoch = _epoch(of.get("epoch"))
    return Entry(
        query_id=typed(of, "queryId", str),
        run=Run(
            run_id=typed(of, "runId", str),
            former=tuple(map(str, of["formerRuns"])),
            owner=typed(of, "ownerGeneration", int),
            incarnation=typed(of, "incarnation", int),
            last=typed(of, "lastEpoch", int),
            acts=tuple(Act(int(act), int(source)) for act, source in of["acts"]),
            generation=typed(of, "generation", int),
        ).with_checkpoints(decode_checkpoints(typed(of, "checkpoint", str))),
        previous=of["previous"],
        undone_after=of["undoneAfter"],
        epoch=epoch,
        latest=epoch or _epoch(of.get("latest")),
    )


@dataclass(frozen=True)
class Placed:
    """An entry, and where in the log it is."""

    at: int
    entry: Entry


class LakeLog(Protocol):
    """The log of a table, as it is at one moment."""

    def head(self, query_id: str) -> Placed | None:
        """The last entry of a query that the table has; None if there is none.

        Not one of a later state from which the table was restored to an earlier one.
        """

    def entry(self, at: int, query_id: str) -> Entry | None:
        """An entry that another one names; None if the log does not go back so far any more."""


@dataclass(frozen=True)
class PastEpoch(RecordedEpoch):
    """An epoch of a chain.

    Attributes:
        at: where its entry is.
    """

    at: int = 0


def chain(log: LakeLog, head: Placed | None) -> Iterator[Placed]:
    """The entries of a query, the last one first, as far back as the log goes."""
    found = head
    while found is not None:
        yield found
        before, query_id = found.entry.previous, found.entry.query_id
        entry = None if before is None else log.entry(before, query_id)
        found = None if entry is None or before is None else Placed(before, entry)


def past(entries: Iterable[Placed]) -> Iterator[PastEpoch]:
    """The epochs of a chain, the last one first.

    Their numbers descend: none is used twice, not even after a rollback.
    """
    bound: int | None = None
    for found in entries:
        entry = found.entry
        if entry.epoch is not None:
            undone = bound is not None and entry.epoch.epoch > bound
            yield PastEpoch(entry.epoch, is_undone=undone, at=found.at)
        if entry.undone_after is not None:
            # A later act may have gone back further.
            bound = entry.undone_after if bound is None else min(bound, entry.undone_after)


def found_in(
    log: LakeLog, batch: Batch, sink: str, expected: Expected = ledger.EXPECT_NOTHING
) -> LedgerEpoch | None:
    """The epoch, if it is published.

    Raises:
        RequestError: CLEANCUT_SINK_EPOCH_CONFLICT, with other input; CLEANCUT_SINK_REFUSED, later
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
    """The epochs of a query with one number."""
    if head is None or epoch > head.entry.run.last:
        return []
    latest = head.entry.latest
    if latest is not None and latest.epoch == epoch:
        return [RecordedEpoch(latest)]
    found: list[RecordedEpoch] = []
    for of in past(chain(log, head)):
        if of.epoch.epoch < epoch:
            break
        if of.epoch.epoch == epoch:
            found.append(of)
    return found


def handles_of(log: LakeLog, head: Placed, epoch: int) -> list[str] | None:
    """What was ever published of an epoch, also if it was taken back: old versions may name it.

    Returns:
        None if the log does not go back far enough to tell.
    """
    handles: list[str] = []
    for found in chain(log, head):
        of = found.entry.epoch
        if of is not None and of.epoch < epoch:
            return handles
        if of is not None and of.epoch == epoch:
            if not of.handle:
                return None
            handles.append(of.handle)
        if found.entry.previous is None:
            return handles
    return None


def last_included(
    log: LakeLog, head: Placed | None, is_included: Callable[[int], bool]
) -> Placed | None:
    """The last entry of a chain that the current state of a table includes."""
    return next((of for of in chain(log, head) if is_included(of.at)), None)


def owned_head(log: LakeLog, batch: Batch, sink: str) -> Placed:
    """The last entry of the query, which is to be of this run.

    Raises:
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
        FencedError: CLEANCUT_FENCED, another run has begun.
    """
    decided = ledger.publish(head.entry.run, batch, handle, rows, time.time_ns() // 1_000_000)
    if isinstance(decided, ledger.Fenced):
        raise error_for(decided, batch, sink)
    run, epoch = decided
    return replace(
        head.entry, run=run, previous=head.at, undone_after=None, epoch=epoch, latest=epoch
    )


def last_of(epochs: Iterable[PastEpoch], until: int) -> LedgerEpoch | None:
    """The last one that counts, of those up to some epoch."""
    counting = [of.epoch for of in epochs if not of.is_undone and of.epoch.epoch <= until]
    return max(counting, key=lambda of: of.epoch, default=None)
