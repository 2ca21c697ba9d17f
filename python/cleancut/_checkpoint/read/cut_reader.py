"""Reads frames from segments, and assembles versions from the chains of a cut."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple
from zlib import crc32

from cleancut._checkpoint.read.chain_parts import ChainParts
from cleancut._checkpoint.read.live_rows import LiveFrame, LiveState
from cleancut._checkpoint.read.referring_snapshot import ReferredBase, fill
from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.read.stored_frame import StoredFrame
from cleancut._format.chains import Chain, PlacedFrame
from cleancut._format.cut.cut import CutRef, read_cut
from cleancut._format.frame.frame import Frame, FrameRequest, read_frame
from cleancut._format.frame.identity import Identity
from cleancut._format.layout import StoreId, cut_name, savepoint_name
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range, mapped, read_ranges, windows
from cleancut.errors import CleancutError, error_of

# Maximum size of frames that are read before they are decoded.
WINDOW_BYTES = 64 << 20

Parts = Mapping[Range, bytes | None]

# The object that states the frames of a chain: a cut, or a snapshot that references other stores.
ChainOwner = CutRef | FrameRequest


class LoadedState(NamedTuple):
    """The state of one store, and the object that errors about its rows name."""

    store: StoreId
    place: str
    state: State


@dataclass(frozen=True)
class CutReader:
    """Reads cuts and the objects that they reference."""

    objects: Objects

    def path(self, epoch: int) -> str:
        """Full path of a cut."""
        return self.objects.path(cut_name(epoch))

    def savepoint_path(self, savepoint: str) -> str:
        """Full path of a savepoint."""
        return self.objects.path(savepoint_name(savepoint))

    @cached_property
    def parts(self) -> ChainParts:
        """Reads the pages and segment tables that define the chains of cuts."""
        return ChainParts(self.objects)

    def cut(self, epoch: int) -> StoredCut:
        """Reads a cut.

        Raises:
            FileNotFoundError: the epoch has no cut.
            CorruptedError: CLEANCUT_CUT_CORRUPTED.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        return self._stored(self.objects.read(cut_name(epoch)), self.path(epoch), epoch)

    def savepoint(self, savepoint: str) -> StoredCut:
        """Reads the cut that a savepoint keeps.

        Raises:
            FileNotFoundError: there is no such savepoint.
            CorruptedError: CLEANCUT_CUT_CORRUPTED.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        data = self.objects.read(savepoint_name(savepoint))
        return self._stored(data, self.savepoint_path(savepoint), None)

    def _stored(self, data: bytes, path: str, epoch: int | None) -> StoredCut:
        return StoredCut(**vars(read_cut(data, path, epoch)), parts=self.parts)

    def states(self, cut: StoredCut, chains: Iterable[Chain]) -> Iterator[LoadedState]:
        """Reads the states that some chains of a cut define, in the order of the chains.

        Raises:
            CorruptedError: a frame is corrupted, misplaced or missing, or does not fit its chain.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        for group in windows(chains, chain_bytes, WINDOW_BYTES):
            parts = self.read(frame for chain in group for frame in chain)
            for chain in group:
                state = self._state(chain, parts, cut.ref)
                if state.inexact is not None:
                    raise state.inexact
                yield LoadedState(chain[0].store, cut.path, state)

    def _state(self, chain: Chain, parts: Parts, owner: ChainOwner) -> State:
        state, cut = State(), owner if isinstance(owner, CutRef) else None
        for placed in chain:
            self.append(state, self.frame(placed, parts, cut), owner)
        return state

    def read(self, frames: Iterable[PlacedFrame]) -> Parts:
        """Reads the bytes of frames, for `frame`."""
        return read_ranges(self.objects, map(range_of, frames))

    def frame(self, placed: PlacedFrame, parts: Parts, cut: CutRef | None) -> Frame:
        """Decodes one frame and checks that it is the referenced one.

        Args:
            placed: the frame.
            parts: the result of `read`.
            cut: the cut that references the frame; None for a frame from a segment's table.

        Raises:
            CorruptedError: the frame is corrupted, misplaced or missing.
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

    def newest_first(self, cut: StoredCut, chain: Chain, parts: Parts) -> Iterator[LiveFrame]:
        """The frames of a chain from its end, each compared with its parent when that is read.

        If a snapshot references the whole chain of one store, the frames of that chain replace it.

        Args:
            cut: the cut of the chain.
            chain: the frames.
            parts: the bytes that were read ahead.

        Raises:
            CorruptedError: a frame does not fit the chain.
        """
        return self._newest_first(cut, cut.ref, chain, parts)

    def _newest_first(
        self, cut: StoredCut, owner: ChainOwner, chain: Chain, parts: Parts
    ) -> Iterator[LiveFrame]:
        for at in reversed(range(len(chain))):
            placed, part = chain[at], range_of(chain[at])
            missing = partial(self._missing, placed, cut.ref)
            frame = StoredFrame(
                self.objects, self.request(placed), part, placed.crc, missing, parts.get(part)
            )
            if frame.is_referring:
                yield from self._referred(cut, frame)
            else:
                yield frame
            before = chain[at - 1].name if at else None
            expected = (0, None) if before is None else (before.version, before.version_id)
            if _parent(frame.identity) != expected:
                raise _broken(owner, frame.identity, expected)

    def _referred(self, cut: StoredCut, frame: StoredFrame) -> Iterator[LiveFrame]:
        sources, spread = frame.sources, frame.identity.spread

        def newest_first(chain: Chain) -> Iterator[LiveFrame]:
            parts = self.read(placed for placed in chain if placed.name.kind == "delta")
            return self._newest_first(cut, frame.request, chain, parts)

        if len(sources) == 1 and spread is None:
            yield from newest_first(sources[0])
            return
        live = [
            LiveState(source[0].store, cut.path, source[-1].name.version, newest_first(source))
            for source in sources
        ]
        yield ReferredBase(frame.request, frame.identity, live)

    def sizes(self, cut: StoredCut) -> Mapping[StoreId, int]:
        """The size of the frames of each chain of a cut, with referenced frames, in bytes.

        Raises as `referred_sizes` does.
        """
        referred = self.referred_sizes(cut)
        return {
            store: chain_bytes(chain) + referred.get(store, 0)
            for store, chain in cut.chains.items()
            if not store.is_channel
        }

    def referred_sizes(self, cut: StoredCut) -> Mapping[StoreId, int]:
        """The stores of a cut that reference others, with the size of these frames in bytes.

        Stores that divide the rows of one source have equal shares of its size.

        Raises:
            CorruptedError: a snapshot is corrupted, misplaced or missing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        versions = {base.version for base in cut.referred}
        if not versions:
            return {}
        chains = {
            base: chain for base, chain in cut.chains.items() if chain[0].name.version in versions
        }
        sources = self._all_sources(chain[0] for chain in chains.values())
        reached = {
            store: frames
            for store, chain in chains.items()
            if (frames := _referenced_frames(chain[0], sources))
        }
        users = Counter(frame for frames in reached.values() for frame in frames)
        return {
            store: sum(frame.length // users[frame] for frame in frames)
            for store, frames in reached.items()
        }

    def _all_sources(self, bases: Iterable[PlacedFrame]) -> Mapping[PlacedFrame, Sequence[Chain]]:
        """The sources of snapshots, and the sources of these, each read once."""
        sources: dict[PlacedFrame, Sequence[Chain]] = {}
        unread = set(bases)
        while unread:
            sources_of = dict(zip(unread, mapped(self._sources, unread), strict=True))
            sources |= sources_of
            unread = {
                chain[0] for chains in sources_of.values() for chain in chains
            } - sources.keys()
        return sources

    def _sources(self, placed: PlacedFrame) -> Sequence[Chain]:
        """The chains that a snapshot references; empty for a frame that has rows of its own."""
        if placed.name.kind != "base":
            return ()
        missing = partial(self._missing, placed, None)
        frame = StoredFrame(
            self.objects, self.request(placed), range_of(placed), placed.crc, missing
        )
        return frame.sources if frame.is_referring else ()

    def request(self, placed: PlacedFrame) -> FrameRequest:
        """The identity that the frame must have."""
        path = self.objects.path(placed.segment)
        return FrameRequest(path, placed.store, placed.name, placed.offset)

    def append(self, state: State, frame: Frame, owner: ChainOwner) -> None:
        """Advances a state by the next frame of a chain.

        Args:
            state: the state; an empty one has version 0.
            frame: the next frame of the chain.
            owner: the object that states the chain.

        Raises:
            CorruptedError: another frame must come next, or the frame does not fit the state.
        """
        if not follows(frame, state):
            raise _broken(owner, frame.identity, (state.version, state.version_id))
        if frame.sources is None:
            state.apply(frame)
        else:
            fill(state, frame, map(partial(self._source, frame.request), frame.sources))

    def _source(self, base: FrameRequest, chain: Chain) -> State:
        return self._state(chain, self.read(chain), base)

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
    """Whether a frame applies to a state; a snapshot applies to version 0 only."""
    return _parent(frame.identity) == (state.version, state.version_id)


def _parent(identity: Identity) -> tuple[int, str | None]:
    return identity.parent_version or 0, identity.parent_id


def _broken(
    owner: ChainOwner, identity: Identity, expected: tuple[int, str | None]
) -> CleancutError:
    parent = _version(*_parent(identity))
    return owner.damaged(
        f"the frame {identity.name} of the store {identity.store} applies to {parent}, and the "
        f"chain has {_version(*expected)} before it"
    )


def _version(number: int, version_id: str | None) -> str:
    return f"version {number}" if version_id is None else f"version {number}-{version_id}"


def range_of(placed: PlacedFrame) -> Range:
    """The location of a frame."""
    return Range(placed.segment, placed.offset, placed.length)


def _referenced_frames(
    base: PlacedFrame, sources: Mapping[PlacedFrame, Sequence[Chain]]
) -> set[PlacedFrame]:
    """The frames of all chains that a snapshot references, directly or indirectly."""
    frames: set[PlacedFrame] = set()
    for chain in sources[base]:
        if chain[0] not in frames:
            frames |= _referenced_frames(chain[0], sources)
        frames.update(chain)
    return frames


def chain_bytes(chain: Chain) -> int:
    """The size of the frames of a chain, in bytes."""
    return sum(frame.length for frame in chain)
