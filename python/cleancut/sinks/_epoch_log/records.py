"""Small files below one path, read and written by the driver or without a JVM."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from cleancut._storage.access import S3Access
from cleancut._storage.copying import copy_object
from cleancut._storage.objects import Place


class Records(Protocol):
    """Small files below one path, which say what is published there.

    Attributes:
        location: the path.
    """

    location: str

    def at(self, name: str) -> str:
        """The whole path of a name."""

    def read(self, name: str) -> bytes | None:
        """All bytes of a file; None if there is none."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, without it; none if there is no such directory.

        What lies deeper is told by the name of the directory that it is in.
        """

    def create(self, name: str, body: bytes) -> bool:
        """Makes a file that appears at once and whole, unless there is one of that name.

        Returns:
            Whether it was made.
        """

    def delete(self, name: str) -> None:
        """Removes a file, if it is there."""

    def remove(self, directory: str) -> None:
        """Removes a directory with all that is in it, if it is there."""


class PlainRecords:
    """Implements `Records` without a JVM.

    Attributes:
        location: the path.
    """

    def __init__(
        self,
        location: str,
        access: S3Access,
        *,
        objects: Place | None = None,
    ) -> None:
        # It reads with pyarrow, which no epoch that a driver writes needs.
        from cleancut._checkpoint.read.root import objects_at

        self.location = location
        found = objects_at(location, "", access) if objects is None else objects
        self._objects = found

    def at(self, name: str) -> str:
        return self._objects.path(name)

    def read(self, name: str) -> bytes | None:
        try:
            return self._objects.read(name)
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        found = (name.removeprefix(f"{directory}/") for name in self._objects.list(directory))
        return list(dict.fromkeys(name.partition("/")[0] for name in found))

    def sizes(self, directory: str) -> Mapping[str, int]:
        """The size in bytes of each file below a directory, by name."""
        return self._objects.list(directory)

    def create(self, name: str, body: bytes) -> bool:
        return self._objects.create(name, body)

    def copy(self, name: str, size: int, into: "PlainRecords") -> None:
        """Copies a file of this size, if it is there and the other one is not."""
        with suppress(FileNotFoundError):
            copy_object(self._objects, into._objects, name, size)

    def delete(self, name: str) -> None:
        self._objects.delete(name)

    def remove(self, directory: str) -> None:
        for name in self._objects.list(directory):
            self._objects.delete(name)
