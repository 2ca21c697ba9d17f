"""A bucket in memory, with checkpoints and channels as queries would write them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cleancut._checkpoint.read.root import Root, objects_at
from cleancut._format.layout import CUTS, FORMAT_OBJECT, ROOT
from cleancut._storage.access import S3Access
from cleancut._storage.objects import Place, Stored
from cleancut.errors import error_of
from cleancut.sinks._epoch_log.manifest import DataFile, Manifest, Owner
from cleancut.sinks._epoch_log.names import OWNER, Attempt, manifest_name
from tests.vectors.cut_encoder import encode_cut
from tests.vectors.cut_writer import cut_body, cut_name

Hook = Callable[[str, str], None]
# Source, channel, epoch and attempt.
Consumed = Mapping[str, tuple[str, int, str | None]]
_PREFIX = "spark.sql.streaming.stateStore.cleancut."


def nothing(_operation: str, _key: str) -> None:
    """A hook without effect."""


@dataclass
class Bucket:
    """Objects in memory.

    Attributes:
        data: the bytes of each object, by key.
        before: called before a request takes effect, with its operation and key.
        after: called after a request took effect, with its operation and key.
        requests: operation and key of each request.
    """

    data: dict[str, bytes] = field(default_factory=dict)
    before: Hook = nothing
    after: Hook = nothing
    requests: list[tuple[str, str]] = field(default_factory=list)
    prefix = "mem:"

    def ask(self, operation: str, key: str, effect: Callable[[], Any]) -> Any:
        """Executes a request, whose response or effect may be lost."""
        self.requests.append((operation, key))
        self.before(operation, key)
        answer = effect()
        self.after(operation, key)
        return answer

    def place(self, location: str) -> Place:
        """Returns the objects below a location."""
        return BucketPlace(self, location.removeprefix("mem:").strip("/"))


@dataclass
class BucketPlace:
    """Implements `Place`."""

    bucket: Bucket
    root: str

    def _key(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root else name

    def path(self, name: str) -> str:
        return f"mem:{self._key(name)}"

    def above(self) -> "BucketPlace":
        return BucketPlace(self.bucket, self.root.rpartition("/")[0])

    def list(self, below: str) -> Mapping[str, int]:
        return {name: stored.size for name, stored in self.details(below).items()}

    def details(self, below: str) -> Mapping[str, Stored]:
        prefix, skipped = self._key(f"{below}/"), len(self._key(""))

        def listed() -> dict[str, Stored]:
            matches = sorted(
                item for item in self.bucket.data.items() if item[0].startswith(prefix)
            )
            return {key[skipped:]: Stored(len(data), hash(data)) for key, data in matches}

        answer: dict[str, Stored] = self.bucket.ask("list", self._key(below), listed)
        return answer

    def read(self, name: str) -> bytes:
        key = self._key(name)
        data: bytes | None = self.bucket.ask("get", key, lambda: self.bucket.data.get(key))
        if data is None:
            raise FileNotFoundError(key)
        return data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self.read(name)[offset : offset + length]

    def create(self, name: str, data: bytes) -> bool:
        key = self._key(name)

        def made() -> bool:
            if key in self.bucket.data:
                return False
            self.bucket.data[key] = data
            return True

        return bool(self.bucket.ask("create", key, made))

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        return self.create(name, b"".join(parts))

    def delete(self, name: str) -> None:
        key = self._key(name)
        self.bucket.ask("delete", key, lambda: self.bucket.data.pop(key, None))


class RealBucket(Bucket):
    """A directory, or a prefix in a bucket, instead of the memory."""

    def __init__(self, prefix: str, access: S3Access = S3Access()) -> None:  # noqa: B008  # frozen
        super().__init__()
        self.prefix = f"{prefix}/"
        self._access = access
        self._client: Any = None

    def place(self, location: str) -> Place:
        objects = objects_at(location, "", self._access, self._client)
        self._client = getattr(objects, "client", None)
        return objects


@dataclass
class BucketRecords:
    """Implements `Records`: a channel in the bucket."""

    location: str
    objects: Place

    def at(self, name: str) -> str:
        return self.objects.path(name)

    def read(self, name: str) -> bytes | None:
        try:
            return self.objects.read(name)
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        names = (name.removeprefix(f"{directory}/") for name in self.objects.list(directory))
        return list(dict.fromkeys(name.partition("/")[0] for name in names))

    def create(self, name: str, body: bytes) -> bool:
        return self.objects.create(name, body)

    def delete(self, name: str) -> None:
        self.objects.delete(name)

    def remove(self, directory: str) -> None:
        for name in list(self.objects.list(directory)):
            self.objects.delete(name)


def open_root_in(bucket: Bucket) -> Callable[[str], Root]:
    """Returns a function that opens checkpoints in a bucket."""

    def opened(location: str) -> Root:
        place = BucketPlace(bucket, f"{location.removeprefix('mem:')}/{ROOT}")
        try:
            place.read(FORMAT_OBJECT)
        except FileNotFoundError as error:
            raise error_of("CLEANCUT_CHECKPOINT_NOT_FOUND", location=location) from error
        return Root(location, place)

    return opened


def open_records_in(bucket: Bucket) -> Callable[[str], BucketRecords]:
    """Returns a function that opens channels in a bucket."""
    return lambda location: BucketRecords(location, bucket.place(location))


def offsets_with(epoch: int, consumed: Consumed, act_source: int | None = None) -> str:
    """Returns an entry of Spark's offset log with sources that read channels."""
    conf = {} if act_source is None else {"offlineAct": "rollback", "offlineSource": act_source}
    metadata = {
        "batchWatermarkMs": 0,
        "batchTimestampMs": 1_790_000_000_000 + epoch,
        "conf": {f"{_PREFIX}{name}": str(value) for name, value in conf.items()},
    }
    lines = ["v1", json.dumps(metadata, separators=(",", ":"))]
    for number in range(max(map(int, consumed), default=-1) + 1):
        position = consumed.get(str(number))
        offset = (
            None
            if position is None
            else dict(zip(("channel", "epoch", "attempt"), position, strict=True))
        )
        lines.append("-" if offset is None else json.dumps(offset, separators=(",", ":")))
    return "\n".join(lines)


def write_cut(
    objects: Place,
    epoch: int,
    query_id: str,
    token: str,
    consumed: Consumed | None = None,
    *,
    act_source: int | None = None,
    written_ms: int = 1_790_000_000_000,
    segment: str | None = None,
) -> bool:
    """Writes the cut of an epoch at a checkpoint location; returns whether it was created."""
    fields: dict[str, Any] = {
        "queryId": query_id,
        "token": token,
        "writtenMs": written_ms,
        "offsets": offsets_with(epoch, consumed or {}, act_source),
        "segments": [] if segment is None else [segment],
    }
    note = json.dumps({"format": "cleancut", "version": 1, "queryId": query_id})
    if epoch == 0 or not objects.list(f"{ROOT}/{CUTS}"):
        objects.create(f"{ROOT}/{FORMAT_OBJECT}", note.encode())
    body = encode_cut(cut_body(epoch, **fields))
    return objects.create(f"{ROOT}/{cut_name(epoch)}", body)


def claim_channel(objects: Place, query_id: str, checkpoint: str) -> None:
    """Records a query as the owner of a channel."""
    objects.create(OWNER, Owner(query_id, checkpoint).encode())


def publish(
    objects: Place, epoch: int, token: str, query_id: str, rows: int = 1, run_id: str = "run"
) -> bool:
    """Publishes an epoch of a channel; returns whether it was created."""
    attempt = Attempt(epoch, token)
    manifest = Manifest(
        attempt=attempt,
        query_id=query_id,
        run_id=run_id,
        planned_ms=1_790_000_000_000 + epoch,
        published_ms=1_790_000_000_500 + epoch,
        rows=rows,
        files=(DataFile(f"{attempt.directory}/part-0.parquet", 100 * rows),) if rows else (),
        format="parquet",
        partition_by=(),
        schema='{"type":"struct","fields":[]}',
    )
    return objects.create(manifest_name(epoch), manifest.encode())
