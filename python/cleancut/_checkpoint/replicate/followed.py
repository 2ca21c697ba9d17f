"""What is noted in a checkpoint of those who look after it: drills that proved it, and copies."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from cleancut._brief import Brief
from cleancut._checkpoint.read.root import Root
from cleancut._display.tables import cell, rank
from cleancut._format.ages import moment
from cleancut._format.layout import (
    REPLICAS,
    parse_proof_name,
    parse_replica_note_name,
    replica_note_name,
)

_ID_BYTES = 8


@dataclass(frozen=True, repr=False)
class ProvenCut(Brief):
    """The last epoch that is known to be restorable.

    Attributes:
        epoch: Spark's batch id.
        proven: when a drill had read all that its cut leads to, in UTC.
    """

    epoch: int
    proven: datetime

    def __str__(self) -> str:
        return f"epoch {self.epoch}, proven at {cell(self.proven)} UTC"


@dataclass(frozen=True, repr=False)
class ReplicaStatus(Brief):
    """How far a copy is that passes keep up, as the last of them has noted.

    Attributes:
        location: of the copy.
        epoch: of the last cut that it has.
        written: when that cut was written, in UTC.
        copied: when the pass ended, in UTC.
        behind_epochs: how many epochs have been committed beyond it.
        behind_ms: how much later the last of these was committed than that of the copy; None where
            that is not known.
    """

    location: str
    epoch: int
    written: datetime = field(metadata=rank(1))
    copied: datetime
    behind_epochs: int
    behind_ms: int | None

    def __str__(self) -> str:
        seconds = "" if self.behind_ms is None else f", {self.behind_ms / 1000:.1f} s"
        behind = f"{self.behind_epochs} epochs{seconds} behind"
        return f"epoch {self.epoch}, {behind}; the last pass ended at {cell(self.copied)} UTC"


def proven_cut(names: Iterable[str]) -> ProvenCut | None:
    """The last of some proofs, by their names below the root, which say all of it."""
    last = max(filter(None, map(parse_proof_name, names)), default=None)
    return None if last is None else ProvenCut(last[0], moment(last[1]))


def proven_times(root: Root) -> dict[int, datetime]:
    """When the cuts of epochs were proven last; one listing."""
    found = sorted(filter(None, map(parse_proof_name, root.proofs())))
    return {epoch: moment(proven_ms) for epoch, proven_ms in found}


def note_pass(root: Root, location: str, epoch: int, written_ms: int) -> None:
    """Notes how far a copy has come, in the place of what was noted before.

    Args:
        root: of the checkpoint that is copied.
        location: of the copy.
        epoch: of the last cut that it has.
        written_ms: when that was written.
    """
    replica = blake2b(location.encode(), digest_size=_ID_BYTES).hexdigest()
    copied_ms = round(time.time() * 1000)
    note = {"location": location, "epoch": epoch, "writtenMs": written_ms, "copiedMs": copied_ms}
    name = replica_note_name(replica, epoch, copied_ms)
    root.objects.create(name, json.dumps(note).encode())
    # After it, so that there always is one.
    for old in list(root.objects.list(REPLICAS)):
        if old != name and parse_replica_note_name(old) == replica:
            root.objects.delete(old)


def replica_notes(root: Root) -> Iterator[str]:
    """What was noted of each copy; one listing, and a read for each."""
    for name in sorted(filter(parse_replica_note_name, root.objects.list(REPLICAS))):
        try:
            yield root.objects.read(name).decode()
        except FileNotFoundError:
            continue


def replica_statuses(
    notes: Iterable[str], committed: int | None, written_ms: int | None
) -> Iterator[ReplicaStatus]:
    """How far copies are; a note that cannot be read is none.

    Args:
        notes: what was noted of each.
        committed: the last epoch of the checkpoint; None if that is not known.
        written_ms: when its cut was written; None likewise.
    """
    for note in notes:
        try:
            of = json.loads(note)
            behind_epochs = max((committed or 0) - of["epoch"], 0)
            later_ms = None if written_ms is None else max(written_ms - of["writtenMs"], 0)
            yield ReplicaStatus(
                location=str(of["location"]),
                epoch=of["epoch"],
                written=moment(of["writtenMs"]),
                copied=moment(of["copiedMs"]),
                behind_epochs=behind_epochs,
                behind_ms=later_ms if behind_epochs else 0,
            )
        except (ValueError, KeyError, TypeError):
            continue
