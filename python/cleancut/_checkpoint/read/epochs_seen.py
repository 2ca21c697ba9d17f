"""The epochs of a checkpoint that somebody watches: each cut is read once."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from cleancut._checkpoint.read.cut_info import epoch_infos
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut

# Of those that lie there at the first look: enough for a pace.
_FIRST_CUTS = 20
_KEPT_EPOCHS = 200


class EpochsSeen:
    """What each epoch was like, from some before the first look on.

    Attributes:
        epochs: the last of them, by their numbers. Of the last of all it is not known yet what the
            write of its cut took.
        last: the last cut; None before there is one.
    """

    def __init__(self, root: Root, *, first: int = _FIRST_CUTS) -> None:
        self._root = root
        self._first = first
        self._reader = CutReader(root.objects)
        self.epochs: deque[EpochInfo] = deque(maxlen=_KEPT_EPOCHS)
        self.last: StoredCut | None = None

    def look(self) -> Iterator[StoredCut]:
        """Reads the cuts that have come since the last look, with one listing.

        Each is given when it has been read, so that one that is damaged takes away none before it.

        Raises:
            CleancutError: the store cannot be asked, or a cut is damaged.
            OSError: likewise of a file system.
        """
        is_first = self.last is None
        seen = -1 if self.last is None else self.last.epoch
        new = [epoch for epoch in self._root.epochs() if epoch > seen]
        for epoch in new[-self._first :] if is_first else new:
            # One that the query has given up since the listing is none.
            with suppress(FileNotFoundError):
                cut = self._reader.cut(epoch)
                self._take(cut)
                yield cut

    def _take(self, cut: StoredCut) -> None:
        *before, own = epoch_infos([cut] if self.last is None else [self.last, cut])
        for of in before:
            # It is known only now what the write of its cut took.
            self.epochs[-1] = of
        self.epochs.append(own)
        self.last = cut
