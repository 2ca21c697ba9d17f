"""What targets without tables remember of one query: a document that is written as a whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._core.runs import LedgerEpoch, Run
from cleancut.sinks._ledgers.rules import LedgerRules

_VERSION = 1


@dataclass
class LedgerDocument:
    """What a target remembers of one query.

    Attributes:
        run: which may write, and how far it has got; None before the first one.
        checkpoint: of the query.
        epochs: that are remembered one by one, ascending, and by what act each was undone; 0 for
            none.
    """

    run: Run | None = None
    checkpoint: str = ""
    epochs: list[tuple[LedgerEpoch, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """As it is kept."""
        run = None if self.run is None else asdict(self.run)
        if run is not None and self.run is not None:
            run["acts"] = [[act.epoch, act.source] for act in self.run.acts]
        epochs = [[asdict(epoch), undone_by] for epoch, undone_by in self.epochs]
        fields = {"formatVersion": _VERSION, "checkpoint": self.checkpoint, "run": run}
        return json.dumps(fields | {"epochs": epochs}, separators=(",", ":")).encode()

    @staticmethod
    def decode(body: bytes | None, place: str) -> "LedgerDocument":
        """What `encode` gave; an empty one where there is nothing.

        Args:
            body: as it is kept.
            place: where, for errors.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        if body is None:
            return LedgerDocument()
        try:
            fields = json.loads(body)
            if typed(fields, "formatVersion", int) != _VERSION:
                raise ValueError(f"it is of version {fields['formatVersion']}, not {_VERSION}")
            epochs = [(LedgerEpoch(**epoch), undone_by) for epoch, undone_by in fields["epochs"]]
            run = None if fields["run"] is None else _run_of(fields["run"])
            return LedgerDocument(run, typed(fields, "checkpoint", str), epochs)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise error_of("CLEANCUT_SINK_DAMAGED", path=place, detail=problem) from None


def _run_of(fields: Mapping[str, Any]) -> Run:
    acts = tuple(Act(*act) for act in fields["acts"])
    return Run(**dict(fields) | {"former": tuple(fields["former"]), "acts": acts})


class DocumentRules(LedgerRules[LedgerDocument]):
    """The rules of a ledger, for a document of one query."""

    # All of them are written with each epoch.
    kept_epochs = 100

    def _run(self, of: LedgerDocument, query_id: str) -> Run | None:
        return of.run

    def _insert(self, of: LedgerDocument, batch: Batch, run: Run) -> None:
        self._update(of, batch, run)

    def _update(self, of: LedgerDocument, batch: Batch, run: Run) -> None:
        of.run, of.checkpoint = run, batch.checkpoint

    def _epochs(
        self, of: LedgerDocument, query_id: str, epoch: int | None = None
    ) -> list[tuple[LedgerEpoch, bool]]:
        wanted = (one for one in of.epochs if epoch is None or one[0].epoch == epoch)
        return [(found, undone_by != 0) for found, undone_by in wanted]

    def _add(self, of: LedgerDocument, batch: Batch, epoch: LedgerEpoch) -> None:
        of.epochs.append((epoch, 0))

    def _mark_undone(self, of: LedgerDocument, query_id: str, bound: int, act: int) -> None:
        of.epochs = [
            (epoch, act if epoch.epoch > bound and not undone_by else undone_by)
            for epoch, undone_by in of.epochs
        ]

    def _drop(
        self, of: LedgerDocument, query_id: str, *, until: int = -1, after: int = 2**62
    ) -> None:
        of.epochs = [one for one in of.epochs if until < one[0].epoch <= after]

    def _set_back(self, of: LedgerDocument, query_id: str, last: int) -> None:
        if of.run is not None and of.run.last > last:
            of.run = replace(of.run, last=last)
