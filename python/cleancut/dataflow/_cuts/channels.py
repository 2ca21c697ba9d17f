"""The known state of one channel: its sender, and the published epochs that still count."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cleancut.dataflow._model.records import EdgeCut
from cleancut.errors import CleancutError, first_line
from cleancut.sinks._epoch_log.manifest import Manifest, Owner, owner_of, read_manifest
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    HIDDEN,
    OPERATIONS,
    hidden_attempts,
    hidden_name,
    manifest_epochs,
)
from cleancut.sinks._epoch_log.operations import read_operations
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.retention import expired_until
from cleancut.sinks._epoch_log.view import manifests_after

_Key = tuple[int, str]


@dataclass
class ChannelView:
    """One channel, as of the last scan.

    Attributes:
            records: the records of the channel.
            owner: the query that sends; None before its first epoch.
            trouble: the reason why the last scan failed; None if it succeeded.
            back: epoch and attempt of hidden epochs.
    operations: epoch and source of the operations on the sender that the channel has recorded. It
                records them before the sender commits another epoch, so later they are complete.
    """

    records: Records
    owner: Owner | None = None
    trouble: str | None = None
    back: frozenset[_Key] = frozenset()
    operations: tuple[tuple[int, int], ...] = ()
    _sound: set[_Key] = field(default_factory=set)
    _wrong: dict[_Key, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Scans for the first time, or again while the sender is unknown."""
        self.read_owner()
        self.list_operations()
        self.list_hidden()

    def read_owner(self) -> None:
        """Reads the sender, if it is unknown."""
        with self._troubled():
            if self.owner is None:
                self.owner = owner_of(self.records)

    def list_hidden(self) -> None:
        """Lists the hidden epochs; one listing."""
        with self._troubled():
            attempts = hidden_attempts(self.records.names(HIDDEN))
            self.back = frozenset((attempt.epoch, attempt.token) for attempt in attempts)

    def list_operations(self) -> None:
        """Reads the recorded operations; one listing, and a request for each new one."""
        with self._troubled():
            known = dict(self.operations)
            noted = manifest_epochs(self.records.names(OPERATIONS))
            new = read_operations(
                self.records, [operation for operation in noted if operation not in known]
            )
            known.update((operation.epoch, operation.source) for operation in new)
            self.operations = tuple(sorted(known.items()))

    @contextmanager
    def _troubled(self) -> Iterator[None]:
        try:
            yield
        except (CleancutError, OSError) as error:
            self.trouble = first_line(error)

    def is_checked(self, epoch: int, attempt: str | None) -> bool:
        """Whether it is known that an attempt published an epoch."""
        return attempt is None or (epoch, attempt) in self._sound

    def check(self, epoch: int, attempt: str) -> None:
        """Checks that an attempt has published an epoch, or had before the epoch expired."""
        key = epoch, attempt
        try:
            wrong = self._wrong_with(epoch, attempt)
        except (CleancutError, OSError) as error:
            wrong = first_line(error)
        if wrong is None:
            self._sound.add(key)
            self._wrong.pop(key, None)
        else:
            self._wrong[key] = wrong

    def _wrong_with(self, epoch: int, attempt: str) -> str | None:
        manifest = read_manifest(self.records, epoch)
        if manifest is not None:
            is_same = manifest.attempt.token == attempt
            return None if is_same else f"epoch {epoch} was published again since"
        if epoch <= expired_until(self.records):
            return None
        published = manifest_epochs(self.records.names(EPOCHS))
        # The oldest epochs expire when all readers have consumed them; the last one is retained.
        if published and epoch < published[0]:
            return None
        return f"epoch {epoch} is not published any more"

    def problem(self, epoch: int, attempt: str | None) -> str | None:
        """The reason why a consumed epoch does not count; None if none is known."""
        if attempt is None:
            return None
        if self.owner is None:
            # Treated as no member of the dataflow, it would not constrain any cut.
            return self.trouble or "its sender is not known"
        if (epoch, attempt) in self.back:
            return f"epoch {epoch} is hidden"
        if (epoch, attempt) in self._sound:
            return None
        return self._wrong.get((epoch, attempt), self.trouble or f"epoch {epoch} is not known")


@dataclass(frozen=True)
class InFlightEpoch:
    """An in-flight epoch of a channel.

    Attributes:
        epoch: Spark's batch id of the sender.
        attempt: the attempt that published it.
        rows: number of rows.
        bytes: size of its files.
        manifest: its manifest, which may be hidden by now.
    """

    epoch: int
    attempt: str
    rows: int
    bytes: int
    manifest: Manifest


def in_flight_epochs(records: Records, edge: EdgeCut) -> list[InFlightEpoch]:
    """The epochs of a channel after the last consumed one, up to the last sent one; ascending.

    They include epochs that are hidden because the sender was rolled back since.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    if edge.sent is None:
        return []
    epochs_in_flight: dict[int, InFlightEpoch] = {}
    after = max(edge.consumed, expired_until(records))
    for manifest in [*_hidden(records, edge, edge.sent), *manifests_after(records, after)]:
        epoch = manifest.epoch
        if edge.consumed < epoch <= edge.sent and edge.lineage.counts(epoch):
            epochs_in_flight[epoch] = InFlightEpoch(
                epoch=epoch,
                attempt=manifest.attempt.token,
                rows=manifest.rows,
                bytes=manifest.size_bytes,
                manifest=manifest,
            )
    return [epochs_in_flight[epoch] for epoch in sorted(epochs_in_flight)]


def _hidden(records: Records, edge: EdgeCut, sent: int) -> Iterator[Manifest]:
    for attempt in hidden_attempts(records.names(HIDDEN)):
        name = hidden_name(attempt)
        body = records.read(name) if edge.consumed < attempt.epoch <= sent else None
        if body is not None:
            yield Manifest.decode(body, records.at(name), attempt.epoch)
