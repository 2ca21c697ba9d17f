"""Checkpoints in a bucket read like checkpoints in a directory."""

import base64
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from moto.s3.models import s3_backends

from cleancut import Checkpoint, CorruptedError, RequestError, RetryableError
from cleancut._cli import main as _cli
from cleancut._storage.access import S3Access
from cleancut._storage.s3 import S3Objects, open_s3
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import BUCKET, S3Server, s3_server
from tests.unit.test_checkpoint import rows
from tests.unit.test_cli import run
from tests.unit.test_cuts import LAST
from tests.vectors.cut_writer import segment_name


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, server: S3Server) -> None:
    """Sets credentials and endpoint in the environment, without configuration files."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)


def test_cuts_in_a_bucket_are_those_of_the_directory(server: S3Server, four_cuts: CutFiles) -> None:
    location = server.put("q/cuts", four_cuts.objects())
    there, here = Checkpoint(location), Checkpoint(four_cuts.location)
    assert there.cuts() == here.cuts()
    assert there.stores() == here.stores()
    assert there.frames(0, 0) == here.frames(0, 0)
    assert there.cut(2).stores == here.cut(2).stores
    assert there.cut(2).path == f"{location}/cleancut/cuts/{2:020d}.cut"
    assert rows(there.state(0)) == LAST
    report, expected = there.verify().to_dict(), here.verify().to_dict()
    assert report == expected | {"location": location}
    assert report["ok"]


def test_level_0_in_a_bucket_is_that_of_the_directory(
    server: S3Server, two_partitions: CheckpointFiles
) -> None:
    odd = two_partitions.delta(1, [], 0, operator=3, store="a b").parent
    odd.rename(odd.with_name("a%20b"))
    objects = CutFiles(two_partitions).objects()
    location = server.put("q/level-0", objects)
    there, here = Checkpoint(location), Checkpoint(two_partitions.location)
    assert there.stores() == here.stores()
    assert there.frames(0, 0) == here.frames(0, 0)
    assert there.state(0) == here.state(0)
    assert there.verify().to_dict() == here.verify().to_dict() | {"location": location}


def test_a_checkpoint_may_be_the_root_of_a_bucket(server: S3Server, four_cuts: CutFiles) -> None:
    server.client.create_bucket(Bucket="whole-bucket")
    for name, data in four_cuts.objects().items():
        server.client.put_object(Bucket="whole-bucket", Key=name, Body=data)
    for location in ("s3://whole-bucket", "s3://whole-bucket/", "s3a://whole-bucket/"):
        assert len(Checkpoint(location).cuts()) == 4


def test_the_endpoint_and_region_may_be_given(
    server: S3Server, four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = server.put("q/given", four_cuts.objects())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    checkpoint = Checkpoint(location, endpoint=server.endpoint, region="eu-west-3")
    assert len(checkpoint.cuts()) == 4
    objects = checkpoint._root.objects
    assert isinstance(objects, S3Objects)
    assert objects.client.meta.region_name == "eu-west-3"


def test_an_unknown_option_of_access_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="'regoin' is not an option; the nearest is 'region'"):
        Checkpoint("s3://bucket/query", regoin="here")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("endpoint", "region", "style"),
    [
        (None, "us-east-1", "auto"),
        ("https://s3.eu-central-1.amazonaws.com", "us-east-1", "auto"),
        ("https://abc.r2.cloudflarestorage.com", "auto", "path"),
        ("http://127.0.0.1:9000", "us-east-1", "path"),
    ],
)
def test_defaults_follow_from_the_endpoint(
    endpoint: str | None, region: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    meta = open_s3("s3://bucket/q", "cleancut", S3Access({"endpoint": endpoint})).client.meta
    assert meta.region_name == region
    assert meta.config.s3["addressing_style"] == style


def test_a_region_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    meta = open_s3("s3://bucket/q", "cleancut", S3Access()).client.meta
    assert meta.region_name == "eu-north-1"


def test_listings_of_many_pages_are_complete() -> None:
    # Written directly into the server: two thousand requests would take seconds.
    backend = s3_backends["123456789012"]["aws"]
    for number in range(2003):
        backend.put_object(BUCKET, f"many/cleancut/cuts/{number:020d}.cut", b"")
    assert len(open_s3(f"s3://{BUCKET}/many", "cleancut", S3Access()).list("cuts")) == 2003


def _signed_requests(objects: S3Objects) -> list[Any]:
    """Returns the requests of a listing and a read, signed but not sent."""
    sent: list[Any] = []

    def record(request: Any, **_: object) -> None:
        sent.append(request)
        raise ConnectionAbortedError

    objects.client.meta.events.register("before-send.s3", record)
    for ask in (lambda: objects.list("cuts"), lambda: objects.read("x")):
        with pytest.raises(ConnectionAbortedError):
            ask()
    return sent


def _header(request: Any, name: str) -> str | None:
    value = request.headers.get(name)
    return value.decode() if isinstance(value, bytes) else value


def test_requests_name_the_payer() -> None:
    where = f"s3://{BUCKET}/q"
    for request in _signed_requests(open_s3(where, "cleancut", S3Access({"requester_pays": True}))):
        assert _header(request, "x-amz-request-payer") == "requester"
    for request in _signed_requests(open_s3(where, "cleancut", S3Access())):
        assert _header(request, "x-amz-request-payer") is None


def test_a_customer_key_is_sent_with_reads_and_printed_nowhere(tmp_path: Path) -> None:
    key = bytes(range(32))
    text = base64.b64encode(key).decode()
    (tmp_path / "key").write_text(f"{text}\n", encoding="ascii")
    access = S3Access({"encryption": f"customer:{tmp_path / 'key'}"})
    objects = open_s3(f"s3://{BUCKET}/q", "cleancut", access)
    listing, reading = _signed_requests(objects)
    prefix = "x-amz-server-side-encryption-customer"
    assert _header(reading, f"{prefix}-algorithm") == "AES256"
    assert _header(reading, f"{prefix}-key") == text
    digest = base64.b64encode(hashlib.md5(key).digest()).decode()
    assert _header(reading, f"{prefix}-key-MD5") == digest
    assert not any(name.lower().startswith(prefix) for name in listing.headers)
    assert text not in repr(objects)
    assert repr(key) not in repr(objects)


def test_a_file_without_a_key_is_named_but_not_printed(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(base64.b64encode(b"sixteen secrets!"))
    with pytest.raises(RequestError, match="16 bytes") as raised:
        S3Access({"encryption": f"customer:{tmp_path / 'key'}"}).of_reads()
    assert "sixteen" not in str(raised.value)


def test_requests_go_to_the_access_point_instead_of_the_bucket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    arn = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"
    objects = open_s3(
        "s3://name/q", "cleancut", S3Access({"region": "eu-west-1", "access_point": arn})
    )
    for request in _signed_requests(objects):
        host = urlsplit(request.url).hostname
        assert host == "mine-123456789012.s3-accesspoint.eu-west-1.amazonaws.com"
    assert objects.path("x") == "s3://name/q/cleancut/x"


def test_each_side_uses_the_credentials_of_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = tmp_path / "credentials"
    profiles.write_text("[second]\naws_access_key_id = other\naws_secret_access_key = hidden\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    for profile, key in ((None, "access"), ("second", "other")):
        objects = open_s3(f"s3://{BUCKET}/q", "cleancut", S3Access({"profile": profile}))
        for request in _signed_requests(objects):
            assert f"Credential={key}/" in (_header(request, "Authorization") or "")
        assert "hidden" not in repr(objects)
    with pytest.raises(RequestError, match="third") as raised:
        Checkpoint(f"s3://{BUCKET}/q", profile="third")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"


def test_parts_of_objects_end_where_the_object_ends(server: S3Server) -> None:
    server.put("parts", {"cleancut/x": b"0123456789"})
    objects = open_s3(f"s3://{BUCKET}/parts", "cleancut", S3Access())
    assert objects.read_range("x", 2, 3) == b"234"
    assert objects.read_range("x", 8, 9) == b"89"
    assert objects.read_range("x", 10, 9) == b""
    with pytest.raises(FileNotFoundError):
        objects.read_range("y", 0, 1)


def test_corruption_in_a_bucket_is_reported_with_its_object(
    server: S3Server, four_cuts: CutFiles
) -> None:
    location = server.put("q/damaged", four_cuts.objects())
    name = f"cleancut/{segment_name(1)}"
    server.change(location, name, None)
    with pytest.raises(CorruptedError, match=f"{location}/{name} is corrupted: it is missing"):
        Checkpoint(location).state(0, at=1)
    report = Checkpoint(location).verify()
    assert [(p.object, p.affects) for p in report.problems] == [(f"{location}/{name}", (2, 3, 4))]


def test_the_command_reads_a_bucket(
    server: S3Server,
    four_cuts: CutFiles,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = server.put("q/command", four_cuts.objects())
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    reach = ["--endpoint", server.endpoint, "--region", "us-east-1"]
    for command in (["ls"], ["show"], ["state", "--operator", "0"], ["verify"]):
        status, out, err = run(capsys, *command, location, *reach, "--json")
        assert status == _cli.OK, err
        assert json.loads(out)


@pytest.mark.parametrize("location", ["s3://", "s3:///q", "s3://b/q", "s3://bucket/a//b"])
def test_an_invalid_location_is_refused(location: str) -> None:
    with pytest.raises(RequestError) as raised:
        Checkpoint(location)
    assert raised.value.error_id == "CLEANCUT_OBJECT_LOCATION_INVALID"
    assert raised.value.params["location"] == location


def test_a_bucket_without_a_checkpoint_is_reported(server: S3Server) -> None:
    with pytest.raises(RequestError) as raised:
        Checkpoint(f"s3://{BUCKET}/nothing")
    assert raised.value.error_id == "CLEANCUT_CHECKPOINT_NOT_FOUND"
    assert f"s3://{BUCKET}/nothing/cleancut/format.json does not exist" in str(raised.value)


def test_a_missing_bucket_is_reported() -> None:
    with pytest.raises(RequestError) as raised:
        Checkpoint("s3://no-such-bucket/q")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"
    assert "NoSuchBucket" in str(raised.value)


def test_missing_credentials_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(RequestError) as raised:
        Checkpoint(f"s3://{BUCKET}/q")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"
    assert "Unable to locate credentials" in str(raised.value)


def test_a_missing_boto3_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(RequestError) as raised:
        Checkpoint("s3://bucket/q")
    assert raised.value.error_id == "CLEANCUT_DEPENDENCY_MISSING"
    assert "whl[s3]'`" in str(raised.value)


def test_a_wrong_endpoint_is_reported() -> None:
    with pytest.raises(RequestError) as raised:
        Checkpoint("s3://bucket/q", endpoint="nonsense")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], list[str]]]:
    """Runs a server that answers requests with the given function, and records their paths."""
    servers: list[Any] = []
    # boto3 waits up to 20 s between retries.
    monkeypatch.setattr("botocore.retryhandler.delay_exponential", lambda *_: 0)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", no_delay)

    def start(answer: Answer) -> list[str]:
        paths: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=running.serve_forever, daemon=True).start()
        servers.append(running)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{running.server_port}")
        return paths

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def no_delay(*_: object) -> float:
    return 0


def refusing(status: int, code: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        body = f"<Error><Code>{code}</Code><Message>As specified.</Message></Error>".encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests")]
)
def test_a_failing_store_is_retried_and_then_reported(
    answering: Callable[[Answer], list[str]], status: int, code: str
) -> None:
    paths = answering(refusing(status, code))
    with pytest.raises(RetryableError) as raised:
        Checkpoint("s3://bucket/q")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_UNAVAILABLE"
    assert raised.value.params["target"] == "s3://bucket/q/cleancut/format.json"
    assert f"As specified. ({status} {code})" in str(raised.value)
    assert raised.value.params["attempts"] == str(len(paths)) == "5"


@pytest.mark.parametrize("what", ["cuts", "segments", "stores"])
def test_verify_does_not_report_a_failing_store_as_corruption(
    four_cuts: CutFiles, answering: Callable[[Answer], list[str]], what: str
) -> None:
    four_cuts.files.delta(1, [], 0)
    objects = four_cuts.objects()
    paths = answering(serving(objects, refusing(503, "SlowDown"), f"/cleancut/{what}/"))
    with pytest.raises(RetryableError) as raised:
        Checkpoint("s3://bucket/q").verify()
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_UNAVAILABLE"
    assert any(f"/cleancut/{what}/" in path for path in paths)


def serving(objects: Mapping[str, bytes], failing: Answer, what: str) -> Answer:
    """Serves the objects of `s3://bucket/q`, but fails for names that contain the given part."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        if what in path:
            return failing(request)
        if query:
            prefix = parse_qs(query)["prefix"][0]
            names = [name for name in objects if f"q/{name}".startswith(prefix)]
            contents = "".join(
                f"<Contents><Key>q/{name}</Key><LastModified>2026-01-01T00:00:00Z</LastModified>"
                f"<Size>{len(objects[name])}</Size></Contents>"
                for name in names
            )
            body = f"<ListBucketResult>{contents}</ListBucketResult>".encode()
        else:
            body = objects[path.removeprefix("/bucket/q/")]
            part = request.headers.get("Range")
            if part is not None:
                first, last = map(int, part.removeprefix("bytes=").split("-"))
                body = body[first : last + 1]
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
        return None

    return answer


def test_a_refused_request_is_not_retried(
    answering: Callable[[Answer], list[str]],
) -> None:
    paths = answering(refusing(403, "AccessDenied"))
    with pytest.raises(RequestError) as raised:
        Checkpoint("s3://bucket/q")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"
    assert "As specified. (403 AccessDenied)" in str(raised.value)
    assert paths == ["/bucket/q/cleancut/format.json"]


def cut_short(times: int, body: bytes) -> Answer:
    """Serves bodies whose connection breaks, the given number of times."""
    left = [times]

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        left[0] -= 1
        request.wfile.write(body[:5] if left[0] >= 0 else body)

    return answer


def test_an_interrupted_body_is_read_again(answering: Callable[[Answer], list[str]]) -> None:
    note = json.dumps({"format": "cleancut", "version": 1}).encode()
    paths = answering(cut_short(2, note))
    assert Checkpoint("s3://bucket/q").location == "s3://bucket/q"
    assert len(paths) == 3


def test_a_repeatedly_interrupted_body_is_reported(
    answering: Callable[[Answer], list[str]],
) -> None:
    answering(cut_short(99, b"0123456789"))
    with pytest.raises(RetryableError) as raised:
        Checkpoint("s3://bucket/q")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_UNAVAILABLE"


def test_an_unreachable_store_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", no_delay)
    with pytest.raises(RetryableError, match="Could not connect") as raised:
        Checkpoint("s3://bucket/q", endpoint="http://127.0.0.1:1")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_UNAVAILABLE"
