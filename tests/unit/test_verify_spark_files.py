"""`verify` reports each problem of Spark's own files, without which no query can continue."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from zlib import crc32

import pytest

from cleancut import Checkpoint, CleancutError
from cleancut._checkpoint.verify.spark_entries import missing_of_operators, missing_of_sources
from cleancut._cli.main import main
from cleancut._storage.object_metadata import crc32c, place_of
from cleancut._storage.side_files import side_file_of
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import BUCKET, S3Server, s3_server
from tests.vectors.segment_cases import flipped

CORRUPTED = "CLEANCUT_CUT_CORRUPTED"
MISSING = "CLEANCUT_METADATA_MISSING"
# Cleancut's files without a checksum in their content.
OWN = ("cleancut/format.json", "cleancut/owners/00000000000000000001.json")
FILES = (
    "metadata",
    "offsets/3",
    "offsets/2",
    "commits/2",
    "sources/0/3",
    "sources/0/0",
    "state/0/_metadata/metadata",
    "state/0/0/_metadata/schema",
)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    return server


@pytest.fixture
def owned(four_cuts: CutFiles) -> CutFiles:
    """The checkpoint of a run that has recorded its end."""
    note = {"format": "cleancut", "version": 1, "queryId": "q"}
    (four_cuts.location / "cleancut/format.json").write_text(json.dumps(note))
    home = four_cuts.location / "cleancut/owners"
    home.mkdir()
    (home / f"{1:020}.json").write_text('{"generation":1,"runId":"r1","host":"h","startedMs":7}')
    (home / f"{1:020}.ended").write_text('{"endedMs":8}')
    return four_cuts


def flipped_last(data: bytes) -> bytes:
    """Flips a bit of the last letter or digit, so that the format is still known."""
    return flipped(data, max(at for at, byte in enumerate(data) if chr(byte).isalnum()))


def problems_of(location: object) -> list[tuple[str, str]]:
    report = Checkpoint(str(location)).verify()
    root = str(location).removesuffix("/")
    return [(p.object.removeprefix(f"{root}/"), p.error_id) for p in report.problems]


def named(name: str) -> list[tuple[str, str]]:
    return [(name, MISSING if name == "metadata" else CORRUPTED)]


def with_side_file(path: Path) -> None:
    """Writes a checksum of each 512 bytes, as Hadoop's local file system does."""
    data = path.read_bytes()
    sums = [crc32(data[at : at + 512]) for at in range(0, len(data), 512)]
    side = b"crc\0" + pack(f">i{len(sums)}I", 512, *sums)
    Path(side_file_of(str(path))).write_bytes(side)


def test_the_files_of_a_query_are_intact(four_cuts: CutFiles) -> None:
    report = Checkpoint(four_cuts.location).verify()
    assert report.ok, report
    assert report.spark_files == 3 + 3 * 4
    assert "15 intact files of Spark" in str(report)


def test_a_deleted_last_cut_is_named(four_cuts: CutFiles) -> None:
    cuts = four_cuts.location / "cleancut/cuts"
    last = max(cuts.glob("*.cut"))
    (four_cuts.location / "commits/3").write_bytes(b"v1\n{}")
    last.unlink()
    name = str(last.relative_to(four_cuts.location))
    assert (name, CORRUPTED) in problems_of(four_cuts.location)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name: str, four_cuts: CutFiles) -> None:
    (four_cuts.location / name).unlink()
    # An entry of the commit log that a cut contains is written again.
    assert problems_of(four_cuts.location) == named(name)


@pytest.mark.parametrize("name", FILES)
def test_an_emptied_file_is_named(name: str, four_cuts: CutFiles) -> None:
    (four_cuts.location / name).write_bytes(b"")
    assert problems_of(four_cuts.location) == [(name, CORRUPTED)]


@pytest.mark.parametrize("name", FILES + OWN)
def test_a_flipped_bit_is_found_by_the_checksum_file(name: str, owned: CutFiles) -> None:
    path = owned.location / name
    with_side_file(path)
    report = Checkpoint(owned.location).verify()
    assert (report.problems, report.spark_files) == ((), 3 + 3 * 4)
    path.write_bytes(flipped_last(path.read_bytes()))
    assert problems_of(owned.location) == [(name, CORRUPTED)]


def test_an_owner_without_content_is_named(owned: CutFiles) -> None:
    name = OWN[1]
    (owned.location / name).write_bytes(b"")
    assert problems_of(owned.location) == [(name, CORRUPTED)]


@pytest.mark.parametrize(
    ("one", "other"),
    [("offsets/1", "offsets/2"), ("commits/1", "commits/2"), ("sources/0/1", "sources/0/2")],
)
def test_exchanged_entries_are_both_named(one: str, other: str, four_cuts: CutFiles) -> None:
    exchange(four_cuts.location / one, four_cuts.location / other)
    assert problems_of(four_cuts.location) == [(one, CORRUPTED), (other, CORRUPTED)]


def test_exchanged_operators_are_both_named(four_cuts: CutFiles) -> None:
    home = four_cuts.location / "state"
    shutil.copytree(home / "0", home / "1")
    path = home / "1/_metadata/metadata"
    path.write_text(path.read_text().replace('"operatorId": 0', '"operatorId": 1'))
    assert problems_of(four_cuts.location) == []
    exchange(home / "0/_metadata/metadata", path)
    names = [f"state/{operator}/_metadata/metadata" for operator in (0, 1)]
    assert problems_of(four_cuts.location) == [(name, CORRUPTED) for name in names]


def test_the_id_of_another_query_is_named(four_cuts: CutFiles) -> None:
    (four_cuts.location / "metadata").write_text('{"id":"another"}', encoding="utf-8")
    assert problems_of(four_cuts.location) == [("metadata", CORRUPTED)]


def test_entries_that_retention_has_deleted_are_not_missed(four_cuts: CutFiles) -> None:
    for epoch in (0, 1):
        (four_cuts.location / f"offsets/{epoch}").unlink()
        four_cuts.cut_path(epoch).unlink()
    (four_cuts.location / "commits/0").unlink()
    assert Checkpoint(four_cuts.location).verify().ok


def test_a_compacted_log_of_a_source_needs_no_older_entries(four_cuts: CutFiles) -> None:
    log = four_cuts.location / "sources/0"
    (log / "2.compact").write_text('v1\n{"batchId":0}\n{"batchId":2}', encoding="utf-8")
    for number in (0, 1, 2):
        (log / f"{number}").unlink()
    assert problems_of(four_cuts.location) == []
    (log / "2.compact").write_text('v1\n{"batchId":0}\n{"batchId":3}', encoding="utf-8")
    assert problems_of(four_cuts.location) == [("sources/0/2.compact", CORRUPTED)]


OF_ONE = b'v1\n{}\n{"logOffset":2}\n{"logOffset":2}'
OF_TWO = b'v1\n{}\n{"logOffset":2}\n{"logOffset":2}\n{"logOffset":1}'
OF_MAP = b'v2\n{}\n1:{"logOffset":2}'


@pytest.mark.parametrize(
    ("offsets", "logs"),
    [(OF_ONE, "012"), (OF_MAP, "012"), (OF_TWO, "012 01"), (OF_ONE, "2.compact")],
)
def test_a_source_that_is_read_twice_has_one_log(offsets: bytes, logs: str) -> None:
    assert missing_of_sources(entries_in(logs), offsets, epoch=3) == []


@pytest.mark.parametrize(
    ("offsets", "logs", "missing"),
    [
        (OF_ONE, "01", ["sources/0/2", "sources/1/0", "sources/1/1", "sources/1/2"]),
        (OF_ONE, "02", ["sources/0/1", "sources/1/0", "sources/1/1", "sources/1/2"]),
        # Each source has a log, so that none is shared.
        (OF_ONE, "012 01", ["sources/1/2"]),
        (OF_TWO, "012 1", ["sources/1/0", "sources/1/2", "sources/2/0", "sources/2/1"]),
        # Two sources with different offsets cannot have one log.
        (OF_TWO, "012", [*(f"sources/1/{n}" for n in range(3)), "sources/2/0", "sources/2/1"]),
    ],
)
def test_missing_entries_are_named_if_a_source_is_read_twice(
    offsets: bytes, logs: str, missing: list[str]
) -> None:
    problems = missing_of_sources(entries_in(logs), offsets, epoch=3)
    assert [name for name, _ in problems] == missing


def entries_in(logs: str) -> list[str]:
    """The names of entries, given as their numbers for each log."""
    return [
        f"sources/{log}/{entry}"
        for log, entries in enumerate(logs.split())
        for entry in ([entries] if "." in entries else entries)
    ]


def test_files_of_another_state_store_are_ignored(four_cuts: CutFiles) -> None:
    (four_cuts.location / "state/0/0/1.zip").write_bytes(b"")
    assert problems_of(four_cuts.location) == []


def test_state_without_a_query_is_reported(four_cuts: CutFiles) -> None:
    for name in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(four_cuts.location / name)
    (four_cuts.location / "metadata").unlink()
    assert problems_of(four_cuts.location) == [("metadata", MISSING)]


def written(server: S3Server, four_cuts: CutFiles, prefix: str) -> str:
    """Writes the checkpoint to a bucket like Cleancut's client."""
    for name, data in four_cuts.objects().items():
        key = f"{prefix}/{name}"
        metadata = {"cleancut-place": place_of(key), "cleancut-crc32c": f"{crc32c(data):08x}"}
        server.client.put_object(Bucket=BUCKET, Key=key, Body=data, Metadata=metadata)
    return f"s3://{BUCKET}/{prefix}"


@pytest.mark.parametrize("name", FILES)
def test_exchanged_objects_of_a_bucket_are_named(
    name: str, bucket: S3Server, owned: CutFiles
) -> None:
    prefix = f"state/0/{name.replace('/', '-')}"
    location = written(bucket, owned, prefix)
    assert problems_of(location) == []
    other = FILES[FILES.index(name) - 1]
    copy(bucket, f"{prefix}/{other}", f"{prefix}/{name}")
    assert problems_of(location) == [(name, CORRUPTED)]


@pytest.mark.parametrize("name", FILES + OWN)
def test_flipped_objects_of_a_bucket_are_named(
    name: str, bucket: S3Server, owned: CutFiles
) -> None:
    prefix = f"state/0/flipped-{name.replace('/', '-')}"
    location = written(bucket, owned, prefix)
    data = (owned.location / name).read_bytes()
    metadata = {"cleancut-crc32c": f"{crc32c(data):08x}"}
    body = flipped_last(data)
    bucket.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=body, Metadata=metadata)
    assert problems_of(location) == [(name, CORRUPTED)]


def test_exchanged_segments_of_a_bucket_are_both_named(
    bucket: S3Server, four_cuts: CutFiles
) -> None:
    location = written(bucket, four_cuts, "exchanged/q")
    first, second = sorted(name for name in four_cuts.objects() if "/segments/" in name)[:2]
    for source, target in ((first, "kept"), (second, first), ("kept", second)):
        copy(bucket, f"exchanged/q/{source}", f"exchanged/q/{target}")
    assert {name for name, _ in problems_of(location)} == {first, second}


def test_a_copy_of_a_bucket_at_another_prefix_is_intact(
    bucket: S3Server, four_cuts: CutFiles
) -> None:
    written(bucket, four_cuts, "here/q")
    for name in four_cuts.objects():
        copy(bucket, f"here/q/{name}", f"state/3/there/{name}")
    assert problems_of(f"s3://{BUCKET}/state/3/there") == []


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_lost_metadata_is_restored_from_a_cut(
    place: str, bucket: S3Server, four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    path = four_cuts.location / "metadata"
    before = path.read_text(encoding="utf-8").replace(" ", "")
    path.unlink()
    location = str(four_cuts.location)
    if place == "bucket":
        location = bucket.put("lost", four_cuts.objects())
    assert main(["verify", location]) == 1
    assert f"restore-metadata {location}" in capsys.readouterr().out
    assert main(["restore-metadata", location]) == 0
    assert problems_of(location) == []
    # Existing files are kept.
    assert main(["restore-metadata", location, "--json"]) == 0
    if place == "directory":
        assert path.read_text(encoding="utf-8") == before
        path.write_text('{"id":"another"}', encoding="utf-8")
        assert main(["restore-metadata", location]) == 1


def test_metadata_is_restored_from_the_last_intact_cut(four_cuts: CutFiles) -> None:
    path = four_cuts.location / "metadata"
    before = path.read_text(encoding="utf-8").replace(" ", "")
    path.unlink()
    four_cuts.change(four_cuts.cut_path(3), lambda data: data[:-1])
    Checkpoint(four_cuts.location).restore_metadata()
    assert path.read_text(encoding="utf-8") == before


def test_metadata_without_a_cut_cannot_be_restored(two_partitions: CheckpointFiles) -> None:
    with pytest.raises(CleancutError) as refused:
        Checkpoint(two_partitions.location).restore_metadata()
    assert refused.value.error_id == "CLEANCUT_STATE_NOT_FOUND"


def test_a_join_of_format_1_has_no_files_with_schemas() -> None:
    metadata = "state/0/_metadata/metadata"
    info = {"operatorId": 0, "operatorName": "symmetricHashJoin"}
    operator = {"operatorInfo": info, "stateStoreInfo": [{"storeName": "left-keyToNumValues"}]}
    entries = {metadata: f"v1\n{json.dumps(operator)}".encode()}

    def missing(state_format: int) -> list[str]:
        conf = {"spark.sql.streaming.join.stateFormatVersion": str(state_format)}
        offsets = f"v1\n{json.dumps({'conf': conf})}\n-".encode()
        return [name for name, _ in missing_of_operators(entries, [0], entries, offsets)]

    assert missing(1) == []
    assert missing(2) == ["state/0/0/left-keyToNumValues/_metadata/schema"]


@pytest.mark.parametrize(
    "name",
    [
        "metadata",
        "offsets/7",
        "commits/7",
        "sources/0/9.compact",
        "state/0/_metadata/metadata",
        "state/0/_metadata/v2/0",
        "state/0/_stateSchema/default/0_ab",
        "state/0/0/_metadata/schema",
        "state/0/0/left-keyToNumValues/_metadata/schema",
    ],
)
def test_an_object_has_one_name_at_any_checkpoint_location(name: str) -> None:
    for prefix in ("", "q/", "state/0/q/", "sources/1/2/", "state/3/0/q/", "offsets/"):
        assert place_of(prefix + name) == name


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def copy(server: S3Server, key: str, to: str) -> None:
    source = {"Bucket": BUCKET, "Key": key}
    server.client.copy_object(Bucket=BUCKET, CopySource=source, Key=to)


def exchange(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
