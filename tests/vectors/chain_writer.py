"""Small checkpoints for vectors and tests: consistent segments, pages and cuts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.vectors.cut_encoder import Placed, SegmentParts, encode_cut
from tests.vectors.cut_writer import Stored, StoreKey, cut_body, cut_name, write_segment
from tests.vectors.frame_cases import ENCODER, identity_of, version_id
from tests.vectors.frame_encoder import encode_frame
from tests.vectors.page_encoder import window_element, write_cut, write_page
from tests.vectors.row_encoder import struct_type

THREE: StoreKey = (0, 3, "default")
FOUR: StoreKey = (0, 4, "default")

NUMBER = struct_type(n="long")
FAMILY = {"id": 0, "name": "default", "keySchema": NUMBER, "valueSchema": NUMBER}
FAMILY |= {"encoder": ENCODER}

Chain = list[Stored]


@dataclass(frozen=True)
class Segment:
    """A segment and its frames in order."""

    name: str
    parts: SegmentParts
    frames: Chain

    def part(self, epoch: int, **offsets: Sequence[Stored]) -> dict[str, Any]:
        """Returns its element in the window of a cut: `counted` or `uncounted` are frames of it."""
        counted = {
            name: [frame.entry["offset"] for frame in frames] for name, frames in offsets.items()
        }
        return window_element(epoch, self.name, self.parts, **counted)


@dataclass
class Little:
    """A checkpoint that grows; its objects by name below the root."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def segment(
        self, epoch: int, *frames: Placed, writer: str = "driver", number: int = 1
    ) -> Segment:
        name, parts, stored = write_segment(epoch, frames, writer=writer, number=number)
        self.objects[name] = parts.joined()
        return Segment(name, parts, stored)

    def page(self, epoch: int, *chains: Chain, number: int = 1) -> dict[str, Any]:
        name, data, element = write_page(epoch, chains, number=number)
        self.objects[name] = data
        return element

    def paged_cut(
        self,
        epoch: int,
        pages: Sequence[Mapping[str, Any]],
        window: Sequence[Mapping[str, Any]],
        *,
        name: str | None = None,
        store_count: int = 2,
        **fields: Any,
    ) -> str:
        body = cut_body(epoch, pages, window, store_count=store_count, **fields)
        name = cut_name(epoch) if name is None else name
        self.objects[name] = encode_cut(body)
        return name

    def cut(self, epoch: int, *chains: Chain) -> str:
        """Writes a cut whose chains are in one page."""
        self.objects |= write_cut(epoch, chains)
        return cut_name(epoch)


def _identity(key: StoreKey, identity: dict[str, Any]) -> dict[str, Any]:
    operator, partition, store = key
    return identity | {"operator": operator, "partition": partition, "store": store}


def delta(version: int, key: StoreKey = THREE, *, attempt: int = 1) -> Placed:
    """Returns a delta without changes; each attempt has an id."""
    parent = (version - 1, version_id(version - 1) if version > 1 else None)
    own_id = version_id(version + 0x4000 * (attempt - 1))
    families = [FAMILY] if version == 1 else []
    identity = _identity(key, identity_of(version, parent=parent, families=families, own_id=own_id))
    data = encode_frame("delta", identity, [], 0, "none").joined()
    return Placed(identity, "delta", data, attempt=attempt)


def base(version: int, key: StoreKey = THREE, *, attempt: int = 1) -> Placed:
    """Returns a base without rows."""
    own_id = version_id(version + 0x4000 * (attempt - 1))
    identity = _identity(key, identity_of(version, families=[FAMILY], own_id=own_id))
    return Placed(
        identity, "base", encode_frame("base", identity, [], 0, "none").joined(), attempt=attempt
    )
