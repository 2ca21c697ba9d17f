"""All frames of one store, read whole."""

from collections.abc import Iterator

from cleancut._frame import Frame
from cleancut._history import History
from cleancut._layout import StoreId
from cleancut._parallel import windows
from cleancut._placed import WINDOW_BYTES


def frames_of(history: History, store: StoreId, version: int | None) -> Iterator[Frame]:
    """The frames of level 0, then those that cuts name, each by version, id and kind.

    Args:
        history: the checkpoint.
        store: whose frames.
        version: only the frames of this version; None is all.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
        DamagedError: a frame or a cut is damaged or misplaced.
    """
    available = history.versions(store)
    if version is not None:
        history.require(available, version, "version", str(store))
    files = history.reader_of(store)
    if files is not None:
        for name in sorted(files.listing.sizes):
            if version in (None, name.version):
                yield files.frame(name)
    yield from _of_cuts(history, store, version)


def _of_cuts(history: History, store: StoreId, version: int | None) -> Iterator[Frame]:
    # The last cut that names a frame is the one that is named where the frame is missing.
    newest = {
        frame: number - 1
        for number, chain in history.chains.get(store, {}).items()
        for frame in chain
        if version in (None, frame.name.version)
    }
    placed = sorted(newest, key=lambda frame: frame.name)
    for group in windows(placed, lambda frame: frame.length, WINDOW_BYTES):
        parts = history.reader.read(group)
        for frame in group:
            yield history.reader.frame(frame, parts, newest[frame])
