"""Reads the pages and the tables of segments that a cut references."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar
from zlib import crc32

from cleancut._format.chains import Chain, PlacedFrame
from cleancut._format.cut.page import read_page
from cleancut._format.cut.paged_chains import PageRef, Table
from cleancut._format.cut.segment import read_footer
from cleancut._format.envelope import cut_damaged
from cleancut._format.layout import StoreId
from cleancut._storage.objects import Objects
from cleancut.errors import CleancutError

# Consecutive cuts reference the same pages and segments. A page has some 40,000 frames.
_KEPT_FRAMES = 1 << 19

Page = dict[StoreId, Chain]
Key = TypeVar("Key")
Value = TypeVar("Value")


class _Kept(Generic[Key, Value]):
    """A cache of the last requested values, limited by their number of frames."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._frames = 0

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Key, value: Value, frames: int) -> None:
        with self._lock:
            if key not in self._values:
                self._values[key] = value, frames
                self._frames += frames
            while self._frames > _KEPT_FRAMES and len(self._values) > 1:
                _, (_, dropped) = self._values.popitem(last=False)
                self._frames -= dropped


class ChainParts:
    """Reads pages and tables, and caches the last ones. Threads may share it."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pages: _Kept[PageRef, Page] = _Kept()
        self._tables: _Kept[Table, list[PlacedFrame]] = _Kept()

    def path(self, part: PageRef | Table) -> str:
        """Full path of the object."""
        return self._objects.path(part.segment if isinstance(part, Table) else str(part.name))

    def page(self, part: PageRef) -> Page:
        """Reads a page and compares it with its reference in the cut.

        Raises:
            CorruptedError: CLEANCUT_CUT_CORRUPTED, it is missing or corrupted.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        page = self._pages.get(part)
        if page is None:
            page = self._read_page(part)
            self._pages.put(part, page, sum(map(len, page.values())))
        return page

    def frames(self, table: Table) -> list[PlacedFrame]:
        """All frames in the table of a segment, whether they count or not.

        Raises:
            CorruptedError: CLEANCUT_CUT_CORRUPTED, the segment is missing or its table corrupted.
        """
        frames = self._tables.get(table)
        if frames is None:
            frames = self._read_table(table, self.path(table))
            self._tables.put(table, frames, len(frames))
        return frames

    def _read_page(self, part: PageRef) -> Page:
        path = self.path(part)
        try:
            data = self._objects.read(str(part.name))
        except FileNotFoundError as error:
            raise _missing(path) from error
        if len(data) != part.length:
            raise cut_damaged(path, f"it has {len(data)} bytes and not {part.length}")
        if part.crc != crc32(data):
            raise cut_damaged(path, "its checksum is not that in the cut")
        page = read_page(data, path, part.name)
        if len(page) != part.stores:
            raise cut_damaged(path, f"it has {len(page)} stores and not {part.stores}")
        first = next(iter(page))
        if first != part.first:
            raise cut_damaged(path, f"it begins with {first} and not with {part.first}")
        return page

    def _read_table(self, table: Table, path: str) -> list[PlacedFrame]:
        try:
            start = table.length - table.size
            footer = self._objects.read_range(table.segment, start, table.size)
        except FileNotFoundError as error:
            raise _missing(path) from error
        if len(footer) != table.size:
            raise cut_damaged(path, f"it ends before its {table.length} bytes")
        return read_footer(footer, path, table.segment, table.length, table.crc)


def _missing(path: str) -> CleancutError:
    return cut_damaged(path, "it is missing")
