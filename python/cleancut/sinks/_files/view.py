"""What readers see of a sink at one moment: epochs by themselves, and epochs that lie together."""

from collections.abc import Iterable
from dataclasses import dataclass

from cleancut._storage.parallel import mapped
from cleancut.errors import error_of
from cleancut.sinks._files.compacted import (
    Epochs,
    Member,
    Part,
    PartUse,
    Version,
    newest_version,
    part_gone,
    read_part,
)
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import Manifest, read_manifest
from cleancut.sinks._files.names import EPOCHS, manifest_epochs

_TRIES = 20


@dataclass(frozen=True)
class SeenEpoch:
    """An epoch that readers see.

    Attributes:
        manifest: by which it was published, or what a part remembers of it.
        files: how many hold its rows.
        bytes: of those that it was published with.
        in_part: whether it is in a part.
    """

    manifest: Manifest
    files: int
    bytes: int
    in_part: bool

    @property
    def epoch(self) -> int:
        """Spark's batch id."""
        return self.manifest.epoch

    @property
    def published_ms(self) -> int:
        """When it was published, in Unix time."""
        return self.manifest.published_ms


@dataclass(frozen=True)
class SeenPart:
    """A part of which readers see some epochs.

    Attributes:
        use: what the version says of it.
        part: what lies in it.
        chosen: the epochs that are asked for.
    """

    use: PartUse
    part: Part
    chosen: Epochs

    @property
    def members(self) -> list[Member]:
        """What is remembered of the chosen epochs."""
        return [member for member in self.part.members if member.epoch in self.chosen]


@dataclass(frozen=True)
class View:
    """What readers see.

    Attributes:
        version: that decides for the epochs up to some one.
        manifests: of the later ones that are asked for; ascending.
        parts: that have epochs which are asked for.
    """

    version: Version
    manifests: tuple[Manifest, ...]
    parts: tuple[SeenPart, ...]

    @property
    def apart(self) -> list[Manifest]:
        """The epochs that have files of their own; ascending."""
        in_place = [
            seen.part.manifest(member)
            for seen in self.parts
            if seen.use.in_place
            for member in seen.members
        ]
        return sorted([*in_place, *self.manifests], key=lambda manifest: manifest.epoch)

    @property
    def together(self) -> list[SeenPart]:
        """The parts in whose files several epochs lie."""
        return [seen for seen in self.parts if not seen.use.in_place]

    @property
    def epochs(self) -> set[int]:
        """All that are seen."""
        return {of.epoch for of in self.manifests}.union(*(of.chosen for of in self.parts))

    @property
    def infos(self) -> list[SeenEpoch]:
        """All that are seen; ascending."""
        found = [
            SeenEpoch(of, len(of.files), of.size_bytes, in_part=False) for of in self.manifests
        ]
        for seen in self.parts:
            for member in seen.members:
                files = member.files if seen.use.in_place else seen.part.files
                count = len(files) if member.rows else 0
                manifest = seen.part.manifest(member)
                found.append(SeenEpoch(manifest, count, member.bytes, in_part=True))
        return sorted(found, key=lambda of: of.epoch)


def look(
    records: Records,
    epochs: Iterable[int] | None = None,
    *,
    after: int = -1,
    missing_ok: bool = False,
) -> View:
    """What readers see of some epochs, or of all after one.

    Args:
        records: of the sink.
        epochs: which ones; None is all of them.
        after: none up to this one.
        missing_ok: whether one that is named and not published is left out.

    Raises:
        RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one that was named is not published.
        RetryableError: CLEANCUT_SINK_CHANGED, others change it all the time.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    wanted = None if epochs is None else set(epochs)
    for _ in range(_TRIES):
        view = _looked(records, wanted, after)
        if view is not None:
            missing = set() if missing_ok or wanted is None else wanted - view.epochs
            if missing:
                texts = ", ".join(map(str, sorted(missing)))
                raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=records.location, epochs=texts)
            return view
    raise error_of("CLEANCUT_SINK_CHANGED", path=records.location, tries=_TRIES)


def _looked(records: Records, wanted: set[int] | None, after: int) -> View | None:
    """What is seen; None if that has changed meanwhile."""
    # Before the version, which has all manifests that go before they are listed here.
    listed = manifest_epochs(records.names(EPOCHS)) if wanted is None else sorted(wanted)
    version = newest_version(records)
    beyond = [epoch for epoch in listed if epoch > max(version.until, after)]
    manifests = list(mapped(lambda epoch: read_manifest(records, epoch), beyond))

    def is_asked(epoch: int) -> bool:
        return epoch > after and (wanted is None or epoch in wanted)

    uses = [(use, use.shown.kept(is_asked)) for use in version.parts]
    uses = [(use, chosen) for use, chosen in uses if chosen]
    parts = list(mapped(lambda of: read_part(records, of[0].name), uses))
    if None in manifests or None in parts:
        if newest_version(records).number != version.number:
            return None
        for (use, _), part in zip(uses, parts, strict=True):
            if part is None:
                raise part_gone(records, use.name)
    return View(
        version=version,
        # One that is gone was taken back a moment ago.
        manifests=tuple(manifest for manifest in manifests if manifest is not None),
        parts=tuple(
            SeenPart(use, part, chosen)
            for (use, chosen), part in zip(uses, parts, strict=True)
            if part is not None
        ),
    )
