"""Runs the programs of docs/examples, one after the other in one process."""

from pathlib import Path

import pytest

from tests.support.documented import ROOT
from tests.support.kills import run_script

pytestmark = pytest.mark.spark

EXAMPLES = ROOT / "docs" / "examples"
# A program begins its session, or joins the running one.
PROGRAM = """
import runpy, sys
from pathlib import Path
from tests.support.sessions import builder

home, *programs = sys.argv[1:]
builder("local[2]").getOrCreate()
for program in programs:
    print(f"### {Path(program).stem}", flush=True)
    place = Path(home) / Path(program).stem
    place.mkdir()
    sys.argv = [program, str(place)]
    runpy.run_path(program, run_name="__main__")
"""
# Lines that a program prints, in addition to tables.
PRINTS = {
    "aggregation": ["Batch: 0", "Batch: 1"],
    "custom_state": ["keys: "],
    "roll_back": [
        "orders: 300",
        "orders after the rollback: 100",
        "orders after the next run: 300",
    ],
    "two_queries": ["rows: 200"],
    "unaligned_sqlite": ["rows: 600"],
}


def test_the_examples_run(tmp_path: Path) -> None:
    programs = sorted(EXAMPLES.glob("*.py"))
    assert [program.stem for program in programs] == sorted(PRINTS)
    answer = run_script(PROGRAM, str(tmp_path), *map(str, programs))
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-4000:]
    _, *parts = answer.stdout.split("### ")
    printed = {part.partition("\n")[0]: part for part in parts}
    for name, lines in PRINTS.items():
        for line in lines:
            assert f"\n{line}" in printed[name], printed[name]
    assert ": unaligned, " in printed["unaligned_sqlite"], printed["unaligned_sqlite"]


def test_each_example_is_listed_on_the_page() -> None:
    page = (ROOT / "docs/use/recipes.md").read_text(encoding="utf-8")
    for program in EXAMPLES.glob("*.py"):
        assert f"(../examples/{program.name})" in page
