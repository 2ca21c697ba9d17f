"""A part of an object that is read forward, on demand."""

from collections.abc import Callable
from zlib import crc32

from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range, read_ranges

# Starts small for readers of a few rows, and grows for readers of the whole part.
_FIRST_BYTES = 1 << 16
_MAX_BYTES = 1 << 26


class ForwardBytes:
    """Bytes that are requested in order; earlier bytes are released.

    Attributes:
        crc: CRC-32 of all bytes read so far.
    """

    def __init__(self, objects: Objects, part: Range, missing: Callable[[], Exception]) -> None:
        """Reads nothing yet.

        Args:
            objects: the objects that contain the part.
            part: the part.
            missing: returns the error for a missing object.
        """
        self.crc = 0
        self._objects, self._part, self._missing = objects, part, missing
        self._next_size = _FIRST_BYTES
        self._start = 0
        self._held = b""
        self._is_cut_short = False

    def __len__(self) -> int:
        if self._is_cut_short:
            return self._start + len(self._held)
        return self._part.length

    def __getitem__(self, part: slice, /) -> bytes:
        end = min(part.stop, self._part.length)
        if part.start > self._start:
            self._held = self._held[part.start - self._start :]
            self._start = part.start
        while self._start + len(self._held) < end and not self._is_cut_short:
            self._read_on(end)
        return self._held[: max(0, end - self._start)]

    def _read_on(self, end: int) -> None:
        at = self._start + len(self._held)
        size = min(max(self._next_size, end - at), self._part.length - at)
        wanted = Range(self._part.name, self._part.offset + at, size)
        data = read_ranges(self._objects, [wanted])[wanted]
        if data is None:
            raise self._missing()
        self.crc = crc32(data, self.crc)
        self._held += data
        self._is_cut_short = len(data) < size
        self._next_size = min(2 * size, _MAX_BYTES)
