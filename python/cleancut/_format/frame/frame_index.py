"""Reads the index of a frame; docs/FORMAT.md draws the bytes."""

import struct
from dataclasses import dataclass

_COUNT = struct.Struct("<I")
_TOTAL = struct.Struct("<IQQ")
_BLOCK = struct.Struct("<IIIIIII")


@dataclass(frozen=True)
class FamilyTotal:
    """What a family has after the frame: its keys, and its bytes as the format counts them."""

    keys: int
    size: int


@dataclass(frozen=True)
class IndexedBlock:
    """What a block of a base holds.

    Attributes:
        sizes: raw and stored length in bytes, and the number of records, as the block says them.
        family: id of the family that all its records are of.
        size: bytes of its rows, as the format counts them.
        hashes: of its keys, the lowest and the highest, unsigned.
    """

    sizes: tuple[int, int, int]
    family: int
    size: int
    hashes: tuple[int, int]


@dataclass(frozen=True)
class FrameIndex:
    """What stands between the blocks of a frame and its trailer.

    Attributes:
        totals: of each family by its id; empty if the frame does not say.
        blocks: of a base, in their order; empty also if they cannot be read one by one.
    """

    totals: dict[int, FamilyTotal]
    blocks: tuple[IndexedBlock, ...]


def parse_index(raw: bytes) -> FrameIndex:
    """Reads what was found sound.

    Raises:
        ValueError: these bytes are no index.
    """
    totals, at = _entries(raw, 0, _TOTAL)
    blocks, at = _entries(raw, at, _BLOCK) if at < len(raw) else ([], at)
    if at != len(raw):
        raise ValueError("it goes on after its blocks")
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
