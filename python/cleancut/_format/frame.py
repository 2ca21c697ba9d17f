"""Reads a frame, format version 1; docs/FORMAT.md draws the bytes.

All that is returned has been compared with its checksum, and the identity with what was asked for.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import zstandard

from cleancut._format.identity import Identity, parse_identity
from cleancut._format.layout import FrameName, Kind, StoreId
from cleancut._format.records import Record, parse_records
from cleancut.errors import CleancutError, error_of

Codec = Literal["none", "zstd"]

_HEADER = struct.Struct("<4sHBBII")
_BLOCK = struct.Struct("<IIII")
_TRAILER = struct.Struct("<IIQQQI4s")
_HEADER_MAGIC = b"CCF1"
_TRAILER_MAGIC = b"CCFE"
_FORMAT_VERSION = 1
_KINDS: dict[int, Kind] = {1: "delta", 2: "base"}
_CODECS: dict[int, Codec] = {0: "none", 1: "zstd"}


@dataclass(frozen=True)
class FrameRequest:
    """Which frame a reader asks for, and where it expects it.

    Attributes:
        path: full path of the object.
        store: whose frame it is.
        name: which of that store's frames.
        offset: where in the object it begins; None where it is the whole object.
    """

    path: str
    store: StoreId
    name: FrameName
    offset: int | None = None

    def damaged(self, detail: str) -> CleancutError:
        """The error for a frame whose bytes are not what was written."""
        return error_of(
            "CLEANCUT_FRAME_DAMAGED",
            path=self.path,
            detail=detail,
            operator=self.store.operator,
            partition=self.store.partition,
            store=self.store.store,
            version=self.name.version,
            **self._place(),
        )

    def misplaced(self, found: Identity) -> CleancutError:
        """The error for a sound frame that is another."""
        return error_of(
            "CLEANCUT_FRAME_MISPLACED",
            path=self.path,
            expected=self,
            found=found,
            version=self.name.version,
            **self._place(),
        )

    def _place(self) -> dict[str, int]:
        return {} if self.offset is None else {"offset": self.offset}

    def __str__(self) -> str:
        return str(Identity(self.store, self.name, None, None, ()))


@dataclass(frozen=True)
class Block:
    """One block: its sizes in bytes and its records in order."""

    raw_bytes: int
    stored_bytes: int
    records: list[Record]


@dataclass(frozen=True)
class Frame:
    """A sound frame.

    Attributes:
        request: what was asked for; the frame is exactly that.
        identity: from the header.
        codec: how the blocks are stored.
        blocks: in their order.
        keys: the number of live keys of the store at this version.
        size_bytes: the length of the whole frame.
    """

    request: FrameRequest
    identity: Identity
    codec: Codec
    blocks: tuple[Block, ...]
    keys: int
    size_bytes: int

    @property
    def record_count(self) -> int:
        """The number of records in all blocks."""
        return sum(len(block.records) for block in self.blocks)

    def records(self) -> Iterator[Record]:
        """All records in their order."""
        for block in self.blocks:
            yield from block.records


def read_frame(data: bytes, request: FrameRequest) -> Frame:
    """Decodes a frame and checks all of it.

    Raises:
        DamagedError: CLEANCUT_FRAME_DAMAGED or CLEANCUT_FRAME_MISPLACED, naming object and version.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    identity, codec, header_crc, at = _read_header(data, request)
    blocks: list[Block] = []
    while _u32(data, at, request) != 0:
        block = _read_block(data, at, _block_seed(header_crc, len(blocks)), codec, request)
        if identity.name.kind == "base" and any(record.value is None for record in block.records):
            raise request.damaged("a base holds a remove")
        blocks.append(block)
        at += _BLOCK.size + block.stored_bytes
    keys = _read_trailer(data, at, header_crc, blocks, request)
    return Frame(request, identity, codec, tuple(blocks), keys, len(data))


def _read_header(data: bytes, request: FrameRequest) -> tuple[Identity, Codec, int, int]:
    head = _cut(data, 0, _HEADER.size, "the header", request)
    magic, version, kind, codec, length, crc = _HEADER.unpack(head)
    if magic != _HEADER_MAGIC:
        raise request.damaged("it does not begin with the magic of a frame")
    if version != _FORMAT_VERSION:
        raise error_of(
            "CLEANCUT_FORMAT_UNKNOWN", path=request.path, found=version, supported=_FORMAT_VERSION
        )
    raw = _cut(data, _HEADER.size, length, "the identity", request)
    if crc32(raw, crc32(head[:12])) != crc:
        raise request.damaged("the checksum of the header is wrong")
    if codec not in _CODECS:
        raise request.damaged(f"codec {codec} is not known")
    if kind not in _KINDS:
        raise request.damaged(f"kind {kind} is not known")
    try:
        identity = parse_identity(raw, _KINDS[kind])
    except ValueError as error:
        raise request.damaged(f"the identity cannot be read: {error}") from error
    if (identity.store, identity.name) != (request.store, request.name):
        raise request.misplaced(identity)
    return identity, _CODECS[codec], crc, _HEADER.size + length


def _block_seed(header_crc: int, ordinal: int) -> int:
    """What ties a block to its frame and its place."""
    return crc32(struct.pack("<II", header_crc, ordinal))


def _read_block(data: bytes, at: int, seed: int, codec: Codec, request: FrameRequest) -> Block:
    where = f"the block at byte {at}"
    head = _cut(data, at, _BLOCK.size, where, request)
    raw_size, stored_size, count, crc = _BLOCK.unpack(head)
    stored = _cut(data, at + _BLOCK.size, stored_size, where, request)
    if crc32(stored, crc32(head[:12], seed)) != crc:
        raise request.damaged(f"the checksum of {where} is wrong")
    try:
        raw = stored if codec == "none" else _decompress(stored, raw_size)
        records = parse_records(raw)
    except (ValueError, zstandard.ZstdError) as error:
        raise request.damaged(f"{where} cannot be decoded: {error}") from error
    if len(raw) != raw_size:
        raise request.damaged(f"{where} holds {len(raw)} bytes and not {raw_size}")
    if len(records) != count:
        raise request.damaged(f"{where} holds {len(records)} records and not {count}")
    return Block(raw_size, stored_size, records)


def _decompress(stored: bytes, raw_size: int) -> bytes:
    # The block says how long it is; a size in zstd's own header must not allocate anything else.
    if zstandard.frame_content_size(stored) not in (-1, raw_size):
        raise ValueError(f"zstd's own header does not say {raw_size} bytes")
    return zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)


def _read_trailer(
    data: bytes, at: int, header_crc: int, blocks: list[Block], request: FrameRequest
) -> int:
    raw = _cut(data, at, _TRAILER.size, "the trailer", request)
    _, block_count, record_count, keys, length, crc, magic = _TRAILER.unpack(raw)
    if crc32(raw[:32], crc32(struct.pack("<I", header_crc))) != crc:
        raise request.damaged("the checksum of the trailer is wrong")
    if magic != _TRAILER_MAGIC:
        raise request.damaged("it does not end with the magic of a frame")
    records = sum(len(block.records) for block in blocks)
    if (block_count, record_count, length) != (len(blocks), records, at + _TRAILER.size):
        raise request.damaged("the trailer does not fit the blocks before it")
    if len(data) != at + _TRAILER.size:
        raise request.damaged(f"bytes follow the trailer, which ends at {at + _TRAILER.size}")
    return int(keys)


def _u32(data: bytes, at: int, request: FrameRequest) -> int:
    return int.from_bytes(_cut(data, at, 4, "a block header", request), "little")


def _cut(data: bytes, at: int, size: int, what: str, request: FrameRequest) -> bytes:
    piece = data[at : at + size]
    if len(piece) < size:
        raise request.damaged(f"it ends at byte {len(data)}, inside {what}")
    return piece
