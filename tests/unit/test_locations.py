"""Locations in a bucket: readers accept and refuse the same ones as queries."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleancut import Checkpoint, RequestError
from cleancut._cli import main as _cli
from cleancut._storage.access import S3Access
from cleancut._storage.s3 import open_s3
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import s3_server
from tests.unit.test_cli import run
from tests.vectors import location_cases

VECTORS = Path(location_cases.__file__).parent / "locations.json"


def test_the_vectors_match_their_cases() -> None:
    assert json.loads(VECTORS.read_text(encoding="utf-8")) == location_cases.LOCATIONS


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_location_has_the_prefix_of_its_vector(scheme: str) -> None:
    for vector in location_cases.LOCATIONS["accepted"]:
        location = vector["location"].replace("s3://", f"{scheme}://", 1)
        objects = open_s3(location, "cleancut", S3Access(), client=object())
        expected = "/".join(filter(None, (vector["prefix"], "cleancut")))
        assert objects.path("x") == f"s3://bucket/{expected}/x"


def test_the_others_are_refused_with_one_error() -> None:
    for location in location_cases.LOCATIONS["refused"]:
        with pytest.raises(RequestError, match="its path has ") as raised:
            open_s3(location, "", S3Access(), client=object())
        assert raised.value.error_id == "CLEANCUT_OBJECT_LOCATION_INVALID"


@given(st.lists(st.text(max_size=4), max_size=4))
def test_a_location_is_kept_character_by_character_or_refused(segments: list[str]) -> None:
    prefix = "/".join(segments)
    kept = prefix.removesuffix("/")
    parts = kept.split("/")
    is_carried = not kept or not (
        {"", ".", ".."} & set(parts) or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in kept)
    )
    location = f"s3://bucket/{prefix}"
    if is_carried:
        objects = open_s3(location, "", S3Access(), client=object())
        assert objects.path("x") == f"s3://bucket/{kept}/x".replace("bucket//", "bucket/")
    else:
        with pytest.raises(RequestError, match="OBJECT_LOCATION_INVALID"):
            open_s3(location, "", S3Access(), client=object())


def test_a_checkpoint_below_unusual_names_is_read_and_the_command_refuses_the_same(
    four_cuts: CutFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with s3_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for prefix in ("a b", "+/@", "12:30", ".hidden/x", "a%20b", "#?&", "漢/ß"):
            location = server.put(prefix, four_cuts.objects())
            assert Checkpoint(location).verify().ok, prefix
            assert [cut.epoch for cut in Checkpoint(location).cuts()] == [0, 1, 2, 3]
            status, _, err = run(capsys, "ls", location, "--json")
            assert status == _cli.OK, err
        status, _, err = run(capsys, "ls", "s3://bucket/a//b")
        assert status != _cli.OK
        assert err.startswith("[CLEANCUT_OBJECT_LOCATION_INVALID]")
