"""Frames in segments, and the chains that they make up."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cleancut._format.layout import FrameName, Kind, StoreId

_KINDS: dict[str, Kind] = {"delta": "delta", "base": "base"}
_MAX_CRC = 2**32 - 1


@dataclass(frozen=True, slots=True)
class PlacedFrame:
    """A frame in a segment.

    Attributes:
        store: whose frame it is.
        name: which of that store's frames.
        segment: the segment's name below the root.
        offset: where the frame begins, in bytes from the start of the segment.
        length: its length in bytes.
        crc: CRC-32 of its bytes.
    """

    store: StoreId
    name: FrameName
    segment: str
    offset: int
    length: int
    crc: int


Chain = tuple[PlacedFrame, ...]


def placed_frame(
    store: StoreId, name: tuple[Any, Any, Any], segment: str, place: tuple[Any, Any, Any]
) -> PlacedFrame:
    """A frame by its name (version, id, kind) and place (offset, length, checksum).

    Raises:
        ValueError: a part is not what it must be.
    """
    version, version_id, kind = name
    numbers = (version, *place)
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise ValueError(f"the place of a frame of {store} is not told in numbers")
    offset, length, crc = place
    if version < 1 or offset < 0 or length < 1 or not 0 <= crc <= _MAX_CRC:
        raise ValueError(f"a frame of {store} has an impossible place or version")
    if not isinstance(version_id, str) or kind not in _KINDS:
        raise ValueError(f"a frame of {store} has no id or no kind")
    return PlacedFrame(
        store, FrameName(version, version_id, _KINDS[kind]), segment, offset, length, crc
    )


def assembled(store: StoreId, frames: Iterable[PlacedFrame], version: int) -> Chain:
    """The chain to a version of a store, out of all its frames that count, in any order.

    Raises:
        ValueError: they do not make up the version.
    """
    found = list(frames)
    bases = [frame for frame in found if frame.name.kind == "base"]
    top = max((base.name.version for base in bases), default=0)
    deltas = [frame for frame in found if frame.name.version > top]
    newest = dict.fromkeys(base for base in bases if base.name.version == top)
    if len(newest) > 1:
        raise ValueError(f"{store} has {len(newest)} bases of version {top}")
    chain = (*newest, *sorted(deltas, key=lambda frame: frame.name.version))
    check_whole(store, chain, version)
    return chain


def check_whole(store: StoreId, chain: Chain, version: int) -> None:
    """Checks that a chain has each version up to one, from a base or version 1 on.

    Raises:
        ValueError: it has not.
    """
    if not chain:
        raise ValueError(f"{store} has no frames")
    if any(frame.name.kind == "base" for frame in chain[1:]):
        raise ValueError(f"{store} has a base behind another frame")
    first, last = chain[0].name, chain[-1].name
    if first.kind != "base" and first.version != 1:
        raise ValueError(f"the frames of {store} begin with a delta of version {first.version}")
    for one, other in pairwise(chain):
        if other.name.version != one.name.version + 1:
            versions = f"version {other.name.version} follows version {one.name.version}"
            raise ValueError(f"of the frames of {store}, {versions}")
    if last.version != version:
        raise ValueError(f"the frames of {store} end in version {last.version}, not {version}")
