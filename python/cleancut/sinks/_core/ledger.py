"""The ledger of a target: who may write, which epochs are published, and what has to be undone.

Pure functions over what a target has recorded of one query. They read and write nothing: a target
records their result in the same transaction as its rows, or, if it has no transactions, before it
changes them.

An epoch *counts* if its output is part of the history that the query continues. The operations on
the checkpoint decide that: after a rollback from epoch 9 to epoch 5, the epochs 6 to 9 do not count
until another rollback returns to one of them.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from cleancut._brief import Brief
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import EpochRanges, Expected
from cleancut.sinks._core.lineage import Position, normal, position
from cleancut.sinks._core.query_side import Operation, counts, kept_until

NO_EPOCH = -1
# Epochs that a target records one by one. Of older ones it only knows that they were published.
KEPT_EPOCHS = 1000
_KEPT_RUNS = 50


@dataclass(frozen=True, repr=False)
class LedgerEpoch(Brief):
    """An epoch that a target has published.

    Attributes:
        incarnation: the operation on the checkpoint after which it was published; 0 before any.
        epoch: Spark's batch id.
        planned_ms: time at which Spark planned its input, in Unix time.
        run_id: Spark's id of the run that published it.
        handle: handle of the published output.
        rows: number of rows; -1 if they were not counted.
        published_ms: time of publication, in Unix time.
    """

    incarnation: int
    epoch: int
    planned_ms: int
    run_id: str
    handle: str
    rows: int
    published_ms: int


@dataclass(frozen=True)
class RecordedEpoch:
    """An epoch in a ledger.

    Attributes:
        epoch: the published epoch.
        is_undone: whether the target has undone it.
    """

    epoch: LedgerEpoch
    is_undone: bool = False

    @staticmethod
    def numbered(epochs: Iterable[int], undone: Container[int]) -> "list[RecordedEpoch]":
        """Epochs of which only the numbers are recorded.

        Args:
            epochs: all of them, ascending.
            undone: those that the target has undone.
        """
        return [
            RecordedEpoch(LedgerEpoch(0, number, 0, "", "", -1, 0), number in undone)
            for number in epochs
        ]


@dataclass(frozen=True)
class Run:
    """The record of a target about a query, except for its epochs.

    Attributes:
        run_id: Spark's id of the latest run that has begun.
        former: Spark's ids of earlier runs, as far back as they are recorded.
        owner: the generation of the latest run in its checkpoint; 0 without cuts.
        incarnation: the latest recorded operation that rolled the query back; 0 before any.
        last: the last epoch that was published; `NO_EPOCH` before any.
        operations: the recorded operations on the checkpoint, ascending.
        generation: number of runs that have begun to write to the target.
        checkpoint: the checkpoint location of the latest run.
        lineage: the locations of the checkpoints that this one continues, oldest first.
    """

    run_id: str
    former: tuple[str, ...] = ()
    owner: int = 0
    incarnation: int = 0
    last: int = NO_EPOCH
    operations: tuple[Operation, ...] = ()
    generation: int = 1
    checkpoint: str = ""
    lineage: tuple[str, ...] = ()

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoints of the query up to that of the latest run, oldest first."""
        return (*self.lineage, self.checkpoint)

    def with_checkpoints(self, locations: Sequence[str]) -> "Run":
        """The record with other checkpoints."""
        return replace(self, lineage=tuple(locations[:-1]), checkpoint=locations[-1])

    @property
    def position(self) -> int:
        """The last recorded epoch or operation; `NO_EPOCH` before any."""
        return max(self.last, self.operations[-1].epoch if self.operations else NO_EPOCH)


@dataclass(frozen=True)
class Begin:
    """The run may write. `run` must be recorded if it differs from the current record."""

    run: Run


@dataclass(frozen=True)
class Undo:
    """The run may write after the target has undone some epochs.

    Attributes:
        run: the record to write in the same step.
        epochs: the epochs to undo, ascending.
        bound: the last epoch that counts.
    """

    run: Run
    epochs: tuple[LedgerEpoch, ...]
    bound: int


@dataclass(frozen=True)
class Fenced:
    """Another run has begun to write; None if no run has begun."""

    run: Run | None


@dataclass(frozen=True)
class Refused:
    """The target cannot undo epochs that do not count any more; nothing may be changed.

    Attributes:
        reason: the reason.
        epochs: the epochs that would have to be undone, ascending.
        bound: the last epoch from which the query continues.
    """

    reason: str
    epochs: tuple[LedgerEpoch, ...]
    bound: int


@dataclass(frozen=True)
class RowsMissing:
    """The query continues a history of which the target has undone epochs.

    Attributes:
        epochs: the epochs that count and are undone, ascending.
        before: the last earlier epoch that counts and is published; `NO_EPOCH` if there is none.
    """

    epochs: tuple[LedgerEpoch, ...]
    before: int


@dataclass(frozen=True)
class EpochsLost:
    """The target lacks epochs that the checkpoint records as published.

    Attributes:
        epochs: the lost epochs.
        before: the last earlier epoch that the target has; `NO_EPOCH` if none is known.
    """

    epochs: EpochRanges
    before: int = NO_EPOCH


@dataclass(frozen=True)
class Unrelated:
    """Neither the checkpoint of the run nor that of the recorded run continues the other one.

    Attributes:
        run: the recorded run.
    """

    run: Run


@dataclass(frozen=True)
class OtherInput:
    """The epoch is published with other input than the query is about to write."""

    epoch: LedgerEpoch


@dataclass(frozen=True)
class Passed:
    """The epoch is not published, and a later one is."""

    last: int


Begun = Begin | Undo | Fenced | Refused | RowsMissing | EpochsLost | Unrelated
EXPECT_NOTHING = Expected()


def begin(
    recorded: Run | None,
    epochs: Sequence[RecordedEpoch],
    batch: Batch,
    owner: int,
    operations: Sequence[Operation],
    *,
    first: int = 0,
    kept: int = KEPT_EPOCHS,
    expected: Expected = EXPECT_NOTHING,
) -> Begun:
    """Decides whether a run may begin to write to a target, and what the target must undo first.

    Args:
        recorded: the record of the query; None if it has never written to the target.
        epochs: the recorded epochs, ascending; not required without `operations`.
        batch: the first batch of the run.
        owner: the generation of the run; 0 without cuts.
        operations: the operations on the checkpoint after `recorded.position` and before the batch,
            ascending.
        first: the first epoch from which on `epochs` has all published epochs.
        kept: number of latest epochs that `epochs` must have.
        expected: the epochs that the target must have.
    """
    lost = find_lost(recorded, batch, expected)
    if recorded is None:
        first_run = Run(batch.run_id, owner=owner).with_checkpoints(batch.checkpoints)
        return lost or Begin(first_run)
    if recorded.run_id == batch.run_id:
        return lost or Begin(recorded)
    denial = (
        _order(recorded, batch, owner, expected)
        or lost
        or find_used_after_move(recorded.checkpoint, recorded.last, epochs, batch)
    )
    if denial is not None:
        return denial
    run = replace(
        recorded,
        run_id=batch.run_id,
        former=(*recorded.former, recorded.run_id)[-_KEPT_RUNS:],
        generation=recorded.generation + 1,
        owner=owner,
    ).with_checkpoints(joined(recorded.checkpoints, batch))
    if not operations:
        return Begin(run)
    listed = max(first, recorded.last - kept + 1)
    numbers = {recorded_epoch.epoch.epoch for recorded_epoch in epochs}
    lost = lost_between(listed, recorded.last, numbers, expected)
    return lost or _follow(run, epochs, operations, first)


def _order(
    recorded: Run, batch: Batch, owner: int, expected: Expected
) -> Fenced | Unrelated | None:
    """Compares runs by the position of their checkpoints in the lineage, then by generation."""
    order = compare_checkpoints(recorded.checkpoints, batch, expected)
    if batch.run_id in recorded.former or order is Position.EARLIER:
        return Fenced(recorded)
    if order is Position.UNRELATED:
        return Unrelated(recorded)
    is_older = order is Position.SAME and owner < recorded.owner
    return Fenced(recorded) if is_older else None


def compare_checkpoints(
    recorded: Sequence[str], batch: Batch, expected: Expected = EXPECT_NOTHING
) -> Position:
    """The position of a batch's checkpoint in the lineage of the query.

    Args:
        recorded: the checkpoints of the recorded run, oldest first.
        batch: a batch of the run that begins.
        expected: accepted exceptions.
    """
    relation = position(batch.checkpoints, recorded)
    is_accepted = not recorded[-1] or normal(recorded[-1]) in map(normal, expected.moves)
    return Position.LATER if relation is Position.UNRELATED and is_accepted else relation


def joined(recorded: Sequence[str], batch: Batch) -> tuple[str, ...]:
    """The checkpoints of the query after a run of a batch has begun, oldest first."""
    relation = position(batch.checkpoints, recorded)
    if relation is Position.UNRELATED:
        return (*filter(None, recorded), *batch.checkpoints)
    # An accepted move is known to the target only.
    is_longer = relation is Position.SAME and len(recorded) > len(batch.checkpoints)
    return tuple(recorded) if is_longer else batch.checkpoints


def moved_at(checkpoint: str, batch: Batch) -> int | None:
    """The highest epoch that a query had used at a checkpoint when it was continued elsewhere."""
    known = {normal(origin.checkpoint): origin.epoch for origin in batch.lineage}
    return known.get(normal(checkpoint))


def find_used_after_move(
    checkpoint: str, last: int, epochs: Sequence[RecordedEpoch], batch: Batch
) -> Refused | None:
    """Refuses a run if an earlier checkpoint has published epochs after it was continued.

    Args:
        checkpoint: the checkpoint of the recorded run.
        last: the last published epoch.
        epochs: the recorded epochs, ascending.
        batch: a batch of the run that begins.
    """
    until = moved_at(checkpoint, batch)
    if until is None or last <= until:
        return None
    surplus = tuple(
        recorded_epoch.epoch
        for recorded_epoch in epochs
        if not recorded_epoch.is_undone and recorded_epoch.epoch.epoch > until
    )
    reason = f"the query continued at {checkpoint} after its checkpoint was copied"
    return Refused(reason, surplus, until)


def _follow(
    run: Run, epochs: Sequence[RecordedEpoch], operations: Sequence[Operation], first: int
) -> Begin | Undo | Refused | RowsMissing:
    """Compares the published epochs with those that count after some operations."""
    history = History((*run.operations, *operations), operations[-1].epoch)
    bound = history.bound
    surplus = history.compare(epochs)
    if isinstance(surplus, RowsMissing):
        return surplus
    is_rollback = bound < run.last
    if is_rollback and bound < first - 1:
        return Refused(f"only epochs from {first} on are recorded", surplus, bound)
    followed = replace(
        run,
        operations=(*run.operations, *operations),
        incarnation=operations[-1].epoch if is_rollback else run.incarnation,
    )
    return Undo(followed, surplus, bound) if surplus else Begin(followed)


def find_lost(recorded: Run | None, batch: Batch, expected: Expected) -> EpochsLost | None:
    """Compares the record of a target with the epochs that it must have.

    A target that was restored to an earlier state lacks its last epochs. Epoch numbers are never
    reused, so its last epoch shows which are lost.
    """
    return lost_after(NO_EPOCH if recorded is None else recorded.last, batch, expected)


def lost_after(last: int, batch: Batch, expected: Expected) -> EpochsLost | None:
    """The epochs that a target lacks after its last one; None if it lacks none."""
    return _lost(expected.lost(last, batch.epoch), expected)


def lost_between(
    first: int, last: int, recorded: Container[int], expected: Expected
) -> EpochsLost | None:
    """The epochs that count after an operation and that a target has lost before its last one.

    A loss that was accepted before a rollback can have more epochs after that rollback is undone.

    Args:
        first: all epochs of the target from this one on are recorded.
        last: the last epoch of the target.
        recorded: its recorded epochs, undone ones included.
        expected: the epochs that it must have.
    """
    lost = expected.published.between(first, last).where(lambda epoch: epoch not in recorded)
    return _lost(expected.unless_accepted(lost), expected)


def _lost(epochs: EpochRanges, expected: Expected) -> EpochsLost | None:
    if not epochs:
        return None
    before = expected.published.between(0, epochs.first - 1)
    return EpochsLost(epochs, before.last if before else NO_EPOCH)


@dataclass(frozen=True)
class History:
    """The epochs of a query that count.

    Attributes:
        operations: the operations on its checkpoint, ascending.
        until: the last epoch or operation.
    """

    operations: tuple[Operation, ...]
    until: int

    @property
    def bound(self) -> int:
        """The last epoch that counts, if none follows the last operation."""
        kept = kept_until(self.operations)
        return self.until if kept is None else kept

    def counts(self, epoch: int) -> bool:
        """Whether an epoch counts."""
        return counts(epoch, self.until, self.operations)

    def compare(self, epochs: Sequence[RecordedEpoch]) -> tuple[LedgerEpoch, ...] | RowsMissing:
        """Compares the recorded epochs with those that count.

        Returns:
            The epochs to undo, which are published and do not count, ascending; or the epochs that
            count and are undone.
        """
        # The same number can be recorded twice: undone, and published again.
        published = {
            recorded_epoch.epoch.epoch: recorded_epoch.epoch
            for recorded_epoch in epochs
            if not recorded_epoch.is_undone
        }
        undone = [
            recorded_epoch.epoch
            for recorded_epoch in epochs
            if recorded_epoch.epoch.epoch not in published
        ]
        missing = [epoch for epoch in undone if self.counts(epoch.epoch)]
        if missing:
            before = [
                number for number in published if number < missing[0].epoch and self.counts(number)
            ]
            return RowsMissing(tuple(missing), max(before, default=NO_EPOCH))
        return tuple(epoch for number, epoch in published.items() if not self.counts(number))


def find(
    run: Run | None,
    epochs: Sequence[RecordedEpoch],
    batch: Batch,
    expected: Expected = EXPECT_NOTHING,
) -> LedgerEpoch | OtherInput | Passed | EpochsLost | None:
    """Looks up an epoch.

    Args:
        run: the record of the query; None if it has never written to the target.
        epochs: at least the recorded epochs with the batch's number.
        batch: the epoch.
        expected: the epochs that the target must have.

    Returns:
        The epoch if it is published; None if it must be written.
    """
    lost = find_lost(run, batch, expected)
    if lost is not None:
        return lost
    for recorded_epoch in epochs:
        if recorded_epoch.epoch.epoch == batch.epoch and not recorded_epoch.is_undone:
            return (
                recorded_epoch.epoch
                if recorded_epoch.epoch.planned_ms == batch.planned_ms
                else OtherInput(recorded_epoch.epoch)
            )
    return None if run is None or batch.epoch > run.last else Passed(run.last)


def owned(run: Run | None, batch: Batch) -> Run | Fenced:
    """The record of a query, if the run of the batch is the latest one."""
    return Fenced(run) if run is None or run.run_id != batch.run_id else run


def publish(
    recorded: Run | None, batch: Batch, handle: str, rows: int, now_ms: int
) -> tuple[Run, LedgerEpoch] | Fenced:
    """Decides whether a run may publish an epoch that `find` did not return.

    Returns:
        The record to write in the same transaction as the rows.
    """
    run = owned(recorded, batch)
    if isinstance(run, Fenced):
        return run
    epoch = LedgerEpoch(
        run.incarnation, batch.epoch, batch.planned_ms, batch.run_id, handle, rows, now_ms
    )
    return replace(run, last=batch.epoch), epoch
