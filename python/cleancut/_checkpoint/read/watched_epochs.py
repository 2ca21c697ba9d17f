"""The epochs of a watched checkpoint: each cut is read once."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from cleancut._checkpoint.read.cut_info import epoch_infos
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut

# Number of existing cuts that the first scan reads: enough for a pace.
_FIRST_CUTS = 20
_KEPT_EPOCHS = 200


class WatchedEpochs:
    """The description of each epoch, from some epochs before the first scan.

    Attributes:
        epochs: the last epochs, in order. The write duration of the very last cut is not known yet.
        last: the last cut; None until there is one.
    """

    def __init__(self, root: Root, *, first: int = _FIRST_CUTS) -> None:
        self._root = root
        self._first = first
        self._reader = CutReader(root.objects)
        self.epochs: deque[EpochInfo] = deque(maxlen=_KEPT_EPOCHS)
        self.last: StoredCut | None = None

    def scan(self) -> Iterator[StoredCut]:
        """Reads the cuts that were written since the last scan, with one listing.

        Each cut is returned as soon as it is read, so a corrupted cut does not hide earlier ones.

        Raises:
            CleancutError: the object store fails, or a cut is corrupted.
            OSError: the file system fails.
        """
        is_first = self.last is None
        seen = -1 if self.last is None else self.last.epoch
        new = [epoch for epoch in self._root.epochs() if epoch > seen]
        for epoch in new[-self._first :] if is_first else new:
            # The query may have deleted the cut since the listing.
            with suppress(FileNotFoundError):
                cut = self._reader.cut(epoch)
                self._take(cut)
                yield cut

    def _take(self, cut: StoredCut) -> None:
        *before, current = epoch_infos([cut] if self.last is None else [self.last, cut])
        for info in before:
            # Only the next cut records the write duration of a cut.
            self.epochs[-1] = info
        self.epochs.append(current)
        self.last = cut
