"""Builds and parses the names of objects below a query's checkpoint; see docs/FORMAT.md.

No other module knows the format of these names.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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

# Names of the stores of in-flight rows, which no operator uses.
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
        """Whether it contains in-flight rows, and is no store of an operator."""
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
        epoch: the epoch of its frames.
        writer: `driver`, or an executor's id without characters that a name cannot have.
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
        epoch: the epoch after which its chains end.
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
    """The epoch in the name of a cut; None for other objects."""
    return _number(_CUT.fullmatch(name))


def parse_seal_name(name: str) -> int | None:
    """The epoch in the name of a seal; None for other objects."""
    match = _SEAL.fullmatch(name)
    return None if match is None else int(match[1])


def owner_name(generation: int) -> str:
    """The name of the record of an owner, below the root."""
    return f"{OWNERS}/{generation:020d}.json"


def ended_name(generation: int) -> str:
    """The name of the record that the run of a generation has ended, below the root."""
    return f"{OWNERS}/{generation:020d}.ended"


def took_name(generation: int) -> str:
    """The name of the record that a run which had waited has taken the query, below the root."""
    return f"{OWNERS}/{generation:020d}.took"


def is_waiting(record: Mapping[str, Any], generation: int, names: Collection[str]) -> bool:
    """Whether an owner still waits for the end of the run before, by its record and all names."""
    return record.get("waitsFor") is not None and took_name(generation) not in names


def parse_owner_name(name: str) -> int | None:
    """The generation in the name of an owner's record; None for other objects."""
    match = _OWNER.fullmatch(name)
    return None if match is None else int(match[1])


def last_generation(names: Iterable[str]) -> int:
    """The last generation, by the names of owners' records; 0 before the first."""
    generations = (parse_owner_name(name) for name in names)
    return max((generation for generation in generations if generation is not None), default=0)


def savepoint_name(savepoint: str) -> str:
    """The name of a savepoint's object below the root."""
    return f"{SAVEPOINTS}/{savepoint}.cut"


def parse_savepoint_name(name: str) -> str | None:
    """The name of a savepoint, by its object's name; None for other objects."""
    match = _SAVEPOINT.fullmatch(name)
    return None if match is None else match[1]


def parse_history_name(name: str) -> tuple[int, int] | None:
    """The first and the last epoch in the name of a history file; None for other objects."""
    match = _HISTORY.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def proof_name(epoch: int, proven_ms: int) -> str:
    """The name of the record of a restore test, below the root."""
    return f"{PROOFS}/{epoch:020d}-{proven_ms:020d}.json"


def parse_proof_name(name: str) -> tuple[int, int] | None:
    """The epoch and the time in the name of a restore test's record; None for other objects."""
    match = _PROOF.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def replica_note_name(replica: str, epoch: int, copied_ms: int) -> str:
    """The name of the record of a replica's last pass, below the root.

    Args:
        replica: 16 hexadecimal digits that identify the replica.
        epoch: epoch of its last cut.
        copied_ms: end of the pass, in milliseconds since 1970.
    """
    return f"{REPLICAS}/{replica}-{epoch:020d}-{copied_ms:020d}.json"


def parse_replica_note_name(name: str) -> str | None:
    """The replica in the name of such a record; None for other objects."""
    match = _REPLICA.fullmatch(name)
    return None if match is None else match[1]


def parse_segment_name(name: str) -> SegmentName | None:
    """The segment in an object's name; None for other objects."""
    match = _SEGMENT.fullmatch(name)
    epoch = _number(match)
    return None if match is None or epoch is None else SegmentName(epoch, match[2], match[3])


def parse_page_name(name: str) -> PageName | None:
    """The page in an object's name; None for other objects."""
    match = _PAGE.fullmatch(name)
    epoch = _number(match)
    return None if match is None or epoch is None else PageName(epoch, match[2])


def writer_of(executor: str) -> str:
    """The writer in a segment's name, for an executor id."""
    return _OUTSIDE_PLAIN.sub(b"", executor.encode()).decode("ascii") or "executor"


def parse_frame_name(name: str) -> FrameName | None:
    """The frame in a file's name; None for other files."""
    match = _FRAME.fullmatch(name)
    if match is None or not 0 < int(match[1]) <= _MAX_LONG:
        return None
    kind: Kind = "base" if match[3] == "base" else "delta"
    return FrameName(int(match[1]), match[2], kind)


def parse_store_directory(path: str) -> StoreId | None:
    """The store in a directory's name; None for other directories."""
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
    """The store name of a directory name; None if no writer would use that name."""
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), directory)
    try:
        store = raw.encode("latin-1").decode()
    except UnicodeError:
        return None
    return store if store and escape(store) == directory else None


def _number(match: re.Match[str] | None) -> int | None:
    return None if match is None or int(match[1]) > _MAX_LONG else int(match[1])


def _decimal(text: str) -> int | None:
    if _DECIMAL.fullmatch(text) is None or int(text) > _MAX_LONG:
        return None
    return int(text)
