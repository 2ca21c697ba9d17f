"""The interface of a checkpoint's objects, for readers and writers."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """The description of an object in a listing.

    Attributes:
        size: size in bytes.
        modified_ms: time of its write by the clock of the store, in milliseconds since 1970.
    """

    size: int
    modified_ms: int


class Objects(Protocol):
    """Reads objects by their names below one root, with `/` between the parts of a name.

    Threads may share it. A missing object is a FileNotFoundError. Other failures are OSError for a
    file system, and CleancutError for an object store.
    """

    def path(self, name: str) -> str:
        """Full path of an object, for messages."""

    def list(self, below: str) -> Mapping[str, int]:
        """The size in bytes of every object below a directory, at any depth, by name.

        The result is empty if the directory does not exist.
        """

    def read(self, name: str) -> bytes:
        """The content of an object."""

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """A part of an object; shorter than `length` at the end of the object."""


class Place(Objects, Protocol):
    """Objects below a root, with access to the objects around it."""

    def details(self, below: str) -> Mapping[str, Stored]:
        """As `list`, with the time at which each object was written."""

    def above(self) -> "Place":
        """The objects of the directory that contains the root."""

    def create(self, name: str, data: bytes) -> bool:
        """Creates an object; returns False and does nothing if it exists."""

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        """As `create`, with the content in parts; an error of the parts is raised unchanged.

        All parts except for the last have the same size, at least 5 MiB.
        """

    def delete(self, name: str) -> None:
        """Deletes an object, if it exists."""
