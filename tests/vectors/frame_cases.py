"""Intact frames, and the result of reading them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.vectors.frame_encoder import (
    NO_TOTALS,
    Change,
    Index,
    Parts,
    encode_frame,
    key_hash,
    row_size,
)
from tests.vectors.row_encoder import encode_row, struct_type

KEY = struct_type(id="long", name="string")
VALUE = struct_type(count="long", sum="double")
ENCODER = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}
FAMILY = {"id": 0, "name": "default", "keySchema": KEY, "valueSchema": VALUE, "encoder": ENCODER}


def version_id(number: int) -> str:
    """Returns a UUID version 7 that sorts by its number."""
    return f"01923a4b5c6d7000800000000000{number:04x}"


def put(number: int, name: str, count: int, total: float) -> Change:
    key = encode_row(KEY, {"id": number, "name": name})
    return Change(key, encode_row(VALUE, {"count": count, "sum": total}))


def merge(number: int, name: str, count: int, total: float) -> Change:
    """Appends a value to those of the key; only a family with lists accepts it."""
    return replace(put(number, name, count, total), is_merge=True, family=LISTS["id"])


def remove(number: int, name: str) -> Change:
    return Change(encode_row(KEY, {"id": number, "name": name}))


def identity_of(
    version: int,
    *,
    parent: tuple[int, str | None] | None = None,
    families: Sequence[Mapping[str, Any]] = (),
    store: str = "default",
    own_id: str | None = None,
) -> dict[str, Any]:
    """Returns an identity like a writer; without a parent it is that of a base."""
    identity: dict[str, Any] = {"operator": 0, "partition": 3, "store": store, "version": version}
    identity["id"] = own_id or version_id(version)
    if parent is not None:
        identity["parentVersion"] = parent[0]
        if parent[1] is not None:
            identity["parentId"] = parent[1]
    if families:
        identity["families"] = list(families)
    return identity


@dataclass(frozen=True)
class FrameCase:
    """One vector: the bytes of an object, the request, and the expected result.

    `layer` is the part in which a reader finds the corruption: "frame" is headers, checksums and
    the trailer; "records" is the content of blocks; "state" is the result of applying the frame.
    """

    name: str
    doc: str
    data: bytes
    request: Mapping[str, Any]
    frame: Mapping[str, Any] | None = None
    error: str | None = None
    layer: str = "frame"

    def expectation(self) -> dict[str, Any]:
        expected: dict[str, Any] = {"doc": self.doc, "request": dict(self.request)}
        if self.frame is not None:
            return expected | {"frame": dict(self.frame)}
        return expected | {"error": self.error, "layer": self.layer}


def request_of(identity: Mapping[str, Any], kind: str) -> dict[str, Any]:
    names = ("operator", "partition", "store", "version", "id")
    return {name: identity[name] for name in names} | {"kind": kind}


@dataclass(frozen=True)
class Source:
    """The content of a frame."""

    name: str
    doc: str
    kind: str
    identity: Mapping[str, Any]
    blocks: Sequence[Sequence[Change]]
    keys: int
    codec: str = "none"
    index: Index = NO_TOTALS

    def parts(self) -> Parts:
        return encode_frame(
            self.kind, self.identity, self.blocks, self.keys, self.codec, self.index
        )

    def case(self) -> FrameCase:
        data = self.parts().joined()
        request = request_of(self.identity, self.kind)
        return FrameCase(self.name, self.doc, data, request, frame=self._expected(len(data)))

    def _expected(self, size: int) -> dict[str, Any]:
        names = ("parentVersion", "parentId", "families")
        expected = {name: self.identity[name] for name in names if name in self.identity}
        blocks = [[_described(change) for change in block] for block in self.blocks]
        return expected | {"codec": self.codec, "blocks": blocks, "keys": self.keys, "bytes": size}


def _described(change: Change) -> dict[str, Any]:
    described = {
        "operation": change.operation,
        "family": change.family,
        "key": change.key.hex(),
    }
    return described if change.value is None else described | {"value": change.value.hex()}


def several_blocks(version: int = 2) -> Source:
    return Source(
        "delta-several-blocks",
        "Two blocks; a later record of a key replaces an earlier one.",
        "delta",
        identity_of(version, parent=(version - 1, version_id(version - 1))),
        [
            [put(1, "ada", 3, 1.5), put(2, "grace", 1, -0.0)],
            [remove(2, "grace"), put(1, "ada", 4, 2.5), put(3, "", 1, 1e300)],
        ],
        keys=2,
    )


FIRST = identity_of(1, parent=(0, None), families=[FAMILY])
NEXT = identity_of(2, parent=(1, version_id(1)))
TIMERS = FAMILY | {"id": 200, "name": "timers"}
LISTS: dict[str, Any] = FAMILY | {"id": 1, "name": "lists", "multiValued": True}
MANY = [put(i, f"key {i}", i, i / 4) for i in range(60)]


def sources() -> list[Source]:
    """Returns all intact frames."""
    return [*_deltas(), *_bases(), *_indexed()]


def _delta(
    name: str, doc: str, identity: Mapping[str, Any], changes: Sequence[Change], keys: int
) -> Source:
    return Source(name, doc, "delta", identity, [changes] if changes else [], keys)


def _deltas() -> list[Source]:
    ada = put(1, "ada", 3, 1.5)
    several = several_blocks()
    empty = _delta("delta-empty", "An epoch that changed nothing.", NEXT, [], 7)
    mixed = [ada, remove(2, "grace"), remove(9, "nobody")]
    long = [put(4, "x" * 300, 1, 0.25), remove(5, "y" * 20000)]
    escaped = identity_of(1, parent=(0, None), families=[FAMILY], store="a b/é%")
    two_families = identity_of(3, parent=(2, version_id(2)), families=[FAMILY, TIMERS])
    timer = replace(put(1, "ada", 9, 9.5), family=200)
    return [
        _delta("delta-first", "From the empty store, with families.", FIRST, [ada], 1),
        empty,
        replace(empty, name="delta-empty-zstd", doc="A codec that nothing uses.", codec="zstd"),
        _delta("delta-puts-and-removes", "One remove is of an absent key.", NEXT, mixed, 1),
        several,
        replace(
            several,
            name="delta-several-blocks-zstd",
            doc="Two blocks, each compressed on its own.",
            codec="zstd",
        ),
        _delta("delta-long-key", "Lengths of two and three bytes as uvarint.", NEXT, long, 1),
        _delta("delta-families", "Records of two column families.", two_families, [ada, timer], 2),
        _delta(
            "delta-merges",
            "A key of a family with lists: a put begins a list, a merge adds to it.",
            identity_of(3, parent=(2, version_id(2)), families=[FAMILY, LISTS]),
            [
                replace(put(1, "ada", 1, 0.5), family=1),
                merge(1, "ada", 2, 0.5),
                merge(1, "ada", 2, 0.5),
                merge(2, "grace", 7, 7.5),
            ],
            2,
        ),
        _delta("delta-escaped-store", "A store name that is no path name.", escaped, [ada], 1),
    ]


def _bases() -> list[Source]:
    rows = [put(1, "ada", 4, 2.5), put(3, "", 1, 1e300)]
    base = Source("base", "All live rows.", "base", identity_of(2, families=[FAMILY]), [rows], 2)
    lists = [replace(put(1, "ada", 1, 0.5), family=1), merge(1, "ada", 2, 0.5)]
    return [
        base,
        Source(
            "base-lists",
            "A family with lists and one without; one key of each.",
            "base",
            identity_of(4, families=[FAMILY | {"keys": 1}, LISTS | {"keys": 1}]),
            [[rows[0], *lists]],
            2,
        ),
        replace(base, name="base-empty", doc="A store without keys.", blocks=[], keys=0),
        replace(
            base,
            name="base-zstd",
            doc="Several blocks of a base, compressed.",
            identity=identity_of(9, families=[FAMILY]),
            blocks=[MANY[:40], MANY[40:]],
            keys=60,
            codec="zstd",
        ),
    ]


def indexed_base() -> Source:
    """Returns rows in the order of their hashes, in blocks of one family each."""
    rows = sorted(MANY, key=lambda change: key_hash(change.key))
    lists = [replace(put(1, "ada", 1, 0.5), family=1), merge(1, "ada", 2, 0.5)]
    totals = {0: (60, sum(map(row_size, rows))), 1: (1, sum(map(row_size, lists)))}
    return Source(
        "base-indexed",
        "Blocks of a base that can be read one by one, of two families.",
        "base",
        identity_of(9, families=[FAMILY | {"keys": 60}, LISTS | {"keys": 1}]),
        [rows[:25], rows[25:], lists],
        61,
        index=Index(totals, has_blocks=True),
    )


def _indexed() -> list[Source]:
    base = indexed_base()
    first = put(1, "ada", 3, 1.5)
    delta = _delta("delta-totals", "It contains the totals of the family.", FIRST, [first], 1)
    return [
        base,
        replace(
            base, name="base-indexed-zstd", doc="The same with compressed blocks.", codec="zstd"
        ),
        replace(
            base,
            name="base-totals",
            doc="A base that has to be read completely.",
            index=Index(base.index.totals),
        ),
        replace(delta, index=Index({0: (1, row_size(first))})),
    ]
