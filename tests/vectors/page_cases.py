"""Pages, intact and corrupted, and the result of reading them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.vectors.cut_writer import Stored, StoreKey
from tests.vectors.damage_cases import UNKNOWN
from tests.vectors.page_encoder import (
    PageBody,
    PageStore,
    encode_page,
    page_body,
    page_name,
    unwritten,
    uvarint,
)
from tests.vectors.segment_cases import CUT_CORRUPTED, ObjectCase, flipped

EPOCH = 6
THREE: StoreKey = (0, 3, "default")
FOUR: StoreKey = (0, 4, "default")
CHAINS: list[list[Stored]] = [
    [unwritten(THREE, 5, "base"), unwritten(THREE, 6), unwritten(THREE, 7)],
    [unwritten(FOUR, version) for version in range(1, EPOCH + 2)],
]
BODY = page_body(CHAINS)


def pages() -> list[ObjectCase]:
    """Returns all vectors of pages; the name is that of the file."""
    return [*_sound(), *_damaged(), *_crafted_names(), *_crafted_stores(), *_crafted_frames()]


def content_of(chains: Sequence[Sequence[Stored]], data: bytes, compress: bool) -> dict[str, Any]:
    """Returns the decoded content of a page, in the shape of the in-flight chains of a cut."""
    segments = sorted({frame.segment for chain in chains for frame in chain})
    names = ("kind", "version", "id", "offset", "length", "crc")
    stores = [
        {name: chain[0].entry[name] for name in ("operator", "partition", "store")}
        | {"frames": [[segments.index(f.segment), *(f.entry[n] for n in names)] for f in chain]}
        for chain in chains
    ]
    return {"bytes": len(data), "compressed": compress, "segments": segments, "stores": stores}


def _sound() -> Iterator[ObjectCase]:
    keys: list[StoreKey] = [
        (-1, 9, "default"),
        (0, 2, "default"),
        (0, 2, "left-keyToNumValues"),
        (0, 2, "状态"),
        (0, 10, "default"),
        (2**40, 0, "default"),
    ]
    ordered = [[unwritten(key, EPOCH + 1, "base")] for key in keys]
    last = 2**63 - 1
    far = {"offset": 2**62, "length": 2**63 - 1, "crc": 2**32 - 1, "id": "f" * 32}
    entry = dict(unwritten(THREE, 1, "base").entry) | {"version": last} | far
    greatest = [[Stored(CHAINS[0][0].segment, entry)]]
    first = [[unwritten(THREE, 1, crc=0, offset=0, length=1)]]
    cases = [
        ("several-stores", "A chain from a base, and one from version 1.", EPOCH, CHAINS, False),
        ("compressed", "The same, compressed.", EPOCH, CHAINS, True),
        ("first-epoch", "Version 1 of one store, by the least numbers.", 0, first, False),
        ("order-of-stores", "By operator, partition and name.", EPOCH, ordered, False),
        ("greatest-numbers", "The greatest possible numbers.", last - 1, greatest, False),
    ]
    for name, doc, epoch, chains, compress in cases:
        data = encode_page(page_body(chains).joined(), compress=compress)
        yield ObjectCase(name, doc, page_name(epoch), data, content_of(chains, data, compress))


def _page(name: str, doc: str, data: bytes, error: str = CUT_CORRUPTED) -> ObjectCase:
    return ObjectCase(name, doc, page_name(EPOCH), data, error=error)


def _damaged() -> Iterator[ObjectCase]:
    raw = BODY.joined()
    sound = encode_page(raw)
    places = {
        "magic": 2,
        "codec": 6,
        "reserved": 7,
        "raw-length": 8,
        "stored-length": 12,
        "checksum": 16,
        "body": 20 + len(sound) // 2,
    }
    for name, place in places.items():
        yield _page(f"flipped-{name}", f"One bit flipped at byte {place}.", flipped(sound, place))
    for name, place in {"to-nothing": 0, "in-header": 19, "by-one-byte": len(sound) - 1}.items():
        yield _page(f"truncated-{name}", f"Cut to {place} bytes.", sound[:place])
    yield _page("trailing-byte", "An extra byte after the body.", sound + b"\0")
    old = encode_page(raw, magic=b"CCP1", version=2)
    yield _page("magic-before-0.1.0", "The magic before 0.1.0.", old, UNKNOWN)
    yield _page("version-unknown", "Format version 2.", encode_page(raw, version=2), UNKNOWN)
    yield _page("magic-of-a-cut", "The magic of a cut.", encode_page(raw, magic=b"CCCT"))
    yield _page("codec-unknown", "Codec 9; its checksum holds.", encode_page(raw, codec=9))
    yield _page("reserved-set", "A reserved byte is set.", encode_page(raw, reserved=1))
    yield _page("not-zstd", "A body that is no zstd.", encode_page(raw, stored=b"no zstd" * 5))
    doc = "A body that decompresses to more than its length."
    yield _page("longer-than-it-says", doc, encode_page(raw, raw_size=10))
    other = encode_page(page_body([[*CHAINS[0], unwritten(THREE, EPOCH + 2)]]).joined())
    yield _page("of-another-epoch", "The page of the next epoch. All checksums hold.", other)
    yield _made("nothing", "A body without bytes.", b"")
    yield _made(
        "body-trailing-byte", "An extra byte after the last frame, in the body.", raw + b"\0"
    )
    yield _made("body-by-one-byte", "The last byte of the body is missing.", raw[:-1])
    yield _made("body-without-frames", "The body ends after the stores.", raw[: -_frames()])


def _frames() -> int:
    return sum(len(frame.joined()) for store in BODY.stores for frame in store.frames)


def _made(name: str, doc: str, body: bytes | PageBody) -> ObjectCase:
    raw = body.joined() if isinstance(body, PageBody) else body
    return _page(name, f"{doc} All checksums hold.", encode_page(raw))


def _crafted_names() -> Iterator[ObjectCase]:
    names = list(BODY.names)

    def named(first: bytes) -> PageBody:
        return replace(BODY, names=[first, *names[1:]])

    yield _made("name-of-no-segment", "A name that is that of a cut.", named(b"cuts/7.cut"))
    yield _made("name-not-text", "A name that is no UTF-8.", named(b"segments/\xff"))
    yield _made("name-empty", "A name without bytes.", named(b""))
    more = replace(BODY, told_names=len(names) + 1)
    yield _made("names-more-than-there-are", "Another number of names.", more)
    beyond = uvarint(2**40) + BODY.joined()[1:]
    yield _made("names-beyond-the-end", "A number of names beyond all bytes.", beyond)
    long = uvarint(1) + uvarint(2**40) + names[0]
    yield _made("name-beyond-the-end", "A name longer than the body.", long)
    endless = b"\x80" * 9 + b"\0" + BODY.joined()[1:]
    yield _made("number-of-ten-bytes", "A number that takes ten bytes.", endless)


def _crafted_stores() -> Iterator[ObjectCase]:
    three, four = BODY.stores

    def body_of(*stores: PageStore, **fields: Any) -> PageBody:
        return replace(BODY, stores=stores, **fields)

    yield _made("stores-none", "No store.", body_of())
    yield _made("stores-one-more", "Another number of stores.", body_of(three, four, told_stores=3))
    beyond = body_of(three, four, told_stores=2**40)
    yield _made("stores-beyond-the-end", "A number of stores beyond all bytes.", beyond)
    yield _made("store-twice", "A store stands there twice.", body_of(three, three))
    yield _made("stores-out-of-order", "The stores are exchanged.", body_of(four, three))
    names = body_of(replace(three, key=(0, 3, "a")), replace(four, key=(0, 3, "B")))
    yield _made("names-out-of-order", "Stores by their names, but upper case last.", names)
    channel = replace(four, key=(0, 4, "cleancut-channel-0"))
    yield _made("store-is-a-channel", "A channel.", body_of(three, channel))
    text = replace(three, name=b"\xff\xfe")
    yield _made("store-name-not-text", "A name that is no UTF-8.", body_of(text, four))
    yield _made("chain-empty", "A store without frames.", body_of(three, replace(four, frames=[])))
    fewer = body_of(three, replace(four, frame_count=EPOCH))
    yield _made("frames-one-less", "A frame more than the store has.", fewer)
    more = body_of(three, replace(four, frame_count=2**40))
    yield _made("frames-beyond-the-end", "A number of frames beyond all bytes.", more)


def _crafted_frames() -> Iterator[ObjectCase]:
    three, four = BODY.stores

    def made(name: str, doc: str, first: PageStore, second: PageStore = four) -> ObjectCase:
        return _made(name, doc, replace(BODY, stores=[first, second]))

    for kind in (0, 3):
        doc = f"A frame of kind {kind}."
        yield made(f"kind-{kind}", doc, three.with_frame(1, kind=kind))
    index = three.with_frame(1, segment=len(BODY.names))
    yield made("segment-not-named", "An index beyond the names.", index)
    yield made("base-within-a-chain", "A base after another.", three.with_frame(1, kind=2))
    delta = three.with_frame(0, kind=1)
    yield made("chain-without-a-base", "It begins with a delta of version 5.", delta)
    hole = three.with_frame(0, version=4).with_frame(1, version=2)
    yield made("chain-with-a-hole", "Version 5 is missing.", hole)
    same = three.with_frame(0, version=6).with_frame(1, version=0)
    yield made("version-twice", "Version 6 is there twice.", same)
    yield made("chain-ends-too-early", "It ends in version 6.", three.with_frame(0, version=4))
    yield made("chain-ends-too-late", "It ends in version 8.", three.with_frame(0, version=6))
    yield made("version-0", "It begins with version 0.", three, four.with_frame(0, version=0))
    yield made("length-0", "A frame without bytes.", three.with_frame(2, length=0))
