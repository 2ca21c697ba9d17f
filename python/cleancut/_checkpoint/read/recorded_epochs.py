"""The recorded history of a watched checkpoint: each file is read once."""

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.history_files import rows_of, spans
from cleancut._format.layout import HISTORY
from cleancut._storage.objects import Place


class RecordedEpochs:
    """The epochs that drivers record after a given one.

    Args:
        root: the root of the checkpoint.
        after: the generation and the number of the given epoch.
    """

    def __init__(self, root: Place, after: tuple[int, int]) -> None:
        self._root = root
        self._after = after
        self._read: set[str] | None = None

    def scan(self) -> list[EpochInfo]:
        """Returns the epochs that were recorded since the last scan, in order; one listing.

        An unreadable file is reported once; the next scan continues after it.

        Raises:
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote a file.
            CorruptedError: CLEANCUT_HISTORY_CORRUPTED.
            OSError: the file system fails.
        """
        listed = spans(self._root.list(HISTORY))
        if self._read is None:
            # Of the existing files, only those that may have later epochs are read.
            self._read = {name for name, (_, last) in listed.items() if last <= self._after[1]}
        self._read &= listed.keys()
        by_key: dict[tuple[int, int], EpochInfo] = {}
        try:
            for name in sorted(listed.keys() - self._read, key=lambda file: listed[file]):
                self._read.add(name)
                for info in rows_of(self._root, name):
                    by_key.setdefault((info.generation, info.epoch), info)
        except FileNotFoundError:
            # The file was compacted into another one, which the next listing has. Later files wait
            # for it, so that no epoch is skipped.
            self._read.remove(name)
        new = sorted(key for key in by_key if key > self._after)
        self._after = max([self._after, *new])
        return [by_key[key] for key in new]
