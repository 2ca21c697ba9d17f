"""Finds checkpoints, channels and the dataflow itself, wherever they lie."""

import os
from dataclasses import dataclass

from cleancut._dataflow.machinery import Machinery
from cleancut._dataflow.store import FlowStore
from cleancut._reading.root import Root, objects_at, open_root
from cleancut._storage.s3 import SCHEMES, S3Access
from cleancut.sinks._files.directory import PlainRecords


@dataclass(frozen=True)
class Places:
    """All that is in buckets is asked in one way.

    Attributes:
        access: how a bucket is asked.
    """

    access: S3Access

    def _access(self, location: str) -> S3Access:
        return self.access if location.startswith(SCHEMES) else S3Access()

    def store(self, location: str, machinery: Machinery) -> FlowStore:
        """The dataflow at a location."""
        objects = objects_at(location, "", self._access(location))
        return FlowStore(location, objects, machinery)

    def root(self, location: str) -> Root:
        """A checkpoint. Raises as `open_root` does."""
        return open_root(location, self._access(location))

    def records(self, location: str) -> PlainRecords:
        """A channel."""
        return PlainRecords(location, None, None, access=self._access(location))


def absolute(location: str | os.PathLike[str]) -> str:
    """A location as it is noted: other processes have other working directories."""
    text = os.fspath(location)
    return text if ":/" in text else os.path.abspath(text)  # noqa: PTH100  # keep links
