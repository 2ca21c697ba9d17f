"""Which run of a query may write to a target, and what the query has gone back behind there.

Nothing here reads or writes: a target keeps a `Run` for each query, in whatever way, and changes it
in the same step as its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cleancut._display.brief import Brief
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import Act, counts, kept_until

NO_EPOCH = -1
# Epochs that a target remembers one by one; of older ones only that they have been.
KEPT_EPOCHS = 1000
_KEPT_RUNS = 50


@dataclass(frozen=True, repr=False)
class LedgerEpoch(Brief):
    """An epoch that a target has taken.

    Attributes:
        incarnation: the act on the checkpoint after which it was published; 0 before any.
        epoch: Spark's batch id.
        planned_ms: when Spark chose its input, in Unix time.
        run_id: Spark's id of the run that published it.
        handle: what was published.
        rows: how many; -1 if nobody has counted them.
        published_ms: when, in Unix time.
    """

    incarnation: int
    epoch: int
    planned_ms: int
    run_id: str
    handle: str
    rows: int
    published_ms: int


@dataclass(frozen=True)
class Run:
    """What a target knows of a query: the run that may write, and how far it has got.

    Attributes:
        run_id: Spark's id of the run that has begun last.
        former: those of runs before it, as far as they are remembered.
        owner: how many runs have owned the query, where its cuts count them; else 0.
        incarnation: the act that the target went back by last; 0 before any.
        last: the last epoch that was published; `NO_EPOCH` before any.
        acts: those that the target went back by, ascending.
        generation: how many runs have begun here.
    """

    run_id: str
    former: tuple[str, ...] = ()
    owner: int = 0
    incarnation: int = 0
    last: int = NO_EPOCH
    acts: tuple[Act, ...] = ()
    generation: int = 1


def taken_over(found: Run | None, batch: Batch, owner: int, sink: str) -> Run | None:
    """What a target is to know once this run has begun; None if it has.

    Args:
        found: what the target knows; None of a query that is new to it.
        batch: of the run that begins.
        owner: how many runs have owned the query up to this one.
        sink: for errors.

    Raises:
        FencedError: CLEANCUT_FENCED, a newer run has begun.
    """
    if found is None:
        return Run(batch.run_id, owner=owner)
    if found.run_id == batch.run_id:
        return None
    if batch.run_id in found.former or owner < found.owner:
        raise fenced(batch, found, sink)
    return replace(
        found,
        run_id=batch.run_id,
        former=(*found.former, found.run_id)[-_KEPT_RUNS:],
        generation=found.generation + 1,
        owner=owner,
    )


def fenced(batch: Batch, found: Run | None, sink: str) -> Exception:
    """The error for a run that another one has followed."""
    owner = "nobody" if found is None else f"run {found.run_id}, by the ledger of {sink}"
    return error_of("CLEANCUT_FENCED", location=batch.checkpoint, owner=owner, epoch=batch.epoch)


class UndoRefusedError(Exception):
    """Why a target cannot take epochs back; nothing is changed then."""


@dataclass(frozen=True)
class WayBack:
    """How a target goes back with a query.

    Attributes:
        run: what it is to know then.
        later: epochs that are published and do not count any more, ascending.
        bound: the last epoch that still counts.
        refused: makes the error for a target that cannot undo.
    """

    run: Run
    later: tuple[LedgerEpoch, ...]
    bound: int
    refused: "Refusal"


def way_back(
    run: Run,
    acts: Sequence[Act],
    known: Sequence[tuple[LedgerEpoch, bool]],
    batch: Batch,
    sink: str,
    *,
    kept: int = KEPT_EPOCHS,
) -> WayBack | None:
    """What acts on a checkpoint mean for what is published; None if all of it still counts.

    Args:
        run: what the target knows, and this run's id.
        acts: those between the last published epoch and that of the batch.
        known: the remembered epochs of the query, ascending; of each, whether it was undone.
        batch: that is to be written next.
        sink: for errors.
        kept: how many epochs the target remembers.

    Raises:
        RequestError: CLEANCUT_SINK_UNDO_REFUSED, it takes epochs that were undone, or that nobody
            remembers.
    """
    bound = kept_until(acts)
    if bound is None:
        return None
    refused = Refusal(sink, batch.query_id, bound)
    now = [epoch for epoch, undone in known if not undone]
    later = tuple(epoch for epoch in now if epoch.epoch > bound)
    # Those of an act that was gone back behind in its turn.
    lost = [
        epoch
        for epoch, undone in known
        if undone and epoch.epoch <= bound and counts(epoch.epoch, bound, run.acts)
    ]
    if lost:
        raise refused.because("what was taken back of these epochs is not kept", lost)
    if bound >= run.last:
        return None
    if later:
        # Of an epoch that is not remembered any more nobody knows what it has written.
        oldest = min(epoch.epoch for epoch in now)
        if bound < oldest - 1 and len(now) >= kept:
            raise refused.because(f"only epochs from {oldest} on are remembered", later)
    act = acts[-1].epoch
    back = replace(run, incarnation=act, acts=(*run.acts, Act(act, bound)))
    return WayBack(back, later, bound, refused)


def not_published(sink: str, run: Run, batch: Batch) -> Exception:
    """The error for an epoch that comes before others that are published."""
    return error_of(
        "CLEANCUT_SINK_REFUSED",
        sink=sink,
        reason=f"epoch {run.last} of the query {batch.query_id} is published, and epoch "
        f"{batch.epoch}, which comes before it, was not published or is forgotten",
    )


@dataclass(frozen=True)
class Refusal:
    """Makes the error for a target that cannot go back with its query."""

    sink: str
    query_id: str
    bound: int

    def because(self, reason: str, epochs: Sequence[LedgerEpoch]) -> Exception:
        """The error.

        Args:
            reason: why it cannot.
            epochs: what it would have to take back.
        """
        shown = [f"epoch {of.epoch} ({_rows(of.rows)})" for of in epochs]
        return error_of(
            "CLEANCUT_SINK_UNDO_REFUSED",
            sink=self.sink,
            query=self.query_id,
            epoch=self.bound,
            reason=reason,
            published=", ".join(shown),
        )


def _rows(count: int) -> str:
    return "rows not counted" if count < 0 else f"{count} rows"
