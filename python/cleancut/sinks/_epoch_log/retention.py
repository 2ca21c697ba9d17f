"""Expiry of the oldest epochs, and the deletion of their files after a grace period.

An *expiry record* has an epoch, and no manifest up to that epoch counts any more. So one object
created if absent hides any number of epochs at one moment, and a manifest that a paused driver
creates afterwards changes nothing. Records are numbered; the one with the greatest number counts.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cleancut._format.ages import age_ms
from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._epoch_log.manifest import Manifest, decoded, encoded
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    EXPIRED,
    FILES,
    HIDDEN,
    attempts,
    expiry_name,
    expiry_numbers,
    hidden_attempts,
    hidden_name,
    manifest_epochs,
    manifest_name,
)
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.view import visible_manifests

_TRIES = 20


@dataclass(frozen=True)
class Kept:
    """The retained epochs: the last ones, and the young ones.

    Attributes:
        last: number of last epochs; at least 1, because a run may request the last epoch again.
        since_ms: earliest publication time of retained epochs, in Unix time; None if age does not
            count.
    """

    last: int
    since_ms: float | None

    @staticmethod
    def of(keep: int, retain_for: timedelta | str | None) -> "Kept":
        """The retention that a caller requests.

        Raises:
            ValueError: no epoch would be retained, or the age cannot be parsed.
        """
        if keep < 1:
            raise ValueError(f"retain_last is {keep}, and must be at least 1")
        if retain_for is None:
            return Kept(keep, None)
        return Kept(keep, time.time_ns() // 1_000_000 - age_ms(retain_for))

    def before(self, published: Mapping[int, int]) -> int:
        """The last epoch that is not retained; -1 if all are.

        Args:
            published: the time of publication of each epoch, in Unix time in ms.
        """
        ordered = sorted(published)
        older = ordered[: -self.last]
        if self.since_ms is not None:
            young = [epoch for epoch in ordered if published[epoch] >= self.since_ms]
            older = [epoch for epoch in older if not young or epoch < young[0]]
        return older[-1] if older else -1


@dataclass(frozen=True)
class ExpiryRecord:
    """The record of expired epochs.

    Attributes:
        number: number of the record; numbers are consecutive.
        until: the last expired epoch.
        made_ms: time at which the record was created, in Unix time.
    """

    number: int
    until: int
    made_ms: int

    def encode(self) -> bytes:
        """The record as bytes."""
        return encoded({"number": self.number, "until": self.until, "madeMs": self.made_ms})

    @staticmethod
    def decode(body: bytes, path: str) -> "ExpiryRecord":
        """Parses the result of `encode`.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> ExpiryRecord:
            return ExpiryRecord(
                number=typed(fields, "number", int),
                until=typed(fields, "until", int),
                made_ms=typed(fields, "madeMs", int),
            )

        return decoded(body, path, parsed)


# The default if a sink has no record: no epoch has expired.
_NONE = ExpiryRecord(number=-1, until=-1, made_ms=0)


def expired_until(records: Records) -> int:
    """The last expired epoch; -1 if none has expired.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    return _newest(records).until


def _newest(records: Records) -> ExpiryRecord:
    for _ in range(_TRIES):
        numbers = expiry_numbers(records.names(EXPIRED))
        if not numbers:
            return _NONE
        # It is deleted only if there is a later record.
        record = _read(records, numbers[-1])
        if record is not None:
            return record
    raise error_of("CLEANCUT_SINK_CONCURRENT_CHANGE", path=records.location, tries=_TRIES)


def _read(records: Records, number: int) -> ExpiryRecord | None:
    name = expiry_name(number)
    body = records.read(name)
    return None if body is None else ExpiryRecord.decode(body, records.at(name))


def published_epochs(records: Records, *, after: int = -1) -> list[Manifest]:
    """All epochs that readers see, ascending.

    Args:
        records: the records of the sink.
        after: only epochs after this one.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    return visible_manifests(records, expired_until(records), after=after)


def expire(records: Records, kept: Kept, *, until: int | None = None) -> list[Manifest]:
    """Expires epochs, including hidden ones; returns those that readers saw.

    Args:
        records: the records of the sink.
        kept: the retained epochs.
        until: no epoch after this one expires; None is no limit.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    for _ in range(_TRIES):
        newest = _newest(records)
        seen = visible_manifests(records, newest.until)
        last = kept.before({manifest.epoch: manifest.published_ms for manifest in seen})
        last = last if until is None else min(last, until)
        if last < 0:
            return []
        made = ExpiryRecord(newest.number + 1, max(last, newest.until), time.time_ns() // 1_000_000)
        if records.create(expiry_name(made.number), made.encode()):
            return [manifest for manifest in seen if manifest.epoch <= last]
    raise error_of("CLEANCUT_SINK_CONCURRENT_CHANGE", path=records.location, tries=_TRIES)


def collect(records: Records, grace_ms: int) -> None:
    """Deletes epochs that expired at least `grace_ms` ago, so that no reader can need them.

    If it is killed, it can be called again.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    due_ms = time.time_ns() // 1_000_000 - grace_ms
    numbers = expiry_numbers(records.names(EXPIRED))
    due: ExpiryRecord | None = None
    for number in reversed(numbers):
        due = _read(records, number)
        if due is None:
            # Another process deletes it concurrently.
            return
        if due.made_ms <= due_ms:
            break
    else:
        return
    assert due is not None
    _delete_epochs(records, due.until)
    for number in numbers:
        if number < due.number:
            records.delete(expiry_name(number))


def _delete_epochs(records: Records, until: int) -> None:
    # Manifests first: a run that begins deletes files that no manifest references.
    for epoch in manifest_epochs(records.names(EPOCHS)):
        if epoch <= until:
            records.delete(manifest_name(epoch))
    for attempt in hidden_attempts(records.names(HIDDEN)):
        if attempt.epoch <= until:
            records.delete(hidden_name(attempt))
    for attempt in attempts(records.names(FILES)):
        if attempt.epoch <= until:
            records.remove(attempt.directory)
