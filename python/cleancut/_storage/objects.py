"""The objects of one checkpoint, wherever they lie: what a reader asks of a store, and no more."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """What a listing tells of an object.

    Attributes:
        size: in bytes.
        modified_ms: when it was written, by the clock of the store, in milliseconds since 1970.
    """

    size: int
    modified_ms: int


class Objects(Protocol):
    """Reads objects by their names below one root, with `/` between the parts of a name.

    Threads may share it. An object that is not there is a FileNotFoundError; what else fails in a
    file system is another OSError, in an object store a CleancutError.
    """

    def path(self, name: str) -> str:
        """Full path of an object, for messages."""

    def list(self, below: str) -> Mapping[str, int]:
        """The size in bytes of every object below a directory, at any depth, by name.

        A directory that does not exist has none.
        """

    def read(self, name: str) -> bytes:
        """A whole object."""

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """A part of an object; shorter than `length` where the object ends."""


class Place(Objects, Protocol):
    """Objects below a root that lies below another one."""

    def details(self, below: str) -> Mapping[str, Stored]:
        """The same as `list`, with the time at which each was written."""

    def above(self) -> "Place":
        """The objects around the root: those of the directory that it lies in."""

    def create(self, name: str, data: bytes) -> bool:
        """Writes an object whole; False, and nothing done, if there is one of this name."""

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        """The same as `create`, of bytes that come in parts; an error of the parts passes through.

        All parts but the last have the same size, at least 5 MiB.
        """

    def delete(self, name: str) -> None:
        """Takes an object away, if it is there."""
