"""The published epochs of a sink, as readers see them at one time.

Readers see an epoch if it has a manifest and counts by the recorded operations on the checkpoint,
or was unhidden by hand. So an operation hides any number of epochs at the time at which it is
recorded, and a manifest that is created afterwards is never seen.
"""

from collections.abc import Iterable, Sequence

from cleancut._storage.parallel import mapped
from cleancut.errors import error_of
from cleancut.sinks._epoch_log.manifest import Manifest, read_manifest
from cleancut.sinks._epoch_log.names import EPOCHS, UNHIDDEN, hidden_attempts, manifest_epochs
from cleancut.sinks._epoch_log.operations import read_history
from cleancut.sinks._epoch_log.records import Records

_TRIES = 20


def visible_manifests(
    records: Records,
    expired: int,
    epochs: Iterable[int] | None = None,
    *,
    after: int = -1,
    missing_ok: bool = False,
) -> list[Manifest]:
    """The manifests of some epochs, or of all after one; ascending.

    Args:
        records: the records of the sink.
        expired: the last expired epoch.
        epochs: the epochs to return; None is all.
        after: only epochs after this one.
        missing_ok: whether unpublished ones of `epochs` are skipped.

    Raises:
        RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of `epochs` is not published.
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    if epochs is None:
        return _visible(records, manifests_after(records, max(expired, after)))
    named = sorted(set(epochs))
    read = _read(records, [epoch for epoch in named if epoch > max(expired, after)])
    visible = _visible(records, [manifest for manifest in read if manifest is not None])
    missing = set(named) - {manifest.epoch for manifest in visible}
    if missing and not missing_ok:
        texts = ", ".join(map(str, sorted(missing)))
        raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=records.location, epochs=texts)
    return visible


def manifests_after(records: Records, after: int) -> list[Manifest]:
    """The manifests of all epochs after one, whether readers see them or not; ascending.

    Raises:
        RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    for _ in range(_TRIES):
        listed = [epoch for epoch in manifest_epochs(records.names(EPOCHS)) if epoch > after]
        manifests = [manifest for manifest in _read(records, listed) if manifest is not None]
        # A manifest that was deleted since the listing was hidden, perhaps before an earlier one.
        if len(manifests) == len(listed):
            return manifests
    raise error_of("CLEANCUT_SINK_CONCURRENT_CHANGE", path=records.location, tries=_TRIES)


def _read(records: Records, epochs: Sequence[int]) -> list[Manifest | None]:
    return list(mapped(lambda epoch: read_manifest(records, epoch), epochs))


def _visible(records: Records, manifests: list[Manifest]) -> list[Manifest]:
    """The manifests that count; operations are read after the manifests, see `read_history`."""
    history = read_history(records, [manifest.epoch for manifest in manifests])
    uncounted = {manifest.attempt for manifest in manifests if not history.counts(manifest.epoch)}
    if not uncounted:
        return manifests
    hidden = uncounted - set(hidden_attempts(records.names(UNHIDDEN)))
    return [manifest for manifest in manifests if manifest.attempt not in hidden]
