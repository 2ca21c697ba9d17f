"""One stored frame, of which only the required parts are read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from cleancut._format.chains import Chain
from cleancut._format.frame.frame import (
    Block,
    FrameReader,
    FrameRequest,
    IndexedBase,
    header_size,
    trailer_size,
)
from cleancut._format.frame.identity import Identity
from cleancut._format.frame.key_hash import key_hash
from cleancut._storage.forward import ForwardBytes
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range, read_ranges
from cleancut.errors import CleancutError

# Enough for the header of most frames, and for the index of a snapshot of some 500 MB.
_ENDS_BYTES = 1 << 17


@dataclass(frozen=True)
class StoredFrame:
    """A frame that is read on demand; everything it returns was compared with a checksum.

    Attributes:
        objects: the objects that contain it.
        request: the identity that the frame must have.
        part: its range in its object.
        crc: CRC-32 of its bytes, if a cut states it.
        missing: returns the error for a missing object.
        read_ahead: its bytes, if they were read already.
    """

    objects: Objects
    request: FrameRequest
    part: Range
    crc: int | None
    missing: Callable[[], CleancutError]
    read_ahead: bytes | None = None

    @property
    def identity(self) -> Identity:
        """The identity in its header; reads only the beginning."""
        reader = self._whole if "_whole" in vars(self) else self._forward[1]
        return reader.identity

    @property
    def is_referring(self) -> bool:
        """Whether its rows are those of other frames."""
        return self.is_base and self._forward[1].is_referring

    @property
    def sources(self) -> tuple[Chain, ...]:
        """The chains that a referring snapshot references.

        Raises:
            CorruptedError: the frame is corrupted, misplaced or missing.
        """
        return self._whole.sources()

    @property
    def is_base(self) -> bool:
        return self.request.name.kind == "base"

    @property
    def keys(self) -> int:
        """The number of live keys after it, available after its blocks were read."""
        reader = self._forward[1] if self.is_base else self._whole
        return reader.keys

    def blocks(self) -> Iterator[Block]:
        """All blocks in order, with a part of the frame in memory at a time. Call it once.

        Raises:
            CorruptedError: the frame is corrupted, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        data, reader = self._forward
        yield from reader.blocks()
        self._compare(data.crc if isinstance(data, ForwardBytes) else crc32(data))

    def blocks_from_the_end(self) -> Iterator[Block]:
        """All blocks in reverse order, with the frame in memory; raises as `blocks` does."""
        return self._whole.blocks_from_the_end()

    def blocks_of(self, family: int, key: bytes) -> Iterator[Block]:
        """The blocks of a snapshot that may contain a key; all blocks if it has no index.

        Args:
            family: the id of the key's family.
            key: the key.

        Raises:
            CorruptedError: a part that is read is corrupted, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        base, hashed = self._indexed, key_hash(key)
        if not base.index.blocks:
            yield from self.blocks()
            return
        for ordinal, block in enumerate(base.index.blocks):
            first, last = block.hashes
            if block.family == family and first <= hashed <= last:
                yield base.block(ordinal, *self._read(base.place(ordinal)))

    @cached_property
    def _indexed(self) -> IndexedBase:
        size = self.part.length
        near = min(size, _ENDS_BYTES)
        start, end = self._read((0, near), (size - near, near))
        if near < (needed := min(size, header_size(start))):
            (start,) = self._read((0, needed))
        if near < (needed := min(size, trailer_size(end))):
            (end,) = self._read((size - needed, needed))
        return IndexedBase(start, end, self.request, size)

    def _read(self, *places: tuple[int, int]) -> list[bytes]:
        """Parts of the frame, each given by its first byte and its length."""
        begin = self.part.offset
        ranges = [Range(self.part.name, begin + at, length) for at, length in places]
        ahead = self.read_ahead
        read: Mapping[Range, bytes | None]
        if ahead is None:
            read = read_ranges(self.objects, ranges)
        else:
            read = {part: ahead[part.offset - begin : part.end - begin] for part in ranges}
        parts = []
        for part in ranges:
            data = read[part]
            if data is None:
                raise self.missing()
            if len(data) < part.length:
                end = part.offset + len(data)
                raise self.request.damaged(f"it ends at byte {end}, inside the frame at {begin}")
            parts.append(data)
        return parts

    @cached_property
    def _forward(self) -> tuple[ForwardBytes | bytes, FrameReader]:
        data: ForwardBytes | bytes | None = self.read_ahead
        if data is None:
            data = ForwardBytes(self.objects, self.part, self.missing)
        return data, FrameReader(data, self.request)

    @cached_property
    def _whole(self) -> FrameReader:
        (data,) = self._read((0, self.part.length))
        self._compare(crc32(data))
        return FrameReader(data, self.request)

    def _compare(self, crc: int) -> None:
        if self.crc not in (None, crc):
            at = self.part.offset
            raise self.request.damaged(f"the checksum of the frame at byte {at} is wrong")
