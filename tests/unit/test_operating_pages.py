"""Runs the commands of the pages for operators as they are printed there."""

from pathlib import Path

import pytest

from cleancut._cli import main as _cli
from tests.support.documented import blocks, commands
from tests.unit.cut_files import CutFiles
from tests.unit.test_cli import run

TROUBLESHOOT = "docs/operate/troubleshoot.md"
CHECKLIST = "docs/deploy/production-checklist.md"
SIZING = "docs/deploy/sizing.md"
UPGRADING = "docs/operate/upgrading.md"
LOCATION = "checkpoints/orders"


@pytest.fixture
def orders(four_cuts: CutFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CutFiles:
    """Writes the checkpoint of the pages below the working directory."""
    (tmp_path / LOCATION).parent.mkdir()
    four_cuts.location.rename(tmp_path / LOCATION)
    four_cuts.location = tmp_path / LOCATION
    monkeypatch.chdir(tmp_path)
    return four_cuts


@pytest.mark.parametrize(
    ("page", "blocks_to_run"),
    [(TROUBLESHOOT, (0, 1, 2)), (CHECKLIST, (0,)), (SIZING, (0,)), (UPGRADING, (0,))],
)
def test_every_command_runs(
    page: str, blocks_to_run: tuple[int, ...], orders: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = blocks(page, "sh")
    for number in blocks_to_run:
        for name, *arguments in commands(printed[number]):
            assert name == "cleancut"
            if arguments == ["--version"]:
                with pytest.raises(SystemExit, match="0"):
                    _cli.main(arguments)
                capsys.readouterr()
                continue
            assert LOCATION in arguments
            status, out, err = run(capsys, *arguments)
            assert (status, err) == (_cli.OK, "")
            assert out


def test_the_documented_memory_settings_fit_each_other() -> None:
    (block,) = blocks(SIZING, "properties")
    gigabytes = {
        key.rpartition(".")[2]: int(value.removesuffix("g"))
        for key, value in map(str.split, block.splitlines())
    }
    # The limit, and a tenth of the heap for the overhead of before.
    least = gigabytes["maxOffHeapMemory"] + gigabytes["memory"] / 10
    assert gigabytes["memoryOverhead"] >= least


def test_the_documented_rollback_is_parsed() -> None:
    """tests/spark/test_rollback.py runs it."""
    ((name, *arguments),) = commands(blocks(UPGRADING, "sh")[1])
    parsed = _cli._parser().parse_args(arguments)
    assert (name, parsed.operation, parsed.apply) == ("cleancut", "rollback", True)
