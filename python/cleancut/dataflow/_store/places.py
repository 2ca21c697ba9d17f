"""Finds checkpoints, channels and the dataflow itself, wherever they lie."""

import os
from dataclasses import dataclass
from typing import Any

from cleancut._checkpoint.read.root import Root, objects_at, open_root
from cleancut._storage.access import S3Access
from cleancut._storage.objects import Place
from cleancut._storage.s3 import SCHEMES, open_s3
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.store import FlowStore
from cleancut.sinks._epoch_log.records import PlainRecords


@dataclass
class Places:
    """All that is in buckets is asked in one way, and by one client: to make one takes some time.

    Attributes:
        access: how a bucket is asked.
    """

    access: S3Access
    _client: Any = None

    def store(self, location: str, machinery: Machinery) -> FlowStore:
        """The dataflow at a location."""
        return FlowStore(location, self._objects(location), machinery)

    def root(self, location: str) -> Root:
        """A checkpoint. Raises as `open_root` does."""
        if not location.startswith(SCHEMES):
            return open_root(location)
        return open_root(location, self.access, self._client_for(location))

    def records(self, location: str) -> PlainRecords:
        """A channel."""
        return PlainRecords(location, self.access, objects=self._objects(location))

    def _objects(self, location: str) -> Place:
        if not location.startswith(SCHEMES):
            return objects_at(location, "", S3Access())
        return objects_at(location, "", self.access, self._client_for(location))

    def _client_for(self, location: str) -> Any:
        if self._client is None:
            self._client = open_s3(location, "", self.access).client
        return self._client


def absolute(location: str | os.PathLike[str]) -> str:
    """A location as it is noted: other processes have other working directories."""
    text = os.fspath(location)
    return text if ":/" in text else os.path.abspath(text)  # noqa: PTH100  # keep links
