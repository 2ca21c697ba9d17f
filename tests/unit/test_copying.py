"""Copies of large objects: in parts, within the limits of S3, created if absent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from botocore.exceptions import ClientError

from cleancut import Checkpoint
from cleancut._checkpoint.read.root import open_root
from cleancut._checkpoint.replicate.replicas import replicate
from cleancut._storage import copies
from cleancut._storage.access import S3Access
from cleancut._storage.copies import copy_object, parts_of
from cleancut._storage.directory import Directory
from cleancut._storage.objects import Place
from cleancut._storage.s3 import S3Objects, open_s3
from cleancut.errors import RequestError
from tests.unit.cut_files import CutFiles
from tests.unit.memory_objects import MemoryObjects
from tests.unit.s3_server import BUCKET, S3Server, s3_server

# S3's minimum for a part that is not the last one; a single request copies at most 5 GiB.
PART = 5 << 20
LIMIT = 6 << 20
DATA = bytes(range(251)) * (2 * PART // 251) + b"the end" * 99
NAME = "segments/00000000000000000007/x.seg"


class Limited:
    """A client of a store that refuses large objects in one request, as S3 does from 5 GiB on."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: list[str] = []
        # The replacement of the call with this name.
        self.failing: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method) or name == "exceptions":
            return method

        def called(*args: Any, **given: Any) -> Any:
            self.calls.append(name)
            if name in self.failing:
                raise self.failing[name]
            if len(given.get("Body", b"")) > LIMIT:
                raise error("EntityTooLarge", 400)
            return method(*args, **given)

        return called


def error(code: str, status: int) -> ClientError:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PutObject")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART_BYTES", PART)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> S3Objects:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    place = f"s3://{BUCKET}/{request.node.name}"
    client = Limited(
        open_s3(place, "", S3Access({"endpoint": server.endpoint, "region": "us-east-1"})).client
    )
    return open_s3(
        place, "", S3Access({"endpoint": server.endpoint, "region": "us-east-1"}), client
    )


def uploads(objects: S3Objects) -> list[Any]:
    """Returns incomplete uploads, which are billed like objects."""
    listed = objects.client.list_multipart_uploads(Bucket=BUCKET, Prefix=objects.root)
    return list(listed.get("Uploads", []))


def test_a_large_object_is_copied_in_parts(bucket: S3Objects) -> None:
    """In one request the store refuses it: the copy of the checkpoint failed each time."""
    with pytest.raises(RequestError, match="EntityTooLarge"):
        bucket.create(NAME, DATA)
    source = MemoryObjects({NAME: DATA, "small": b"s" * PART})
    assert copy_object(source, bucket, NAME, len(DATA)) == len(DATA)
    assert bucket.read(NAME) == DATA
    assert bucket.client.calls.count("upload_part") == 3
    assert copy_object(source, bucket, "small", PART) == PART
    assert bucket.client.calls.count("upload_part") == 3
    assert uploads(bucket) == []


def test_an_existing_object_is_kept(bucket: S3Objects) -> None:
    assert bucket.create(NAME, b"first")
    assert not bucket.create_in_parts(NAME, iter((b"second",)))
    assert bucket.read(NAME) == b"first"
    assert uploads(bucket) == []


@pytest.mark.parametrize("call", ["upload_part", "complete_multipart_upload"])
def test_an_upload_that_fails_leaves_nothing(bucket: S3Objects, call: str) -> None:
    bucket.client.failing[call] = error("AccessDenied", 403)
    with pytest.raises(RequestError, match="AccessDenied") as raised:
        bucket.create_in_parts(NAME, iter((b"x" * PART, b"y")))
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"
    assert uploads(bucket) == []
    with pytest.raises(FileNotFoundError):
        bucket.read(NAME)


@pytest.mark.parametrize("kind", ["bucket", "directory"])
def test_a_source_deleted_during_the_copy_leaves_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """Garbage collection may delete a segment during its copy."""

    class Deleting(MemoryObjects):
        def read_range(self, name: str, offset: int, length: int) -> bytes:
            if offset:
                raise FileNotFoundError(name)
            return super().read_range(name, offset, length)

    target: Place = (
        request.getfixturevalue("bucket")
        if kind == "bucket"
        else Directory(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    )
    with pytest.raises(FileNotFoundError):
        copy_object(Deleting({NAME: DATA}), target, NAME, len(DATA))
    assert target.list("segments") == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    if kind == "bucket":
        assert isinstance(target, S3Objects)
        assert uploads(target) == []


def test_a_shorter_source_is_refused() -> None:
    source = MemoryObjects({NAME: DATA[:-1]})
    with pytest.raises(FileNotFoundError, match="ends before byte"):
        list(parts_of(source, NAME, len(DATA)))


def test_the_number_of_parts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART_BYTES", 10)
    monkeypatch.setattr(copies, "MAX_PARTS", 4)
    parts = list(parts_of(MemoryObjects({NAME: DATA[:103]}), NAME, 103))
    assert [len(ranges) for ranges in parts] == [26, 26, 26, 25]
    assert b"".join(parts) == DATA[:103]


def test_a_checkpoint_with_large_segments_is_replicated(
    bucket: S3Objects, four_cuts: CutFiles, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = four_cuts.root / "segments" / f"{3:020d}" / f"driver-{'9' * 32}.seg"
    large.parent.mkdir(exist_ok=True)
    large.write_bytes(DATA)
    done = replicate(open_root(four_cuts.location), bucket, bucket.path(""), read_only=False)
    assert done.bytes > len(DATA)
    assert bucket.read(f"cleancut/{large.relative_to(four_cuts.root)}") == DATA
    assert bucket.client.calls.count("upload_part") == 3
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert len(Checkpoint(bucket.path("").rstrip("/")).cuts()) == 4
