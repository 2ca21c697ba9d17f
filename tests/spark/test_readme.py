"""What the README tells a user to type, typed as it stands there."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.documented import DOCS, python_blocks, run_as_typed

pytestmark = pytest.mark.spark

README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_readme_query_and_every_command_on_its_checkpoint_run(tmp_path: Path) -> None:
    flights = [{"carrier": c, "delay": d} for c, d in (("AA", 5.0), ("UA", 7.0), ("AA", 15.0))]
    (tmp_path / "flights").mkdir()
    lines = "\n".join(json.dumps(flight) for flight in flights)
    (tmp_path / "flights" / "1.json").write_text(lines)
    _, query, inspection, _ = blocks("python")
    (tmp_path / "job.py").write_text(query)
    assert "10.0" in run_as_typed([sys.executable, "job.py"], tmp_path)
    # The same script, and the same flights once more.
    shutil.copy(tmp_path / "flights" / "1.json", tmp_path / "flights" / "2.json")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    assert "10.0" in run_as_typed([str(submit), "job.py"], tmp_path)
    shown = run_as_typed([sys.executable, "-c", f"import cleancut\nprint({inspection})"], tmp_path)
    assert "AA" in shown
    assert "UA" in shown
    there = commands(README, "checkpoints/delays")
    assert [command[1] for command in there] == ["ls", "state", "verify"]
    for command in there:
        assert run_as_typed([sys.executable, "-m", *command], tmp_path)


def commands(page: str, location: str) -> list[list[str]]:
    """What a page tells to type about a checkpoint."""
    return [
        shlex.split(line, comments=True)
        for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
        for line in block.splitlines()
        if line.startswith("cleancut ") and location in line
    ]


def test_the_quick_start_cuts_epochs_with_rows_in_flight(tmp_path: Path) -> None:
    (tmp_path / "quickstart.py").write_text(blocks("python")[0], encoding="utf-8")
    shown = run_as_typed([sys.executable, "quickstart.py"], tmp_path)
    orders = [int(found) for found in re.findall(r"^epoch \d+: (\d+) orders$", shown, re.M)]
    assert sum(orders) == 1600
    page = (DOCS / "quick-start.md").read_text(encoding="utf-8")
    there = commands(README + page, "quickstart/checkpoint")
    assert [command[1] for command in there] == ["history", "show", "state", "verify"]
    for command in there:
        assert run_as_typed([sys.executable, "-m", *command], tmp_path)
    (block,) = python_blocks("quick-start.md")
    assert "unaligned" in run_as_typed([sys.executable, "-c", block], tmp_path)
    history = run_as_typed([sys.executable, "-m", *there[0], "--json"], tmp_path)
    assert any(row["rows_in_flight"] for row in json.loads(history))


def test_readme_names_only_tasks_that_the_menu_has() -> None:
    tasks = set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
    menu = (Path(__file__).parents[2] / "Makefile").read_text()
    assert tasks
    assert all(re.search(rf"^{task}:", menu, flags=re.MULTILINE) for task in tasks)
