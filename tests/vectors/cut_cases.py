"""Single cuts, intact and corrupted, and the result of reading one without its objects."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.vectors.cut_encoder import encode_cut
from tests.vectors.cut_writer import (
    StoreKey,
    channel,
    channels,
    costs,
    cut_body,
    cut_name,
    segment_name,
    share,
)
from tests.vectors.damage_cases import UNKNOWN
from tests.vectors.frame_cases import version_id
from tests.vectors.page_encoder import page_element, page_name, unwritten
from tests.vectors.segment_cases import CUT_CORRUPTED, EPOCH, ObjectCase, flipped

CHANNEL: StoreKey = (0, 3, "cleancut-channel-0")


def _page(number: int, epoch: int, first: StoreKey, stores: int) -> dict[str, Any]:
    return page_element(page_name(epoch, number), bytes([number]) * 300, first, stores)


def _part(epoch: int, segment: str, **offsets: Any) -> dict[str, Any]:
    size = {"length": 4000 + epoch, "footer": 500 + epoch, "crc": 0xA000_0000 + epoch}
    return {"segment": segment, "epoch": epoch} | size | offsets


PAGES = [
    _page(1, 3, (0, 0, "default"), 900),
    _page(2, EPOCH, (0, 450, "left-keyToNumValues"), 800),
    _page(3, 3, (7, 0, "default"), 1),
]
WINDOW = [
    _part(4, segment_name(4)),
    _part(4, segment_name(4, "17"), uncounted=[120, 410]),
    _part(5, segment_name(5), uncounted=[]),
    _part(EPOCH, segment_name(4, "17"), counted=[410]),
    _part(EPOCH, segment_name(EPOCH)),
]
IN_FLIGHT = [[unwritten(CHANNEL, EPOCH + 1, "base")]]
REFERRED = [
    {"version": 2, "segments": [segment_name(0), segment_name(1, "17")]},
    {"version": EPOCH + 1, "segments": []},
]
SINKS = [
    {"name": "KafkaSink größen", "epochs": [[6, 6]]},
    {"name": "table public.counts", "epochs": [[0, 2], [4, 6]]},
]

BODY = cut_body(EPOCH, PAGES, WINDOW, store_count=1701, in_flight=IN_FLIGHT)


def cuts() -> list[ObjectCase]:
    """Returns all vectors of cuts; the name is that of the file."""
    crafted = [*_crafted(), *_crafted_pages(), *_crafted_window(), *_crafted_parts()]
    return [*_sound(), *_damaged(), *crafted]


def _sound() -> Iterator[ObjectCase]:
    first = cut_body(0, [], [_part(0, segment_name(0))], store_count=1, queryId=None)
    none = cut_body(EPOCH, [], [], store_count=0)
    later: dict[str, Any] = {"tides": []}
    sides = {"driver": share({"copy": [1, 0, 0]}), "executors": share({}), "tape": {}}
    costs_of_later = costs(**sides, slowest=[])
    page, part = PAGES[0] | later, WINDOW[0] | later
    more = BODY | later | {"pages": [page, *PAGES[1:]], "window": [part, *WINDOW[1:]]}
    late = [{"segment": segment_name(2, "17"), "since": 3}]
    counted_none = [_part(EPOCH, segment_name(EPOCH), counted=[])]
    cases = [
        ("pages-and-window", "Pages of two epochs, a window, and a channel.", BODY, False),
        ("compressed", "The same, compressed.", BODY, True),
        ("first-epoch", "No page; the query's id is not known.", first, False),
        ("without-stores", "Neither page nor window, nor stores.", none, False),
        ("unknown-fields", "Fields of a later release.", more, False),
        ("costs", "What the epoch cost.", BODY | {"costs": costs()}, False),
        ("costs-of-later", "Of a later release.", BODY | {"costs": costs_of_later}, False),
        ("channels", "What became of channels.", BODY | {"channels": channels()}, False),
        ("late", "A base that was adopted late.", BODY | {"late": late}, False),
        (
            "referred",
            "The references of bases of two versions.",
            BODY | {"referred": REFERRED},
            False,
        ),
        ("sinks", "What sinks have published.", BODY | {"sinks": SINKS}, False),
        ("counted-none", "No frame of a segment counts.", BODY | {"window": counted_none}, False),
    ]
    for name, doc, body, compress in cases:
        data = encode_cut(body, compress=compress)
        content = {"body": body, "bytes": len(data), "compressed": compress}
        yield ObjectCase(name, doc, cut_name(body["epoch"]), data, content)


def _cut(name: str, doc: str, data: bytes, error: str = CUT_CORRUPTED) -> ObjectCase:
    return ObjectCase(name, doc, cut_name(EPOCH), data, error=error)


def _made(name: str, doc: str, body: object) -> ObjectCase:
    return _cut(name, f"{doc} All checksums hold.", encode_cut(body))


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if field != name}


def _damaged() -> Iterator[ObjectCase]:
    sound = encode_cut(BODY)
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
        yield _cut(f"flipped-{name}", f"One bit flipped at byte {place}.", flipped(sound, place))
    for name, place in {"to-nothing": 0, "in-header": 19, "by-one-byte": len(sound) - 1}.items():
        yield _cut(f"truncated-{name}", f"Cut to {place} bytes.", sound[:place])
    yield _cut("trailing-byte", "An extra byte after the body.", sound + b"\0")
    yield _cut("version-unknown", "Format version 2.", encode_cut(BODY, version=2), UNKNOWN)
    old = encode_cut(BODY, magic=b"CCC1", version=2)
    yield _cut("magic-before-0.1.0", "The magic before 0.1.0.", old, UNKNOWN)
    yield _cut("magic-of-a-page", "The magic of a page.", encode_cut(BODY, magic=b"CCPG"))
    yield _cut("codec-unknown", "Codec 9; its checksum holds.", encode_cut(BODY, codec=9))
    yield _cut("not-zstd", "A body that is no zstd.", encode_cut(BODY, stored=b"no zstd" * 5))
    doc = "A body that decompresses to more than its length."
    yield _cut("longer-than-it-says", doc, encode_cut(BODY, raw_size=10))
    doc = "The header states a shorter body; the checksum of header and body holds."
    yield _cut("stored-length-too-short", doc, encode_cut(BODY, stored_size=10))


def _crafted() -> Iterator[ObjectCase]:
    following = BODY | {"epoch": EPOCH + 1, "inFlight": []}
    yield _made("of-another-epoch", "The cut of the next epoch.", following)
    yield _made("body-not-an-object", "A JSON array.", [1, 2])
    for name in (
        *("storeCount", "pages", "window", "inFlight", "segments", "token", "offsets"),
        *("epoch", "runId", "generation", "commit"),
    ):
        yield _made(f"without-{name}", f"The field {name} is missing.", _without(BODY, name))
    yield _made("store-count-negative", "Less than no store.", BODY | {"storeCount": -1})
    yield _made("store-count-not-a-number", "A count as text.", BODY | {"storeCount": "1701"})
    yield _made("pages-not-an-array", "Pages as an object.", BODY | {"pages": {}})
    yield _made("window-not-an-array", "A window as an object.", BODY | {"window": {}})
    channel = BODY["inFlight"][0]
    base = channel["frames"][0]

    def with_channel(name: str, doc: str, **fields: Any) -> ObjectCase:
        return _made(f"channel-{name}", doc, BODY | {"inFlight": [channel | fields]})

    yield _made("channel-twice", "A channel twice.", BODY | {"inFlight": [channel, channel]})
    yield with_channel("of-a-store", "A store that is no channel in flight.", store="default")
    yield with_channel("without-frames", "A channel without frames.", frames=[])
    yield with_channel("of-another-id", "The last frame has another id.", id=version_id(9))
    beyond = [len(BODY["segments"]), *base[1:]]
    yield with_channel("segment-not-named", "An index beyond the segments.", frames=[beyond])
    yield with_channel("segment-negative", "An index below 0.", frames=[[-1, *base[1:]]])
    early = [[*base[:2], EPOCH, *base[3:]]]
    yield with_channel("of-another-version", "A base of the version before.", frames=early)


# Invalid values of a field of an element; the field may not be missing either.
_PAGE_FIELDS: Mapping[str, list[Any]] = {
    "name": [segment_name(3), "pages/3/x.page"],
    "length": [0, "300"],
    "crc": [-1, 2**32],
    "stores": [0, True],
    "operator": ["0"],
    "partition": [None],
    "store": [0],
}
_PART_FIELDS: Mapping[str, list[Any]] = {
    "segment": [page_name(3), 7],
    "epoch": [-1, "4"],
    "length": [0, 500.5],
    # A trailer has 28 bytes, and the header before the table 16.
    "footer": [27, 4004 - 15],
    "crc": [-1, 2**32],
}


def _of_fields(
    what: str,
    sound: Mapping[str, Any],
    wrong: Mapping[str, list[Any]],
    body: Callable[[Any], dict[str, Any]],
) -> Iterator[ObjectCase]:
    for name, values in wrong.items():
        doc = f"A {what} whose field {name} is missing."
        yield _made(f"{what}-without-{name}", doc, body(_without(sound, name)))
        for number, value in enumerate(values, start=1):
            doc = f"A {what} whose field {name} is {value!r}."
            yield _made(f"{what}-{name}-{number}", doc, body({**sound, name: value}))


def _crafted_pages() -> Iterator[ObjectCase]:
    first, second, third = PAGES

    def with_pages(*pages: object) -> dict[str, Any]:
        return BODY | {"pages": list(pages)}

    yield from _of_fields("page", first, _PAGE_FIELDS, lambda page: with_pages(page, *PAGES[1:]))
    yield _made("page-not-an-object", "A page as text.", with_pages(first["name"], second, third))
    yield _made("pages-out-of-order", "Two are exchanged.", with_pages(second, first, third))
    twice = with_pages(first, first, second)
    yield _made("page-twice", "A page stands there twice.", twice)
    channel = first | {"store": CHANNEL[2]}
    yield _made("page-of-a-channel", "A page begins with one.", with_pages(channel, second))
    later = third | {"name": page_name(EPOCH + 1, 3)}
    yield _made("page-of-a-later-epoch", "A page is newer than the cut.", with_pages(first, later))


def _crafted_window() -> Iterator[ObjectCase]:
    first, other, third, late, last = WINDOW

    def with_window(*parts: object) -> dict[str, Any]:
        return BODY | {"window": list(parts)}

    yield from _of_fields("part", first, _PART_FIELDS, lambda part: with_window(part, *WINDOW[1:]))
    yield _made("part-not-an-object", "A part as text.", with_window(first["segment"], other))
    yield _made("window-out-of-order", "Epochs descend.", with_window(third, first, other, last))
    yield _made("part-twice", "A segment twice under an epoch.", with_window(other, first, other))
    later = last | {"epoch": EPOCH + 1}
    yield _made("part-of-a-later-epoch", "Frames that the next adopts.", with_window(first, later))
    both = late | {"uncounted": [900]}
    yield _made("part-counted-both-ways", "Both kinds of offsets.", with_window(first, both))
    wrong: Mapping[str, Any] = {
        "not-an-array": 410,
        "not-numbers": ["410"],
        "negative": [-1],
        "out-of-order": [410, 120],
        "twice": [120, 120],
    }
    for name, offsets in wrong.items():
        for field in ("counted", "uncounted"):
            part = first | {field: offsets}
            doc = f"Offsets in {field}: {offsets!r}."
            yield _made(f"{field}-{name}", doc, with_window(part, *WINDOW[1:]))


def _crafted_parts() -> Iterator[ObjectCase]:
    """Yields invalid costs, sinks, channels and in-flight frames."""
    for name, doc, wrong in _wrong_costs():
        yield _made(name, doc, BODY | {"costs": wrong})
    for name, doc, wrong in _wrong_sinks():
        yield _made(name, doc, BODY | {"sinks": wrong})
    for name, doc, wrong in _wrong_references():
        yield _made(name, doc, BODY | {"referred": wrong})
    without = _without(channel(3), "rowsInFlight")
    yield _made("channel-without-rows", "It lacks its rows.", BODY | {"channels": [without]})
    store = BODY["inFlight"][0]
    frame = store["frames"][0]
    short = BODY | {"inFlight": [store | {"frames": [frame[:6]]}]}
    yield _made("frame-of-six-fields", "A frame without checksum.", short)
    after = [frame[0], "base", EPOCH, version_id(EPOCH), *frame[4:]]
    twice = BODY | {"inFlight": [store | {"frames": [after, frame]}]}
    yield _made("base-within-a-chain", "A base after another.", twice)
    delta = [frame[0], "delta", *frame[2:]]
    repeated = BODY | {"inFlight": [store | {"frames": [delta, delta]}]}
    yield _made("version-repeated", "Two frames of one version.", repeated)


def _wrong_references() -> Iterator[tuple[str, str, Any]]:
    first, last = REFERRED
    yield "referred-out-of-order", "Versions that descend.", [last, first]
    yield "referred-twice", "Two references of one version.", [first, first]
    yield "referred-version-0", "A reference of the empty version.", [first | {"version": 0}]
    later = [first, last | {"version": EPOCH + 2}]
    yield "referred-of-a-later-version", "A version after that of the cut.", later
    named = [first | {"segments": [page_name(3)]}]
    yield "referred-of-no-segment", "A reference that names a page.", named


def _wrong_sinks() -> Iterator[tuple[str, str, Any]]:
    def sinks_of(*epochs: Any) -> list[Any]:
        return [{"name": "table counts", "epochs": list(epochs)}]

    yield "sinks-without-epochs", "A sink without published epochs.", sinks_of()
    yield "sinks-twice", "A sink is there twice.", sinks_of([0, 1]) * 2
    yield "sinks-out-of-order", "Ranges of epochs that overlap.", sinks_of([0, 3], [3, 4])
    yield (
        "sinks-of-a-later-epoch",
        "A published epoch after that of the cut.",
        sinks_of([0, EPOCH + 1]),
    )
    yield "sinks-range-of-three", "A range of three numbers.", sinks_of([0, 1, 2])


def _wrong_costs() -> Iterator[tuple[str, str, Any]]:
    yield "costs-not-an-object", "Costs that are an array.", []
    without = {name: value for name, value in costs().items() if name != "driver"}
    yield "costs-without-driver", "Costs that lack the driver's.", without
    text = share({"put": [1, 0, 0]}, bytesSent=1) | {"frames": "1"}
    yield "costs-not-a-number", "A number of frames that is text.", costs(driver=text)
    slow = [{"operator": 0, "partition": 3, "ms": 4}]
    yield "costs-time-without-store", "A time that lacks its store.", costs(slowest=slow)
