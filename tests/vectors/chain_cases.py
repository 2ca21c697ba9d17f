"""Complete checkpoints, and the chains that their cuts reference."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from tests.vectors.chain_writer import FOUR, THREE, Chain, Little, Segment, base, delta
from tests.vectors.cut_encoder import Placed, SegmentParts, encode_segment
from tests.vectors.cut_writer import StoreKey, cut_name, segment_identity
from tests.vectors.damage_cases import UNKNOWN
from tests.vectors.page_encoder import encode_page, page_body, page_element, page_name
from tests.vectors.segment_cases import CUT_CORRUPTED, flipped

FIVE: StoreKey = (0, 5, "default")
CHANNEL: StoreKey = (0, 3, "cleancut-channel-0")
SEALED = "cuts/{:020d}.{:020d}.sealed"


@dataclass(frozen=True)
class ChainCase:
    """One vector: objects by name below the root, and the chains that one of them references.

    `readable` are the chains that can be read separately although all of them cannot.
    """

    name: str
    doc: str
    cut: str
    epoch: int
    objects: Mapping[str, bytes]
    chains: Sequence[Chain] = ()
    error: str | None = None
    readable: Sequence[Chain] = ()

    def expectation(self) -> dict[str, Any]:
        objects = {name: data.hex() for name, data in sorted(self.objects.items())}
        expected = {"doc": self.doc, "cut": self.cut, "epoch": self.epoch, "objects": objects}
        if self.error is None:
            return expected | {"chains": [described(chain) for chain in self.chains]}
        error_field = {"error": self.error}
        readable = [described(chain) for chain in self.readable]
        return expected | error_field | ({"readable": readable} if readable else {})


def described(chain: Chain) -> dict[str, Any]:
    operator, partition, store = chain[0].store
    before, after = ("kind", "version", "id"), ("offset", "length", "crc")
    frames = [
        [
            *(frame.entry[name] for name in before),
            frame.segment,
            *(frame.entry[name] for name in after),
        ]
        for frame in chain
    ]
    return {"operator": operator, "partition": partition, "store": store, "frames": frames}


def chains() -> list[ChainCase]:
    """Returns all cases; the name is that of the file."""
    return [
        *_pages_and_windows(),
        *_bases(),
        *_attempts(),
        *_other_stores(),
        *_seals(),
        *_damaged_pages(),
        *_damaged_tables(),
        *_broken_chains(),
        *_wrong_counts(),
    ]


class _Four(Little):
    """Epochs 0 to 3, each with a segment of two deltas, of partitions 3 and 4."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = [
            self.segment(epoch, delta(epoch + 1), delta(epoch + 1, FOUR)) for epoch in range(4)
        ]

    def chain(self, at: int, until: int = 3, since: int = 0) -> Chain:
        return [segment.frames[at] for segment in self.epochs[since : until + 1]]

    def window(self, since: int) -> list[dict[str, Any]]:
        return [self.epochs[epoch].part(epoch) for epoch in range(since, 4)]

    @property
    def both(self) -> list[Chain]:
        return [self.chain(0), self.chain(1)]

    def two_pages(self) -> list[dict[str, Any]]:
        """Returns the pages of partition 3 as of epoch 2 and of partition 4 as of epoch 0."""
        three = self.page(2, self.chain(0, 2), number=1)
        return [three, self.page(0, self.chain(1, 0), number=2)]


def _pages_and_windows() -> Iterator[ChainCase]:
    def made(name: str, doc: str, checkpoint: _Four, cut: str) -> ChainCase:
        return ChainCase(name, doc, cut, 3, checkpoint.objects, checkpoint.both)

    checkpoint = _Four()
    cut = checkpoint.paged_cut(3, [], checkpoint.window(0))
    yield made("no-page", "All frames are in the window.", checkpoint, cut)
    checkpoint = _Four()
    cut = checkpoint.paged_cut(3, checkpoint.two_pages(), checkpoint.window(1))
    yield made(
        "pages-of-different-epochs", "A window of more epochs than one page needs.", checkpoint, cut
    )
    checkpoint = _Four()
    page = checkpoint.page(3, *checkpoint.both)
    yield made(
        "no-window",
        "A page of the cut's own epoch.",
        checkpoint,
        checkpoint.paged_cut(3, [page], []),
    )
    checkpoint = _Four()
    page = checkpoint.page(1, *(checkpoint.chain(at, 1) for at in (0, 1)))
    cut = checkpoint.paged_cut(3, [page], checkpoint.window(2), name="savepoints/before-1.cut")
    yield made("savepoint", "A savepoint whose cut is deleted.", checkpoint, cut)
    checkpoint = _Four()
    cut = checkpoint.paged_cut(0, [], [], store_count=0)
    yield ChainCase("no-store", "A cut of no store.", cut, 0, checkpoint.objects)


def _bases() -> Iterator[ChainCase]:
    checkpoint = _Four()
    late = checkpoint.segment(1, base(2), base(2, FOUR), writer="17", number=2)
    three, four = late.frames
    window = [
        checkpoint.epochs[0].part(0),
        checkpoint.epochs[1].part(1),
        late.part(1, counted=[four]),
    ]
    window += [
        checkpoint.epochs[2].part(2),
        checkpoint.epochs[3].part(3),
        late.part(3, counted=[three]),
    ]
    chains = [[three, *checkpoint.chain(0, since=2)], [four, *checkpoint.chain(1, since=2)]]
    doc = "A base that a later cut has adopted: its segment is there under two epochs."
    cut = checkpoint.paged_cut(3, [], window)
    yield ChainCase("late-base", doc, cut, 3, dict(checkpoint.objects), chains)
    page = checkpoint.page(2, checkpoint.chain(0, 2), chains[1][:-1])
    cut = checkpoint.paged_cut(
        3, [page], [checkpoint.epochs[3].part(3), late.part(3, counted=[three])]
    )
    doc = "A late base that replaces frames of the page."
    yield ChainCase("late-base-over-a-page", doc, cut, 3, dict(checkpoint.objects), chains)
    checkpoint = _Four()
    newer, older = (
        checkpoint.segment(2, base(3), writer="17"),
        checkpoint.segment(0, base(1), number=2),
    )
    page = checkpoint.page(2, newer.frames, checkpoint.chain(1, 2))
    cut = checkpoint.paged_cut(3, [page], [*checkpoint.window(3), older.part(3)])
    doc = "A late base below that of the page is ignored."
    chains = [[*newer.frames, checkpoint.epochs[3].frames[0]], checkpoint.chain(1)]
    yield ChainCase("late-base-below-that-of-the-page", doc, cut, 3, checkpoint.objects, chains)
    checkpoint = _Four()
    beside = checkpoint.segment(3, base(4), writer="17")
    cut = checkpoint.paged_cut(3, checkpoint.two_pages(), [*checkpoint.window(1), beside.part(3)])
    doc = "A base and a delta of one version: the base."
    yield ChainCase(
        "base-beside-its-delta",
        doc,
        cut,
        3,
        checkpoint.objects,
        [beside.frames, checkpoint.chain(1)],
    )
    checkpoint = _Four()
    twice = checkpoint.segment(1, base(2), writer="17")
    window = [*checkpoint.window(0), twice.part(3)]
    window.insert(2, twice.part(1))
    chains = [[*twice.frames, *checkpoint.chain(0, since=2)], checkpoint.chain(1)]
    doc = "The same base counts under two epochs."
    cut = checkpoint.paged_cut(3, [], window)
    yield ChainCase("base-counted-twice", doc, cut, 3, checkpoint.objects, chains)


def _attempts() -> Iterator[ChainCase]:
    def case(name: str, doc: str, uncounted: bool) -> ChainCase:
        checkpoint = _Four()
        won, lost = delta(5, attempt=2), delta(5)
        last = checkpoint.segment(4, lost, won, delta(5, FOUR), base(5, FOUR))
        kept = [last.frames[1], last.frames[2]]
        left = [last.frames[0], last.frames[3]]
        part = last.part(4, uncounted=left) if uncounted else last.part(4, counted=kept)
        chains = [[*checkpoint.chain(0), kept[0]], [*checkpoint.chain(1), kept[1]]]
        cut = checkpoint.paged_cut(4, checkpoint.two_pages(), [*checkpoint.window(1), part])
        return ChainCase(name, doc, cut, 4, checkpoint.objects, chains)

    doc = "A lost attempt and a base that no cut adopted, listed as uncounted."
    yield case("uncounted", doc, True)
    yield case("counted", "The same, with a list of the counted frames.", False)
    checkpoint = _Four()
    lost = checkpoint.segment(3, delta(4, attempt=2), delta(9, FOUR), writer="17")
    cut = checkpoint.paged_cut(
        3, checkpoint.two_pages(), [*checkpoint.window(1), lost.part(3, counted=[])]
    )
    doc = "No frame of a segment counts, for any version."
    yield ChainCase("counted-none", doc, cut, 3, checkpoint.objects, checkpoint.both)
    checkpoint = _Four()
    window = [checkpoint.epochs[1].part(1, uncounted=[]), *checkpoint.window(2)]
    cut = checkpoint.paged_cut(3, checkpoint.two_pages(), window)
    yield ChainCase(
        "uncounted-none", "All of a segment counts.", cut, 3, checkpoint.objects, checkpoint.both
    )
    checkpoint = _Four()
    empty = checkpoint.segment(3, writer="17")
    cut = checkpoint.paged_cut(3, checkpoint.two_pages(), [*checkpoint.window(1), empty.part(3)])
    yield ChainCase(
        "empty-segment", "A segment without frames.", cut, 3, checkpoint.objects, checkpoint.both
    )


def _other_stores() -> Iterator[ChainCase]:
    def newer(name: str, doc: str, key: StoreKey, frames: list[list[Placed]]) -> ChainCase:
        checkpoint = _Four()
        window = checkpoint.window(1)
        pages = checkpoint.two_pages()
        new_chain: Chain = []
        for epoch, placed in enumerate(frames, start=4 - len(frames)):
            written = checkpoint.segment(epoch, *placed, writer="5")
            new_chain += written.frames
            window.append(written.part(epoch))
        window.sort(key=lambda part: int(part["epoch"]))
        cut = checkpoint.paged_cut(3, pages, window, store_count=3)
        chains = sorted([*checkpoint.both, new_chain], key=lambda chain: chain[0].store)
        return ChainCase(name, doc, cut, 3, checkpoint.objects, chains)

    doc = "A store begins with a base above its page."
    yield newer("store-newer-than-all-pages", doc, FIVE, [[base(3, FIVE)], [delta(4, FIVE)]])
    first: StoreKey = (0, 2, "default")
    doc = "A store before the first store of the first page."
    yield newer("store-before-the-first-page", doc, first, [[base(4, first)]])
    between: StoreKey = (0, 3, "left-keyToNumValues")
    doc = "Two stores of one partition, the newer in the range of the first page."
    yield newer("store-within-a-page", doc, between, [[base(4, between)]])
    checkpoint = _Four()
    noise = checkpoint.segment(3, delta(4, CHANNEL), base(9, CHANNEL), writer="17")
    in_flight = checkpoint.segment(3, base(4, CHANNEL), writer="17", number=3)
    window = [*checkpoint.window(1), noise.part(3), in_flight.part(3, counted=in_flight.frames)]
    cut = checkpoint.paged_cut(3, checkpoint.two_pages(), window, in_flight=[in_flight.frames])
    chains = [in_flight.frames, *checkpoint.both]
    doc = "Frames of channels in tables are ignored; in-flight frames are referenced."
    yield ChainCase("channels", doc, cut, 3, checkpoint.objects, chains)
    yield _ranges_of_pages()


def _ranges_of_pages() -> ChainCase:
    little = Little()
    keys: list[StoreKey] = [(0, 2, "a"), (0, 2, "b"), (0, 10, "a"), (1, 0, "a"), (1, 0, "b")]
    keys += [(10, 0, "a")]
    begun = little.segment(0, *(delta(1, key) for key in reversed(keys)))
    then = little.segment(1, *(delta(2, key) for key in keys))
    chains = [[one, two] for one, two in zip(reversed(begun.frames), then.frames, strict=True)]
    pages = [little.page(1, *chains[:1], number=1), little.page(0, chains[1][:1], number=2)]
    pages += [little.page(1, *chains[2:4], number=3), little.page(0, chains[4][:1], number=4)]
    pages += [little.page(1, *chains[5:], number=5)]
    cut = little.paged_cut(1, pages, [then.part(1)], store_count=6)
    doc = "Pages that begin within a partition and within an operator."
    return ChainCase("ranges-of-pages", doc, cut, 1, little.objects, chains)


def _seals() -> Iterator[ChainCase]:
    def seal(checkpoint: _Four, last: Segment, **fields: Any) -> str:
        name = SEALED.format(4, 7)
        fields = {"commit": "", "name": name} | fields
        return checkpoint.paged_cut(4, [], [last.part(4)], **fields)

    checkpoint = _Four()
    checkpoint.paged_cut(3, checkpoint.two_pages(), checkpoint.window(1))
    last = checkpoint.segment(4, delta(5), base(5, FOUR))
    chains = [[*checkpoint.chain(0), last.frames[0]], [last.frames[1]]]
    doc = "A seal: a delta after the chain of the previous cut, and a base."
    yield ChainCase("seal", doc, seal(checkpoint, last), 4, checkpoint.objects, chains)
    checkpoint = _Four()
    checkpoint.cut(3, *checkpoint.both)
    last = checkpoint.segment(4, delta(5), delta(5, FOUR), base(5, CHANNEL))
    chains = [
        last.frames[2:],
        [*checkpoint.chain(0), last.frames[0]],
        [*checkpoint.chain(1), last.frames[1]],
    ]
    cut = seal(checkpoint, last, in_flight=[last.frames[2:]])
    doc = "A seal after a cut of one page, with in-flight rows."
    yield ChainCase("seal-with-rows-in-flight", doc, cut, 4, checkpoint.objects, chains)
    checkpoint = _Four()
    name = SEALED.format(4, 8)
    cut = checkpoint.paged_cut(4, [], [], name=name, store_count=0, commit="", claim=True)
    yield ChainCase("claim", "A claim seals nothing.", cut, 4, checkpoint.objects)


def _damaged(
    name: str,
    doc: str,
    checkpoint: _Four,
    cut: str,
    error: str = CUT_CORRUPTED,
    readable: Sequence[Chain] = (),
) -> ChainCase:
    return ChainCase(name, doc, cut, 3, dict(checkpoint.objects), error=error, readable=readable)


def _damaged_pages() -> Iterator[ChainCase]:
    def case(name: str, doc: str, change: Any, **fields: Any) -> ChainCase:
        """Changes the first page, and the cut's reference to it; the second can be read."""
        checkpoint = _Four()
        first, second = checkpoint.two_pages()
        data = change(checkpoint.objects.pop(first["name"]))
        if data is not None:
            checkpoint.objects[first["name"]] = data
        cut = checkpoint.paged_cut(3, [first | fields, second], checkpoint.window(1))
        return _damaged(name, doc, checkpoint, cut, readable=[checkpoint.chain(1)])

    yield case("page-missing", "A page is gone.", lambda _: None)
    yield case("page-flipped", "A flipped bit in a page.", lambda data: flipped(data, 60))
    yield case("page-cut-short", "A page that ends too early.", lambda data: data[:-1])
    yield case("page-too-long", "An extra byte after a page.", lambda data: data + b"\0")
    yield case("page-of-other-length", "Another length.", lambda data: data, length=99)
    yield case("page-of-other-checksum", "Another checksum.", lambda data: data, crc=1)
    yield case("page-of-more-stores", "Another number of stores.", lambda data: data, stores=2)
    doc = "The page begins with another store than the cut says."
    yield case("page-of-another-first-store", doc, lambda data: data, partition=2)
    checkpoint = _Four()
    first, second = checkpoint.two_pages()
    swap = {name: first[name] for name in ("length", "crc")}
    one, other = first["name"], second["name"]
    checkpoint.objects[one], checkpoint.objects[other] = (
        checkpoint.objects[other],
        checkpoint.objects[one],
    )
    pages = [first | {n: second[n] for n in swap}, second | swap]
    cut = checkpoint.paged_cut(3, pages, checkpoint.window(1))
    doc = "Two pages under each other's name, with their checksums."
    yield _damaged("pages-exchanged", doc, checkpoint, cut)
    checkpoint = _Four()
    wide = checkpoint.page(1, checkpoint.chain(0, 1), checkpoint.chain(1, 1))
    second = checkpoint.page(0, checkpoint.chain(1, 0), number=2)
    cut = checkpoint.paged_cut(3, [wide, second], checkpoint.window(1))
    doc = "A page has the first store of the next."
    yield _damaged("page-into-the-next", doc, checkpoint, cut, readable=[checkpoint.chain(1)])
    checkpoint = _Four()
    name, data = page_name(2), encode_page(page_body([checkpoint.chain(0, 2)]).joined(), version=2)
    checkpoint.objects[name] = data
    pages = [page_element(name, data, THREE, 1), checkpoint.two_pages()[1]]
    checkpoint.objects[name] = data
    cut = checkpoint.paged_cut(3, pages, checkpoint.window(1))
    doc = "A page of format version 2."
    yield _damaged("page-of-a-later-version", doc, checkpoint, cut, UNKNOWN, [checkpoint.chain(1)])


def _damaged_tables() -> Iterator[ChainCase]:
    def case(name: str, doc: str, change: Any, **fields: Any) -> ChainCase:
        """Changes the segment of epoch 1, or the cut's reference to it."""
        checkpoint = _Four()
        segment = checkpoint.epochs[1]
        data = change(checkpoint.objects.pop(segment.name))
        if data is not None:
            checkpoint.objects[segment.name] = data
        window = [segment.part(1) | fields, *checkpoint.window(2)]
        # The page of partition 3 is newer, so that it requires only the last table.
        cut = checkpoint.paged_cut(3, checkpoint.two_pages(), window)
        return _damaged(name, doc, checkpoint, cut, readable=[checkpoint.chain(0)])

    def same(data: bytes) -> bytes:
        return data

    def replaced(data: bytes) -> Callable[[bytes], bytes]:
        return lambda _: data

    sound = _Four().epochs[1]
    size, footer = len(sound.parts.joined()), len(sound.parts.table) + 28
    yield case("segment-missing", "A segment of the window is missing.", lambda _: None)
    doc = "A segment that ends too early."
    yield case("segment-cut-short", doc, lambda data: data[:-1])
    at = size - footer + 20
    yield case("table-flipped", "A flipped bit in a table.", lambda data: flipped(data, at))
    doc = "A flipped bit in a trailer."
    yield case("trailer-flipped", doc, lambda data: flipped(data, size - 1))
    yield case("table-of-other-checksum", "Another checksum.", same, crc=1)
    joined = sound.parts.joined()
    for name, claimed in {"shorter": footer - 1, "longer": footer + 1}.items():
        crc = crc32(joined[-claimed:])
        doc = f"A table and trailer that are {name} than the trailer says."
        yield case(f"footer-{name}", doc, same, footer=claimed, crc=crc)
    longer = b"\0" + joined
    doc = "A segment with another length than in its trailer."
    yield case("segment-of-other-length", doc, lambda _: longer, length=size + 1)
    reserved = bytearray(joined)
    reserved[-8] = 1
    crc = crc32(bytes(reserved[-footer:]))
    doc = "A reserved byte of the trailer is set."
    yield case("trailer-reserved", doc, lambda _: bytes(reserved), crc=crc)
    magic = joined[:-4] + b"CCSF"
    doc = "Another magic at the end."
    yield case("trailer-magic", doc, lambda _: magic, crc=crc32(magic[-footer:]))
    entry = sound.frames[1].entry["offset"]
    doc = "An offset at which no frame begins."
    yield case("uncounted-nowhere", doc, same, uncounted=[entry + 1])
    yield case("counted-nowhere", doc, same, counted=[sound.frames[0].entry["offset"], entry + 1])
    for name, doc, parts in _crafted_tables():
        data = parts.joined()
        footer, crc = len(parts.table) + 28, crc32(parts.table + parts.trailer)
        place = {"length": len(data), "footer": footer, "crc": crc}
        yield case(name, doc, replaced(data), **place)
    other = _Four().epochs[2]
    doc = "The segment of another epoch under its name, with its checksum."
    place = {name: other.part(1)[name] for name in ("length", "footer", "crc")}
    yield case("segment-of-another-epoch", doc, lambda _: other.parts.joined(), **place)


def _crafted_tables() -> Iterator[tuple[str, str, SegmentParts]]:
    frames = [delta(2), delta(2, FOUR)]
    identity = segment_identity(1)
    first, second = (frame.entry for frame in _Four().epochs[1].frames)
    early = {"offset": 15, "length": first["offset"] + first["length"] - 15}
    gap = {"offset": second["offset"] + 1, "length": second["length"] - 1}
    tables = {
        "table-with-a-gap": ("A frame begins too late.", [first, {**second, **gap}]),
        "table-without-a-frame": ("The last frame is left out.", [first]),
        "table-out-of-order": ("The frames are exchanged.", [second, first]),
        "frame-within-the-header": ("A frame begins at byte 15.", [{**first, **early}, second]),
    }
    for name, (doc, table) in tables.items():
        parts = encode_segment(identity, frames, table=table)
        yield name, f"{doc} All checksums hold.", parts


def _broken_chains() -> Iterator[ChainCase]:
    def window(name: str, doc: str, change: Any, readable: Any = lambda _: ()) -> ChainCase:
        checkpoint = _Four()
        pages = checkpoint.two_pages()
        cut = checkpoint.paged_cut(3, pages, change(checkpoint, checkpoint.window(1)))
        return _damaged(name, doc, checkpoint, cut, readable=readable(checkpoint))

    def three(checkpoint: _Four) -> list[Chain]:
        return [checkpoint.chain(0)]

    def four(checkpoint: _Four) -> list[Chain]:
        return [checkpoint.chain(1)]

    def uncounted(epoch: int, at: int) -> Any:
        def change(checkpoint: _Four, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
            segment = checkpoint.epochs[epoch]
            parts[epoch - 1] = segment.part(epoch, uncounted=[segment.frames[at]])
            return parts

        return change

    def more(epoch: int, *frames: Placed, writer: str = "17") -> Any:
        def change(checkpoint: _Four, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
            added = checkpoint.segment(epoch, *frames, writer=writer).part(epoch)
            return sorted([*parts, added], key=lambda part: int(part["epoch"]))

        return change

    yield window("hole", "A delta within a chain does not count.", uncounted(2, 1), three)
    yield window("ends-too-early", "The last delta does not count.", uncounted(3, 0), four)
    doc = "A window that begins an epoch too late for a page."
    yield window("window-too-short", doc, lambda _, parts: parts[1:], three)
    newer = more(3, delta(4, FIVE))
    doc = "A store begins with a delta of version 4."
    yield window("without-a-base", doc, newer, lambda checkpoint: checkpoint.both)
    attempts = more(3, delta(4, attempt=2))
    yield window("two-deltas", "Two deltas of one version count.", attempts, four)
    bases = more(3, base(4, attempt=2), base(4, attempt=3))
    yield window("two-bases", "Two bases of one version count.", bases, four)
    future = more(3, base(5))
    yield window("base-of-the-future", "A base above the epoch that adopts it.", future)
    early = more(3, delta(5, FIVE))
    yield window("delta-of-the-future", "A delta of the next epoch.", early)

    def moved(checkpoint: _Four, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [parts[0], *(part | {"epoch": 3} for part in parts[1:])]

    yield window("delta-of-the-past", "Deltas adopted an epoch too late.", moved, four)


def _wrong_counts() -> Iterator[ChainCase]:
    for name, count in {"store-count-too-low": 1, "store-count-too-high": 3}.items():
        checkpoint = _Four()
        cut = checkpoint.paged_cut(
            3, checkpoint.two_pages(), checkpoint.window(1), store_count=count
        )
        doc = f"A cut of two stores that says {count}."
        yield _damaged(name, doc, checkpoint, cut, readable=checkpoint.both)
    checkpoint = _Four()
    in_flight = checkpoint.segment(3, base(4, CHANNEL), writer="17")
    fields: dict[str, Any] = {"in_flight": [in_flight.frames], "store_count": 3}
    cut = checkpoint.paged_cut(
        3, checkpoint.two_pages(), [*checkpoint.window(1), in_flight.part(3)], **fields
    )
    doc = "A cut that counts its channel, too."
    case = _damaged("store-count-with-channels", doc, checkpoint, cut)
    yield replace(case, readable=[in_flight.frames, *checkpoint.both])
    checkpoint = _Four()
    checkpoint.paged_cut(3, checkpoint.two_pages(), checkpoint.window(1))
    checkpoint.objects[cut_name(2)] = checkpoint.objects[cut_name(3)]
    doc = "The cut of another epoch."
    yield replace(_damaged("cut-of-another-epoch", doc, checkpoint, cut_name(2)), epoch=2)
