"""Reads the index of a frame; docs/FORMAT.md draws the bytes."""

import struct
from dataclasses import dataclass

_COUNT = struct.Struct("<I")
_TOTAL = struct.Struct("<IQQ")
_BLOCK = struct.Struct("<IIIIIII")


@dataclass(frozen=True)
class FamilyTotal:
    """The totals of a family after the frame: keys and bytes as the format counts them."""

    keys: int
    size: int


@dataclass(frozen=True)
class IndexedBlock:
    """The content of a block of a snapshot.

    Attributes:
        sizes: raw and stored length in bytes, and number of records, as in the block's header.
        family: the family id of all its records.
        size: size of its rows, as the format counts them.
        hashes: the lowest and the highest hash of its keys, unsigned.
    """

    sizes: tuple[int, int, int]
    family: int
    size: int
    hashes: tuple[int, int]


@dataclass(frozen=True)
class FrameIndex:
    """The index between the blocks of a frame and its trailer.

    Attributes:
        totals: the totals of each family, by id; empty if the frame does not have them.
        blocks: the blocks of a snapshot, in order; empty also if they cannot be read individually.
    """

    totals: dict[int, FamilyTotal]
    blocks: tuple[IndexedBlock, ...]


def parse_index(raw: bytes) -> FrameIndex:
    """Parses bytes whose checksum was verified.

    Raises:
        ValueError: the bytes are no index.
    """
    totals, at = _entries(raw, 0, _TOTAL)
    blocks, at = _entries(raw, at, _BLOCK) if at < len(raw) else ([], at)
    if at != len(raw):
        raise ValueError("it continues after its blocks")
    parsed = tuple(
        IndexedBlock((raw_size, stored, count), family, size, (first, last))
        for raw_size, stored, count, family, size, first, last in blocks
    )
    return FrameIndex({family: FamilyTotal(*total) for family, *total in totals}, parsed)


def _entries(raw: bytes, at: int, form: struct.Struct) -> tuple[list[tuple[int, ...]], int]:
    start = at + _COUNT.size
    if start > len(raw):
        raise ValueError("it is cut short")
    end = start + _COUNT.unpack_from(raw, at)[0] * form.size
    if end > len(raw):
        raise ValueError("it is cut short")
    return list(form.iter_unpack(raw[start:end])), end
