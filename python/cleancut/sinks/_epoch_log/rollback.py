"""Hides published epochs that do not count after a rollback, and shows them when they do again."""

from collections.abc import Callable

from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import (
    EXPECT_NOTHING,
    EpochsLost,
    History,
    RecordedEpoch,
    RowsMissing,
)
from cleancut.sinks._core.query_side import Acted
from cleancut.sinks._epoch_log.manifest import Manifest, encoded, read_manifest
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    GIVEN_BACK,
    TAKEN_BACK,
    UNDONE,
    given_back,
    given_back_name,
    manifest_epochs,
    manifest_name,
    taken_back,
    taken_back_name,
    undone_epochs,
    undone_name,
)
from cleancut.sinks._epoch_log.operations import find_lost_before, read_history, record_operations
from cleancut.sinks._epoch_log.records import Records
from cleancut.sinks._epoch_log.retention import expired_until
from cleancut.sinks._epoch_log.view import look


def follow(
    records: Records, side: Acted, expected: Expected = EXPECT_NOTHING
) -> tuple[int, History] | EpochsLost:
    """Records the operations on the checkpoint; hides and shows epochs accordingly.

    Returns:
        The last expired epoch, or -1 if none has expired; and which epochs count. Or the epochs
        that are lost, before anything is recorded.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    expired = expired_until(records)
    published = manifest_epochs(records.names(EPOCHS))
    hidden = taken_back(records.names(TAKEN_BACK))
    known = read_history(records, [*published, *(of.epoch for of in hidden)])
    lost = find_lost_before(records, side, known, expected, first=expired + 1)
    if lost is not None:
        return lost
    # First: a run from before a rollback reads them after it has published, and hides its epoch.
    history = record_operations(records, side, known)
    if history != known:
        # Again: until then, such a run could publish and not see the operations.
        published = manifest_epochs(records.names(EPOCHS))
    # The last goes first, so that readers see all epochs up to some one at any moment.
    for epoch in reversed(published):
        if epoch > expired and not history.counts(epoch):
            hide_manifest(records, read_manifest(records, epoch))
    if any(of.epoch > expired and history.counts(of.epoch) for of in hidden):
        _show(records, history.counts, is_by_hand=False)
    for attempt in given_back(records.names(GIVEN_BACK)):
        records.delete(given_back_name(attempt))
    return expired, history


def missing(records: Records, expired: int, history: History) -> RowsMissing | None:
    """The epochs that count and were given up; None if there are none.

    Args:
        records: of the sink.
        expired: the last expired epoch.
        history: which epochs count.
    """
    undone = {of for of in undone_epochs(records.names(UNDONE)) if of > expired}
    if not undone:
        return None
    published = {of for of in manifest_epochs(records.names(EPOCHS)) if of > expired}
    epochs = RecordedEpoch.numbered(sorted(undone | published), undone - published)
    compared = history.compare(epochs)
    return compared if isinstance(compared, RowsMissing) else None


def hide(records: Records, after: int) -> list[Manifest]:
    """Has readers not see what was published after an epoch; gives what they saw of that.

    The last goes first, so that readers see all epochs up to some one at any moment.

    Args:
        records: of the sink.
        after: the epoch.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED, nothing was changed.
    """
    manifests = look(records, expired_until(records), after=after)
    for manifest in reversed(manifests):
        hide_manifest(records, manifest)
    for attempt in given_back(records.names(GIVEN_BACK)):
        if attempt.epoch > after:
            records.delete(given_back_name(attempt))
    return manifests


def hide_manifest(records: Records, manifest: Manifest | None) -> None:
    """Has readers not see an epoch."""
    if manifest is not None:
        records.create(taken_back_name(manifest.attempt), manifest.encode())
        records.delete(manifest_name(manifest.epoch))


def show(records: Records, counts: Callable[[int], bool]) -> list[Manifest]:
    """Has readers see again what was hidden, but for epochs that were published again meanwhile.

    They see it until the next run of the query decides which epochs count.

    Args:
        records: of the sink.
        counts: which epochs.

    Returns:
        What they see again.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    shown = _show(records, counts, is_by_hand=True)
    return look(records, expired_until(records), shown, missing_ok=True)


def _show(records: Records, counts: Callable[[int], bool], *, is_by_hand: bool) -> list[int]:
    expired = expired_until(records)
    shown = []
    for attempt in taken_back(records.names(TAKEN_BACK)):
        name = taken_back_name(attempt)
        body = records.read(name) if attempt.epoch > expired and counts(attempt.epoch) else None
        if body is None:
            continue
        Manifest.decode(body, records.at(name), attempt.epoch)
        if is_by_hand:
            # First: by the recorded operations the epoch may not count.
            records.create(given_back_name(attempt), encoded({}))
        was_made = records.create(manifest_name(attempt.epoch), body)
        if was_made or records.read(manifest_name(attempt.epoch)) == body:
            records.delete(name)
            shown.append(attempt.epoch)
    return shown


def forget(records: Records) -> int:
    """Gives up what was taken back; how many epochs these were.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    expired = expired_until(records)
    found = taken_back(records.names(TAKEN_BACK))
    for attempt in found:
        # First: a rollback that is undone needs these rows, and has to be refused.
        records.create(undone_name(attempt.epoch), encoded({}))
        records.delete(taken_back_name(attempt))
    return sum(of.epoch > expired for of in found)
