"""Encodes pages and the parts of cuts by docs/FORMAT.md independently, like `cut_encoder`.

It can also write invalid pages: each part of a page's body may be overridden.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import zstandard

from tests.vectors.cut_encoder import SegmentParts, encode_cut, zstd_of_raw_blocks
from tests.vectors.cut_writer import Stored, StoreKey, cut_body, cut_name, segment_name
from tests.vectors.frame_cases import version_id

KINDS = {"delta": 1, "base": 2}


@dataclass(frozen=True)
class PageFrame:
    """An encoded frame of a page; `version` is the difference to the first frame of a store."""

    kind: int
    segment: int
    version: int
    version_id: bytes
    offset: int
    length: int
    crc: int

    def joined(self) -> bytes:
        numbers = uvarint(self.segment) + uvarint(self.version) + self.version_id
        place = uvarint(self.offset) + uvarint(self.length) + struct.pack("<I", self.crc)
        return bytes([self.kind]) + numbers + place


@dataclass(frozen=True)
class PageStore:
    """A store of a page; `frame_count` replaces the right number of frames in a wrong page."""

    key: StoreKey
    frames: Sequence[PageFrame]
    frame_count: int | None = None
    name: bytes | None = None

    def joined(self) -> bytes:
        operator, partition, store = self.key
        count = len(self.frames) if self.frame_count is None else self.frame_count
        name = store.encode() if self.name is None else self.name
        return struct.pack("<qi", operator, partition) + text(name) + uvarint(count)

    def with_frame(self, at: int, **fields: Any) -> "PageStore":
        """Returns the store with another frame."""
        frames = list(self.frames)
        frames[at] = replace(frames[at], **fields)
        return replace(self, frames=frames)


@dataclass(frozen=True)
class PageBody:
    """The body of a page; the counts are set only to replace the right ones."""

    names: Sequence[bytes]
    stores: Sequence[PageStore]
    told_names: int | None = None
    told_stores: int | None = None

    def joined(self) -> bytes:
        names = len(self.names) if self.told_names is None else self.told_names
        stores = len(self.stores) if self.told_stores is None else self.told_stores
        parts = [uvarint(names), *map(text, self.names), uvarint(stores)]
        parts += [store.joined() for store in self.stores]
        parts += [frame.joined() for store in self.stores for frame in store.frames]
        return b"".join(parts)


def uvarint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def text(raw: bytes) -> bytes:
    return uvarint(len(raw)) + raw


def page_body(chains: Sequence[Sequence[Stored]]) -> PageBody:
    """Returns the body of a page with these chains, each of one store."""
    segments = sorted({frame.segment for chain in chains for frame in chain})
    return PageBody(
        [name.encode() for name in segments], [_store(chain, segments) for chain in chains]
    )


def _store(chain: Sequence[Stored], segments: Sequence[str]) -> PageStore:
    frames, before = [], 0
    for frame in chain:
        entry = frame.entry
        frames.append(
            PageFrame(
                KINDS[entry["kind"]],
                segments.index(frame.segment),
                entry["version"] - before,
                bytes.fromhex(entry["id"]),
                entry["offset"],
                entry["length"],
                entry["crc"],
            )
        )
        before = entry["version"]
    return PageStore(chain[0].store, frames)


def encode_page(
    raw: bytes,
    *,
    version: int = 1,
    magic: bytes = b"CCPG",
    codec: int = 1,
    reserved: int = 0,
    raw_size: int | None = None,
    stored: bytes | None = None,
    compress: bool = False,
) -> bytes:
    """Encodes a page like a writer, from a body."""
    if stored is None:
        whole = zstandard.ZstdCompressor(level=3).compress(raw) if compress else None
        stored = zstd_of_raw_blocks(raw) if whole is None else whole
    size = len(raw) if raw_size is None else raw_size
    head = magic + struct.pack("<HBBII", version, codec, reserved, size, len(stored))
    return head + struct.pack("<I", crc32(head + stored)) + stored


def page_name(epoch: int, number: int = 1) -> str:
    own_id = version_id(0x8000 + 0x100 * number + epoch % 0x100)
    return f"pages/{epoch:020d}/{own_id}.page"


def page_element(name: str, data: bytes, first: StoreKey, stores: int) -> dict[str, Any]:
    """Returns the reference of a cut to a page."""
    operator, partition, store = first
    place = {"name": name, "length": len(data), "crc": crc32(data), "stores": stores}
    return place | {"operator": operator, "partition": partition, "store": store}


def write_page(
    epoch: int, chains: Sequence[Sequence[Stored]], *, number: int = 1
) -> tuple[str, bytes, dict[str, Any]]:
    """Returns a page: its name, its bytes, and the reference of a cut to it."""
    name, data = page_name(epoch, number), encode_page(page_body(chains).joined())
    return name, data, page_element(name, data, chains[0][0].store, len(chains))


def window_element(epoch: int, name: str, parts: SegmentParts, **offsets: Any) -> dict[str, Any]:
    """Returns the reference of a cut to a segment whose frames it adopts."""
    footer = parts.table + parts.trailer
    size = {"length": len(parts.joined()), "footer": len(footer), "crc": crc32(footer)}
    return {"segment": name, "epoch": epoch} | size | offsets


def write_cut(
    epoch: int, chains: Sequence[Sequence[Stored]], name: str | None = None, **fields: Any
) -> dict[str, bytes]:
    """Returns a cut of these chains, each of one store, and its page; by name."""
    stores = [chain for chain in chains if not chain[0].store[2].startswith("cleancut-channel-")]
    in_flight = [chain for chain in chains if chain not in stores]
    pages = {}
    elements = []
    if stores:
        page, data, element = write_page(epoch, stores, number=9)
        pages[page] = data
        elements = [element]
    body = cut_body(epoch, elements, store_count=len(stores), in_flight=in_flight, **fields)
    return pages | {name or cut_name(epoch): encode_cut(body)}


def unwritten(key: StoreKey, version: int, kind: str = "delta", **fields: Any) -> Stored:
    """Returns a frame for a page or a cut, without a segment."""
    operator, partition, store = key
    named = {"operator": operator, "partition": partition, "store": store}
    place = {"offset": 100 * version, "length": 90 + version, "crc": 0x9000_0000 + version}
    entry = named | {"version": version, "id": version_id(version), "kind": kind} | place
    return Stored(segment_name(version - 1), entry | fields)
