"""Encodes segments and cuts by docs/FORMAT.md independently, like `frame_encoder` for frames.

It can also write invalid objects: each field of each part may be overridden.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import zstandard

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SINGLE_SEGMENT_WITH_4_BYTES_OF_SIZE = 0xA0
_MAX_ZSTD_BLOCK = 1 << 17


@dataclass(frozen=True)
class Placed:
    """A frame for a segment: the fields of its identity, its kind and its bytes."""

    identity: Mapping[str, Any]
    kind: str
    data: bytes
    attempt: int = 1


@dataclass(frozen=True)
class SegmentParts:
    """The bytes of a segment, split at the boundaries of the format."""

    header: bytes
    identity: bytes
    frames: bytes
    table: bytes
    trailer: bytes

    @property
    def header_crc(self) -> int:
        return int.from_bytes(self.header[12:16], "little")

    def joined(self) -> bytes:
        return b"".join([self.header, self.identity, self.frames, self.table, self.trailer])


def encode_segment(
    identity: Mapping[str, Any],
    frames: Sequence[Placed],
    *,
    table: object = None,
    compress: bool = False,
    **header: Any,
) -> SegmentParts:
    """Encodes a segment like a writer; `table` replaces the right one."""
    head, raw_identity = segment_header(identity, **header)
    entries = table if table is not None else table_of(len(head) + len(raw_identity), frames)
    stored = stored_json(entries, compress=compress)
    joined = b"".join(frame.data for frame in frames)
    size = len(head) + len(raw_identity) + len(joined) + len(stored) + 28
    crc = int.from_bytes(head[12:16], "little")
    trailer = segment_trailer(crc, stored, len(json_bytes(entries)), size)
    return SegmentParts(head, raw_identity, joined, stored, trailer)


def segment_header(
    identity: object, *, version: int = 1, magic: bytes = b"CCSG", reserved: int = 0
) -> tuple[bytes, bytes]:
    raw = json_bytes(identity)
    head = magic + struct.pack("<HHI", version, reserved, len(raw))
    return head + struct.pack("<I", crc32(head + raw)), raw


def table_of(first: int, frames: Sequence[Placed]) -> list[dict[str, Any]]:
    """Returns the table of consecutive frames from an offset on."""
    entries, offset = [], first
    for frame in frames:
        names = ("operator", "partition", "store", "version", "id")
        entry = {name: frame.identity[name] for name in names}
        place = {"offset": offset, "length": len(frame.data), "crc": crc32(frame.data)}
        entries.append(entry | {"kind": frame.kind, "attempt": frame.attempt} | place)
        offset += len(frame.data)
    return entries


def segment_trailer(
    header_crc: int,
    stored: bytes,
    raw_size: int,
    size: int,
    *,
    reserved: int = 0,
    magic: bytes = b"CCSE",
) -> bytes:
    head = struct.pack("<IIQ", len(stored), raw_size, size)
    crc = crc32(struct.pack("<I", header_crc) + stored + head)
    return head + struct.pack("<II", crc, reserved) + magic


def encode_cut(
    body: object,
    *,
    version: int = 1,
    magic: bytes = b"CCCT",
    codec: int = 1,
    reserved: int = 0,
    raw_size: int | None = None,
    stored: bytes | None = None,
    stored_size: int | None = None,
    compress: bool = False,
) -> bytes:
    """Encodes a cut like a writer."""
    raw = json_bytes(body)
    stored = stored_json(body, compress=compress) if stored is None else stored
    sizes = (
        len(raw) if raw_size is None else raw_size,
        len(stored) if stored_size is None else stored_size,
    )
    head = magic + struct.pack("<HBBII", version, codec, reserved, *sizes)
    return head + struct.pack("<I", crc32(head + stored)) + stored


def json_bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def stored_json(value: object, *, compress: bool = False) -> bytes:
    raw = json_bytes(value)
    return zstandard.ZstdCompressor(level=3).compress(raw) if compress else zstd_of_raw_blocks(raw)


def zstd_of_raw_blocks(raw: bytes) -> bytes:
    """Returns a zstd frame (RFC 8878) without compression, which each release of zstd reads."""
    chunks = [raw[i : i + _MAX_ZSTD_BLOCK] for i in range(0, len(raw), _MAX_ZSTD_BLOCK)] or [b""]
    head = _ZSTD_MAGIC + struct.pack("<BI", _SINGLE_SEGMENT_WITH_4_BYTES_OF_SIZE, len(raw))
    blocks = b""
    for number, chunk in enumerate(chunks):
        is_last = int(number == len(chunks) - 1)
        blocks += (len(chunk) << 3 | is_last).to_bytes(3, "little") + chunk
    return head + blocks
