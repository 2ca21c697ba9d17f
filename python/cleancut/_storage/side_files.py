"""The checksums that Hadoop's local file system keeps beside its files."""

from struct import unpack_from
from zlib import crc32

_MAGIC = b"crc\0"
_HEAD_BYTES = 8


def side_file_of(name: str) -> str:
    """The name of the file that holds the checksums of another."""
    directory, slash, base = name.rpartition("/")
    return f"{directory}{slash}.{base}.crc"


def agrees(data: bytes, side: bytes) -> bool:
    """Whether a file is as its side file says; a side file that cannot be read says no."""
    if side[:4] != _MAGIC or len(side) < _HEAD_BYTES:
        return False
    (piece_bytes,) = unpack_from(">i", side, 4)
    if piece_bytes < 1:
        return False
    pieces = range(0, len(data), piece_bytes)
    found = [crc32(data[at : at + piece_bytes]) for at in pieces]
    if len(side) != _HEAD_BYTES + 4 * len(found):
        return False
    return found == list(unpack_from(f">{len(found)}I", side, _HEAD_BYTES))
