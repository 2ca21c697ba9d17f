"""Verifies headers, tables and trailers of segments."""

from collections.abc import Iterator, Mapping

from cleancut._checkpoint.verify.findings import Finding, finding_of
from cleancut._format.chains import PlacedFrame
from cleancut._format.cut.segment import HEADER_SIZE, TRAILER_SIZE, extents, read_table
from cleancut._format.layout import parse_segment_name
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range, mapped
from cleancut.errors import CleancutError

# Enough for the header of any segment and the table of most.
_HEAD_BYTES = 1 << 10
_TAIL_BYTES = 1 << 16


def check_segments(
    objects: Objects, sizes: Mapping[str, int]
) -> Iterator[tuple[str, list[PlacedFrame] | Finding]]:
    """The frames of each segment by its table, or the problem of the segment.

    A segment that was deleted since it was listed is left out.

    Args:
        objects: the objects that contain the segments.
        sizes: the sizes of the segments, by name.
    """

    def checked(name: str) -> list[PlacedFrame] | Finding | None:
        try:
            return _table(objects, name, sizes[name])
        except CleancutError as error:
            return finding_of(objects.path(name), error)
        except FileNotFoundError:
            return None

    for name, result in zip(sizes, mapped(checked, sizes), strict=True):
        if result is not None:
            yield name, result


def _table(objects: Objects, text: str, size: int) -> list[PlacedFrame]:
    name, path = parse_segment_name(text), objects.path(text)
    assert name is not None, f"{text} was listed as a segment"
    if size < HEADER_SIZE + TRAILER_SIZE:
        extents(b"", b"", path, size)
    head = _read(objects, Range(text, 0, min(size, _HEAD_BYTES)))
    tail_size = min(size, _TAIL_BYTES)
    tail = _read(objects, Range(text, size - tail_size, tail_size))
    before, behind = extents(head, tail, path, size)
    if before > len(head):
        head = _read(objects, Range(text, 0, before))
    if behind > len(tail):
        tail = _read(objects, Range(text, size - behind, behind))
    return read_table(head[:before], tail[-behind:], path, name, size)


def _read(objects: Objects, part: Range) -> bytes:
    return objects.read_range(*part)
