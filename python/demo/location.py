"""A query's checkpoint location for an external reader: a directory, or names in a bucket."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from cleancut._storage.access import S3Access
from cleancut._storage.s3 import S3Objects, open_s3


class Location(Protocol):
    """The supervisor's view of a checkpoint location."""

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""

    @property
    def name(self) -> str:
        """The location for `cleancut.Checkpoint`."""

    def names(self, directory: str) -> list[str]:
        """Returns the names directly below a directory; none if it does not exist."""

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Returns name and size in bytes of each file below a directory, at any depth."""


@dataclass(frozen=True)
class LocalLocation:
    """A directory on this machine."""

    path: Path

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""
        return spark_uri(self.path)

    @property
    def name(self) -> str:
        """The location for `cleancut.Checkpoint`."""
        return str(self.path)

    def names(self, directory: str) -> list[str]:
        """Returns the names directly below a directory; none if it does not exist."""
        where = self.path / directory
        return [entry.name for entry in where.iterdir()] if where.is_dir() else []

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Returns name and size in bytes of each file below a directory, at any depth."""
        for where, _, names in os.walk(self.path / directory):
            # A temporary file counts under its final name, once it has been renamed.
            for file in (Path(where, name) for name in names if ".tmp" not in name):
                # Retention may delete it between the listing and this.
                with contextlib.suppress(FileNotFoundError):
                    yield str(file.relative_to(self.path)), file.stat().st_size


@dataclass(frozen=True)
class BucketLocation:
    """Names in a bucket, read while the query writes them.

    Methods that read the store raise CleancutError if it does not answer.

    Attributes:
        checkpoints: `s3://bucket/prefix`, with a prefix for each query.
        query: the query of the location.
        endpoint: URL of the store; None is AWS, or the endpoint of the environment.
    """

    checkpoints: str
    query: str
    endpoint: str | None

    @property
    def uri(self) -> str:
        """The option `checkpointLocation` of the query."""
        return f"{self.checkpoints.rstrip('/')}/{self.query}"

    @property
    def name(self) -> str:
        """The location for `cleancut.Checkpoint`."""
        return self.uri

    def names(self, directory: str) -> list[str]:
        """Returns the names directly below a directory; none if it does not exist."""
        listed = self._objects().list(directory)
        return list({name.removeprefix(f"{directory}/").split("/")[0] for name in listed})

    def sizes(self, directory: str) -> Iterator[tuple[str, int]]:
        """Returns name and size in bytes of each file below a directory, at any depth."""
        yield from self._objects().list(directory).items()

    def _objects(self) -> S3Objects:
        return _opened(self.checkpoints, self.query, self.endpoint)


@cache
def _opened(checkpoints: str, query: str, endpoint: str | None) -> S3Objects:
    return open_s3(checkpoints, query, S3Access({"endpoint": endpoint}))


def spark_uri(path: Path) -> str:
    """Returns a URI for Spark, which decodes no escapes; `Path.as_uri` would write some."""
    return f"file://{path}"
