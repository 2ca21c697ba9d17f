"""The table of what holds on each line of Spark is what tests came to, and no more."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import cleancut
from cleancut._session.installed import SPARK
from tests.lines import page, record
from tests.lines.record import TESTS, Result
from tests.lines.rows import ROWS, Row
from tests.support import lines
from tests.support.lines import EVERYWHERE, Ability

RESULTS = {line: record.read(line) for line in SPARK}
# A part of a pytest's report, and of one of sbt's.
PYTEST = """<testsuites><testsuite name="pytest">
<testcase classname="tests.spark.test_a" name="test_b[c to d]" time="1"/>
<testcase classname="tests.spark.test_a" name="test_left_out" time="0">
<skipped type="pytest.skip" message="from Spark 4.2 on"/></testcase>
<testcase classname="tests.spark.test_a" name="test_b[e]" time="0">
<failure message="assert"/></testcase>
<testcase classname="tests.chaos.test_f" name="test_g" time="0"><error message="x"/></testcase>
</testsuite></testsuites>"""
SBT = """<testsuite hostname="h" name="io.cleancut.e2e.SomeSuite">
<testcase classname="io.cleancut.e2e.SomeSuite" name="it holds: always" time="0.1"></testcase>
<testcase classname="io.cleancut.e2e.SomeSuite" name="not here" time="0"><skipped/></testcase>
</testsuite>"""


def test_the_page_says_what_the_tests_came_to() -> None:
    assert page.written() == page.render(), "python -m tests.lines page writes it"


def test_no_test_of_the_table_has_failed() -> None:
    for line, results in RESULTS.items():
        assert [of.test for of in results if of.outcome == "failed"] == [], line


def test_all_of_them_ran_with_this_release() -> None:
    """So that whoever gives it another number has to run them anew."""
    for line, results in RESULTS.items():
        assert {of.cleancut for of in results} <= {cleancut.__version__}, line
        assert all(of.spark.startswith(f"{line}.") for of in results), line


def test_what_a_row_names_is_there_with_these_parameters() -> None:
    named = [of for row in ROWS for of in row.tests]
    assert [of for of in named if record.source_of(of) is None] == []
    ran = {of.test for results in RESULTS.values() for of in results}
    functions = {of.partition("[")[0] for of in ran}
    known = [of for of in named if of.partition("[")[0] in functions]
    assert known
    assert [of for of in known if not any(record.matches(of, test) for test in ran)] == []


def test_what_is_kept_is_there_and_a_row_names_it() -> None:
    for line, results in RESULTS.items():
        gone = [of.test for of in results if record.source_of(of.test) is None]
        assert gone == [], line
        assert [of.test for of in results if not record.wanted(of.test)] == [], line


def test_a_test_that_is_left_out_on_a_line_shows_nothing_there() -> None:
    """By what stands above it, also where nobody has run it since."""
    for row in ROWS:
        for file, function in (of.split("::") for of in row.tests if "::" in of):
            for ability in _needed(TESTS / file, function.partition("[")[0]):
                assert all(ability.has(of) for of in SPARK if row.ability.has(of)), row


def _needed(path: Path, function: str) -> list[Ability]:
    """What the marks of a module and of a function in it say that a line must have."""
    marks: list[ast.expr] = []
    for node in record.parsed(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks.append(node.value)
        if isinstance(node, ast.FunctionDef) and node.name == function:
            marks += [of for of in node.decorator_list if "parametrize" not in ast.unparse(of)]
    names = [
        of.value.id
        for mark in marks
        for of in ast.walk(mark)
        if isinstance(of, ast.Attribute) and of.attr == "needed" and isinstance(of.value, ast.Name)
    ]
    return [getattr(lines, name) for name in names]


def test_marks_of_abilities_are_found() -> None:
    offline = TESTS / "spark/test_offline.py"
    assert _needed(offline, "test_the_documented_acts_run") == [lines.STATE_FOR_SPARK]
    assert _needed(offline, "test_what_cannot_be_done_is_refused") == []


def _result(test: str, outcome: str) -> Result:
    return Result(test, outcome, "4.1.4", "0.1.0", "2026-11-26", "abc")


LATER = Ability("4.2")
ROW = ("spark/test_a.py::test_b[c*]", "SomeSuite")
BOTH = {"spark/test_a.py::test_b[c to d]": "passed", "SomeSuite: it holds: always": "passed"}


@pytest.mark.parametrize(
    ("ability", "outcomes", "said"),
    [
        (EVERYWHERE, BOTH, "yes"),
        (EVERYWHERE, {"SomeSuite: it holds: always": "passed"}, "not run"),
        (EVERYWHERE, BOTH | {"spark/test_a.py::test_b[e]": "failed"}, "yes"),
        (EVERYWHERE, {}, "not run"),
        (LATER, {}, "no"),
        (LATER, dict.fromkeys(BOTH, "skipped"), "no"),
    ],
)
def test_a_cell_says_what_all_tests_of_its_row_came_to(
    ability: Ability, outcomes: Mapping[str, str], said: str
) -> None:
    results = [_result(*of) for of in outcomes.items()]
    assert page.cell(Row("what", ROW, ability), "4.1", results) == said


@pytest.mark.parametrize(
    ("ability", "change"),
    [
        (EVERYWHERE, {"spark/test_a.py::test_b[c2]": "failed"}),
        (EVERYWHERE, {"spark/test_a.py::test_b[c2]": "skipped"}),
        (EVERYWHERE, {"SomeSuite: another": "failed"}),
        (LATER, {}),
    ],
)
def test_results_that_disagree_make_no_cell(ability: Ability, change: Mapping[str, str]) -> None:
    results = [_result(*of) for of in (BOTH | dict(change)).items()]
    with pytest.raises(page.ResultsDisagreeError):
        page.cell(Row("what", ROW, ability), "4.1", results)


def test_what_reports_say_is_kept_beside_what_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.xml").write_text(PYTEST)
    (tmp_path / "sbt.xml").write_text(SBT)
    found = dict(
        of for name in ("pytest", "sbt") for of in record.outcomes(tmp_path / f"{name}.xml")
    )
    assert found == {
        "spark/test_a.py::test_b[c to d]": "passed",
        "spark/test_a.py::test_left_out": "skipped",
        "spark/test_a.py::test_b[e]": "failed",
        "chaos/test_f.py::test_g": "failed",
        "SomeSuite: it holds: always": "passed",
        "SomeSuite: not here": "skipped",
    }
    monkeypatch.setattr(record, "ROWS", [Row("what", ROW)])
    record.add("4.1", [_result(*of) for of in found.items()], tmp_path)
    record.add("4.1", [_result("SomeSuite: not here", "passed")], tmp_path)
    kept = {of.test: of.outcome for of in record.read("4.1", tmp_path)}
    assert kept == BOTH | {"SomeSuite: not here": "passed"}
    # A row of the file for each, so that changes are seen.
    text = (tmp_path / "4.1.json").read_text()
    assert len(text.splitlines()) == len(json.loads(text)) + 2
    assert record.read("4.0", tmp_path) == []


def test_a_page_is_made_of_rows_and_results() -> None:
    read: Callable[[str], Sequence[Result]] = lambda line: (  # noqa: E731
        [_result(*of) for of in BOTH.items()] if line == "4.2" else []
    )
    text = page.render(read, {"Title": [Row("what", ROW, LATER)]})
    assert "| 4.2 | 4.1.4 | 2 | 2026-11-26 |" in text
    assert "| what | no | no | yes | not run | `test_a.py`, `SomeSuite` |" in text
