"""The ledger of targets without tables: one document per query, which is written as a whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.lineage import decode_checkpoints, encode_checkpoints
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._ledgers.stored_ledger import StoredLedger

_VERSION = 1


@dataclass
class LedgerDocument:
    """The record of a target about one query.

    Attributes:
        run: the owning run and its last epoch; None before the first run.
        epochs: the recorded epochs, ascending, each with the incarnation of the operation that
            undid it; 0 for none.
    """

    run: Run | None = None
    epochs: list[tuple[LedgerEpoch, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """The document as bytes."""
        run, checkpoint = None, ""
        if self.run is not None:
            run = asdict(self.run)
            run["acts"] = [[operation.epoch, operation.source] for operation in self.run.operations]
            del run["checkpoint"], run["lineage"], run["operations"]
            checkpoint = encode_checkpoints(self.run.checkpoints)
        epochs = [[asdict(epoch), undone_by] for epoch, undone_by in self.epochs]
        fields = {"formatVersion": _VERSION, "checkpoint": checkpoint, "run": run}
        return json.dumps(fields | {"epochs": epochs}, separators=(",", ":")).encode()

    @staticmethod
    def decode(body: bytes | None, place: str) -> "LedgerDocument":
        """Parses the result of `encode`; returns an empty document if there is none.

        Args:
            body: the stored bytes.
            place: location of the document, for errors.

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
    values = dict(fields)
    operations = tuple(Operation(*operation) for operation in values.pop("acts"))
    former = tuple(fields["former"])
    run = Run(**values | {"former": former, "operations": operations})
    return run.with_checkpoints(decode_checkpoints(checkpoint))


class DocumentRecords:
    """Implements `LedgerStore` by the document of one query."""

    # The whole document is written with each epoch.
    kept_epochs = 100

    def run(self, document: LedgerDocument, query_id: str) -> Run | None:
        return document.run

    def add_run(self, document: LedgerDocument, query_id: str, run: Run) -> None:
        document.run = run

    put_run = add_run

    def epochs(
        self, document: LedgerDocument, query_id: str, epoch: int | None = None
    ) -> list[RecordedEpoch]:
        wanted = (one for one in document.epochs if epoch is None or one[0].epoch == epoch)
        return [RecordedEpoch(recorded, is_undone=undone_by != 0) for recorded, undone_by in wanted]

    def add(self, document: LedgerDocument, query_id: str, epoch: LedgerEpoch) -> None:
        document.epochs.append((epoch, 0))

    def mark_undone(
        self, document: LedgerDocument, query_id: str, bound: int, operation: int
    ) -> None:
        document.epochs = [
            (epoch, operation if epoch.epoch > bound and not undone_by else undone_by)
            for epoch, undone_by in document.epochs
        ]

    def drop(self, document: LedgerDocument, query_id: str, *, first: int, last: int) -> None:
        document.epochs = [one for one in document.epochs if not first <= one[0].epoch <= last]


def document_ledger(sink: str) -> StoredLedger[LedgerDocument]:
    """The ledger of a target that stores a document for each query."""
    return StoredLedger(sink, DocumentRecords())
