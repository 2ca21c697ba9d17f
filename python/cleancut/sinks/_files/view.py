"""The published epochs of a sink, as readers see them at one moment."""

from collections.abc import Iterable

from cleancut._storage.parallel import mapped
from cleancut.errors import error_of
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import Manifest, read_manifest
from cleancut.sinks._files.names import EPOCHS, manifest_epochs


def look(
    records: Records,
    expired: int,
    epochs: Iterable[int] | None = None,
    *,
    after: int = -1,
    missing_ok: bool = False,
) -> list[Manifest]:
    """The manifests of some epochs, or of all after one; ascending.

    Args:
        records: of the sink.
        expired: the last expired epoch.
        epochs: which ones; None is all of them.
        after: only epochs after this one.
        missing_ok: whether an epoch that is named and not published is left out.

    Raises:
        RequestError: CLEANCUT_SINK_EPOCHS_MISSING, an epoch that is named is not published.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    listed = manifest_epochs(records.names(EPOCHS)) if epochs is None else sorted(set(epochs))
    wanted = [epoch for epoch in listed if epoch > max(expired, after)]
    read = mapped(lambda epoch: read_manifest(records, epoch), wanted)
    # One that was listed and is gone has been taken back since.
    found = [manifest for manifest in read if manifest is not None]
    if epochs is not None and not missing_ok:
        missing = set(listed) - {manifest.epoch for manifest in found}
        if missing:
            texts = ", ".join(map(str, sorted(missing)))
            raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=records.location, epochs=texts)
    return found
