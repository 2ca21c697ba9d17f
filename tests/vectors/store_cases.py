"""Directories of frames, and the results of reading their versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.vectors.damage_cases import CORRUPTED, MISPLACED
from tests.vectors.frame_cases import FAMILY, LISTS, identity_of, merge, put, remove, version_id
from tests.vectors.frame_encoder import Change, encode_frame

MISSING = "CLEANCUT_FRAME_MISSING"
ROOT = (0, None)
RETRY = "01923a4b5c6d70008000000000ff0002"

ADA, ADA_MORE = put(1, "ada", 3, 1.5), put(1, "ada", 4, 2.5)
GRACE, LIN = put(2, "grace", 1, 0.5), put(3, "lin", 2, 0.25)
NO_GRACE = remove(2, "grace")


@dataclass(frozen=True)
class Read:
    """A version to read: its rows, or the error and the object that it names."""

    version: int
    rows: Sequence[Change] = ()
    error: str | None = None
    version_id: str | None = None
    names: str | None = None

    def expectation(self) -> dict[str, Any]:
        request: dict[str, Any] = {"version": self.version}
        if self.version_id is not None:
            request["id"] = self.version_id
        if self.error is not None:
            names = {} if self.names is None else {"names": self.names}
            return request | {"error": self.error} | names
        rows: dict[str, dict[str, list[str]]] = {}
        for row in self.rows:
            if row.value is not None:
                values = rows.setdefault(str(row.family), {}).setdefault(row.key.hex(), [])
                values.append(row.value.hex())
        return request | {"rows": rows}


@dataclass(frozen=True)
class StoreCase:
    """One vector: files by name, and the result of reading them."""

    name: str
    doc: str
    files: Mapping[str, bytes]
    reads: Sequence[Read]

    def expectation(self) -> dict[str, Any]:
        return {
            "doc": self.doc,
            "store": {"operator": 0, "partition": 3, "store": "default"},
            "files": {name: data.hex() for name, data in self.files.items()},
            "reads": [read.expectation() for read in self.reads],
        }


def delta(
    version: int,
    changes: Sequence[Change],
    keys: int,
    *,
    parent: tuple[int, str | None] | None = None,
    own_id: str | None = None,
    families: Sequence[Mapping[str, Any]] = (),
) -> dict[str, bytes]:
    """Returns a delta under its name; by default its parent is the previous version."""
    before = version - 1
    parent = parent or (ROOT if before == 0 else (before, version_id(before)))
    families = families or ([FAMILY] if parent[0] == 0 else [])
    identity = identity_of(version, parent=parent, families=families, own_id=own_id)
    data = encode_frame("delta", identity, [changes] if changes else [], keys).joined()
    return {f"{version:020d}-{identity['id']}.delta": data}


def base(version: int, rows: Sequence[Change], *, own_id: str | None = None) -> dict[str, bytes]:
    """Returns a base under its name."""
    identity = identity_of(version, families=[FAMILY], own_id=own_id)
    data = encode_frame("base", identity, [rows] if rows else [], len(rows)).joined()
    return {f"{version:020d}-{identity['id']}.base": data}


def _exchanged(files: Mapping[str, bytes], one: str, other: str) -> dict[str, bytes]:
    return {**files, one: files[other], other: files[one]}


def _without(files: Mapping[str, bytes], number: int, kind: str = "delta") -> dict[str, bytes]:
    gone = f"{number:020d}-{version_id(number)}.{kind}"
    return {name: data for name, data in files.items() if name != gone}


CHAIN = {
    **delta(1, [ADA, GRACE], 2),
    **delta(2, [ADA_MORE, LIN], 3),
    **delta(3, [NO_GRACE], 2),
    **delta(4, [], 2),
}
CHAIN_READS = [
    Read(1, [ADA, GRACE]),
    Read(2, [ADA_MORE, GRACE, LIN]),
    Read(3, [ADA_MORE, LIN]),
    Read(4, [ADA_MORE, LIN]),
]


def stores() -> list[StoreCase]:
    foreign = {".00000000000000000005-x.tmp": b"", "_metadata": b"{}", "notes.txt": b"hello"}
    return [
        StoreCase(
            "deltas-from-the-start", "Deltas only.", CHAIN, [*CHAIN_READS, Read(5, error=MISSING)]
        ),
        StoreCase(
            "foreign-files",
            "Names that are no frames are ignored.",
            {**CHAIN, **foreign},
            CHAIN_READS,
        ),
        StoreCase(
            "base-and-deltas",
            "The frames before the base are missing; later deltas build on it.",
            {**base(2, [ADA_MORE, GRACE, LIN]), **_without(_without(CHAIN, 1), 2)},
            [Read(1, error=MISSING), *CHAIN_READS[1:]],
        ),
        StoreCase(
            "base-beside-its-delta",
            "A version with both is read from its base.",
            {**CHAIN, **base(3, [ADA_MORE, LIN])},
            CHAIN_READS,
        ),
        *_families(),
        *_long_lists(),
        *_attempts(),
        *_broken(),
    ]


def _families() -> list[StoreCase]:
    first = replace(ADA, family=1)
    second, third = merge(1, "ada", 8, 0.5), merge(1, "ada", 8, 0.5)
    files = {
        **delta(1, [ADA], 1),
        **delta(2, [first, second], 2, families=[FAMILY, LISTS]),
        **delta(3, [third, merge(2, "grace", 1, 0.5)], 3),
        **delta(4, [GRACE], 2, families=[FAMILY]),
        **delta(5, [replace(LIN, family=1)], 3, families=[FAMILY, LISTS]),
    }
    reads = [
        Read(2, [ADA, first, second]),
        Read(3, [ADA, first, second, third, merge(2, "grace", 1, 0.5)]),
        Read(4, [ADA, GRACE]),
        Read(5, [ADA, GRACE, replace(LIN, family=1)]),
    ]
    doc = "A family with lists is added, grows, is dropped with its rows, and is added again empty."
    return [StoreCase("families-come-and-go", doc, files, reads)]


def _long_lists() -> list[StoreCase]:
    first = put(1, "ada", 8, 0.5)
    rows = [replace(first, family=1), *(merge(1, "ada", n, 0.5) for n in range(5))]
    blocks = [[ADA, *rows[:2]], rows[2:5], [rows[5], replace(LIN, family=1)]]
    identity = identity_of(3, families=[FAMILY, LISTS])
    data = encode_frame("base", identity, blocks, 3).joined()
    later = merge(1, "ada", 9, 0.5)
    files = {f"{3:020d}-{identity['id']}.base": data, **delta(4, [later], 3)}
    everything = [ADA, *rows, replace(LIN, family=1)]
    reads = [Read(3, everything), Read(4, [*everything, later])]
    doc = "The values of one key are in several blocks of a base."
    return [StoreCase("list-over-blocks", doc, files, reads)]


def _attempts() -> list[StoreCase]:
    files = {
        **delta(1, [ADA], 1),
        **delta(2, [GRACE], 2),
        **delta(2, [LIN], 2, own_id=RETRY),
        **delta(3, [ADA_MORE], 2),
    }
    doc = "Version 2 was committed twice: the greater id counts unless the other one is requested."
    reads = [
        Read(2, [ADA, LIN]),
        Read(2, [ADA, LIN], version_id=RETRY),
        Read(2, [ADA, GRACE], version_id=version_id(2)),
        Read(2, error=MISSING, version_id=version_id(9)),
        Read(3, [ADA_MORE, GRACE]),
    ]
    stranger = {**_without(files, 2), **base(2, [ADA, LIN], own_id=RETRY)}
    return [
        StoreCase(
            "two-attempts", f"{doc} Version 3 names the lesser one as its parent.", files, reads
        ),
        StoreCase(
            "base-of-another-attempt",
            "The base at the parent's version has another id.",
            stranger,
            [Read(2, [ADA, LIN]), Read(3, error=MISSING)],
        ),
    ]


def _broken() -> list[StoreCase]:
    second, third = (f"{v:020d}-{version_id(v)}.delta" for v in (2, 3))
    cut = {**CHAIN, second: CHAIN[second][:-1]}
    untouched = CHAIN_READS[0]
    damaged_base = base(3, [ADA_MORE, LIN])
    (base_name, base_bytes) = next(iter(damaged_base.items()))
    flipped = base_bytes[:-60] + bytes([base_bytes[-60] ^ 1]) + base_bytes[-59:]
    return [
        StoreCase(
            "delta-missing",
            "A delta in the middle is missing.",
            _without(CHAIN, 2),
            [untouched, Read(2, error=MISSING), Read(3, error=MISSING), Read(4, error=MISSING)],
        ),
        StoreCase(
            "delta-damaged",
            "A delta in the middle is cut short.",
            cut,
            [
                untouched,
                Read(2, error=CORRUPTED),
                Read(3, error=CORRUPTED),
                Read(4, error=CORRUPTED),
            ],
        ),
        StoreCase(
            "deltas-exchanged",
            "Two deltas under each other's name.",
            _exchanged(CHAIN, second, third),
            [untouched, Read(2, error=MISPLACED), Read(3, error=MISPLACED)],
        ),
        StoreCase(
            "base-damaged",
            "A corrupted base is never skipped, although its deltas exist.",
            {**CHAIN, base_name: flipped},
            [*CHAIN_READS[:2], Read(3, error=CORRUPTED), Read(4, error=CORRUPTED)],
        ),
        StoreCase(
            "keys-differ",
            "A delta whose number of live keys does not come out.",
            {**delta(1, [ADA, GRACE], 2), **delta(2, [LIN], 2)},
            [untouched, Read(2, error=CORRUPTED)],
        ),
    ]
