"""A query's checkpoint location as it looks from outside: a directory, or names in a bucket."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from demo.bucket import Bucket


class Location(Protocol):
    """What the supervisor wants to know of a checkpoint location."""

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""

    def names(self, directory: str) -> list[str]:
        """The names directly below a directory; none if it is not there."""

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of every file below a directory, at any depth."""


@dataclass(frozen=True)
class LocalLocation:
    """A directory on this machine."""

    path: Path

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""
        return spark_uri(self.path)

    def names(self, directory: str) -> list[str]:
        """The names directly below a directory; none if it is not there."""
        where = self.path / directory
        return [entry.name for entry in where.iterdir()] if where.is_dir() else []

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of every file below a directory, at any depth."""
        for where, _, names in os.walk(self.path / directory):
            # A temporary file counts under its final name, once it has been renamed.
            for file in (Path(where, name) for name in names if ".tmp" not in name):
                # Retention may delete it between the listing and this.
                with contextlib.suppress(FileNotFoundError):
                    yield str(file.relative_to(self.path)), file.stat().st_size


@dataclass(frozen=True)
class BucketLocation:
    """The objects of a bucket below a prefix, which ends with `/`."""

    bucket: Bucket
    prefix: str

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""
        return f"s3://{self.bucket.name}/{self.prefix.removesuffix('/')}"

    def names(self, directory: str) -> list[str]:
        """The names directly below a directory; none if it is not there."""
        return self.bucket.names(f"{self.prefix}{directory}/")

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of every file below a directory, at any depth."""
        for name, size in self.bucket.sizes(f"{self.prefix}{directory}/"):
            yield name.removeprefix(self.prefix), size


def spark_uri(path: Path) -> str:
    """Names a local path to Spark, which decodes no escapes; `Path.as_uri` would write some."""
    return f"file://{path}"
