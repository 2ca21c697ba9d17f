"""Sound frames, and what a reader must make of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.vectors.frame_encoder import Change, Parts, encode_frame
from tests.vectors.row_encoder import encode_row, struct_type

KEY = struct_type(id="long", name="string")
VALUE = struct_type(count="long", sum="double")
ENCODER = {"NoPrefixKeyStateEncoderSpec": {"keySchema": KEY}}
FAMILY = {"id": 0, "name": "default", "keySchema": KEY, "valueSchema": VALUE, "encoder": ENCODER}


def version_id(number: int) -> str:
    """A UUID version 7 that sorts by its number."""
    return f"01923a4b5c6d7000800000000000{number:04x}"


def put(number: int, name: str, count: int, total: float) -> Change:
    key = encode_row(KEY, {"id": number, "name": name})
    return Change(key, encode_row(VALUE, {"count": count, "sum": total}))


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
    """An identity as a writer writes it; without a parent it is a base's."""
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
    """One vector: the bytes of an object, what was asked for, and what must come of it.

    `layer` says how far a reader gets before it finds the damage: "frame" is headers, checksums and
    the trailer; "records" is what the blocks hold; "state" is what applying the frame gives.
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
    """What a frame is made from."""

    name: str
    doc: str
    kind: str
    identity: Mapping[str, Any]
    blocks: Sequence[Sequence[Change]]
    keys: int
    codec: str = "none"

    def parts(self) -> Parts:
        return encode_frame(self.kind, self.identity, self.blocks, self.keys, self.codec)

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
        "operation": "put" if change.value is not None else "remove",
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


def sources() -> list[Source]:
    first = identity_of(1, parent=(0, None), families=[FAMILY])
    next_one = identity_of(2, parent=(1, version_id(1)))
    many = [put(i, f"key {i}", i, i / 4) for i in range(60)]
    return [
        Source(
            "delta-first",
            "From the empty store, with families.",
            "delta",
            first,
            [[put(1, "ada", 3, 1.5)]],
            keys=1,
        ),
        Source("delta-empty", "An epoch that changed nothing.", "delta", next_one, [], keys=7),
        Source(
            "delta-empty-zstd",
            "The same, with a codec that nothing uses.",
            "delta",
            next_one,
            [],
            keys=7,
            codec="zstd",
        ),
        Source(
            "delta-puts-and-removes",
            "Puts and removes, also of a key that is not there.",
            "delta",
            next_one,
            [[put(1, "ada", 3, 1.5), remove(2, "grace"), remove(9, "nobody")]],
            keys=1,
        ),
        several_blocks(),
        replace(
            several_blocks(),
            name="delta-several-blocks-zstd",
            doc="Two blocks, each compressed on its own.",
            codec="zstd",
        ),
        Source(
            "delta-long-key",
            "Lengths that take two bytes as uvarint.",
            "delta",
            next_one,
            [[put(4, "x" * 300, 1, 0.25), remove(5, "y" * 20000)]],
            keys=1,
        ),
        Source(
            "delta-families",
            "Records of a second column family.",
            "delta",
            identity_of(
                3,
                parent=(2, version_id(2)),
                families=[FAMILY, FAMILY | {"id": 200, "name": "timers"}],
            ),
            [[put(1, "ada", 3, 1.5), replace(put(1, "ada", 9, 9.5), family=200)]],
            keys=2,
        ),
        Source(
            "base",
            "All live rows.",
            "base",
            identity_of(2, families=[FAMILY]),
            [[put(1, "ada", 4, 2.5), put(3, "", 1, 1e300)]],
            keys=2,
        ),
        Source(
            "base-zstd",
            "Several blocks of a base, compressed.",
            "base",
            identity_of(9, families=[FAMILY]),
            [many[:40], many[40:]],
            keys=60,
            codec="zstd",
        ),
        Source(
            "base-empty",
            "A store that has lost all its keys.",
            "base",
            identity_of(5, families=[FAMILY]),
            [],
            keys=0,
        ),
        Source(
            "delta-escaped-store",
            "A store name that does not fit into a path as it is.",
            "delta",
            identity_of(1, parent=(0, None), families=[FAMILY], store="a b/é%"),
            [[put(1, "ada", 3, 1.5)]],
            keys=1,
        ),
    ]
