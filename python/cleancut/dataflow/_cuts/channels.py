"""What is known of one channel: who sends, and which published epochs still count."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cleancut.dataflow._model.records import EdgeCut
from cleancut.errors import CleancutError, first_line
from cleancut.sinks._epoch_log.manifest import Manifest, Owner, owner_of, read_manifest
from cleancut.sinks._epoch_log.names import (
    ACTS,
    EPOCHS,
    TAKEN_BACK,
    manifest_epochs,
    taken_back,
    taken_back_name,
)
from cleancut.sinks._epoch_log.operations import read_operations
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.retention import expired_until
from cleancut.sinks._epoch_log.view import manifests_after

_Key = tuple[int, str]


@dataclass
class ChannelView:
    """One channel, as it has been seen last.

    Attributes:
        records: what lies there.
        owner: the query that sends; None before it has sent.
        trouble: why it could not be looked at; None if it could.
        back: epoch and attempt of what was taken back.
        acts: epoch and source of the acts on its sender that it has gone back by. It has done so
            before the sender committed another epoch, so after that they tell of all acts.
    """

    records: Records
    owner: Owner | None = None
    trouble: str | None = None
    back: frozenset[_Key] = frozenset()
    acts: tuple[tuple[int, int], ...] = ()
    _sound: set[_Key] = field(default_factory=set)
    _wrong: dict[_Key, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Looks for the first time, or again where it is not known who sends."""
        self.look_for_owner()
        self.look_for_acts()
        self.look_back()

    def look_for_owner(self) -> None:
        """Looks who sends, if that is not known."""
        with self._troubled():
            if self.owner is None:
                self.owner = owner_of(self.records)

    def look_back(self) -> None:
        """Looks what was taken back; one listing."""
        with self._troubled():
            found = taken_back(self.records.names(TAKEN_BACK))
            self.back = frozenset((of.epoch, of.token) for of in found)

    def look_for_acts(self) -> None:
        """Looks by what acts it went back; one listing, and a request for each new one."""
        with self._troubled():
            known = dict(self.acts)
            noted = manifest_epochs(self.records.names(ACTS))
            new = read_operations(self.records, [of for of in noted if of not in known])
            known.update((of.epoch, of.source) for of in new)
            self.acts = tuple(sorted(known.items()))

    @contextmanager
    def _troubled(self) -> Iterator[None]:
        try:
            yield
        except (CleancutError, OSError) as error:
            self.trouble = first_line(error)

    def is_checked(self, epoch: int, attempt: str | None) -> bool:
        """Whether it is known that an epoch was published by an attempt."""
        return attempt is None or (epoch, attempt) in self._sound

    def check(self, epoch: int, attempt: str) -> None:
        """Looks whether an epoch is published by an attempt, or was and has been given up."""
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
            return None if is_same else f"epoch {epoch} was published anew since"
        if epoch <= expired_until(self.records):
            return None
        published = manifest_epochs(self.records.names(EPOCHS))
        # The oldest go when all readers have consumed them; the last one stays.
        if published and epoch < published[0]:
            return None
        return f"epoch {epoch} is not published any more"

    def problem(self, epoch: int, attempt: str | None) -> str | None:
        """Why what a cut has consumed does not count; None if it does, as far as is known."""
        if attempt is None:
            return None
        if self.owner is None:
            # Taken for nobody's of the dataflow, it would bind nobody.
            return self.trouble or "it is not known who sends there"
        if (epoch, attempt) in self.back:
            return f"epoch {epoch} was taken back"
        if (epoch, attempt) in self._sound:
            return None
        return self._wrong.get((epoch, attempt), self.trouble or f"epoch {epoch} is not known")


@dataclass(frozen=True)
class FlyingEpoch:
    """An epoch of a channel that is in flight.

    Attributes:
        epoch: Spark's batch id of the sender.
        attempt: by which it was published.
        rows: how many it has.
        bytes: of its files.
        manifest: by which it is, or was, published.
    """

    epoch: int
    attempt: str
    rows: int
    bytes: int
    manifest: Manifest


def flying(records: Records, edge: EdgeCut) -> list[FlyingEpoch]:
    """The epochs of a channel after the last consumed one, up to the last sent one; ascending.

    They include epochs that readers do not see any more because the sender was rolled back since.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    if edge.sent is None:
        return []
    found: dict[int, FlyingEpoch] = {}
    after = max(edge.consumed, expired_until(records))
    for manifest in [*_hidden(records, edge, edge.sent), *manifests_after(records, after)]:
        epoch = manifest.epoch
        if edge.consumed < epoch <= edge.sent and edge.lineage.counts(epoch):
            found[epoch] = FlyingEpoch(
                epoch=epoch,
                attempt=manifest.attempt.token,
                rows=manifest.rows,
                bytes=manifest.size_bytes,
                manifest=manifest,
            )
    return [found[epoch] for epoch in sorted(found)]


def _hidden(records: Records, edge: EdgeCut, sent: int) -> Iterator[Manifest]:
    for attempt in taken_back(records.names(TAKEN_BACK)):
        name = taken_back_name(attempt)
        body = records.read(name) if edge.consumed < attempt.epoch <= sent else None
        if body is not None:
            yield Manifest.decode(body, records.at(name), attempt.epoch)
