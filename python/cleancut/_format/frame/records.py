"""The records of a raw block: puts, removes and merges."""

from typing import NamedTuple

_PUT = 1
_REMOVE = 2
_MERGE = 3
_MAX_UVARINT_BYTES = 5


class Record(NamedTuple):
    """One change of a store.

    Attributes:
        family_id: the column family.
        key: the key in UnsafeRow form.
        value: the value in UnsafeRow form; None if the key is removed.
        is_merge: whether the value is appended to those that the key has.
    """

    family_id: int
    key: bytes
    value: bytes | None
    is_merge: bool = False


def parse_records(raw: bytes) -> list[Record]:
    """Reads all records of a raw block.

    Raises:
        ValueError: the bytes are not a sequence of records; the text says where.
    """
    records = []
    at, end = 0, len(raw)
    while at < end:
        start = at
        operation = raw[at]
        family_id, at = _uvarint(raw, at + 1)
        key_size, at = _uvarint(raw, at)
        if operation in (_PUT, _MERGE):
            value_size, at = _uvarint(raw, at)
            key_end = at + key_size
            value: bytes | None = raw[key_end : key_end + value_size]
            next_at = key_end + value_size
        elif operation == _REMOVE:
            value = None
            next_at = key_end = at + key_size
        else:
            raise ValueError(f"unknown operation {operation} at byte {start} of the block")
        if next_at > end:
            raise ValueError(f"the record at byte {start} exceeds the end of the block")
        records.append(Record(family_id, raw[at:key_end], value, operation == _MERGE))
        at = next_at
    return records


def _uvarint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it."""
    # Nearly all numbers have one byte, and this is the innermost loop of every read.
    if at < len(raw) and raw[at] < 0x80:
        return raw[at], at + 1
    value = 0
    for index, byte in enumerate(raw[at : at + _MAX_UVARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value < 1 << 32:
            return value, at + index + 1
    raise ValueError(f"no number of 32 bits at byte {at} of the block")
