"""Reads a page, the chains of some stores; docs/FORMAT.md draws the bytes."""

import struct

from cleancut._format.chains import Chain, PlacedFrame, check_whole
from cleancut._format.envelope import unreadable, unwrapped
from cleancut._format.layout import FrameName, Kind, PageName, StoreId, parse_segment_name

_MAGIC = b"CCPG"
_PLACE = struct.Struct("<qi")
_KINDS: dict[int, Kind] = {1: "delta", 2: "base"}
_ID_SIZE = 16
_MAX_UVARINT_SIZE = 9


def read_page(data: bytes, path: str, name: PageName) -> dict[StoreId, Chain]:
    """Decodes a page and checks all of it.

    Args:
        data: the whole object.
        path: full path of the object.
        name: name of the object.

    Returns:
        For each store, in their order, the frames that make up the version after the page's epoch.

    Raises:
        CorruptedError: CLEANCUT_CUT_CORRUPTED.
        RequestError: CLEANCUT_FORMAT_UNKNOWN.
    """
    raw = unwrapped(data, path, "page", _MAGIC)
    try:
        return _Body(raw).chains(name.epoch + 1)
    except ValueError as error:
        raise unreadable(path, error) from error


def read_sources(raw: bytes, store: StoreId, count: int) -> tuple[Chain, ...]:
    """The chains that a snapshot references, in the form of the body of a page.

    Args:
        raw: the body.
        store: the store of the snapshot.
        count: number of chains.

    Raises:
        ValueError: the body is invalid.
    """
    chains = _Body(raw).chains(None)
    for source in chains:
        if (source.operator, source.store) != (store.operator, store.store):
            raise ValueError(f"{source} is another kind of store")
    if len(chains) != count:
        raise ValueError(f"it has {len(chains)} of them, and not {count}")
    return tuple(chains.values())


class _Body:
    """The body of a page, read from front to back."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def chains(self, version: int | None) -> dict[StoreId, Chain]:
        """All chains; each must lead to a version, or to any if it is None."""
        segments = [self._segment() for _ in range(self._number())]
        stores: list[tuple[StoreId, int]] = []
        for _ in range(self._number()):
            store, frames = self._store(), self._number()
            if stores and store <= stores[-1][0]:
                raise ValueError(f"{store} does not come after {stores[-1][0]}")
            stores.append((store, frames))
        if not stores:
            raise ValueError("it has no stores")
        chains: dict[StoreId, Chain] = {}
        for store, frames in stores:
            chain: list[PlacedFrame] = []
            for _ in range(frames):
                before = chain[-1].name.version if chain else 0
                chain.append(self._frame(store, segments, before))
            chains[store] = tuple(chain)
            last = chain[-1].name.version if chain and version is None else version
            check_whole(store, chains[store], last or 0)
        if self._at != len(self._raw):
            raise ValueError(f"{len(self._raw) - self._at} bytes are left")
        return chains

    def _segment(self) -> str:
        name = self._text()
        if parse_segment_name(name) is None:
            raise ValueError("it names what is no segment")
        return name

    def _store(self) -> StoreId:
        operator, partition = _PLACE.unpack(self._take(_PLACE.size))
        store = StoreId(operator, partition, self._text())
        if store.is_channel:
            raise ValueError(f"{store} has in-flight rows")
        return store

    def _frame(self, store: StoreId, segments: list[str], before: int) -> PlacedFrame:
        kind = _KINDS.get(self._take(1)[0])
        index, version = self._number(), before + self._number()
        version_id = self._take(_ID_SIZE).hex()
        offset, length = self._number(), self._number()
        crc = int.from_bytes(self._take(4), "little")
        if kind is None:
            raise ValueError(f"a frame of {store} has no kind")
        if index >= len(segments):
            raise ValueError(f"a frame of {store} is in segment {index}, which is not named")
        if version < 1 or length < 1:
            raise ValueError(f"a frame of {store} has an impossible location or version")
        name = FrameName(version, version_id, kind)
        return PlacedFrame(store, name, segments[index], offset, length, crc)

    def _text(self) -> str:
        return self._take(self._number()).decode()

    def _number(self) -> int:
        raw, at, number = self._raw, self._at, 0
        for place, byte in enumerate(raw[at : at + _MAX_UVARINT_SIZE]):
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                self._at = at + place + 1
                return number
        raise ValueError(f"the number at byte {at} does not end")

    def _take(self, size: int) -> bytes:
        taken = self._raw[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError(f"it ends inside the value at byte {self._at}")
        self._at += size
        return taken
