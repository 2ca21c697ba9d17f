"""All frames of one store, read whole."""

from collections.abc import Iterator

from cleancut._checkpoint.read.cut_reader import WINDOW_BYTES, CutReader
from cleancut._checkpoint.read.history import StoreHistory
from cleancut._format.frame.frame import Frame
from cleancut._storage.parallel import windows


def frames_of(history: StoreHistory, reader: CutReader, version: int | None) -> Iterator[Frame]:
    """The frames of level 0, then those that cuts reference, each by version, id and kind.

    Args:
        history: the history of the store.
        reader: reads the frames that cuts reference.
        version: only the frames of this version; None is all.

    Raises:
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
        CorruptedError: a frame is corrupted or misplaced.
    """
    files = history.files
    if files is not None:
        for name in sorted(files.listing.sizes):
            if version in (None, name.version):
                yield files.frame(name)
    # The error for a missing frame names the last cut that references it.
    newest = {
        frame: cut
        for cut, chain in history.chains.items()
        for frame in chain
        if version in (None, frame.name.version)
    }
    placed = sorted(newest, key=lambda frame: frame.name)
    for group in windows(placed, lambda frame: frame.length, WINDOW_BYTES):
        parts = reader.read(group)
        for frame in group:
            yield reader.frame(frame, parts, newest[frame])
