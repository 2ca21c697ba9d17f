"""The table of supported features per Spark version shows exactly the results of tests."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import cleancut
from cleancut._session.installation import SPARK
from tests.lines import page, record
from tests.lines.record import TESTS, Result
from tests.lines.rows import ROWS, Row
from tests.support import lines
from tests.support.lines import EVERYWHERE, Ability

RESULTS = {line: record.read(line) for line in SPARK}
# Parts of a report of pytest and of one of sbt.
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


def test_the_page_shows_the_results_of_the_tests() -> None:
    assert page.written() == page.render(), "python -m tests.lines page writes it"


def test_no_test_of_the_table_has_failed() -> None:
    for line, results in RESULTS.items():
        assert [result.test for result in results if result.outcome == "failed"] == [], line


def test_all_results_are_of_this_release() -> None:
    """A new release number requires a new run of these tests."""
    for line, results in RESULTS.items():
        assert {result.cleancut for result in results} <= {cleancut.__version__}, line
        assert all(result.spark.startswith(f"{line}.") for result in results), line


def test_tests_named_by_rows_exist_with_their_parameters() -> None:
    named = [test for row in ROWS for test in row.tests]
    assert [test for test in named if record.source_of(test) is None] == []
    ran = {result.test for results in RESULTS.values() for result in results}
    functions = {test.partition("[")[0] for test in ran}
    known = [test for test in named if test.partition("[")[0] in functions]
    assert known
    assert [test for test in known if not any(record.matches(test, run) for run in ran)] == []


def test_recorded_tests_exist_and_belong_to_a_row() -> None:
    for line, results in RESULTS.items():
        gone = [result.test for result in results if record.source_of(result.test) is None]
        assert gone == [], line
        assert [result.test for result in results if not record.wanted(result.test)] == [], line


def test_a_skipped_test_supports_no_feature() -> None:
    """Read from the markers of the tests, which may be newer than the recorded results."""
    for row in ROWS:
        for file, function in (test.split("::") for test in row.tests if "::" in test):
            for ability in _needed(TESTS / file, function.partition("[")[0]):
                assert all(ability.has(version) for version in SPARK if row.ability.has(version)), (
                    row
                )


def _needed(path: Path, function: str) -> list[Ability]:
    """Returns the features that the markers of a module and of a function require."""
    marks: list[ast.expr] = []
    for node in record.parsed(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks.append(node.value)
        if isinstance(node, ast.FunctionDef) and node.name == function:
            marks += [
                decorator
                for decorator in node.decorator_list
                if "parametrize" not in ast.unparse(decorator)
            ]
    names = [
        node.value.id
        for mark in marks
        for node in ast.walk(mark)
        if isinstance(node, ast.Attribute)
        and node.attr == "needed"
        and isinstance(node.value, ast.Name)
    ]
    return [getattr(lines, name) for name in names]


def test_marks_of_abilities_are_found() -> None:
    offline = TESTS / "spark/test_offline.py"
    assert _needed(offline, "test_the_documented_operations_run") == [lines.STATE_FOR_SPARK]
    assert _needed(offline, "test_impossible_operations_are_refused") == []


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
def test_a_cell_summarizes_all_tests_of_its_row(
    ability: Ability, outcomes: Mapping[str, str], said: str
) -> None:
    results = [_result(*outcome) for outcome in outcomes.items()]
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
def test_contradictory_results_are_an_error(ability: Ability, change: Mapping[str, str]) -> None:
    results = [_result(*outcome) for outcome in (BOTH | dict(change)).items()]
    with pytest.raises(page.ResultsDisagreeError):
        page.cell(Row("what", ROW, ability), "4.1", results)


def test_results_of_reports_are_merged_with_recorded_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.xml").write_text(PYTEST)
    (tmp_path / "sbt.xml").write_text(SBT)
    outcomes = dict(
        outcome
        for name in ("pytest", "sbt")
        for outcome in record.outcomes(tmp_path / f"{name}.xml")
    )
    assert outcomes == {
        "spark/test_a.py::test_b[c to d]": "passed",
        "spark/test_a.py::test_left_out": "skipped",
        "spark/test_a.py::test_b[e]": "failed",
        "chaos/test_f.py::test_g": "failed",
        "SomeSuite: it holds: always": "passed",
        "SomeSuite: not here": "skipped",
    }
    monkeypatch.setattr(record, "ROWS", [Row("what", ROW)])
    record.add("4.1", [_result(*outcome) for outcome in outcomes.items()], tmp_path)
    record.add("4.1", [_result("SomeSuite: not here", "passed")], tmp_path)
    kept = {result.test: result.outcome for result in record.read("4.1", tmp_path)}
    assert kept == BOTH | {"SomeSuite: not here": "passed"}
    # Each result is on a separate line of the file, so that diffs are readable.
    text = (tmp_path / "4.1.json").read_text()
    assert len(text.splitlines()) == len(json.loads(text)) + 2
    assert record.read("4.0", tmp_path) == []


def test_a_page_is_made_of_rows_and_results() -> None:
    read: Callable[[str], Sequence[Result]] = lambda line: (  # noqa: E731
        [_result(*outcome) for outcome in BOTH.items()] if line == "4.2" else []
    )
    text = page.render(read, {"Title": [Row("what", ROW, LATER)]})
    assert "| 4.2 | 4.1.4 | 2 | 2026-11-26 |" in text
    assert "| what | no | no | yes | not run | `test_a.py`, `SomeSuite` |" in text
