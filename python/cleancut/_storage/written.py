"""What Cleancut's client for S3 writes with an object, beside its bytes."""

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
    """What is wrong with the place of an object; None where nothing is known to be."""
    written = metadata.get(_PLACE)
    if written is None or written == place_of(key):
        return None
    return f"it was written as {written}"


def changed(metadata: Mapping[str, str], data: bytes) -> str | None:
    """What is wrong with all bytes of an object; None where nothing is known to be."""
    if metadata.get(_CHECKSUM) in (None, f"{crc32c(data):08x}"):
        return None
    return "its bytes are not those that it was written with"


def place_of(key: str) -> str:
    """Which part of a checkpoint an object is, whatever prefix the checkpoint lies below."""
    found = _OF_SPARK.fullmatch(key)
    return key.rpartition("/")[2] if found is None else found[1]


def crc32c(data: bytes) -> int:
    """The checksum that the standard library lacks; some MB a second, enough for small files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc


_TABLE = tuple(map(_entry, range(256)))
