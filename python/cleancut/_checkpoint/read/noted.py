"""What drivers note of the epochs of a checkpoint that somebody watches: each file is read once."""

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.recorded import rows_of, spans
from cleancut._format.layout import HISTORY
from cleancut._storage.objects import Place


class NotedEpochs:
    """The epochs that are noted behind one, as their notes come.

    Args:
        root: that of the query.
        after: the generation and the number of the epoch.
    """

    def __init__(self, root: Place, after: tuple[int, int]) -> None:
        self._root = root
        self._after = after
        self._read: set[str] | None = None

    def look(self) -> list[EpochInfo]:
        """Those that were noted since the last look, in their order; one listing.

        A file that cannot be read is told of once: the next look goes on behind it.

        Raises:
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote some.
            CorruptedError: CLEANCUT_HISTORY_CORRUPTED.
            OSError: the file system cannot be asked.
        """
        listed = spans(self._root.list(HISTORY))
        if self._read is None:
            # Of what lies there already only what may reach behind that epoch.
            self._read = {name for name, (_, last) in listed.items() if last <= self._after[1]}
        self._read &= listed.keys()
        found: dict[tuple[int, int], EpochInfo] = {}
        try:
            for name in sorted(listed.keys() - self._read, key=lambda of: listed[of]):
                self._read.add(name)
                for info in rows_of(self._root, name):
                    found.setdefault((info.generation, info.epoch), info)
        except FileNotFoundError:
            # It is part of another one by now, which the next listing has. What lies behind it
            # waits for that, so that nothing is taken for seen that was not.
            self._read.remove(name)
        new = sorted(key for key in found if key > self._after)
        self._after = max([self._after, *new])
        return [found[key] for key in new]
