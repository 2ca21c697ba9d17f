"""The table of the documentation, generated from the rows and the results of their tests."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cleancut._session.installation import SPARK
from tests.lines.record import ROOT, Result, matches, read
from tests.lines.rows import TABLE, Row
from tests.support import marked_pages

PAGE = ROOT / "docs/project/spark-versions.md"
_BEGIN = "<!-- made by tests/lines -->"
YES, NO, OPEN = "yes", "no", "not run"

_Read = Callable[[str], Sequence[Result]]


class ResultsDisagreeError(Exception):
    """The results of a row contradict each other."""


def cell(row: Row, line: str, results: Sequence[Result]) -> str:
    """Returns whether a row holds on a Spark version.

    Args:
        row: of the table.
        line: of Spark.
        results: of the tests on that line.

    Raises:
        ResultsDisagreeError: a test failed, was left out where the line has what it shows, or
            passed where the line has not.
    """
    matched = [
        [result for result in results if matches(pattern, result.test)] for pattern in row.tests
    ]
    came_to = {result.outcome for each in matched for result in each}
    if not row.ability.has(line):
        if "passed" in came_to or "failed" in came_to:
            raise ResultsDisagreeError(f"{row.what} on {line}, which should not have it: {matched}")
        return NO
    if came_to - {"passed"}:
        raise ResultsDisagreeError(f"{row.what} on {line}: {matched}")
    return YES if all(matched) else OPEN


def render(read: _Read = read, table: Mapping[str, Sequence[Row]] = TABLE) -> str:
    """Renders all tables of the page."""
    results = {line: read(line) for line in SPARK}
    parts = [_releases(results)]
    for title, rows in table.items():
        head = [f"| | {' | '.join(SPARK)} | shown by |", f"|---{'|---' * len(SPARK)}|---|"]
        parts.append("\n".join([f"## {title}\n", *head, *(_row(row, results) for row in rows)]))
    return "\n\n".join(parts)


def _row(row: Row, results: Mapping[str, Sequence[Result]]) -> str:
    cells = [cell(row, line, results_of_line) for line, results_of_line in results.items()]
    names = dict.fromkeys(test.partition("::")[0].rpartition("/")[2] for test in row.tests)
    return f"| {row.what} | {' | '.join(cells)} | {', '.join(f'`{name}`' for name in names)} |"


def _releases(results: Mapping[str, Sequence[Result]]) -> str:
    """Renders the releases and dates of the runs."""
    rows = ["| line | releases of Spark | tests passed | last run |", "|---|---|---|---|"]
    for line, results_of_line in results.items():
        passed = [one for one in results_of_line if one.outcome == "passed"]
        releases = ", ".join(sorted({one.spark for one in passed}))
        days = [one.day for one in passed]
        when = (
            "-"
            if not days
            else min(days)
            if min(days) == max(days)
            else f"{min(days)} to {max(days)}"
        )
        rows.append(f"| {line} | {releases} | {len(passed)} | {when} |")
    return "\n".join(rows)


def written(page: Path = PAGE) -> str:
    """Returns the part of the page between the marks."""
    return marked_pages.written(page, _BEGIN)


def update(page: Path = PAGE) -> None:
    """Puts the tables into the page."""
    marked_pages.update(page, _BEGIN, render())
