"""Corrupted frames, and the error of each. All are derived from one intact frame."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.vectors.frame_cases import (
    FAMILY,
    FrameCase,
    Source,
    identity_of,
    indexed_base,
    put,
    remove,
    request_of,
    several_blocks,
    version_id,
)
from tests.vectors.frame_encoder import (
    TRAILER_SIZE,
    Change,
    Index,
    Parts,
    encode_block,
    encode_header,
    encode_index,
    encode_record,
    encode_trailer,
    seal_block,
)

CORRUPTED = "CLEANCUT_FRAME_CORRUPTED"
MISPLACED = "CLEANCUT_FRAME_MISPLACED"
UNKNOWN = "CLEANCUT_FORMAT_UNKNOWN"

SOUND = several_blocks()
PARTS = SOUND.parts()
REQUEST = request_of(SOUND.identity, SOUND.kind)


def cases() -> list[FrameCase]:
    """Returns all cases; the name is that of the file."""
    return [
        *_flipped(),
        *_truncated(),
        *_crafted_header(),
        *_moved_blocks(),
        *_crafted_blocks(),
        *_crafted_trailer(),
        *_misplaced(),
        *_crafted_records(),
        *_damaged_index(),
    ]


def _case(
    name: str, doc: str, data: bytes, error: str = CORRUPTED, layer: str = "frame"
) -> FrameCase:
    return FrameCase(name, doc, data, REQUEST, error=error, layer=layer)


def _flipped() -> Iterator[FrameCase]:
    """Flips one bit of each field except the format version, where either error is right."""
    block = 16 + len(PARTS.identity)
    second = block + len(PARTS.blocks[0])
    trailer = second + len(PARTS.blocks[1])
    places = {
        "header-magic": 1,
        "header-kind": 6,
        "header-codec": 7,
        "header-identity-length": 8,
        "header-checksum": 12,
        "identity": 16 + len(PARTS.identity) // 2,
        "block-raw-length": block,
        "block-stored-length": block + 4,
        "block-record-count": block + 8,
        "block-checksum": block + 12,
        "block-key": block + 16 + 30,
        "second-block": second + 20,
        "trailer-mark": trailer,
        "trailer-block-count": trailer + 12,
        "trailer-record-count": trailer + 16,
        "trailer-keys": trailer + 24,
        "trailer-length": trailer + 32,
        "trailer-checksum": trailer + 44,
        "trailer-magic": trailer + 48,
    }
    for name, place in places.items():
        data = bytearray(PARTS.joined())
        data[place] ^= 1
        yield _case(f"flipped-{name}", f"One bit flipped at byte {place}.", bytes(data))


def _truncated() -> Iterator[FrameCase]:
    data = PARTS.joined()
    block = 16 + len(PARTS.identity)
    second = block + len(PARTS.blocks[0])
    trailer = second + len(PARTS.blocks[1])
    places = {
        "to-nothing": 0,
        "in-magic": 3,
        "after-header-fields": 16,
        "in-identity": block - 1,
        "after-identity": block,
        "in-block-header": block + 8,
        "after-block-header": block + 16,
        "in-block": second - 1,
        "after-block": second,
        "after-last-block": trailer,
        "after-trailer-mark": trailer + 4,
        "before-trailer-magic": len(data) - 4,
        "by-one-byte": len(data) - 1,
    }
    for name, place in places.items():
        yield _case(f"truncated-{name}", f"Cut to {place} bytes.", data[:place])
    yield _case("trailing-byte", "An extra byte after the trailer.", data + b"\0")
    yield _case("doubled", "The complete frame twice.", data + data)
    zeros = data[:second].ljust(len(data), b"\0")
    yield _case("zeros-at-the-end", "Zeros from the second block on.", zeros)


def _with_header(header: tuple[bytes, bytes]) -> bytes:
    """Returns the intact frame with another header; blocks and trailer are sealed to match it."""
    seed = int.from_bytes(header[0][12:16], "little")
    blocks = [
        encode_block(b"".join(map(encode_record, block)), len(block), seed, i, "none")
        for i, block in enumerate(SOUND.blocks)
    ]
    before = sum(map(len, [*header, *blocks]))
    size = before + len(PARTS.trailer)
    trailer = encode_trailer(seed, 2, sum(map(len, SOUND.blocks)), SOUND.keys, size)
    return b"".join([*header, *blocks, trailer])


def _crafted_header() -> Iterator[FrameCase]:
    identity = SOUND.identity

    def made(
        name: str, doc: str, fields: object, error: str = CORRUPTED, **header: Any
    ) -> FrameCase:
        head = encode_header(fields, **({"kind": 1, "codec": 0} | header))
        return _case(name, f"{doc} All checksums hold.", _with_header(head), error)

    yield made("magic-of-another-file", "Another magic.", identity, magic=b"CCF2")
    yield made("magic-before-0.1.0", "The magic before 0.1.0.", identity, UNKNOWN, magic=b"CCF1")
    yield made("version-unknown", "Format version 2.", identity, UNKNOWN, version=2)
    yield made("kind-unknown", "Kind 4.", identity, kind=4)
    yield made("codec-unknown", "Codec 9.", identity, codec=9)
    without_id = {name: value for name, value in identity.items() if name != "id"}
    yield made("identity-without-id", "An identity that lacks its id.", without_id)
    yield made("identity-not-an-object", "An identity that is a JSON array.", [1, 2])


def _assembled(blocks: list[bytes]) -> bytes:
    return Parts(PARTS.header, PARTS.identity, tuple(blocks), PARTS.trailer).joined()


def _moved_blocks() -> Iterator[FrameCase]:
    first, second = PARTS.blocks
    other = replace(SOUND, identity=dict(SOUND.identity) | {"id": version_id(7)}).parts()
    yield _case("blocks-reordered", "The two blocks exchanged.", _assembled([second, first]))
    yield _case(
        "block-of-another-frame",
        "The first block of a frame that differs only in its id.",
        _assembled([other.blocks[0], second]),
    )
    yield _case("block-missing", "The second block left out.", _assembled([first]))
    yield _case("block-doubled", "The first block twice.", _assembled([first, first, second]))


def _sealed(block: bytes, records: int, codec: int = 0) -> bytes:
    """Returns a frame of one given block, with a matching trailer; seed and 0 seal the block."""
    header = encode_header(SOUND.identity, 1, codec)
    seed = int.from_bytes(header[0][12:16], "little")
    size = len(header[0]) + len(header[1]) + len(block) + len(PARTS.trailer)
    return b"".join([*header, block, encode_trailer(seed, 1, records, 1, size)])


def _seed(codec: int = 0) -> int:
    return int.from_bytes(encode_header(SOUND.identity, 1, codec)[0][12:16], "little")


def _crafted_blocks() -> Iterator[FrameCase]:
    raw = encode_record(put(1, "ada", 3, 1.5))
    longer = seal_block(raw, len(raw) + 1, 1, _seed(), 0)
    yield _case(
        "block-shorter-than-it-says",
        "A block of codec none whose two lengths differ.",
        _sealed(longer, 1),
    )
    garbage = seal_block(b"no zstd" * 3, 21, 1, _seed(1), 0)
    yield _case("block-not-zstd", "A block of codec zstd that is none.", _sealed(garbage, 1, 1))
    endless = bytearray(seal_block(raw, len(raw), 1, _seed(), 0))
    endless[4:8] = (0x7FFFFFFF).to_bytes(4, "little")
    yield _case(
        "block-stored-length-of-2-gb",
        "A block of few bytes whose header states 2 GB.",
        _sealed(bytes(endless), 1),
    )
    half = encode_block(raw, 1, _seed(1), 0, "zstd", raw_size=len(raw) // 2)
    yield _case(
        "block-longer-than-it-says",
        "A block that decompresses to more than its length.",
        _sealed(half, 1, 1),
    )


def _crafted_trailer() -> Iterator[FrameCase]:
    size = len(PARTS.joined())
    body = PARTS.joined()[: -len(PARTS.trailer)]
    trailers = {
        "trailer-other-block-count": (3, 5, size),
        "trailer-other-record-count": (2, 4, size),
        "trailer-other-length": (2, 5, size + 1),
    }
    for name, (blocks, records, length) in trailers.items():
        trailer = encode_trailer(PARTS.header_crc, blocks, records, SOUND.keys, length)
        yield _case(name, "A trailer that does not fit, its checksum holds.", body + trailer)
    trailer = encode_trailer(PARTS.header_crc, 2, 5, SOUND.keys, size, magic=b"CCFF")
    yield _case("trailer-other-magic", "Another magic at the end.", body + trailer)


def _misplaced() -> Iterator[FrameCase]:
    sound = dict(SOUND.identity)
    others: dict[str, dict[str, Any]] = {
        "operator": sound | {"operator": 1},
        "partition": sound | {"partition": 4},
        "store": sound | {"store": "left-keyToNumValues"},
        "version": sound | {"version": 3},
        "id": sound | {"id": version_id(7)},
    }
    for name, identity in others.items():
        data = replace(SOUND, identity=identity).parts().joined()
        yield _case(f"misplaced-{name}", f"A sound frame of another {name}.", data, MISPLACED)
    base = replace(SOUND, kind="base", identity=identity_of(2, families=[FAMILY]))
    doc = "A sound base under the name of the delta of its version."
    yield _case("misplaced-kind", doc, base.parts().joined(), MISPLACED)


def _crafted_records() -> Iterator[FrameCase]:
    """Yields errors that appear only when records are read or applied; all checksums are right."""
    good = encode_record(put(1, "ada", 3, 1.5))
    raws = {
        "record-of-unknown-operation": (b"\x04" + good[1:], 1),
        "record-over-the-end": (good + b"\x01\x00\x7f\x01", 2),
        "record-cut-in-its-lengths": (good + b"\x02\x00", 2),
        "record-length-without-end": (good + b"\x02\x00" + b"\xff" * 6, 2),
        "record-count-too-low": (good * 2, 1),
        "record-count-too-high": (good, 2),
    }
    for name, (raw, count) in raws.items():
        block = encode_block(raw, count, _seed(), 0, "none")
        yield _case(
            name, "A block whose records cannot be read.", _sealed(block, count), layer="records"
        )
    base = Source("", "", "base", identity_of(2, families=[FAMILY]), [], keys=1)
    twice = [[put(1, "ada", 3, 1.5)], [put(1, "ada", 4, 2.5)]]
    removing = [[put(1, "ada", 3, 1.5), remove(2, "grace")]]
    stranger = replace(put(1, "ada", 3, 1.5), family=5)
    yield _of_base("base-with-a-remove", "A base that holds a remove.", base, removing, "records")
    yield _of_base("base-with-a-key-twice", "A base with a key twice.", base, twice, "state")
    yield _of_base(
        "base-other-keys",
        "A trailer with another number of live keys.",
        replace(base, keys=2),
        twice[:1],
        "state",
    )
    added = replace(put(1, "ada", 3, 1.5), is_merge=True)
    yield _of_base(
        "merge-without-lists", "A merge in a family without lists.", base, [[added]], "state"
    )
    yield _of_base(
        "base-family-unknown",
        "A record of a family that the identity does not name.",
        base,
        [[stranger]],
        "state",
    )


def _of_base(
    name: str, doc: str, base: Source, blocks: list[list[Change]], layer: str
) -> FrameCase:
    data = replace(base, blocks=blocks).parts().joined()
    return FrameCase(
        name, doc, data, request_of(base.identity, "base"), error=CORRUPTED, layer=layer
    )


def _damaged_index() -> Iterator[FrameCase]:
    sound = indexed_base()
    parts = sound.parts()
    request = request_of(sound.identity, sound.kind)
    start = len(parts.joined()) - len(parts.trailer)
    raw = parts.trailer[8:-40]
    blocks = len(sound.blocks)
    records = sum(map(len, sound.blocks))

    def case(name: str, doc: str, data: bytes) -> FrameCase:
        return FrameCase(f"index-{name}", doc, data, request, error=CORRUPTED)

    def with_index(index: bytes, keys: int = sound.keys) -> bytes:
        size = start + len(index) + TRAILER_SIZE
        end = encode_trailer(parts.header_crc, blocks, records, keys, size, index)
        return parts.joined()[:start] + end

    places = {"length": 4, "family": 12, "keys": 16, "block": 60, "length-again": 8 + len(raw) + 28}
    for name, place in places.items():
        data = bytearray(parts.joined())
        data[start + place] ^= 1
        yield case(f"flipped-{name}", f"One bit flipped in the end, at byte {place}.", bytes(data))
    yield case("cut", "Sealed around an index that ends in a block.", with_index(raw[:-1]))
    yield case("longer", "Sealed around an index and a byte more.", with_index(raw + b"\0"))
    yield case("empty", "Sealed around no index at all.", with_index(b""))
    other = bytearray(raw)
    other[48] ^= 1
    yield case(
        "other-block", "The raw length of the first block is another.", with_index(bytes(other))
    )
    total = bytearray(raw)
    total[8] ^= 1
    yield case("other-keys", "A family has another number of keys.", with_index(bytes(total)))
    size = bytearray(raw)
    size[16] ^= 8
    yield case("other-bytes", "A family has other bytes.", with_index(bytes(size)))
    first = Index({0: sound.index.totals[0]}, has_blocks=True)
    alone = encode_index(first, sound.blocks[:-1], parts.blocks[:-1])
    doc = "Index and number of keys are without the family of the last block."
    yield case("without-a-family", doc, with_index(alone, first.totals[0][0]))
