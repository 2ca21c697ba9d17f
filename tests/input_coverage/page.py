"""The tables of the page on covered inputs."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tests.input_coverage.coverage import Coverage, read_results
from tests.input_coverage.space import Pair
from tests.support import marked_pages

PAGE = Path(__file__).parents[2] / "docs/project/input-coverage.md"
_BEGIN = "<!-- made by tests/input_coverage -->"


def render(results: Sequence[Coverage] | None = None) -> str:
    """Renders all tables of the page."""
    shown = read_results() if results is None else results
    return "\n\n".join([_totals(shown), *(_section(one) for one in shown)])


def _totals(results: Sequence[Coverage]) -> str:
    rows = [
        "## Covered pairs",
        "",
        "| generator | runs | dimensions | values | never covered | pairs | never covered |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        counts = [count for values in one.values.values() for count in values.values()]
        rows.append(
            f"| {one.generator} | {one.runs} | {len(one.values)} | {len(counts)} | "
            f"{counts.count(0)} | {one.possible} | {len(one.uncovered)} |"
        )
    return "\n".join(rows)


def _section(one: Coverage) -> str:
    rows = [f"## Inputs: {one.generator}", "", "| dimension | runs with each value |", "|---|---|"]
    for name, values in one.values.items():
        counts = ", ".join(f"`{value}` {count}" for value, count in values.items())
        rows.append(f"| {name} | {counts} |")
    rows += ["", *_uncovered(one.uncovered)]
    if one.impossible:
        rows += ["", "| impossible | with | reason |", "|---|---|---|"]
        rows += [
            f"| {_condition(*rule.first)} | {_condition(*rule.second)} | {rule.reason} |"
            for rule in one.impossible
        ]
    return "\n".join(rows)


def _uncovered(pairs: Sequence[Pair]) -> list[str]:
    if not pairs:
        return ["All possible pairs are covered."]
    rows = ["| never covered | with |", "|---|---|"]
    for (first, dimension), group in groupby(pairs, lambda pair: (pair[0], pair[1][0])):
        values = [value for _, (_, value) in group]
        rows.append(f"| {_condition(first[0], [first[1]])} | {_condition(dimension, values)} |")
    return rows


def _condition(name: str, values: Sequence[str]) -> str:
    return f"{name}: {', '.join(f'`{value}`' for value in values)}"


def written(page: Path = PAGE) -> str:
    """Returns the part of the page between the marks."""
    return marked_pages.written(page, _BEGIN)


def update(page: Path = PAGE) -> None:
    """Puts the tables into the page."""
    marked_pages.update(page, _BEGIN, render())
