"""The objects that savepoints retain, even if one is unreadable: docs/PROTOCOL.md, rule K9."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._format.layout import SAVEPOINTS, parse_cut_name, parse_savepoint_name
from cleancut._storage.objects import Place, Stored
from cleancut._storage.parallel import mapped
from cleancut.errors import CleancutError, ErrorKind, first_line


@dataclass(frozen=True)
class UnreadableSavepoint:
    """A savepoint that cannot be read, or a page of it.

    Attributes:
        name: the name of the savepoint.
        detail: the reason.
        last_epoch: the last epoch of which it may reference objects; None if that is not known.
    """

    name: str
    detail: str
    last_epoch: int | None

    def __str__(self) -> str:
        kept = "no segment or page"
        if self.last_epoch is not None:
            kept += f" up to epoch {self.last_epoch}"
        return (
            f"Savepoint {self.name} cannot be read: {self.detail} Until it is readable or dropped "
            f"(cleancut savepoint drop), {kept} is deleted."
        )


@dataclass(frozen=True)
class KeptSavepoints:
    """The savepoints of a checkpoint.

    Attributes:
        cuts: the cut of each savepoint that can be read, by name.
        unreadable: the others.
    """

    cuts: Mapping[str, StoredCut]
    unreadable: Sequence[UnreadableSavepoint]

    def may_reference(self, epoch: int) -> bool:
        """Whether a savepoint that cannot be read may reference an object of an epoch."""
        return any(
            savepoint.last_epoch is None or epoch <= savepoint.last_epoch
            for savepoint in self.unreadable
        )


def read_savepoints(
    objects: Place, reader: CutReader, cuts: Mapping[str, Stored] | None = None
) -> KeptSavepoints:
    """Reads all savepoints and their pages; one listing.

    Args:
        objects: the root of the checkpoint.
        reader: reads its cuts.
        cuts: the listing of the cuts; without it no last epoch is known.

    Raises:
        RetryableError: the object store is unavailable.
    """
    listed = objects.details(SAVEPOINTS)
    named = ((parse_savepoint_name(name), stored.modified_ms) for name, stored in listed.items())
    written = sorted((name, at) for name, at in named if name is not None)
    results = mapped(lambda savepoint: _read(reader, savepoint[0]), written)
    times = {parse_cut_name(name): stored.modified_ms for name, stored in (cuts or {}).items()}
    epochs = {epoch: at for epoch, at in times.items() if epoch is not None}
    readable: dict[str, StoredCut] = {}
    unreadable: list[UnreadableSavepoint] = []
    for (name, at), result in zip(written, results, strict=True):
        if isinstance(result, StoredCut):
            readable[name] = result
        elif result is not None:
            unreadable.append(UnreadableSavepoint(name, result, last_before(at, epochs)))
    return KeptSavepoints(readable, unreadable)


def last_before(time_ms: int, cuts: Mapping[int, int]) -> int | None:
    """An epoch that is at least the last epoch that was committed by a time.

    The cuts after it have no gap up to the last cut, and each is newer than that time. A cut before
    a gap is no evidence: a run that was fenced may have written it late.

    Args:
        time_ms: a time by the clock of the object store, like the write times of the cuts.
        cuts: the write time of each cut, by epoch.

    Returns:
        The epoch; None if none is known.
    """
    last = max(cuts, default=None)
    if last is None or cuts[last] <= time_ms:
        return None
    first = last
    while cuts.get(first - 1, time_ms) > time_ms:
        first -= 1
    return first - 1


def _read(reader: CutReader, name: str) -> StoredCut | str | None:
    """The cut of a savepoint, or the reason why it is unreadable. None if it was dropped."""
    try:
        cut = reader.savepoint(name)
        cut.named()
    except FileNotFoundError:
        return None
    except CleancutError as error:
        # A temporary failure is no property of the savepoint.
        if error.kind is ErrorKind.RETRY:
            raise
        return first_line(error)
    return cut
