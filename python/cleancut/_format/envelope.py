"""The common header of cuts and pages; docs/FORMAT.md draws the bytes."""

import struct
from zlib import crc32

from cleancut._format.magic import check_magic
from cleancut._format.zstd_json import decompressed
from cleancut.errors import CleancutError, error_of

_HEADER = struct.Struct("<4sHBBIII")
_CHECKED = 16
_ZSTD = 1


def cut_damaged(path: str, detail: str) -> CleancutError:
    """The error for a corrupted cut, page, or segment header, table or trailer."""
    return error_of("CLEANCUT_CUT_CORRUPTED", path=path, detail=detail)


def unwrapped(data: bytes, path: str, what: str, magic: bytes) -> bytes:
    """The body of an object.

    Args:
        data: the whole object.
        path: full path of the object.
        what: kind of object, for messages.
        magic: the magic of its kind.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    if len(data) < _HEADER.size:
        raise cut_damaged(path, f"it ends at byte {len(data)}, inside the header")
    actual, version, codec, reserved, raw_size, stored_size, crc = _HEADER.unpack_from(data)
    check_magic((actual, version), magic, path, lambda detail: cut_damaged(path, detail), what)
    stored = data[_HEADER.size :]
    if len(stored) != stored_size:
        raise cut_damaged(path, f"its body has {len(stored)} bytes and not {stored_size}")
    if crc32(stored, crc32(data[:_CHECKED])) != crc:
        raise cut_damaged(path, "its checksum is wrong")
    if codec != _ZSTD or reserved != 0:
        raise cut_damaged(path, f"codec {codec} is not known")
    try:
        return decompressed(stored, raw_size)
    except ValueError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: ValueError) -> CleancutError:
    """The error for an invalid body."""
    return cut_damaged(path, f"its body cannot be read: {error}")
