"""What targets without tables remember of one query: a document that is written as a whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.lineage import decode_checkpoints, encode_checkpoints
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._ledgers.stored import StoredLedger

_VERSION = 1


@dataclass
class LedgerDocument:
    """What a target remembers of one query.

    Attributes:
        run: which may write, and how far it has got; None before the first one.
        epochs: that are remembered one by one, ascending, and by what act each was undone; 0 for
            none.
    """

    run: Run | None = None
    epochs: list[tuple[LedgerEpoch, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """As it is kept."""
        run, checkpoint = None, ""
        if self.run is not None:
            run = asdict(self.run)
            run["acts"] = [[act.epoch, act.source] for act in self.run.acts]
            del run["checkpoint"], run["lineage"]
            checkpoint = encode_checkpoints(self.run.checkpoints)
        epochs = [[asdict(epoch), undone_by] for epoch, undone_by in self.epochs]
        fields = {"formatVersion": _VERSION, "checkpoint": checkpoint, "run": run}
        return json.dumps(fields | {"epochs": epochs}, separators=(",", ":")).encode()

    @staticmethod
    def decode(body: bytes | None, place: str) -> "LedgerDocument":
        """What `encode` gave; an empty one where there is nothing.

        Args:
            body: as it is kept.
            place: where, for errors.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        if body is None:
            return LedgerDocument()
        try:
            fields = json.loads(body)
            if typed(fields, "formatVersion", int) != _VERSION:
                raise ValueError(f"it is of version {fields['formatVersion']}, not {_VERSION}")
            epochs = [(LedgerEpoch(**epoch), undone_by) for epoch, undone_by in fields["epochs"]]
            checkpoint = typed(fields, "checkpoint", str)
            run = None if fields["run"] is None else _run_of(fields["run"], checkpoint)
            return LedgerDocument(run, epochs)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise error_of("CLEANCUT_SINK_CORRUPTED", path=place, detail=problem) from None


def _run_of(fields: Mapping[str, Any], checkpoint: str) -> Run:
    acts = tuple(Act(*act) for act in fields["acts"])
    former = tuple(fields["former"])
    run = Run(**dict(fields) | {"former": former, "acts": acts})
    return run.with_checkpoints(decode_checkpoints(checkpoint))


class DocumentRecords:
    """Implements `LedgerStore` by the document of one query."""

    # All of them are written with each epoch.
    kept_epochs = 100

    def run(self, of: LedgerDocument, query_id: str) -> Run | None:
        return of.run

    def add_run(self, of: LedgerDocument, query_id: str, run: Run) -> None:
        of.run = run

    put_run = add_run

    def epochs(
        self, of: LedgerDocument, query_id: str, epoch: int | None = None
    ) -> list[RecordedEpoch]:
        wanted = (one for one in of.epochs if epoch is None or one[0].epoch == epoch)
        return [RecordedEpoch(found, is_undone=undone_by != 0) for found, undone_by in wanted]

    def add(self, of: LedgerDocument, query_id: str, epoch: LedgerEpoch) -> None:
        of.epochs.append((epoch, 0))

    def mark_undone(self, of: LedgerDocument, query_id: str, bound: int, operation: int) -> None:
        of.epochs = [
            (epoch, operation if epoch.epoch > bound and not undone_by else undone_by)
            for epoch, undone_by in of.epochs
        ]

    def drop(self, of: LedgerDocument, query_id: str, *, first: int, last: int) -> None:
        of.epochs = [one for one in of.epochs if not first <= one[0].epoch <= last]


def document_ledger(sink: str) -> StoredLedger[LedgerDocument]:
    """The ledger of a target that keeps a document for each query."""
    return StoredLedger(sink, DocumentRecords())
