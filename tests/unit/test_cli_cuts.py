"""The command `cleancut` on checkpoints that have cuts."""

import json
import re
from pathlib import Path

import pyarrow.fs
import pytest

from cleancut._cli import main as _cli
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_cli import run


def test_ls_lists_the_cuts(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    location = str(four_cuts.location)
    status, out, _ = run(capsys, "ls", location)
    assert status == _cli.OK
    assert out.split()[:3] == ["epoch", "version", "generation"]
    assert len(out.splitlines()) == 7
    assert out.splitlines()[-1] == "(no room for run_id)"
    _, out, _ = run(capsys, "ls", location, "--json")
    for cut in json.loads(out):
        # Fails for other forms, such as "2026-11-26 08:00:00+00:00".
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", cut["written"])
    assert [(cut["epoch"], cut["stores"]) for cut in json.loads(out)] == [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 2),
    ]


def test_ls_lists_the_stores_on_request(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles
) -> None:
    _, out, _ = run(capsys, "ls", str(four_cuts.location), "--stores", "--json")
    assert [store["versions"] for store in json.loads(out)] == [[1, 2, 3, 4], [1, 2, 3, 4]]


def test_show_prints_all_fields_of_a_cut(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles
) -> None:
    location = str(four_cuts.location)
    status, out, _ = run(capsys, "show", location)
    assert status == _cli.OK
    assert str(four_cuts.cut_path(3)) in out
    assert "snapshot 3, changelogs 4" in out
    _, out, _ = run(capsys, "show", location, "--at", "1", "--json")
    cut = json.loads(out)
    assert (cut["info"]["epoch"], cut["offsets"]) == (1, {"0": '{"logOffset":1}', "1": None})
    assert [frame["version"] for frame in cut["stores"][0]["chain"]] == [1, 2]


@pytest.mark.parametrize("arguments", [["--at", "7"], ["--at", "8"]])
def test_show_refuses_an_epoch_without_a_cut(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles, arguments: list[str]
) -> None:
    status, out, err = run(capsys, "show", str(four_cuts.location), *arguments)
    assert (status, out) == (_cli.REFUSED, "")
    assert "it has cuts of epochs 0-3" in err


def test_show_refuses_a_checkpoint_of_level_0(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    status, _, err = run(capsys, "show", str(two_partitions.location))
    assert status == _cli.REFUSED
    assert "it has no cuts" in err


def test_savepoints_are_listed_and_shown(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles
) -> None:
    four_cuts.savepoint("before", 1)
    location = str(four_cuts.location)
    _, out, _ = run(capsys, "savepoint", "list", location, "--json")
    assert [(savepoint["name"], savepoint["epoch"]) for savepoint in json.loads(out)] == [
        ("before", 1)
    ]
    _, out, _ = run(capsys, "show", location, "--at", "before", "--json")
    assert json.loads(out)["info"]["epoch"] == 1
    arguments = ["--operator", "0", "--at", "before", "--json"]
    _, out, _ = run(capsys, "state", location, *arguments)
    assert json.loads(out)["version"] == 2


def test_state_is_shown_by_epoch(capsys: pytest.CaptureFixture[str], four_cuts: CutFiles) -> None:
    location = str(four_cuts.location)
    _, out, _ = run(capsys, "state", location, "--operator", "0", "--at", "0")
    assert out.splitlines()[-1] == "2 rows of version 1"
    _, out, _ = run(capsys, "state", location, "--operator", "0", "--json")
    assert json.loads(out)["version"] == 4
    with pytest.raises(SystemExit):
        run(capsys, "state", location, "--operator", "0", "--at", "0", "--version", "1")


def test_an_unknown_epoch_is_reported_as_an_epoch(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles, two_stores: str
) -> None:
    """The error named version 100 for a request of epoch 99."""
    for location, there in ((str(four_cuts.location), "0-3"), (two_stores, "0-2")):
        arguments = ["state", location, "--operator", "0", "--at", "99"]
        status, _, err = run(capsys, *arguments)
        assert status == _cli.REFUSED
        assert re.search(rf"has no epoch 99 of [^;]*; it has epoch {there}\.", err)
        assert "--stores`" in err
        assert "version 100" not in err


@pytest.fixture
def two_stores(tmp_path: Path) -> str:
    """A checkpoint of level 0."""
    files = CheckpointFiles(tmp_path / "level 0")
    for version in (1, 2, 3):
        files.delta(version, [], 0)
    return str(files.location)


def test_the_history_of_a_checkpoint_without_cuts_says_how_to_get_them(
    capsys: pytest.CaptureFixture[str],
    two_stores: str,
    four_cuts: CutFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_cli, "jar_paths", lambda: ("/opt/cleancut.jar",))
    status, out, err = run(capsys, "history", two_stores)
    assert (status, out) == (_cli.OK, "(none)\n")
    assert f"{two_stores} has no cuts" in err
    [command] = re.findall(r"`cleancut (.*)`", err)
    assert run(capsys, *command.split())[0] == _cli.OK
    # Cuts without epochs of the requested range.
    status, out, err = run(capsys, "history", str(four_cuts.location), "--since", "99")
    assert (status, err) == (_cli.OK, "")


def test_the_history_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was 339 columns wide."""
    for width in (80, 100, 400):
        monkeypatch.setenv("COLUMNS", str(width))
        for command in ("history", "ls", "costs"):
            _, out, _ = run(capsys, command, str(four_cuts.location))
            table = out.split("\nThis is an estimate")[0]
            assert max(map(len, table.splitlines())) <= width
            assert "(no room for" not in out or width < 400
    _, out, _ = run(capsys, "history", str(four_cuts.location))
    assert "barrier_to_capture_ms" in out.splitlines()[0]


def test_verify_reports_corruption_by_exit_status(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles
) -> None:
    location = str(four_cuts.location)
    status, out, _ = run(capsys, "verify", location)
    assert status == _cli.OK
    assert "5 segments (0 unreferenced)" in out
    path = four_cuts.cut_path(2)
    four_cuts.change(path, lambda data: data[:-1])
    status, out, _ = run(capsys, "verify", location, "--json")
    assert status == _cli.DAMAGED
    report = json.loads(out)
    assert [problem["object"] for problem in report["problems"]] == [str(path)]
    status, _, err = run(capsys, "ls", location)
    assert status == _cli.DAMAGED
    assert err.startswith("[CLEANCUT_CUT_CORRUPTED]")


def test_an_endpoint_requires_an_object_store(
    capsys: pytest.CaptureFixture[str], four_cuts: CutFiles
) -> None:
    status, _, err = run(capsys, "ls", str(four_cuts.location), "--endpoint", "http://x")
    assert status == _cli.REFUSED
    assert err.startswith("[CLEANCUT_OBJECT_LOCATION_INVALID]")


@pytest.mark.parametrize(
    "failure",
    [
        OSError("Unable to load libjvm\ndlopen(/a/libjvm.so) failed\ndlopen(/b/libjvm.so) failed"),
        NotImplementedError("Unable to load libjvm"),
    ],
)
def test_hdfs_without_native_client_is_one_sentence_and_a_remedy(
    failure: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error printed each of the 70 paths that Arrow had searched for a library."""

    class WithoutClient:
        @staticmethod
        def from_uri(_: str) -> None:
            raise failure

    monkeypatch.setattr(pyarrow.fs, "FileSystem", WithoutClient)
    error_id = "CLEANCUT_FILE_SYSTEM_UNAVAILABLE"
    location = "hdfs://name-node:8020/checkpoint"
    status, _, err = run(capsys, "ls", location)
    assert status == _cli.REFUSED
    assert err.startswith(
        f"[{error_id}] {location} cannot be opened on this machine: Unable to load libjvm.\n"
        "Data lost: No. Nothing was read or changed.\n"
    )
    assert "dlopen" not in err
    assert err.count("\n") == 5
