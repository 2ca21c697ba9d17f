"""Reads frames out of segments, and versions out of the chains of a cut."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple
from zlib import crc32

from cleancut._format.cut import CutRef, read_cut
from cleancut._format.frame import Frame, FrameRequest, read_frame
from cleancut._format.identity import Identity
from cleancut._format.layout import StoreId, cut_name, savepoint_name
from cleancut._format.placed import Chain, PlacedFrame
from cleancut._format.wrapped import cut_damaged
from cleancut._reading.chain_parts import ChainParts
from cleancut._reading.state import State
from cleancut._reading.stored_cut import StoredCut
from cleancut._reading.stored_frame import StoredFrame
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range, read_ranges, windows
from cleancut.errors import CleancutError, error_of

# What is read ahead of its decoding.
WINDOW_BYTES = 64 << 20

Parts = Mapping[Range, bytes | None]


class LoadedState(NamedTuple):
    """The state of one store, and the object that errors about its rows name."""

    store: StoreId
    place: str
    state: State


@dataclass(frozen=True)
class CutReader:
    """Reads cuts and what they name."""

    objects: Objects

    def path(self, epoch: int) -> str:
        """Full path of a cut."""
        return self.objects.path(cut_name(epoch))

    def savepoint_path(self, savepoint: str) -> str:
        """Full path of a savepoint."""
        return self.objects.path(savepoint_name(savepoint))

    @cached_property
    def parts(self) -> ChainParts:
        """Reads what leads to the chains of the cuts."""
        return ChainParts(self.objects)

    def cut(self, epoch: int) -> StoredCut:
        """Reads a cut.

        Raises:
            FileNotFoundError: the epoch has none.
            DamagedError: CLEANCUT_CUT_DAMAGED.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        return self._stored(self.objects.read(cut_name(epoch)), self.path(epoch), epoch)

    def savepoint(self, savepoint: str) -> StoredCut:
        """Reads the cut that a savepoint keeps.

        Raises:
            FileNotFoundError: there is no such savepoint.
            DamagedError: CLEANCUT_CUT_DAMAGED.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        data = self.objects.read(savepoint_name(savepoint))
        return self._stored(data, self.savepoint_path(savepoint), None)

    def _stored(self, data: bytes, path: str, epoch: int | None) -> StoredCut:
        return StoredCut(**vars(read_cut(data, path, epoch)), parts=self.parts)

    def states(self, cut: StoredCut, chains: Iterable[Chain]) -> Iterator[LoadedState]:
        """The states that some chains of a cut lead to, in their order.

        Raises:
            DamagedError: a frame is damaged, misplaced or missing, or does not fit its chain.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        for group in windows(chains, chain_bytes, WINDOW_BYTES):
            parts = self.read(frame for chain in group for frame in chain)
            for chain in group:
                state = State()
                for placed in chain:
                    self.append(state, self.frame(placed, parts, cut.ref), cut.ref)
                yield LoadedState(chain[0].store, cut.path, state)

    def read(self, frames: Iterable[PlacedFrame]) -> Parts:
        """The bytes of frames, which `frame` takes."""
        return read_ranges(self.objects, map(range_of, frames))

    def frame(self, placed: PlacedFrame, parts: Parts, cut: CutRef | None) -> Frame:
        """Decodes one frame and checks that it is the one that was named.

        Args:
            placed: the frame.
            parts: what `read` returned.
            cut: the one that names the frame; None where it was found in a segment's table.

        Raises:
            DamagedError: the frame is damaged, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        data = parts[range_of(placed)]
        if data is None:
            raise self._missing(placed, cut)
        request = self.request(placed)
        if len(data) < placed.length:
            end = placed.offset + len(data)
            raise request.damaged(f"it ends at byte {end}, inside the frame at {placed.offset}")
        if crc32(data) != placed.crc:
            raise request.damaged(f"the checksum of the frame at byte {placed.offset} is wrong")
        return read_frame(data, request)

    def newest_first(self, cut: StoredCut, chain: Chain, parts: Parts) -> Iterator[StoredFrame]:
        """The frames of a chain from its end, each compared with the one before when that comes.

        Args:
            cut: the one whose chain it is.
            chain: the frames.
            parts: what was read ahead.

        Raises:
            DamagedError: a frame does not fit the chain.
        """
        for at in reversed(range(len(chain))):
            placed, part = chain[at], range_of(chain[at])
            missing = partial(self._missing, placed, cut.ref)
            yield (
                frame := StoredFrame(
                    self.objects, self.request(placed), part, placed.crc, missing, parts.get(part)
                )
            )
            before = chain[at - 1].name if at else None
            expected = (0, None) if before is None else (before.version, before.version_id)
            if _parent(frame.identity) != expected:
                raise _broken(cut.ref, frame.identity, expected[0])

    def request(self, placed: PlacedFrame) -> FrameRequest:
        """What is asked for where a frame is read."""
        path = self.objects.path(placed.segment)
        return FrameRequest(path, placed.store, placed.name, placed.offset)

    def append(self, state: State, frame: Frame, cut: CutRef) -> None:
        """Brings a state to the version of the next frame of a chain.

        Args:
            state: starts as version 0.
            frame: the next of the chain.
            cut: the one whose chain it is.

        Raises:
            DamagedError: another frame must come next, or it does not fit the state.
        """
        if not follows(frame, state):
            raise _broken(cut, frame.identity, state.version)
        state.apply(frame)

    def _missing(self, placed: PlacedFrame, cut: CutRef | None) -> CleancutError:
        store, segment = placed.store, self.objects.path(placed.segment)
        return error_of(
            "CLEANCUT_FRAME_MISSING",
            directory=segment if cut is None else cut.path,
            detail=f"{segment} is missing",
            operator=store.operator,
            partition=store.partition,
            store=store.store,
            version=placed.name.version if cut is None else cut.version,
        )


def follows(frame: Frame, state: State) -> bool:
    """Whether a frame applies to a state; a base applies to version 0 alone."""
    return _parent(frame.identity) == (state.version, state.version_id)


def _parent(identity: Identity) -> tuple[int, str | None]:
    return identity.parent_version or 0, identity.parent_id


def _broken(cut: CutRef, identity: Identity, expected: int) -> CleancutError:
    detail = f"the frames of {identity.store} do not follow on each other, for {identity.name} "
    detail += f"applies to version {identity.parent_version} and not to {expected}"
    return cut_damaged(cut.path, detail)


def range_of(placed: PlacedFrame) -> Range:
    """Where a frame lies."""
    return Range(placed.segment, placed.offset, placed.length)


def chain_bytes(chain: Chain) -> int:
    """The size of the frames of a chain, in bytes."""
    return sum(frame.length for frame in chain)
