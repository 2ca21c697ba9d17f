"""Records in a checkpoint of restore tests and replicas."""

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
class RestoreTestStatus(Brief):
    """The last epoch whose cut passed a restore test.

    Attributes:
        epoch: Spark's batch id.
        tested: end of the restore test, in UTC.
    """

    epoch: int
    tested: datetime

    def __str__(self) -> str:
        return f"epoch {self.epoch}, tested at {cell(self.tested)} UTC"


@dataclass(frozen=True, repr=False)
class ReplicaStatus(Brief):
    """A replica, as its last pass recorded it.

    Attributes:
        location: location of the replica.
        epoch: epoch of its last cut.
        written: time at which that cut was written, in UTC.
        copied: end of the pass, in UTC.
        lag_epochs: number of epochs that the checkpoint has committed since.
        lag_ms: milliseconds between the commits of these two epochs; None if unknown.
    """

    location: str
    epoch: int
    written: datetime = field(metadata=rank(1))
    copied: datetime
    lag_epochs: int
    lag_ms: int | None

    def __str__(self) -> str:
        seconds = "" if self.lag_ms is None else f", {self.lag_ms / 1000:.1f} s"
        lag = f"lag {self.lag_epochs} epochs{seconds}"
        return f"epoch {self.epoch}, {lag}; the last pass ended at {cell(self.copied)} UTC"


def last_restore_test(names: Iterable[str]) -> RestoreTestStatus | None:
    """The last restore test of these records, by their names alone."""
    last = max(filter(None, map(parse_proof_name, names)), default=None)
    return None if last is None else RestoreTestStatus(last[0], moment(last[1]))


def restore_test_times(root: Root) -> dict[int, datetime]:
    """The time of the last restore test by epoch; one listing."""
    tests = sorted(filter(None, map(parse_proof_name, root.proofs())))
    return {epoch: moment(tested_ms) for epoch, tested_ms in tests}


def note_pass(root: Root, location: str, epoch: int, written_ms: int) -> None:
    """Records the last pass to a replica, and replaces its previous record.

    Args:
        root: the root of the replicated checkpoint.
        location: location of the replica.
        epoch: epoch of the last cut of the replica.
        written_ms: time at which that cut was written.
    """
    replica = blake2b(location.encode(), digest_size=_ID_BYTES).hexdigest()
    copied_ms = round(time.time() * 1000)
    note = {"location": location, "epoch": epoch, "writtenMs": written_ms, "copiedMs": copied_ms}
    name = replica_note_name(replica, epoch, copied_ms)
    root.objects.create(name, json.dumps(note).encode())
    # Deleted after the new record exists, so that there always is one.
    for old in list(root.objects.list(REPLICAS)):
        if old != name and parse_replica_note_name(old) == replica:
            root.objects.delete(old)


def replica_notes(root: Root) -> Iterator[str]:
    """The records of all replicas; one listing, and one read for each."""
    for name in sorted(filter(parse_replica_note_name, root.objects.list(REPLICAS))):
        try:
            yield root.objects.read(name).decode()
        except FileNotFoundError:
            continue


def replica_statuses(
    notes: Iterable[str], committed: int | None, written_ms: int | None
) -> Iterator[ReplicaStatus]:
    """The status of each replica; unreadable records are skipped.

    Args:
        notes: the records.
        committed: the last epoch of the checkpoint; None if it is not known.
        written_ms: time at which the cut of that epoch was written; None if it is not known.
    """
    for note in notes:
        try:
            record = json.loads(note)
            lag_epochs = max((committed or 0) - record["epoch"], 0)
            later_ms = None if written_ms is None else max(written_ms - record["writtenMs"], 0)
            yield ReplicaStatus(
                location=str(record["location"]),
                epoch=record["epoch"],
                written=moment(record["writtenMs"]),
                copied=moment(record["copiedMs"]),
                lag_epochs=lag_epochs,
                lag_ms=later_ms if lag_epochs else 0,
            )
        except (ValueError, KeyError, TypeError):
            continue
