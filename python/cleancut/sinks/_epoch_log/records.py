"""Small files below one path, which the driver accesses through the JVM or without one."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from cleancut._storage.access import S3Access
from cleancut._storage.copies import copy_object
from cleancut._storage.objects import Place


class Records(Protocol):
    """Small files below one path that define the published epochs.

    Attributes:
        location: the path.
    """

    location: str

    def at(self, name: str) -> str:
        """The full path of a name."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, relative to it; empty if it does not exist.

        Nested files are represented by the name of their subdirectory.
        """

    def create(self, name: str, body: bytes) -> bool:
        """Creates a file atomically, unless it exists.

        Returns:
            Whether it was created.
        """

    def delete(self, name: str) -> None:
        """Deletes a file, if it exists."""

    def remove(self, directory: str) -> None:
        """Deletes a directory with all its files, if it exists."""


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
        # Imported here, because the epochs of a driver need no pyarrow.
        from cleancut._checkpoint.read.root import objects_at

        self.location = location
        listed = objects_at(location, "", access) if objects is None else objects
        self._objects = listed

    def at(self, name: str) -> str:
        return self._objects.path(name)

    def read(self, name: str) -> bytes | None:
        try:
            return self._objects.read(name)
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        relative = (name.removeprefix(f"{directory}/") for name in self._objects.list(directory))
        return list(dict.fromkeys(name.partition("/")[0] for name in relative))

    def sizes(self, directory: str) -> Mapping[str, int]:
        """The size in bytes of each file below a directory, by name."""
        return self._objects.list(directory)

    def create(self, name: str, body: bytes) -> bool:
        return self._objects.create(name, body)

    def copy(self, name: str, size: int, into: "PlainRecords") -> None:
        """Copies a file of this size, if it exists and the target does not."""
        with suppress(FileNotFoundError):
            copy_object(self._objects, into._objects, name, size)

    def delete(self, name: str) -> None:
        self._objects.delete(name)

    def remove(self, directory: str) -> None:
        for name in self._objects.list(directory):
            self._objects.delete(name)
