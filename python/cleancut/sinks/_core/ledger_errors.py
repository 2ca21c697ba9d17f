"""Errors for decisions of a ledger."""

from collections.abc import Sequence

from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.ledger import (
    NO_EPOCH,
    EpochsLost,
    Fenced,
    LedgerEpoch,
    OtherInput,
    Passed,
    Refused,
    RowsMissing,
    Run,
    Unrelated,
)


class UndoRefusedError(Exception):
    """The reason why a target cannot undo epochs; it has changed nothing."""


def fenced(batch: Batch, latest: Run | None, sink: str) -> Exception:
    """The error for a run that a newer one has fenced."""
    owner = "no run" if latest is None else f"run {latest.run_id}, by the ledger of {sink}"
    return error_of("CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch)


def continued(batch: Batch, checkpoint: str, sink: str) -> Exception:
    """The error for a run whose checkpoint was continued elsewhere, by a run that has begun."""
    owner = f"a run with the checkpoint {checkpoint}, which continues this one, by {sink}"
    return error_of("CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch)


def rolled_back(batch: Batch, sink: str) -> Exception:
    """The error for a run from before a rollback, whose epoch does not count any more."""
    owner = f"a run after a rollback of the query, by the operations in {sink}"
    return error_of("CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch)


def unrelated(batch: Batch, known: str, sink: str) -> Exception:
    """The error for a run whose checkpoint does not continue that of the recorded run.

    Args:
        batch: the batch to write.
        known: the checkpoint of the recorded run.
        sink: name of the target.
    """
    return error_of(
        "CLEANCUT_SINK_CHECKPOINT_UNKNOWN",
        sink=sink,
        query=batch.query_id,
        location=batch.checkpoint,
        known=known,
    )


def epoch_taken(batch: Batch, run_id: str, planned_ms: int, sink: str) -> Exception:
    """The error for an epoch that is published with other input.

    Args:
        batch: the batch to write.
        run_id: Spark's id of the run that has published the epoch.
        planned_ms: time at which the published input was planned, in Unix time.
        sink: name or path of the target.
    """
    return error_of(
        "CLEANCUT_SINK_EPOCH_CONFLICT",
        epoch=batch.epoch,
        path=sink,
        query=batch.query_id,
        run=run_id,
        plannedMs=batch.planned_ms,
        publishedPlannedMs=planned_ms,
    )


Denial = Fenced | Refused | RowsMissing | EpochsLost | Unrelated | OtherInput | Passed


def error_for(decision: Denial, batch: Batch, sink: str) -> Exception:
    """The error for a decision by which a run may not write.

    Args:
        decision: the decision of the ledger.
        batch: the batch to write.
        sink: name of the target.
    """
    match decision:
        case Fenced(run):
            return fenced(batch, run, sink)
        case OtherInput(epoch):
            return epoch_taken(batch, epoch.run_id, epoch.planned_ms, sink)
        case Passed(last):
            return error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=sink,
                reason=f"epoch {last} of the query {batch.query_id} is published, and epoch "
                f"{batch.epoch}, an earlier one, was not published or is not recorded any more",
            )
        case Refused(reason, epochs, bound):
            return error_of(
                "CLEANCUT_SINK_UNDO_REFUSED",
                sink=sink,
                query=batch.query_id,
                epoch=bound,
                reason=reason,
                published=_names(epochs),
            )
        case Unrelated(run):
            return unrelated(batch, run.checkpoint, sink)
        case EpochsLost(lost, before):
            rollback = f"run `cleancut rollback {batch.checkpoint} --to-epoch {before} --apply`"
            return error_of(
                "CLEANCUT_SINK_EPOCHS_LOST",
                sink=sink,
                query=batch.query_id,
                location=batch.checkpoint,
                lost=str(lost),
                fix=f"; or {rollback}, so that the query writes them again"
                if before != NO_EPOCH
                else "",
                first=lost.first,
                last=lost.last,
            )
        case RowsMissing(epochs, before):
            rollback = f"Run `cleancut rollback {batch.checkpoint} --to-epoch {before} --apply`"
            return error_of(
                "CLEANCUT_SINK_ROWS_MISSING",
                sink=sink,
                query=batch.query_id,
                missing=_names(epochs),
                fix=f"{rollback}: the query then writes these epochs again"
                if before != NO_EPOCH
                else "Start the query with a new checkpoint and another target",
            )


def undo_refused(
    problem: UndoRefusedError, epochs: Sequence[LedgerEpoch], bound: int, batch: Batch, sink: str
) -> Exception:
    """The error for a target that cannot undo epochs."""
    return error_for(Refused(str(problem), tuple(epochs), bound), batch, sink)


def _names(epochs: Sequence[LedgerEpoch]) -> str:
    return ", ".join(f"epoch {epoch.epoch} ({_rows(epoch.rows)})" for epoch in epochs)


def _rows(count: int) -> str:
    return "rows not counted" if count < 0 else f"{count} rows"
