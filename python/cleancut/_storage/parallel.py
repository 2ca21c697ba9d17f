"""Reads several objects, or parts of objects, concurrently."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

from cleancut._storage.objects import Objects

# A request to an object store takes some 20 ms for any size, most of it waiting, so more threads
# than processors are useful.
THREADS = 16
# Reading a gap of this size is cheaper than a separate request.
_MAX_GAP_BYTES = 1 << 17
_PIECE_BYTES = 8 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


class Range(NamedTuple):
    """A part of an object: the object's name below the root, first byte, and length."""

    name: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.length


def mapped(
    function: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = THREADS
) -> Iterator[Result]:
    """The results of a function for each item, in order of the items.

    Args:
        function: the function, which runs in other threads.
        items: the items, consumed one by one.
        ahead: maximum number of results in progress or not yet consumed.

    Raises:
        Exception: an error of the function, at the position of its item.
    """
    source = iter(items)
    with ThreadPoolExecutor(min(ahead, THREADS)) as pool:
        waiting: list[Future[Result]] = []
        try:
            for item in islice(source, ahead):
                waiting.append(pool.submit(function, item))
            while waiting:
                yield waiting.pop(0).result()
                for item in islice(source, 1):
                    waiting.append(pool.submit(function, item))
        finally:
            # After an error, or when the caller stops, the remaining results are not needed.
            for future in waiting:
                future.cancel()


def read_ranges(objects: Objects, wanted: Iterable[Range]) -> Mapping[Range, bytes | None]:
    """Reads parts of objects: adjacent ones in one request and long ones in several.

    Returns:
        The bytes of each part: fewer than requested at the end of an object, None if the object
        does not exist.
    """
    ranges = sorted(set(wanted))
    pieces = list(_pieces(ranges))
    read = dict(zip(pieces, mapped(lambda piece: _read(objects, piece), pieces), strict=True))
    by_name: dict[str, list[Range]] = {}
    for piece in pieces:
        by_name.setdefault(piece.name, []).append(piece)
    return {part: _assembled(part, by_name.get(part.name, []), read) for part in ranges}


def windows(
    items: Iterable[Item], size: Callable[[Item], int], limit: int, *, first: int | None = None
) -> Iterator[list[Item]]:
    """Items in order, in groups up to a limit; a single item may exceed it.

    Args:
        items: the items.
        size: returns the size of an item.
        limit: limit of a group's size.
        first: lower limit of the first group, which doubles with each group.
    """
    last, limit = limit, limit if first is None else first
    group: list[Item] = []
    total = 0
    for item in items:
        if group and total + size(item) > limit:
            yield group
            group, total, limit = [], 0, min(2 * limit, last)
        group.append(item)
        total += size(item)
    if group:
        yield group


def _pieces(ranges: Sequence[Range]) -> Iterator[Range]:
    """The requests that cover all ranges, which are sorted."""
    at = 0
    while at < len(ranges):
        name, start, _ = ranges[at]
        end = ranges[at].end
        at += 1
        while at < len(ranges) and ranges[at].name == name:
            if ranges[at].offset > end + _MAX_GAP_BYTES:
                break
            end = max(end, ranges[at].end)
            at += 1
        for offset in range(start, end, _PIECE_BYTES):
            yield Range(name, offset, min(_PIECE_BYTES, end - offset))


def _read(objects: Objects, piece: Range) -> bytes | None:
    try:
        return objects.read_range(*piece)
    except FileNotFoundError:
        return None


def _assembled(
    part: Range, pieces: Sequence[Range], read: Mapping[Range, bytes | None]
) -> bytes | None:
    data_read = bytearray()
    for piece in pieces:
        if piece.end <= part.offset or piece.offset >= part.end:
            continue
        data = read[piece]
        if data is None:
            return None
        data_read += data[max(0, part.offset - piece.offset) : part.end - piece.offset]
        if len(data) < piece.length:
            break
    return bytes(data_read)
