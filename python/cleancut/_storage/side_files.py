"""The checksum files that Hadoop's local file system writes for its files."""

from struct import unpack_from
from zlib import crc32

_MAGIC = b"crc\0"
_HEAD_BYTES = 8


def side_file_of(name: str) -> str:
    """The name of the checksum file of a file."""
    directory, slash, base = name.rpartition("/")
    return f"{directory}{slash}.{base}.crc"


def agrees(data: bytes, side: bytes) -> bool:
    """Whether a file matches its checksum file; an unreadable checksum file matches nothing."""
    if side[:4] != _MAGIC or len(side) < _HEAD_BYTES:
        return False
    (piece_bytes,) = unpack_from(">i", side, 4)
    if piece_bytes < 1:
        return False
    pieces = range(0, len(data), piece_bytes)
    checksums = [crc32(data[at : at + piece_bytes]) for at in pieces]
    if len(side) != _HEAD_BYTES + 4 * len(checksums):
        return False
    return checksums == list(unpack_from(f">{len(checksums)}I", side, _HEAD_BYTES))
