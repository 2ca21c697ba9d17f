"""The figures of README and of the benchmarks page equal those in the tables of all benchmarks."""

import re

from tests.unit.test_docs import anchors
from tests.unit.test_tidy import ROOT

SUMMARY = "docs/benchmarks.md"
TABLES = "docs/project/benchmark-tables.md"
ROW = re.compile(r"^\| \[(.+?)\]\(project/benchmark-tables\.md#([\w-]+)\) \|(.*)\|$", re.M)
FIGURE = re.compile(r"\$?\d[\d,.]*\d(?: (?:ms|s)\b)?|\b\d\b")
VALUES = slice(0, 3)


def rows() -> list[tuple[str, str, list[str]]]:
    """Returns the case, the section of the tables, and the values of each row of the summary."""
    matches = ROW.findall((ROOT / SUMMARY).read_text(encoding="utf-8"))
    return [
        (case, anchor, [cell.strip() for cell in cells.split("|")][VALUES])
        for case, anchor, cells in matches
    ]


def section(anchor: str) -> str:
    """Returns a section of the tables, with the sections below it."""
    text = (ROOT / TABLES).read_text(encoding="utf-8")
    for heading in re.finditer(r"^(#+) (.*)\n", text, flags=re.M):
        name = re.sub(r"[^\w\s-]", "", heading[2]).strip().lower().replace(" ", "-")
        if name == anchor:
            rest = text[heading.end() :]
            return re.split(rf"^#{{1,{len(heading[1])}}} ", rest, maxsplit=1, flags=re.M)[0]
    raise AssertionError(f"{TABLES} has no section {anchor}")


def milliseconds(figure: str) -> float | str:
    """Returns a duration in milliseconds, so that 3.1 s equals 3102 ms to the digits of 3.1."""
    number, _, unit = figure.replace(",", "").partition(" ")
    return round(float(number) * (1000 if unit == "s" else 1)) if unit else figure


def unsupported(figures: list[str], summary: list[str]) -> list[str]:
    """Returns the figures that no cell of the summary has, rounded or not."""
    known = {milliseconds(cell) for cell in summary}
    durations = [value for value in known if not isinstance(value, str)]

    def is_known(figure: str) -> bool:
        value = milliseconds(figure)
        if isinstance(value, str):
            return value in known
        step = 50 if figure.endswith(" s") else 0.5
        return any(abs(value - duration) <= step for duration in durations)

    return [figure for figure in figures if not is_known(figure)]


def test_each_figure_of_the_summary_is_in_its_table() -> None:
    assert len(rows()) == 13
    assert {anchor for _, anchor, _ in rows()} <= anchors(ROOT / TABLES)
    missing = [
        f"{case}: {value}"
        for case, anchor, values in rows()
        for value in values
        if value and not re.search(rf"(?<![\d.,]){re.escape(value)}(?![\d,])", section(anchor))
    ]
    assert missing == []


def test_each_figure_of_the_readme_is_in_the_summary() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = readme.partition("- **Cheap")[2].partition("- **Recovery")[0]
    measured = re.sub(r"\b(?:200 partitions|50 ms per row|100,000 rows)|\]\(\S+\)|S3", "", first)
    figures = FIGURE.findall(measured)
    cells = [value for _, _, values in rows() for value in values if value]
    assert len(figures) >= 10
    assert unsupported(figures, cells) == []
    assert unsupported(["3.3 s"], ["3102 ms"]) == ["3.3 s"]
    assert unsupported(["5,000"], ["4,448"]) == ["5,000"]
    assert "backlog took 116 s" in readme
    assert "the backlog took 116.0 s" in (ROOT / SUMMARY).read_text(encoding="utf-8")
    assert "116.0 s" in section("a-slow-key-and-the-cost-of-capture")
