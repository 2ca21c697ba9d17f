"""Encodes frames by docs/FORMAT.md; it shares no code with the package under test.

It can also write invalid frames: each field of each part may be overridden.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import zstandard

KINDS = {"delta": 1, "base": 2, "reference": 3}
CODECS = {"none": 0, "zstd": 1}


@dataclass(frozen=True)
class Change:
    """A record; without a value it is a remove."""

    key: bytes
    value: bytes | None = None
    family: int = 0
    is_merge: bool = False

    @property
    def operation(self) -> str:
        if self.value is None:
            return "remove"
        return "merge" if self.is_merge else "put"


@dataclass(frozen=True)
class Index:
    """The index of a frame.

    Attributes:
        totals: keys and bytes of each family, by id.
        has_blocks: whether it has an entry for each block.
    """

    totals: Mapping[int, tuple[int, int]]
    has_blocks: bool = False


NO_TOTALS = Index({})

# Without families and blocks.
EMPTY_INDEX = bytes(4)

# Without the index.
TRAILER_SIZE = 48


@dataclass(frozen=True)
class Parts:
    """The bytes of a frame, split at the boundaries of the format.

    The index is part of the trailer.
    """

    header: bytes
    identity: bytes
    blocks: tuple[bytes, ...]
    trailer: bytes

    @property
    def header_crc(self) -> int:
        return int.from_bytes(self.header[12:16], "little")

    def joined(self) -> bytes:
        return b"".join([self.header, self.identity, *self.blocks, self.trailer])


def encode_frame(
    kind: str,
    identity: Mapping[str, Any],
    blocks: Sequence[Sequence[Change]],
    keys: int,
    codec: str = "none",
    index: Index = NO_TOTALS,
) -> Parts:
    """Encodes a frame like a writer."""
    header, raw_identity = encode_header(identity, KINDS[kind], CODECS[codec])
    seed = int.from_bytes(header[12:16], "little")
    stored = tuple(
        encode_block(b"".join(map(encode_record, block)), len(block), seed, ordinal, codec)
        for ordinal, block in enumerate(blocks)
    )
    records = sum(map(len, blocks))
    before = len(header) + len(raw_identity) + sum(map(len, stored))
    raw = encode_index(index, blocks, stored)
    size = before + len(raw) + TRAILER_SIZE
    trailer = encode_trailer(seed, len(stored), records, keys, size, raw)
    return Parts(header, raw_identity, stored, trailer)


def encode_header(
    identity: object,
    kind: int,
    codec: int,
    version: int = 1,
    magic: bytes = b"CCFR",
) -> tuple[bytes, bytes]:
    raw = json.dumps(identity, separators=(",", ":"), ensure_ascii=False).encode()
    head = magic + struct.pack("<HBBI", version, kind, codec, len(raw))
    return head + struct.pack("<I", crc32(head + raw)), raw


def encode_block(
    raw: bytes,
    count: int,
    header_crc: int,
    ordinal: int,
    codec: str,
    raw_size: int | None = None,
) -> bytes:
    stored = raw if codec == "none" else zstandard.ZstdCompressor(level=1).compress(raw)
    size = len(raw) if raw_size is None else raw_size
    return seal_block(stored, size, count, header_crc, ordinal)


def seal_block(stored: bytes, size: int, count: int, header_crc: int, ordinal: int) -> bytes:
    head = struct.pack("<III", size, len(stored), count)
    crc = crc32(struct.pack("<II", header_crc, ordinal) + head + stored)
    return head + struct.pack("<I", crc) + stored


def encode_trailer(
    header_crc: int,
    blocks: int,
    records: int,
    keys: int,
    size: int,
    index: bytes = EMPTY_INDEX,
    magic: bytes = b"CCFE",
) -> bytes:
    """Encodes index and trailer of a frame."""
    raw = struct.pack("<II", 0, len(index)) + index
    raw += struct.pack("<IQQQI", blocks, records, keys, size, len(index))
    return raw + struct.pack("<I", crc32(struct.pack("<I", header_crc) + raw)) + magic


def encode_index(
    index: Index, blocks: Sequence[Sequence[Change]], stored: Sequence[bytes]
) -> bytes:
    raw = struct.pack("<I", len(index.totals))
    for family, (keys, size) in sorted(index.totals.items()):
        raw += struct.pack("<IQQ", family, keys, size)
    if not index.has_blocks:
        return raw
    raw += struct.pack("<I", len(blocks))
    for changes, block in zip(blocks, stored, strict=True):
        hashes = [key_hash(change.key) for change in changes]
        size = sum(map(row_size, changes))
        raw += block[:12] + struct.pack("<IIII", changes[0].family, size, min(hashes), max(hashes))
    return raw


def row_size(change: Change) -> int:
    """Returns the bytes of a row by the format: 16, and key and value each rounded up to 8."""
    assert change.value is not None
    return 16 + -(-len(change.key) // 8) * 8 + -(-len(change.value) // 8) * 8


def key_hash(key: bytes) -> int:
    """Returns the upper 32 bits of the hash of a key."""
    mask = (1 << 64) - 1
    multiplier = 0xD6E8FEB86659FD93

    def signed(x: int) -> int:
        return x - (1 << 64) if x >> 63 else x

    def fold(x: int) -> int:
        product = signed(x) * signed(multiplier)
        return (product >> 64) & mask ^ product & mask

    seed = 0x9E3779B97F4A7C15
    h = seed ^ len(key)
    words, rest = divmod(len(key), 8)
    for i in range(words):
        h = fold(h ^ int.from_bytes(key[8 * i : 8 * i + 8], "little")) + seed & mask
    if rest:
        h = fold(h ^ int.from_bytes(key[8 * words :], "big")) + seed & mask
    return fold(h) >> 32


def encode_record(change: Change) -> bytes:
    sizes = uvarint(change.family) + uvarint(len(change.key))
    if change.value is None:
        return b"\x02" + sizes + change.key
    operation = b"\x03" if change.is_merge else b"\x01"
    return operation + sizes + uvarint(len(change.value)) + change.key + change.value


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
