"""Hides published epochs that do not count after a rollback, and unhides them if it is undone."""

from collections.abc import Callable

from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import (
    EXPECT_NOTHING,
    EpochsLost,
    History,
    RecordedEpoch,
    RowsMissing,
)
from cleancut.sinks._core.query_side import OperationSource
from cleancut.sinks._epoch_log.manifest import Manifest, encoded, read_manifest
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    HIDDEN,
    UNDONE,
    UNHIDDEN,
    hidden_attempts,
    hidden_name,
    manifest_epochs,
    manifest_name,
    undone_epochs,
    undone_name,
    unhidden_name,
)
from cleancut.sinks._epoch_log.operations import find_lost_before, read_history, record_operations
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.retention import expired_until
from cleancut.sinks._epoch_log.view import visible_manifests


def follow(
    records: Records, side: OperationSource, expected: Expected = EXPECT_NOTHING
) -> tuple[int, History] | EpochsLost:
    """Records the operations on the checkpoint; hides and shows epochs accordingly.

    Returns:
        The last expired epoch, or -1 if none has expired, and the history after the operations. Or
        the lost epochs; nothing is recorded then.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    expired = expired_until(records)
    published = manifest_epochs(records.names(EPOCHS))
    hidden = hidden_attempts(records.names(HIDDEN))
    known = read_history(records, [*published, *(attempt.epoch for attempt in hidden)])
    lost = find_lost_before(records, side, known, expected, first=expired + 1)
    if lost is not None:
        return lost
    # First: a run from before a rollback reads them after it has published, and hides its epoch.
    history = record_operations(records, side, known)
    if history != known:
        # Again: until then, such a run could publish and not see the operations.
        published = manifest_epochs(records.names(EPOCHS))
    # The last epoch is hidden first, so that readers see a prefix of the epochs at any time.
    for epoch in reversed(published):
        if epoch > expired and not history.counts(epoch):
            hide_manifest(records, read_manifest(records, epoch))
    if any(attempt.epoch > expired and history.counts(attempt.epoch) for attempt in hidden):
        _show(records, history.counts, is_by_hand=False)
    for attempt in hidden_attempts(records.names(UNHIDDEN)):
        records.delete(unhidden_name(attempt))
    return expired, history


def missing(records: Records, expired: int, history: History) -> RowsMissing | None:
    """The epochs that count and are deleted; None if there are none.

    Args:
        records: the records of the sink.
        expired: the last expired epoch.
        history: the epochs that count.
    """
    undone = {epoch for epoch in undone_epochs(records.names(UNDONE)) if epoch > expired}
    if not undone:
        return None
    published = {epoch for epoch in manifest_epochs(records.names(EPOCHS)) if epoch > expired}
    epochs = RecordedEpoch.numbered(sorted(undone | published), undone - published)
    compared = history.compare(epochs)
    return compared if isinstance(compared, RowsMissing) else None


def hide(records: Records, after: int) -> list[Manifest]:
    """Hides the epochs after one; returns those that readers saw.

    The last epoch is hidden first, so that readers see a prefix of the epochs at any time.

    Args:
        records: the records of the sink.
        after: the last epoch that remains visible.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED, nothing was changed.
    """
    manifests = visible_manifests(records, expired_until(records), after=after)
    for manifest in reversed(manifests):
        hide_manifest(records, manifest)
    for attempt in hidden_attempts(records.names(UNHIDDEN)):
        if attempt.epoch > after:
            records.delete(unhidden_name(attempt))
    return manifests


def hide_manifest(records: Records, manifest: Manifest | None) -> None:
    """Hides one epoch."""
    if manifest is not None:
        records.create(hidden_name(manifest.attempt), manifest.encode())
        records.delete(manifest_name(manifest.epoch))


def show(records: Records, counts: Callable[[int], bool]) -> list[Manifest]:
    """Unhides epochs, except those that were published again meanwhile.

    The next run of the query decides again which epochs count.

    Args:
        records: the records of the sink.
        counts: selects the epochs.

    Returns:
        The epochs that are visible again.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    shown = _show(records, counts, is_by_hand=True)
    return visible_manifests(records, expired_until(records), shown, missing_ok=True)


def _show(records: Records, counts: Callable[[int], bool], *, is_by_hand: bool) -> list[int]:
    expired = expired_until(records)
    shown = []
    for attempt in hidden_attempts(records.names(HIDDEN)):
        name = hidden_name(attempt)
        body = records.read(name) if attempt.epoch > expired and counts(attempt.epoch) else None
        if body is None:
            continue
        Manifest.decode(body, records.at(name), attempt.epoch)
        if is_by_hand:
            # First: by the recorded operations the epoch may not count.
            records.create(unhidden_name(attempt), encoded({}))
        was_made = records.create(manifest_name(attempt.epoch), body)
        if was_made or records.read(manifest_name(attempt.epoch)) == body:
            records.delete(name)
            shown.append(attempt.epoch)
    return shown


def forget(records: Records) -> int:
    """Deletes hidden epochs; returns their number.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    expired = expired_until(records)
    hidden = hidden_attempts(records.names(HIDDEN))
    for attempt in hidden:
        # First: a rollback that is undone requires these rows, and must be refused.
        records.create(undone_name(attempt.epoch), encoded({}))
        records.delete(hidden_name(attempt))
    return sum(attempt.epoch > expired for attempt in hidden)
