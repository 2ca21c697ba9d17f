"""Reads a frame; docs/FORMAT.md draws the bytes.

Everything that is returned was compared with its checksum, and the identity with the request.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol
from zlib import crc32

import zstandard

from cleancut._format.chains import Chain
from cleancut._format.cut.page import read_sources
from cleancut._format.frame.frame_index import FrameIndex, parse_index
from cleancut._format.frame.identity import Identity, parse_identity
from cleancut._format.frame.records import Record, parse_records
from cleancut._format.layout import FrameName, Kind, StoreId
from cleancut._format.magic import check_magic
from cleancut.errors import CleancutError, error_of

Codec = Literal["none", "zstd"]

_HEADER = struct.Struct("<4sHBBII")
_BLOCK = struct.Struct("<IIII")
_TRAILER = struct.Struct("<IQQQII4s")
_HEADER_MAGIC = b"CCFR"
_TRAILER_MAGIC = b"CCFE"
_REFERENCE = 3
_KINDS: dict[int, Kind] = {1: "delta", 2: "base", _REFERENCE: "base"}
_CODECS: dict[int, Codec] = {0: "none", 1: "zstd"}


@dataclass(frozen=True)
class FrameRequest:
    """The requested frame and its expected location.

    Attributes:
        path: full path of the object.
        store: the store of the frame.
        name: name of the frame.
        offset: its first byte in the object; None if it is the whole object.
    """

    path: str
    store: StoreId
    name: FrameName
    offset: int | None = None

    def damaged(self, detail: str) -> CleancutError:
        """The error for a frame whose bytes are corrupted."""
        return error_of(
            "CLEANCUT_FRAME_CORRUPTED",
            path=self.path,
            detail=detail,
            operator=self.store.operator,
            partition=self.store.partition,
            store=self.store.store,
            version=self.name.version,
            **self._place(),
        )

    def misplaced(self, actual: Identity) -> CleancutError:
        """The error for an intact frame with another identity."""
        return error_of(
            "CLEANCUT_FRAME_MISPLACED",
            path=self.path,
            expected=self,
            found=actual,
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
    """An intact frame.

    Attributes:
        request: the request, which the frame matches.
        identity: the identity in the header.
        codec: compression of the blocks.
        blocks: the blocks, in order.
        keys: number of live keys of the store at this version.
        size_bytes: length of the whole frame.
        sources: the chains that a referring snapshot references; it has no blocks and no keys then.
            None in any other frame.
    """

    request: FrameRequest
    identity: Identity
    codec: Codec
    blocks: tuple[Block, ...]
    keys: int
    size_bytes: int
    sources: tuple[Chain, ...] | None = None

    @property
    def record_count(self) -> int:
        """The number of records in all blocks."""
        return sum(len(block.records) for block in self.blocks)

    def records(self) -> Iterator[Record]:
        """All records in order."""
        for block in self.blocks:
            yield from block.records


class SliceableBytes(Protocol):
    """Bytes that may be partially remote; `bytes` implement it."""

    def __getitem__(self, part: slice, /) -> bytes:
        """A part; shorter than requested at the end."""

    def __len__(self) -> int:
        """The number of bytes."""


class FrameReader:
    """Reads a frame from its header on, on demand.

    Attributes:
        request: the request, which the frame matches.
        identity: the identity in the header.
        codec: compression of the blocks.
    """

    def __init__(self, data: SliceableBytes, request: FrameRequest) -> None:
        """Reads the header.

        Raises:
            CorruptedError: CLEANCUT_FRAME_CORRUPTED or CLEANCUT_FRAME_MISPLACED, with object and
                version; all methods raise it too.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        self.request = request
        header = _read_header(data, request)
        self.identity, self.codec = header.identity, header.codec
        self._header = header
        self._data = data
        self._keys: int | None = None

    @property
    def is_referring(self) -> bool:
        """Whether its rows are those of other frames: it then has `sources` and no blocks."""
        return self._header.is_referring

    def sources(self) -> tuple[Chain, ...]:
        """The chains that it references."""
        assert self.is_referring
        extents = list(self._extents())
        self._read_trailer(extents)
        if len(extents) != 1:
            raise self.request.damaged("it does not have its sources in one block")
        (extent,) = extents
        raw = _raw_block(self._data, extent, self._header, self.request)
        try:
            return read_sources(raw, self.identity.store, extent.count)
        except (ValueError, UnicodeDecodeError, IndexError) as error:
            raise self.request.damaged(f"its sources cannot be read: {error}") from error

    @property
    def keys(self) -> int:
        """The number of live keys of the store at this version, available after the trailer."""
        assert self._keys is not None, "the blocks must be read first"
        return self._keys

    def blocks(self) -> Iterator[Block]:
        """All blocks, then the trailer; bytes that were read are released."""
        extents = []
        for extent in self._extents():
            yield self._decoded(extent)
            extents.append(extent)
        self._read_trailer(extents)

    def blocks_from_the_end(self) -> Iterator[Block]:
        """The trailer, then all blocks in reverse order, each decoded on demand."""
        extents = list(self._extents())
        self._read_trailer(extents)
        return map(self._decoded, reversed(extents))

    def _extents(self) -> Iterator["_Extent"]:
        at = self._end = self._header.size
        for ordinal in count():
            if (
                int.from_bytes(_cut(self._data, at, 4, "a block header", self.request), "little")
                == 0
            ):
                self._end = at
                return
            head = _cut(self._data, at, _BLOCK.size, f"the block at byte {at}", self.request)
            yield (extent := _Extent(ordinal, at, head))
            at = extent.end

    def _decoded(self, extent: "_Extent") -> Block:
        if self.is_referring:
            raise self.request.damaged("it has no rows of its own")
        block = _read_block(self._data, extent, self._header, self.request)
        if self.identity.name.kind == "base" and any(
            record.value is None for record in block.records
        ):
            raise self.request.damaged("a snapshot has a remove")
        return block

    def _read_trailer(self, extents: Sequence["_Extent"]) -> None:
        self._keys = _read_trailer(self._data, self._end, self._header, extents, self.request)


class IndexedBase:
    """A snapshot of which only requested blocks are read.

    Attributes:
        index: the index of its blocks; empty if the frame has none.
    """

    def __init__(self, start: bytes, end: bytes, request: FrameRequest, size: int) -> None:
        """Reads header and trailer.

        Args:
            start: the first bytes of the frame, with the whole header.
            end: its last bytes, with the whole trailer.
            request: the request, which the frame must match.
            size: length of the whole frame in bytes.

        Raises:
            CorruptedError: CLEANCUT_FRAME_CORRUPTED or CLEANCUT_FRAME_MISPLACED; so does `block`.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        self._request = request
        self._header = _read_header(start, request)
        self.index = _read_index(end, self._header, request, size)

    def place(self, ordinal: int) -> tuple[int, int]:
        """The first byte of a block in the frame, and its length."""
        before = self.index.blocks[:ordinal]
        at = self._header.size + sum(_BLOCK.size + block.sizes[1] for block in before)
        return at, _BLOCK.size + self.index.blocks[ordinal].sizes[1]

    def block(self, ordinal: int, data: bytes) -> Block:
        """Decodes a block from its bytes."""
        extent = _Extent(ordinal, 0, _cut(data, 0, _BLOCK.size, "a block header", self._request))
        sizes = extent.raw_size, extent.stored_size, extent.count
        if sizes != self.index.blocks[ordinal].sizes:
            raise self._request.damaged(f"block {ordinal} is not what the index says")
        return _read_block(data, extent, self._header, self._request)


@dataclass(frozen=True)
class _Header:
    """The start of a frame; `size` is the offset of its first block."""

    identity: Identity
    codec: Codec
    is_referring: bool
    crc: int
    size: int


class _Extent:
    """The location of a block, and its header."""

    def __init__(self, ordinal: int, at: int, head: bytes) -> None:
        self.ordinal, self.at, self.head = ordinal, at, head
        self.raw_size, self.stored_size, self.count, self.crc = _BLOCK.unpack(head)

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.at + _BLOCK.size + int(self.stored_size)


def read_frame(data: bytes, request: FrameRequest) -> Frame:
    """Decodes and checks a whole frame.

    Raises:
        CorruptedError: CLEANCUT_FRAME_CORRUPTED or CLEANCUT_FRAME_MISPLACED, naming object and
            version.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    reader = FrameReader(data, request)
    if reader.is_referring:
        sources = reader.sources()
        return Frame(request, reader.identity, reader.codec, (), 0, len(data), sources)
    blocks = tuple(reader.blocks())
    return Frame(request, reader.identity, reader.codec, blocks, reader.keys, len(data))


def _read_header(data: SliceableBytes, request: FrameRequest) -> _Header:
    head = _cut(data, 0, _HEADER.size, "the header", request)
    magic, version, kind, codec, length, crc = _HEADER.unpack(head)
    check_magic((magic, version), _HEADER_MAGIC, request.path, request.damaged, "frame")
    raw = _cut(data, _HEADER.size, length, "the identity", request)
    if crc32(raw, crc32(head[:12])) != crc:
        raise request.damaged("the checksum of the header is wrong")
    if codec not in _CODECS:
        raise request.damaged(f"codec {codec} is not known")
    if kind not in _KINDS:
        raise request.damaged(f"kind {kind} is not known")
    is_referring = kind == _REFERENCE
    try:
        identity = parse_identity(raw, _KINDS[kind], is_referring=is_referring)
    except ValueError as error:
        raise request.damaged(f"the identity cannot be read: {error}") from error
    if (identity.store, identity.name) != (request.store, request.name):
        raise request.misplaced(identity)
    return _Header(identity, _CODECS[codec], is_referring, crc, _HEADER.size + length)


def trailer_size(end: bytes) -> int:
    """The length of a trailer with its index, from the last bytes of a frame; 0 if invalid."""
    if len(end) < _TRAILER.size or end[-4:] != _TRAILER_MAGIC:
        return 0
    return 8 + int(_TRAILER.unpack(end[-_TRAILER.size :])[4]) + _TRAILER.size


def header_size(start: bytes) -> int:
    """The length of a header, from the first bytes of a frame; 0 if there are too few."""
    if len(start) < _HEADER.size:
        return 0
    return _HEADER.size + int(_HEADER.unpack(start[: _HEADER.size])[4])


def _read_index(end: bytes, header: _Header, request: FrameRequest, size: int) -> FrameIndex:
    raw = end[-trailer_size(end) :]
    if trailer_size(end) == 0 or len(raw) < trailer_size(end):
        raise request.damaged("it does not end with the magic of a frame")
    *_, length, index_size, crc, _ = _TRAILER.unpack(raw[-_TRAILER.size :])
    _check_trailer(raw, crc, header, request)
    index = _parse_index(raw[8 : 8 + index_size], request)
    blocks = sum(_BLOCK.size + block.sizes[1] for block in index.blocks)
    if length != size or (index.blocks and header.size + blocks + len(raw) != size):
        raise request.damaged("the trailer does not fit the blocks before it")
    return index


def _read_block(
    data: SliceableBytes, extent: _Extent, header: _Header, request: FrameRequest
) -> Block:
    where = f"the block at byte {extent.at}"
    raw = _raw_block(data, extent, header, request)
    try:
        records = parse_records(raw)
    except ValueError as error:
        raise request.damaged(f"{where} cannot be decoded: {error}") from error
    if len(records) != extent.count:
        raise request.damaged(f"{where} holds {len(records)} records and not {extent.count}")
    return Block(extent.raw_size, extent.stored_size, records)


def _raw_block(
    data: SliceableBytes, extent: _Extent, header: _Header, request: FrameRequest
) -> bytes:
    where = f"the block at byte {extent.at}"
    stored = _cut(data, extent.at + _BLOCK.size, extent.stored_size, where, request)
    seed = crc32(struct.pack("<II", header.crc, extent.ordinal))
    if crc32(stored, crc32(extent.head[:12], seed)) != extent.crc:
        raise request.damaged(f"the checksum of {where} is wrong")
    try:
        raw = stored if header.codec == "none" else _decompress(stored, extent.raw_size)
    except (ValueError, zstandard.ZstdError) as error:
        raise request.damaged(f"{where} cannot be decoded: {error}") from error
    if len(raw) != extent.raw_size:
        raise request.damaged(f"{where} holds {len(raw)} bytes and not {extent.raw_size}")
    return raw


def _decompress(stored: bytes, raw_size: int) -> bytes:
    # The block has its length; a size in zstd's own header must not allocate anything else.
    if zstandard.frame_content_size(stored) not in (-1, raw_size):
        raise ValueError(f"zstd's own header does not say {raw_size} bytes")
    return zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)


def _read_trailer(
    data: SliceableBytes,
    at: int,
    header: _Header,
    extents: Sequence[_Extent],
    request: FrameRequest,
) -> int:
    """The number of live keys. `at` is the end of the blocks."""
    head = _cut(data, at, 8, "the trailer", request)
    size = int.from_bytes(head[4:], "little")
    end = at + 8 + size + _TRAILER.size
    raw = head + _cut(data, at + 8, end - at - 8, "the trailer", request)
    block_count, record_count, keys, length, same_size, crc, magic = _TRAILER.unpack(
        raw[-_TRAILER.size :]
    )
    _check_trailer(raw, crc, header, request)
    if magic != _TRAILER_MAGIC:
        raise request.damaged("it does not end with the magic of a frame")
    counted = len(extents), sum(extent.count for extent in extents), end
    if (block_count, record_count, length) != counted or same_size != size:
        raise request.damaged("the trailer does not fit the blocks before it")
    if len(data) != end:
        raise request.damaged(f"bytes follow the trailer, which ends at {end}")
    _check_index(raw[8 : 8 + size], keys, extents, request)
    return int(keys)


def _check_trailer(raw: bytes, crc: int, header: _Header, request: FrameRequest) -> None:
    if crc32(raw[:-8], crc32(struct.pack("<I", header.crc))) != crc:
        raise request.damaged("the checksum of the trailer is wrong")


def _parse_index(raw: bytes, request: FrameRequest) -> FrameIndex:
    try:
        return parse_index(raw)
    except ValueError as error:
        raise request.damaged(f"the index cannot be read: {error}") from error


def _check_index(raw: bytes, keys: int, extents: Sequence[_Extent], request: FrameRequest) -> None:
    index = _parse_index(raw, request)
    if index.totals and sum(total.keys for total in index.totals.values()) != keys:
        raise request.damaged(f"the families of the index have not {keys} keys")
    blocks = [(extent.raw_size, extent.stored_size, extent.count) for extent in extents]
    if index.blocks and blocks != [block.sizes for block in index.blocks]:
        raise request.damaged("the index does not fit the blocks before it")
    for family, total in index.totals.items():
        sizes = [block.size for block in index.blocks if block.family == family]
        if index.blocks and sum(sizes) != total.size:
            raise request.damaged(f"the blocks of family {family} have not {total.size} bytes")


def _cut(data: SliceableBytes, at: int, size: int, what: str, request: FrameRequest) -> bytes:
    piece = data[at : at + size]
    if len(piece) < size:
        raise request.damaged(f"it ends at byte {len(data)}, inside {what}")
    return piece
