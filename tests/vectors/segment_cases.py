"""Segments, intact and corrupted, and the result of reading them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.vectors.cut_encoder import (
    Placed,
    SegmentParts,
    encode_segment,
    segment_trailer,
    stored_json,
    table_of,
)
from tests.vectors.cut_writer import segment_identity, segment_name
from tests.vectors.damage_cases import CORRUPTED, MISPLACED, UNKNOWN
from tests.vectors.frame_cases import FAMILY, identity_of, put, version_id
from tests.vectors.frame_encoder import Change, encode_frame

CUT_CORRUPTED = "CLEANCUT_CUT_CORRUPTED"

EPOCH = 6


@dataclass(frozen=True)
class ObjectCase:
    """One vector: the bytes of a cut or a segment, its name, and the expected result.

    `layer` is the part in which a reader of a segment fails: "segment" is header, table and
    trailer, "frame" is the frames at the offsets in the table.
    """

    name: str
    doc: str
    object_name: str
    data: bytes
    content: Mapping[str, Any] | None = None
    error: str | None = None
    layer: str | None = None

    def expectation(self) -> dict[str, Any]:
        expected: dict[str, Any] = {"doc": self.doc, "request": {"name": self.object_name}}
        if self.content is not None:
            return expected | {"content": dict(self.content)}
        layer = {} if self.layer is None else {"layer": self.layer}
        return expected | {"error": self.error} | layer


def delta_of(
    version: int,
    changes: Sequence[Change],
    keys: int,
    *,
    partition: int = 3,
    codec: str = "none",
    parent_id: str | None = None,
) -> Placed:
    """Returns the delta that follows the previous version, of a store of operator 0."""
    parent = (version - 1, parent_id or (version_id(version - 1) if version > 1 else None))
    families = [FAMILY] if version == 1 else []
    identity = identity_of(version, parent=parent, families=families) | {"partition": partition}
    data = encode_frame("delta", identity, [changes] if changes else [], keys, codec).joined()
    return Placed(identity, "delta", data, attempt=100 + partition)


def base_of(
    version: int, rows: Sequence[Change], *, partition: int = 3, codec: str = "none"
) -> Placed:
    identity = identity_of(version, families=[FAMILY]) | {"partition": partition}
    data = encode_frame("base", identity, [rows] if rows else [], len(rows), codec).joined()
    return Placed(identity, "base", data, attempt=100 + partition)


FRAMES = [
    delta_of(EPOCH + 1, [put(1, "ada", 3, 1.5)], 1),
    delta_of(EPOCH + 1, [put(2, "grace", 1, 0.5)], 1, partition=4),
]
SEGMENT = encode_segment(segment_identity(EPOCH), FRAMES)


def segments() -> list[ObjectCase]:
    """Returns all vectors of segments; the name is that of the file."""
    return [
        *_sound_segments(),
        *_flipped_segments(),
        *_truncated_segments(),
        *_crafted_segments(),
        *_crafted_tables(),
        *_damaged_frames(),
    ]


def _segment(name: str, doc: str, data: bytes, error: str = CUT_CORRUPTED) -> ObjectCase:
    return ObjectCase(name, doc, segment_name(EPOCH), data, error=error, layer="segment")


def _sound_segments() -> Iterator[ObjectCase]:
    rows = [put(i, f"key {i}", i, i / 4) for i in range(40)]
    many = [base_of(EPOCH + 1, rows, codec="zstd"), *FRAMES]
    cases = [
        ("driver", "Deltas of two partitions.", "driver", FRAMES, False),
        ("executor", "A base before deltas, all compressed.", "17", many, True),
        ("writer-of-odd-name", "An executor's id that no name can hold.", "h/1.é", FRAMES, False),
        ("without-frames", "No frame at all.", "driver", [], False),
    ]
    plain = {"driver": "driver", "17": "17", "h/1.é": "h1"}
    for name, doc, writer, frames, compress in cases:
        identity = segment_identity(EPOCH, writer)
        parts = encode_segment(identity, frames, compress=compress)
        first = len(parts.header) + len(parts.identity)
        data = parts.joined()
        size = {"bytes": len(data), "compressed": compress}
        content = size | {"identity": identity, "table": table_of(first, frames)}
        yield ObjectCase(name, doc, segment_name(EPOCH, plain[writer]), data, content)


def _flipped_segments() -> Iterator[ObjectCase]:
    """Flips one bit of each field except the format version, where either error is right."""
    frames = 16 + len(SEGMENT.identity)
    table = frames + len(SEGMENT.frames)
    trailer = table + len(SEGMENT.table)
    places = {
        "header-magic": 1,
        "header-reserved": 6,
        "header-identity-length": 8,
        "header-checksum": 12,
        "identity": 16 + len(SEGMENT.identity) // 2,
        "table": table + len(SEGMENT.table) // 2,
        "trailer-stored-length": trailer,
        "trailer-raw-length": trailer + 4,
        "trailer-length": trailer + 8,
        "trailer-checksum": trailer + 16,
        "trailer-reserved": trailer + 20,
        "trailer-magic": trailer + 24,
    }
    for name, place in places.items():
        data = flipped(SEGMENT.joined(), place)
        yield _segment(f"flipped-{name}", f"One bit flipped at byte {place}.", data)


def _truncated_segments() -> Iterator[ObjectCase]:
    data = SEGMENT.joined()
    frames = 16 + len(SEGMENT.identity)
    table = frames + len(SEGMENT.frames)
    places = {
        "to-nothing": 0,
        "in-header": 9,
        "in-identity": frames - 1,
        "in-frames": frames + 50,
        "after-frames": table,
        "in-table": table + 5,
        "in-trailer": len(data) - 9,
        "by-one-byte": len(data) - 1,
    }
    for name, place in places.items():
        yield _segment(f"truncated-{name}", f"Cut to {place} bytes.", data[:place])
    yield _segment("trailing-byte", "An extra byte after the trailer.", data + b"\0")


def _crafted_segments() -> Iterator[ObjectCase]:
    def made(
        name: str, doc: str, identity: object, error: str = CUT_CORRUPTED, **header: Any
    ) -> Any:
        fields: Any = identity
        data = encode_segment(fields, FRAMES, **header).joined()
        return _segment(name, f"{doc} All checksums hold.", data, error)

    sound = segment_identity(EPOCH)
    yield made("magic-before-0.1.0", "The magic before 0.1.0.", sound, UNKNOWN, magic=b"CCS1")
    yield made("version-unknown", "Format version 2.", sound, UNKNOWN, version=2)
    yield made("magic-of-another-file", "Another magic.", sound, magic=b"CCS2")
    yield made("identity-of-another-epoch", "Another epoch.", sound | {"epoch": EPOCH + 1})
    yield made("identity-of-another-writer", "Another writer.", sound | {"writer": "17"})
    yield made("identity-not-an-object", "An identity that is a JSON array.", [1, 2])
    without = {name: value for name, value in sound.items() if name != "epoch"}
    yield made("identity-without-epoch", "An identity that lacks its epoch.", without)


def _with_trailer(stored: bytes, raw_size: int) -> bytes:
    before = [SEGMENT.header, SEGMENT.identity, SEGMENT.frames]
    size = sum(map(len, before)) + len(stored) + 28
    trailer = segment_trailer(SEGMENT.header_crc, stored, raw_size, size)
    return SegmentParts(before[0], before[1], before[2], stored, trailer).joined()


def _crafted_tables() -> Iterator[ObjectCase]:
    sound = table_of(16 + len(SEGMENT.identity), FRAMES)
    first, second = sound
    gap = {"offset": second["offset"] + 1, "length": second["length"] - 1}
    tables: dict[str, tuple[str, Any]] = {
        "table-with-a-gap": ("A frame begins too late.", [first, second | gap]),
        "table-without-a-frame": ("The last frame is left out.", [first]),
        "table-out-of-order": ("The frames are exchanged.", [second, first]),
        "table-not-an-array": ("The table is an object.", {"frames": sound}),
        "table-kind-unknown": ("A kind that is none.", [first | {"kind": "full"}, second]),
        "table-entry-without-id": (
            "An element lacks its id.",
            [{name: value for name, value in first.items() if name != "id"}, second],
        ),
    }
    for name, (doc, table) in tables.items():
        data = encode_segment(segment_identity(EPOCH), FRAMES, table=table).joined()
        yield _segment(name, f"{doc} All checksums hold.", data)
    garbage = b"no zstd" * 5
    yield _segment("table-not-zstd", "A table that is no zstd.", _with_trailer(garbage, 35))
    stored = stored_json(sound)
    yield _segment(
        "table-longer-than-it-says",
        "A table that decompresses to more than its length.",
        _with_trailer(stored, 10),
    )


def _damaged_frames() -> Iterator[ObjectCase]:
    def made(name: str, doc: str, data: bytes, error: str = CORRUPTED) -> ObjectCase:
        return ObjectCase(name, doc, segment_name(EPOCH), data, error=error, layer="frame")

    place = 16 + len(SEGMENT.identity) + len(FRAMES[0].data) // 2
    yield made(
        "frame-flipped", f"One bit flipped at byte {place}.", flipped(SEGMENT.joined(), place)
    )
    identity, first = segment_identity(EPOCH), 16 + len(SEGMENT.identity)
    swapped = [Placed(FRAMES[0].identity, "delta", FRAMES[1].data), FRAMES[1]]
    doc = "The frame of another partition in its place."
    table = table_of(first, swapped)
    yield made(
        "frame-of-another-partition",
        f"{doc} All checksums hold.",
        encode_segment(identity, swapped, table=table).joined(),
        MISPLACED,
    )
    table[0]["crc"] = table_of(first, FRAMES)[0]["crc"]
    data = encode_segment(identity, swapped, table=table).joined()
    yield made("frame-of-another-partition-under-its-checksum", doc, data)
    table = table_of(first, FRAMES)
    table[1]["crc"] ^= 1
    yield made(
        "frame-checksum-of-the-table",
        "A sound frame whose checksum in the table is another.",
        encode_segment(identity, FRAMES, table=table).joined(),
    )


def flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)
