"""The partition to which Spark sends a row: Murmur3 over the partitioning columns.

`org.apache.spark.unsafe.hash.Murmur3_x86_32` hashes each of the last bytes of a text as a word;
`org.apache.spark.sql.catalyst.expressions.Murmur3Hash` continues the hash over the columns.
"""

import struct
from collections.abc import Sequence
from functools import reduce

from cleancut._unsafe_rows.encoder import Cell
from cleancut._unsafe_rows.rows import List, Map, Struct
from cleancut._unsafe_rows.scalars import Binary, Bool, CalendarInterval, Decimal, Text

_SEED = 42
_MASK = 0xFFFFFFFF


def partition_of(cells: Sequence[Cell], partitions: int) -> int:
    """The partition of a row.

    Args:
        cells: the partitioning columns.
        partitions: number of partitions.
    """
    hashed = reduce(_hash, cells, _SEED)
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return signed % partitions


def _hash(seed: int, cell: Cell) -> int:
    raw = cell.raw
    if raw is None:
        return seed
    if isinstance(cell.column, Struct | List | Map):
        return reduce(_hash, cell.fields, seed)
    if isinstance(cell.column, CalendarInterval):
        months, days, *micros = struct.unpack("<4I", raw)
        return reduce(
            lambda hashed, word: _hash_words([word], hashed, 4),
            (days, months),
            _hash_words(micros, seed, _LONG),
        )
    is_large = isinstance(cell.column, Decimal) and cell.column.precision > 18
    if isinstance(cell.column, Text | Binary) or is_large:
        return _hash_bytes(raw, seed)
    if isinstance(cell.column, Bool):
        return _hash_words([raw[0]], seed, 4)
    if len(raw) == _LONG:
        return _hash_words(struct.unpack("<II", raw), seed, _LONG)
    # Smaller numbers are hashed as integers.
    number = int.from_bytes(raw, "little", signed=True) & _MASK
    return _hash_words([number], seed, 4)


_LONG = 8


def _hash_bytes(raw: bytes, seed: int) -> int:
    aligned = len(raw) // 4 * 4
    words = list(struct.unpack(f"<{aligned // 4}I", raw[:aligned]))
    words += [byte & _MASK for byte in struct.unpack(f"{len(raw) - aligned}b", raw[aligned:])]
    return _hash_words(words, seed, len(raw))


def _hash_words(words: Sequence[int], seed: int, length: int) -> int:
    hashed = seed
    for word in words:
        mixed = word * 0xCC9E2D51 & _MASK
        mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
        hashed = (_rotated(hashed ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    hashed ^= length
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
