"""The metadata that Cleancut's client for S3 writes with an object."""

import re
from collections.abc import Mapping

_PLACE = "cleancut-place"
_CHECKSUM = "cleancut-crc32c"
_OF_SPARK = re.compile(
    r"(?:.*/)?((?:offsets|commits)/[0-9][^/]*|sources/[^/.][^/]*/[0-9][^/]*|"
    r"state/[0-9]+/(?:[0-9]+/(?:.+/)?)?_[^/]+/.+)"
)
_CASTAGNOLI = 0x82F63B78


def misplaced(metadata: Mapping[str, str], key: str) -> str | None:
    """The problem with the location of an object; None if none is known."""
    written = metadata.get(_PLACE)
    if written is None or written == place_of(key):
        return None
    return f"it was written as {written}"


def changed(metadata: Mapping[str, str], data: bytes) -> str | None:
    """The problem with the content of an object; None if none is known."""
    if metadata.get(_CHECKSUM) in (None, f"{crc32c(data):08x}"):
        return None
    return "its bytes are not those that it was written with"


def place_of(key: str) -> str:
    """The part of a checkpoint that an object is, independent of the checkpoint's location."""
    match = _OF_SPARK.fullmatch(key)
    return key.rpartition("/")[2] if match is None else match[1]


def crc32c(data: bytes) -> int:
    """The CRC-32C, which the standard library lacks; some MB/s, enough for small files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc


_TABLE = tuple(map(_entry, range(256)))
