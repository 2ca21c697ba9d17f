"""Reads frames of one store, and assembles its versions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cleancut._checkpoint.read.listing import Listing
from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.stored_frame import StoredFrame
from cleancut._format.frame.frame import Frame, FrameRequest, read_frame
from cleancut._format.layout import FrameName
from cleancut._storage.objects import Objects
from cleancut._storage.parallel import Range
from cleancut.errors import CleancutError, error_of

ReadFrame = TypeVar("ReadFrame", Frame, StoredFrame)


@dataclass(frozen=True)
class StoreReader:
    """Reads from one listing, so all results belong to one point in time."""

    objects: Objects
    listing: Listing

    def frame(self, name: FrameName) -> Frame:
        """Reads one frame whole.

        Raises:
            CorruptedError: the frame is corrupted, misplaced, or deleted since the listing.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        try:
            data = self.objects.read(self.listing.object_name(name))
        except FileNotFoundError as error:
            raise self.missing(name.version, f"{name} was listed and is gone") from error
        return read_frame(data, FrameRequest(self.path(name), self.listing.store, name))

    @property
    def directory(self) -> str:
        """Full path of the store's directory."""
        return self.objects.path(self.listing.store.directory)

    def path(self, name: FrameName) -> str:
        """Full path of a frame."""
        return self.objects.path(self.listing.object_name(name))

    def load(self, version: int, version_id: str | None = None) -> State:
        """All rows at a version; see docs/FORMAT.md, "Reading a version".

        Args:
            version: the state version, at least 1.
            version_id: its id; without it, the greatest id of that version.

        Raises:
            CorruptedError: a required frame is missing, corrupted or misplaced.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        state = State()
        for frame in reversed(list(self._chain(version, version_id, self.frame))):
            state.apply(frame)
        return state

    def newest_first(self, version: int) -> Iterator[StoredFrame]:
        """The frames that make up a version, from its own down to a snapshot or to version 0.

        Raises:
            CorruptedError: a required frame is missing, corrupted or misplaced.
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
        """
        return self._chain(version, None, self._stored)

    def _stored(self, name: FrameName) -> StoredFrame:
        part = Range(self.listing.object_name(name), 0, self.listing.sizes[name])
        gone = partial(self.missing, name.version, f"{name} was listed and is gone")
        request = FrameRequest(self.path(name), self.listing.store, name)
        return StoredFrame(self.objects, request, part, None, gone)

    def _chain(
        self, version: int, version_id: str | None, read: Callable[[FrameName], ReadFrame]
    ) -> Iterator[ReadFrame]:
        ids = self.listing.ids.get(version, [])
        if not ids or (version_id is not None and version_id not in ids):
            wanted = "it" if version_id is None else version_id
            raise self.missing(version, f"{wanted} has no frame")
        at, at_id = version, version_id or ids[-1]
        child = ""
        while True:
            name = self.listing.frame_of(at, at_id)
            if name is None:
                raise self.missing(
                    version, f"{child} builds on {at:020d}-{at_id}, which is missing"
                )
            yield (frame := read(name))
            parent, parent_id = frame.identity.parent_version, frame.identity.parent_id
            if not parent or parent_id is None:
                return
            child, at, at_id = str(frame.identity.name), parent, parent_id

    def missing(self, version: int, detail: str) -> CleancutError:
        """The error for a frame that is missing in the directory."""
        store = self.listing.store
        return error_of(
            "CLEANCUT_FRAME_MISSING",
            directory=self.directory,
            detail=detail,
            operator=store.operator,
            partition=store.partition,
            store=store.store,
            version=version,
        )
