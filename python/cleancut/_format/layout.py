"""Builds and parses the names of objects below a query's checkpoint; see docs/FORMAT.md.

No other module knows what an object's name looks like.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

ROOT = "cleancut"
FORMAT_OBJECT = "format.json"
STORES = "stores"
CUTS = "cuts"
SEGMENTS = "segments"
PAGES = "pages"
SAVEPOINTS = "savepoints"
PROOFS = "proofs"
REPLICAS = "replicas"
HISTORY = "history"
OWNERS = "owners"
REPLICA = "replica.json"
ORIGIN = "origin.json"

# What the stores of rows in flight are called; they are no operator's own.
CHANNEL_PREFIX = "cleancut-channel-"

Kind = Literal["delta", "base"]
# The public names of these kinds.
FrameKind = Literal["changelog", "snapshot"]
FRAME_KINDS: Mapping[Kind, FrameKind] = {"delta": "changelog", "base": "snapshot"}

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_FRAME = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.(delta|base)")
_CUT = re.compile(r"cuts/([0-9]{20})\.cut")
_SEAL = re.compile(r"cuts/([0-9]{20})\.[0-9]{20}\.sealed")
_SAVEPOINT = re.compile(r"savepoints/([A-Za-z0-9_-]{1,64})\.cut")
_OWNER = re.compile(r"owners/([0-9]{20})\.json")
_PROOF = re.compile(r"proofs/([0-9]{20})-([0-9]{20})\.json")
_REPLICA = re.compile(r"replicas/([0-9a-f]{16})-[0-9]{20}-[0-9]{20}\.json")
_SEGMENT = re.compile(r"segments/([0-9]{20})/([A-Za-z0-9_-]+)-([0-9a-f]{32})\.seg")
_PAGE = re.compile(r"pages/([0-9]{20})/([0-9a-f]{32})\.page")
_HISTORY = re.compile(r"history/([0-9]{20})-([0-9]{20})-[0-9a-f]{32}\.parquet")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_OUTSIDE_PLAIN = re.compile(rb"[^A-Za-z0-9_-]")
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1


@dataclass(frozen=True, order=True)
class StoreId:
    """A state store: Spark's operator id, partition id and store name."""

    operator: int
    partition: int
    store: str

    def __str__(self) -> str:
        return f"operator={self.operator} partition={self.partition} store={self.store}"

    @property
    def is_channel(self) -> bool:
        """Whether it holds rows in flight, and is no operator's own."""
        return self.store.startswith(CHANNEL_PREFIX)

    @property
    def directory(self) -> str:
        """Path below the root, without a slash at either end."""
        return f"{STORES}/{self.operator}/{self.partition}/{escape(self.store)}"


@dataclass(frozen=True, order=True, slots=True)
class FrameName:
    """The name of a frame within its store's directory.

    Attributes:
        version: the state version after the frame, at least 1.
        version_id: the id of that version of that store, 32 lower-case hexadecimal digits.
        kind: "delta" or "base".
    """

    version: int
    version_id: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.version:020d}-{self.version_id}.{self.kind}"


@dataclass(frozen=True, order=True)
class SegmentName:
    """The name of a segment.

    Attributes:
        epoch: the epoch that its frames are of.
        writer: `driver`, or an executor's id without what a name cannot hold.
        segment_id: 32 lower-case hexadecimal digits.
    """

    epoch: int
    writer: str
    segment_id: str

    def __str__(self) -> str:
        return f"{SEGMENTS}/{self.epoch:020d}/{self.writer}-{self.segment_id}.seg"


@dataclass(frozen=True, order=True, slots=True)
class PageName:
    """The name of a page.

    Attributes:
        epoch: the epoch whose result its chains lead to.
        page_id: 32 lower-case hexadecimal digits.
    """

    epoch: int
    page_id: str

    def __str__(self) -> str:
        return f"{PAGES}/{self.epoch:020d}/{self.page_id}.page"


def cut_name(epoch: int) -> str:
    """The name of a cut below the root."""
    return f"{CUTS}/{epoch:020d}.cut"


def parse_cut_name(name: str) -> int | None:
    """The epoch of a cut by its name below the root; None for foreign objects."""
    return _number(_CUT.fullmatch(name))


def parse_seal_name(name: str) -> int | None:
    """The epoch of a seal by its name below the root; None for foreign objects."""
    found = _SEAL.fullmatch(name)
    return None if found is None else int(found[1])


def owner_name(generation: int) -> str:
    """The name of the note of an owner below the root."""
    return f"{OWNERS}/{generation:020d}.json"


def ended_name(generation: int) -> str:
    """The name of what says that the run of a generation has ended, below the root."""
    return f"{OWNERS}/{generation:020d}.ended"


def parse_owner_name(name: str) -> int | None:
    """The generation of an owner by the name of its note; None for foreign objects."""
    found = _OWNER.fullmatch(name)
    return None if found is None else int(found[1])


def last_generation(names: Iterable[str]) -> int:
    """The last generation that was taken, by the names of owners' notes; 0 before the first."""
    found = (parse_owner_name(name) for name in names)
    return max((of for of in found if of is not None), default=0)


def savepoint_name(savepoint: str) -> str:
    """The name of a savepoint's object below the root."""
    return f"{SAVEPOINTS}/{savepoint}.cut"


def parse_savepoint_name(name: str) -> str | None:
    """What a savepoint is called by its name below the root; None for foreign objects."""
    found = _SAVEPOINT.fullmatch(name)
    return None if found is None else found[1]


def parse_history_name(name: str) -> tuple[int, int] | None:
    """The first and the last epoch of such a file; None for foreign objects."""
    found = _HISTORY.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def proof_name(epoch: int, proven_ms: int) -> str:
    """The name of the object below the root that says that a cut was proven, and when."""
    return f"{PROOFS}/{epoch:020d}-{proven_ms:020d}.json"


def parse_proof_name(name: str) -> tuple[int, int] | None:
    """The epoch, and when its cut was proven, by such a name; None for foreign objects."""
    found = _PROOF.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def replica_note_name(replica: str, epoch: int, copied_ms: int) -> str:
    """The name of the object below the root that says how far a copy has come, and when.

    Args:
        replica: 16 hexadecimal digits, which tell the copy from others.
        epoch: of the last cut that it has.
        copied_ms: when the pass ended, in milliseconds since 1970.
    """
    return f"{REPLICAS}/{replica}-{epoch:020d}-{copied_ms:020d}.json"


def parse_replica_note_name(name: str) -> str | None:
    """Which copy such a note is about; None for foreign objects."""
    found = _REPLICA.fullmatch(name)
    return None if found is None else found[1]


def parse_segment_name(name: str) -> SegmentName | None:
    """The segment that a name below the root stands for; None for foreign objects."""
    found = _SEGMENT.fullmatch(name)
    epoch = _number(found)
    return None if found is None or epoch is None else SegmentName(epoch, found[2], found[3])


def parse_page_name(name: str) -> PageName | None:
    """The page that a name below the root stands for; None for foreign objects."""
    found = _PAGE.fullmatch(name)
    epoch = _number(found)
    return None if found is None or epoch is None else PageName(epoch, found[2])


def writer_of(executor: str) -> str:
    """Who wrote a segment, as it stands in the segment's name."""
    return _OUTSIDE_PLAIN.sub(b"", executor.encode()).decode("ascii") or "executor"


def parse_frame_name(name: str) -> FrameName | None:
    """The frame that a file name stands for; None for the names of foreign files."""
    found = _FRAME.fullmatch(name)
    if found is None or not 0 < int(found[1]) <= _MAX_LONG:
        return None
    kind: Kind = "base" if found[3] == "base" else "delta"
    return FrameName(int(found[1]), found[2], kind)


def parse_store_directory(path: str) -> StoreId | None:
    """The store that a directory below the root holds; None for foreign directories."""
    parts = path.split("/")
    if len(parts) != 4 or parts[0] != STORES:
        return None
    operator, partition, store = _decimal(parts[1]), _decimal(parts[2]), unescape(parts[3])
    if operator is None or partition is None or partition > _MAX_INT or store is None:
        return None
    return StoreId(operator, partition, store)


def escape(store: str) -> str:
    """A store name as a directory name."""
    escaped = _OUTSIDE_PLAIN.sub(lambda byte: b"%%%02X" % ord(byte[0]), store.encode())
    return escaped.decode("ascii")


def unescape(directory: str) -> str | None:
    """The store name that a directory name stands for; None where no writer would have named it."""
    raw = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), directory)
    try:
        store = raw.encode("latin-1").decode()
    except UnicodeError:
        return None
    return store if store and escape(store) == directory else None


def _number(found: re.Match[str] | None) -> int | None:
    return None if found is None or int(found[1]) > _MAX_LONG else int(found[1])


def _decimal(text: str) -> int | None:
    if _DECIMAL.fullmatch(text) is None or int(text) > _MAX_LONG:
        return None
    return int(text)
