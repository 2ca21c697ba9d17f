"""Runs the commands and code of docs/operate/inspection.md and costs.md as printed there."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleancut._cli import main as _cli
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import S3Server, s3_server
from tests.unit.test_cli import run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operate/inspection.md").read_text(encoding="utf-8")
PAGES_OF_ACTS = (
    "operate/moving.md",
    "operate/recovery.md",
    "operate/recovery/replicate.md",
    "operate/recovery/expire.md",
    "use/changing.md",
    "use/release.md",
    "concepts/dataflow.md",
)
COSTS = (DOCS / "operate/costs.md").read_text(encoding="utf-8")
ACTS = [(DOCS / name).read_text(encoding="utf-8") for name in PAGES_OF_ACTS]
LOCATION = "checkpoints/delays"


def blocks(language: str, page: str = PAGE) -> list[str]:
    """Returns the fenced code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def commands(block: str) -> list[list[str]]:
    return [
        shlex.split(os.path.expandvars(line), comments=True)
        for line in block.splitlines()
        if line.strip()
    ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with s3_server() as running:
        running.client.create_bucket(Bucket="bucket")
        monkeypatch.setenv("ENDPOINT", running.endpoint)
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield running


@pytest.fixture
def delays(four_cuts: CutFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CutFiles:
    """Writes the checkpoint of the page below the working directory."""
    four_cuts.savepoint("before-migration", 1)
    (tmp_path / LOCATION).parent.mkdir()
    four_cuts.location.rename(tmp_path / LOCATION)
    four_cuts.location = tmp_path / LOCATION
    monkeypatch.chdir(tmp_path)
    return four_cuts


def test_every_command_on_a_directory_runs(
    delays: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    there = commands(blocks("sh")[0])
    assert {command[1] for command in there} == {
        "ls",
        "show",
        "history",
        "costs",
        "state",
        "lookup",
        "families",
        "diff",
        "skew",
        "in-flight",
        "savepoint",
        "verify",
        "test-restore",
    }
    for name, *arguments in there:
        assert name == "cleancut"
        for form in ([], ["--json"]):
            status, out, err = run(capsys, *arguments, *form)
            assert (status, err) == (_cli.OK, "")
            assert out


def test_the_commands_of_costs_run(delays: CutFiles, capsys: pytest.CaptureFixture[str]) -> None:
    there = commands(blocks("sh", COSTS)[0])
    assert [command[1] for command in there] == ["costs", "history"]
    for _, *arguments in there:
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (_cli.OK, "")
        assert out


def test_the_live_commands_run(delays: CutFiles, capsys: pytest.CaptureFixture[str]) -> None:
    there = commands(blocks("sh")[1])
    assert [command[1] for command in there] == ["top", "exporter"]
    for _, *arguments in there:
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (_cli.OK, "")
        assert LOCATION in out


def test_every_command_on_a_bucket_runs(
    delays: CutFiles, server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in delays.objects().items():
        server.client.put_object(Bucket="bucket", Key=f"delays/{name}", Body=data)
    there = commands(blocks("sh")[2])
    assert [command[1] for command in there] == ["ls", "show", "state", "verify", "top", "exporter"]
    for _, *arguments in there:
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (_cli.OK, "")
        assert out


def test_the_restore_command_runs(delays: CutFiles, capsys: pytest.CaptureFixture[str]) -> None:
    (delays.location / "metadata").unlink()
    ((_, *arguments),) = commands(blocks("sh")[3])
    status, out, err = run(capsys, *arguments)
    assert (status, err) == (_cli.OK, "")
    assert out
    assert (delays.location / "metadata").exists()


def test_the_python_code_runs(delays: CutFiles, server: S3Server) -> None:
    for name, data in delays.objects().items():
        server.client.put_object(Bucket="bucket", Key=f"delays/{name}", Body=data)
    directory, batches, bucket = blocks("python")
    (prices,) = blocks("python", COSTS)
    names: dict[str, object] = {}
    exec(directory, names)
    assert getattr(names["report"], "ok", False)
    assert getattr(names["rows"], "num_rows", 0) == 3
    assert Path("epochs.png").read_bytes().startswith(b"\x89PNG")
    exec(batches, names)
    assert getattr(names["batch"], "num_rows", 0) == 1
    exec(prices, names)
    exec(bucket, names)


def test_the_page_and_the_command_name_the_same_commands() -> None:
    named = {command[1] for block in blocks("sh") for command in commands(block)}
    choices = _cli._parser()._subparsers
    assert choices is not None
    (action,) = choices._group_actions
    # Commands that change a checkpoint, or run its query, have other pages. The others need no
    # checkpoint.
    typed = [block for page in ACTS for block in blocks("sh", page)]
    of_pages = [command for block in typed for command in commands(block)]
    operations = {command[1] for command in of_pages if command[0] == "cleancut"}
    assert named | operations | {"assets", "conf", "jars", "completion"} == set(
        action.choices or ()
    )
