"""Reads many objects, or parts of objects, at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

from cleancut._storage.objects import Objects

# A request to an object store takes some 20 ms whatever it reads, and so much of it is waiting
# that threads beyond the processors pay.
THREADS = 16
# Reading over a gap of this size costs less than a request of its own.
_MAX_GAP_BYTES = 1 << 17
_PIECE_BYTES = 8 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


class Range(NamedTuple):
    """A part of an object: its name below the root, and where the part lies, in bytes."""

    name: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.offset + self.length


def mapped(
    function: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = THREADS
) -> Iterator[Result]:
    """What a function returns for each item, in the order of the items.

    Args:
        function: runs in other threads.
        items: taken one by one.
        ahead: how many results may be under way or wait to be taken.

    Raises:
        Exception: what the function raises for an item, when that item's turn comes.
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
            # Nobody takes what is left after an error, or when the caller has seen enough.
            for future in waiting:
                future.cancel()


def read_ranges(objects: Objects, wanted: Iterable[Range]) -> Mapping[Range, bytes | None]:
    """Reads parts of objects, near ones in one request and long ones in several.

    Returns:
        The bytes of each part: fewer than it should have where the object ends before, None where
        there is no such object.
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
    """Items in order, in groups that are not larger than a limit unless one item alone is.

    Args:
        items: what is to be grouped.
        size: of an item.
        limit: of a group.
        first: a lower limit of the first group, from which each has twice that of the one before.
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
    """What to request so that all of the ranges, which are in order, are covered."""
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
    found = bytearray()
    for piece in pieces:
        if piece.end <= part.offset or piece.offset >= part.end:
            continue
        data = read[piece]
        if data is None:
            return None
        found += data[max(0, part.offset - piece.offset) : part.end - piece.offset]
        if len(data) < piece.length:
            break
    return bytes(found)
