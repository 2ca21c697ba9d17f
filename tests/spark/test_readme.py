"""What the README tells a user to type, typed as it stands there."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.documented import run_as_typed

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
    query, inspection = blocks("python")
    assert "10.0" in run_as_typed([sys.executable, "-c", query], tmp_path)
    shown = run_as_typed([sys.executable, "-c", f"import cleancut\nprint({inspection})"], tmp_path)
    assert "AA" in shown
    assert "UA" in shown
    commands = [
        shlex.split(line, comments=True)
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("cleancut ")
    ]
    assert [command[1] for command in commands] == ["ls", "state", "verify"]
    for command in commands:
        assert run_as_typed([sys.executable, "-m", *command], tmp_path)


def test_readme_names_only_tasks_that_the_menu_has() -> None:
    tasks = set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
    menu = (Path(__file__).parents[2] / "Makefile").read_text()
    assert tasks
    assert all(re.search(rf"^{task}:", menu, flags=re.MULTILINE) for task in tasks)
