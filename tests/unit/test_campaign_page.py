"""The figures of the campaigns page are the sums of the tables of all records."""

import pytest

from tests.support.campaign_report import (
    KINDS,
    RECORDS,
    lines_of,
    render,
    section,
    sums_of,
    written,
)

TABLES = """\
| date | killed | runs | lost | note |
|---|---|---|---|---|
| 1 | 7 drivers, 1 coordinator | 3 | 0 | |
| 2 | 2 drivers, 3 coordinators | 40 | 1 | x |

Text | that is no table.

| runs | wrong |
|---|---|
| 5 | |
"""


def test_the_page_shows_the_sums_of_the_records() -> None:
    assert written() == render(), "make campaign-report writes it"


def test_sums_are_those_of_all_tables() -> None:
    lines = list(lines_of(TABLES))
    assert len(lines) == 3
    assert lines[0]["killed"] == "7 drivers, 1 coordinator"
    sums = sums_of(lines)
    assert (sums["runs"], sums["lost"], sums["lines"]) == (48, 1, 3)
    assert (sums["drivers"], sums["coordinators"]) == (9, 4)
    assert "wrong" not in sums


def test_each_section_of_campaigns_is_in_the_summary() -> None:
    records = RECORDS.read_text(encoding="utf-8")
    sections = [line[3:] for line in records.splitlines() if line.startswith("## ")]
    assert [kind.heading for kind in KINDS] == sections[1:-1]
    with pytest.raises(ValueError, match="no section"):
        section(records, "Nothing")


def test_a_table_without_a_column_has_no_figure_for_it() -> None:
    records = "\n".join(
        f"## {kind.heading}\n| rows | runs | lost |\n|---|---|---|\n| 2000 | 9 | 0 |\n"
        for kind in KINDS
    )
    with pytest.raises(KeyError, match="failures"):
        render(records)
    line = [row for row in render().splitlines() if "[Operations, killed]" in row]
    assert "| n/a | n/a | n/a | n/a |" in line[0]
