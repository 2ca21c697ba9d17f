"""Opens checkpoints, channels and the dataflow by their locations."""

import os
from dataclasses import dataclass
from typing import Any

from cleancut._checkpoint.read.root import Root, objects_at, open_root
from cleancut._storage.access import S3Access
from cleancut._storage.objects import Place
from cleancut._storage.s3 import SCHEMES, open_s3
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.store import DataflowStore
from cleancut.sinks._epoch_log.records import PlainRecords


@dataclass
class Places:
    """Accesses all buckets with the same options and one client, whose creation takes time.

    Attributes:
        access: how to reach buckets.
    """

    access: S3Access
    _client: Any = None

    def store(self, location: str, machinery: Machinery) -> DataflowStore:
        """The dataflow at a location."""
        return DataflowStore(location, self._objects(location), machinery)

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
    """An absolute location, for other processes with other working directories."""
    text = os.fspath(location)
    return text if ":/" in text else os.path.abspath(text)  # noqa: PTH100  # keep links
