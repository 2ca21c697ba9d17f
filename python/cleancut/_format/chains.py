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
        store: the store of the frame.
        name: name of the frame.
        segment: name of the segment below the root.
        offset: its first byte in the segment.
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
    """A frame by its name (version, id, kind) and location (offset, length, checksum).

    Raises:
        ValueError: a part is invalid.
    """
    version, version_id, kind = name
    numbers = (version, *place)
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise ValueError(f"the location of a frame of {store} is not given in numbers")
    offset, length, crc = place
    if version < 1 or offset < 0 or length < 1 or not 0 <= crc <= _MAX_CRC:
        raise ValueError(f"a frame of {store} has an impossible location or version")
    if not isinstance(version_id, str) or kind not in _KINDS:
        raise ValueError(f"a frame of {store} has no id or no kind")
    return PlacedFrame(
        store, FrameName(version, version_id, _KINDS[kind]), segment, offset, length, crc
    )


def assembled(store: StoreId, frames: Iterable[PlacedFrame], version: int) -> Chain:
    """Assembles the chain to a version of a store from all its counting frames, in any order.

    Raises:
        ValueError: the frames do not form the version.
    """
    candidates = list(frames)
    bases = [frame for frame in candidates if frame.name.kind == "base"]
    top = max((base.name.version for base in bases), default=0)
    deltas = [frame for frame in candidates if frame.name.version > top]
    newest = dict.fromkeys(base for base in bases if base.name.version == top)
    chain = (*newest, *sorted(deltas, key=lambda frame: frame.name.version))
    check_whole(store, chain, version)
    return chain


def check_whole(store: StoreId, chain: Chain, version: int) -> None:
    """Checks that a chain has each version up to one, from a snapshot or version 1 on.

    Raises:
        ValueError: a version is missing.
    """
    if not chain:
        raise ValueError(f"{store} has no frames")
    if any(frame.name.kind == "base" for frame in chain[1:]):
        raise ValueError(f"{store} has a snapshot after another frame")
    first, last = chain[0].name, chain[-1].name
    if first.kind != "base" and first.version != 1:
        raise ValueError(f"the frames of {store} begin with a changelog of version {first.version}")
    for one, other in pairwise(chain):
        if other.name.version != one.name.version + 1:
            versions = f"version {other.name.version} follows version {one.name.version}"
            raise ValueError(f"of the frames of {store}, {versions}")
    if last.version != version:
        raise ValueError(f"the frames of {store} end in version {last.version}, not {version}")
