"""The tables of the documentation, generated from the results."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tests.mutants.record import Result, read
from tests.mutants.survivors import SURVIVORS, Survivor
from tests.support import marked_pages

PAGE = Path(__file__).parents[2] / "docs/project/mutation-score.md"
_BEGIN = "<!-- made by tests/mutants -->"


def render(
    results: Sequence[Result] | None = None, survivors: Sequence[Survivor] = SURVIVORS
) -> str:
    """Renders all tables of the page."""
    shown = read() if results is None else results
    areas = [(area, list(group)) for area, group in groupby(shown, lambda result: result.area)]
    return "\n\n".join([_scores(areas), _survivors(survivors), *(_area(*area) for area in areas)])


def score(results: Sequence[Result]) -> float:
    """The share of the planted defects that tests found."""
    return sum(result.by is not None for result in results) / len(results)


def _scores(areas: Sequence[tuple[str, Sequence[Result]]]) -> str:
    rows = ["## Score", "", "| area | planted | found |", "|---|---|---|"]
    everything = [result for _, results in areas for result in results]
    for area, results in (*areas, ("all", everything)):
        hits = sum(result.by is not None for result in results)
        rows.append(f"| {area} | {len(results)} | {hits} |")
    return "\n".join([*rows, "", f"The score is {100 * score(everything):.1f} %."])


def _survivors(survivors: Sequence[Survivor]) -> str:
    head = ["## Survivors", "", "| area | defect that no test found | change |", "|---|---|---|"]
    rows = [f"| {one.area} | {one.defect} | {one.change} |" for one in survivors]
    return "\n".join([*head, *rows])


def _area(area: str, results: Sequence[Result]) -> str:
    is_search = any(result.runs is not None for result in results)
    title = f"## Defects: {area}"
    if is_search:
        head = ["| planted defect | found by | runs |", "|---|---|---|"]
        rows = [f"| {one.defect} | {_by(one)} | {one.runs or ''} |" for one in results]
    else:
        head = ["| planted defect | found by |", "|---|---|"]
        rows = [f"| {one.defect} | {_by(one)} |" for one in results]
    return "\n".join([title, "", *head, *rows])


def _by(result: Result) -> str:
    return "**not found**" if result.by is None else result.by.replace("|", "\\|")


def written(page: Path = PAGE) -> str:
    """Returns the part of the page between the marks."""
    return marked_pages.written(page, _BEGIN)


def update(page: Path = PAGE) -> None:
    """Puts the tables into the page."""
    marked_pages.update(page, _BEGIN, render())
