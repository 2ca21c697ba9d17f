"""Reads header, table and trailer of a segment; docs/FORMAT.md draws the bytes."""

import json
import struct
from typing import Any
from zlib import crc32

from cleancut._format.chains import PlacedFrame, placed_frame
from cleancut._format.envelope import cut_damaged
from cleancut._format.fields import typed
from cleancut._format.layout import SegmentName, StoreId, writer_of
from cleancut._format.magic import check_magic
from cleancut._format.zstd_json import parse_zstd_json
from cleancut.errors import CleancutError

HEADER_SIZE = 16
TRAILER_SIZE = 28

_HEADER = struct.Struct("<4sHHII")
_TRAILER = struct.Struct("<IIQII4s")
_HEADER_MAGIC = b"CCSG"
_TRAILER_MAGIC = b"CCSE"


def extents(head: bytes, tail: bytes, path: str, size: int) -> tuple[int, int]:
    """The sizes of the parts before and after the frames, in bytes.

    Args:
        head: the first bytes of the segment, at least HEADER_SIZE.
        tail: the last bytes, at least TRAILER_SIZE.
        path: full path, for errors.
        size: size of the object.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    if len(head) < HEADER_SIZE or len(tail) < TRAILER_SIZE:
        raise cut_damaged(path, f"it has {size} bytes, less than any segment")
    magic, version, reserved, identity_size, _ = _HEADER.unpack_from(head)
    check_magic(
        (magic, version), _HEADER_MAGIC, path, lambda detail: cut_damaged(path, detail), "segment"
    )
    if reserved != 0:
        raise _reserved_set(path)
    before, behind = HEADER_SIZE + identity_size, _behind(tail, path, size)
    if before + behind > size:
        raise _misfit(path, size)
    return before, behind


def _behind(tail: bytes, path: str, size: int) -> int:
    """The size of the part after the frames in bytes, by the trailer."""
    table_size, _, recorded_size, _, reserved, magic = _TRAILER.unpack(tail[-TRAILER_SIZE:])
    if magic != _TRAILER_MAGIC:
        raise cut_damaged(path, "it does not end with the magic of a segment")
    if reserved != 0:
        raise _reserved_set(path)
    if recorded_size != size:
        raise _misfit(path, size)
    return int(table_size) + TRAILER_SIZE


def _reserved_set(path: str) -> CleancutError:
    return cut_damaged(path, "bytes are set that no writer sets")


def _misfit(path: str, size: int) -> CleancutError:
    return cut_damaged(path, f"its {size} bytes do not fit its header and trailer")


def read_table(
    head: bytes, tail: bytes, path: str, name: SegmentName, size: int
) -> list[PlacedFrame]:
    """The frames of a segment, in order, which cover all bytes between head and tail.

    Args:
        head: the bytes before the frames.
        tail: the bytes after the frames.
        path: full path, for errors.
        name: name of the object.
        size: size of the object.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    extents(head, tail, path, size)
    _check_identity(head, path, name)
    stored, trailer = tail[:-TRAILER_SIZE], tail[-TRAILER_SIZE:]
    _, _, _, crc, _, _ = _TRAILER.unpack(trailer)
    if crc32(trailer[:16], crc32(stored, crc32(head[12:16]))) != crc:
        raise cut_damaged(path, "the checksum of its table is wrong")
    frames = _table(tail, path, str(name))
    _check_places(frames, path, len(head), size - len(tail))
    return frames


def read_footer(footer: bytes, path: str, segment: str, size: int, crc: int) -> list[PlacedFrame]:
    """The frames of a segment, in order, by the bytes after them alone.

    Args:
        footer: the bytes after the frames, possibly truncated.
        path: full path, for errors.
        segment: name of the object.
        size: expected size of the object.
        crc: expected CRC-32 of the footer.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
    """
    if crc32(footer) != crc:
        raise cut_damaged(path, "the checksum of its table and trailer is wrong")
    if _behind(footer, path, size) != len(footer):
        raise cut_damaged(path, f"its table and trailer do not have {len(footer)} bytes")
    frames = _table(footer, path, segment)
    if frames:
        _check_places(frames, path, max(frames[0].offset, HEADER_SIZE), size - len(footer))
    return frames


def _table(tail: bytes, path: str, segment: str) -> list[PlacedFrame]:
    stored, trailer = tail[:-TRAILER_SIZE], tail[-TRAILER_SIZE:]
    try:
        entries = parse_zstd_json(stored, _TRAILER.unpack(trailer)[1])
        if not isinstance(entries, list):
            raise ValueError("it is not a JSON array")
        return [_frame(entry, segment) for entry in entries]
    except ValueError as error:
        raise cut_damaged(path, f"its table cannot be read: {error}") from error


def _check_places(frames: list[PlacedFrame], path: str, at: int, end: int) -> None:
    """Checks that frames are contiguous between two offsets."""
    for frame in frames:
        if frame.offset != at:
            raise cut_damaged(path, f"a frame begins at byte {frame.offset} and not at {at}")
        at += frame.length
    if at != end:
        raise cut_damaged(path, f"its frames end at byte {at}, where the table does not begin")


def _check_identity(head: bytes, path: str, name: SegmentName) -> None:
    raw = head[HEADER_SIZE:]
    if crc32(raw, crc32(head[:12])) != int.from_bytes(head[12:16], "little"):
        raise cut_damaged(path, "the checksum of its header is wrong")
    try:
        identity = json.loads(raw.decode())
        if not isinstance(identity, dict):
            raise ValueError("it is not a JSON object")
        epoch, writer = typed(identity, "epoch", int), typed(identity, "writer", str)
    except ValueError as error:
        raise cut_damaged(path, f"its identity cannot be read: {error}") from error
    if (epoch, writer_of(writer)) != (name.epoch, name.writer):
        raise cut_damaged(path, f"it is a segment of epoch {epoch} by {writer}")


def _frame(fields: Any, segment: str) -> PlacedFrame:
    if not isinstance(fields, dict):
        raise ValueError("an element is not a JSON object")
    store = StoreId(
        typed(fields, "operator", int), typed(fields, "partition", int), typed(fields, "store", str)
    )
    name = fields.get("version"), fields.get("id"), fields.get("kind")
    place = fields.get("offset"), fields.get("length"), fields.get("crc")
    return placed_frame(store, name, segment, place)
