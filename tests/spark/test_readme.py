"""Runs the commands and the code of the README and the quick start as they are printed there."""

import json
import re
import shutil
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.documented import blocks, commands, run_as_typed, shape
from tests.support.tiers import long

pytestmark = pytest.mark.spark

README = "README.md"
QUICK_START = "docs/get-started/quick-start.md"


def test_readme_query_and_every_command_on_its_checkpoint_run(tmp_path: Path) -> None:
    flights = [{"carrier": c, "delay": d} for c, d in (("AA", 5.0), ("UA", 7.0), ("AA", 15.0))]
    (tmp_path / "flights").mkdir()
    lines = "\n".join(json.dumps(flight) for flight in flights)
    (tmp_path / "flights" / "1.json").write_text(lines)
    _, query, inspection, _ = blocks(README, "python")
    (tmp_path / "job.py").write_text(query)
    assert "10.0" in run_as_typed([sys.executable, "job.py"], tmp_path)
    # The same script with the same flights.
    shutil.copy(tmp_path / "flights" / "1.json", tmp_path / "flights" / "2.json")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    assert "10.0" in run_as_typed([str(submit), "job.py"], tmp_path)
    shown = run_as_typed([sys.executable, "-c", f"import cleancut\nprint({inspection})"], tmp_path)
    assert "AA" in shown
    assert "UA" in shown
    there = commands(blocks(README, "sh")[-1])
    assert [command[1] for command in there] == ["ls", "state", "verify"]
    for command in there:
        assert run_as_typed([sys.executable, "-m", *command], tmp_path)


@long
def test_the_quick_start_prints_what_its_page_shows(tmp_path: Path) -> None:
    script, looking = blocks(QUICK_START, "python")
    (tmp_path / "quickstart.py").write_text(script, encoding="utf-8")
    typed = [command for block in blocks(QUICK_START, "sh")[1:] for command in commands(block)]
    *to_run, in_python = blocks(QUICK_START, "text")
    for command, shown in zip(typed, to_run, strict=True):
        module = [] if command[0] == "python" else ["-m", "cleancut"]
        printed = run_as_typed([sys.executable, *module, *command[1:]], tmp_path)
        assert shape(printed) == shape(shown)
        if command == ["python", "quickstart.py"]:
            orders = re.findall(r"^epoch \d+: (\d+) orders$", printed, flags=re.MULTILINE)
            assert sum(map(int, orders)) == 1600
    assert shape(run_as_typed([sys.executable, "-c", looking], tmp_path)) == shape(in_python)


def test_the_quick_start_of_the_readme_matches_its_page() -> None:
    assert blocks(README, "python")[0] == blocks(QUICK_START, "python")[0]
    assert blocks(README, "text") == blocks(QUICK_START, "text")[:2]
    typed = [command for block in blocks(README, "sh")[1:3] for command in commands(block)]
    of_page = [command for block in blocks(QUICK_START, "sh")[1:3] for command in commands(block)]
    assert typed == of_page


def test_named_tasks_exist_in_the_makefile() -> None:
    menu = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    named = blocks(README, "sh")[0] + blocks(QUICK_START, "sh")[0]
    tasks = set(re.findall(r"^make ([\w-]+)", named, flags=re.MULTILINE))
    assert {"wheel", "demo", "demo-postgres", "demo-s3"} <= tasks
    assert all(re.search(rf"^{task}:", menu, flags=re.MULTILINE) for task in tasks)
