"""The figures of the campaigns page are the sums of the tables of all records."""

import re

import pytest

from tests.unit.test_docs import anchors
from tests.unit.test_tidy import ROOT

SUMMARY = "docs/campaigns.md"
RECORDS = "docs/project/campaign-records.md"
# The columns whose sums a row of the summary has, by the section of the records.
SUMS = {
    "randomized-queries-in-one-jvm": ("runs", "failures", "restarts", "in-flight rows", "wrong"),
    "queries-on-a-cluster-killed": ("runs", "drivers killed", "executors killed", "wrong"),
    "python-functions-with-state-killed": (
        "runs",
        "workers killed",
        "drivers killed",
        "in-flight rows",
        "restarts",
        "wrong",
    ),
    "drivers-of-sinks-killed-with-concurrent-readers": ("drivers killed", "polls", "torn"),
    "each-sink-killed-and-paused": ("drivers killed", "drivers paused", "epochs", "lost"),
    "dataflows-killed": ("rows", "lost", "duplicated", "wrong"),
    "operations-killed": ("killed before its end", "killed between the cut and Spark's logs"),
    "every-fault-at-every-step": ("injected", "queries", "lost", "duplicated"),
    "the-simulated-protocol": ("runs", "drivers crashed", "rows lost", "wrong"),
    "simulated-dataflows": ("runs", "checked", "wrong"),
}


def section(anchor: str) -> str:
    text = (ROOT / RECORDS).read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading = part.partition("\n")[0]
        if re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") == anchor:
            return part
    raise AssertionError(f"{RECORDS} has no section {anchor}")


def sums(text: str, columns: tuple[str, ...]) -> list[int]:
    """Returns the sum of each column over all tables that have it."""
    totals = dict.fromkeys(columns, 0)
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        else:
            for name, cell in zip(header, cells, strict=True):
                if name in totals and cell.isdecimal():
                    totals[name] += int(cell)
    return list(totals.values())


def rows() -> dict[str, list[int]]:
    """Returns the figures of each row of the summary, by the section of the records."""
    text = (ROOT / SUMMARY).read_text(encoding="utf-8")
    lines = re.findall(
        r"^\| \[.*?\]\(project/campaign-records\.md#([\w-]+)\) \|(.*)\|$", text, re.M
    )
    return {
        anchor: [int(figure.replace(",", "")) for figure in re.findall(r"\b\d[\d,]*", cells)]
        for anchor, cells in lines
    }


@pytest.mark.parametrize("anchor", SUMS)
def test_a_row_of_the_summary_has_the_sums_of_its_tables(anchor: str) -> None:
    assert anchor in anchors(ROOT / RECORDS)
    totals = sums(section(anchor), SUMS[anchor])
    assert any(totals)
    assert [total for total in totals if total not in rows()[anchor]] == []


def test_the_summary_has_each_campaign() -> None:
    assert set(rows()) == set(SUMS)
