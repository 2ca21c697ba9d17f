"""The summary of all campaigns, from the tables of their records.

`python -m tests.support.campaign_report` writes the table of `docs/campaigns.md`. A campaign prints
a line for `docs/project/campaign-records.md`, which is added by hand with the date and the commit.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import marked_pages

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs/project/campaign-records.md"
PAGE = ROOT / "docs/campaigns.md"
_BEGIN = "<!-- made by tests/support/campaign_report.py -->"
_LOST, _DUPLICATED, _DISORDERED = ("lost", "rows lost"), ("duplicated",), ("out of order",)
_WRONG = ("wrong", "torn", "reverted", "orphans", "missing objects")
_NO_COLUMN = "n/a"


@dataclass(frozen=True)
class Kind:
    """A kind of campaign: a section of the records.

    Attributes:
        heading: the heading of the section.
        title: the name in the summary.
        runs: the number of runs; `{…}` is the sum of a column.
        faults: the faults that happened.
        meaning: what the figures mean.
    """

    heading: str
    title: str
    runs: str
    faults: str
    meaning: str


KINDS = [
    Kind(
        "Randomized queries in one JVM",
        "Randomized queries in one JVM",
        "{runs} queries",
        "{failures} failures of tasks, {restarts} restarts",
        "Cuts at random moments stored {in-flight rows} in-flight rows.",
    ),
    Kind(
        "Queries on a cluster, killed",
        "Queries on a cluster, killed",
        "{runs} queries",
        "{drivers killed} drivers and {executors killed} executors killed",
        "Processes die by SIGKILL while rows are in flight.",
    ),
    Kind(
        "Queries with pipelined cuts, killed",
        "Queries with pipelined cuts, killed",
        "{runs} queries",
        "{drivers killed} drivers killed, with {running queries} running queries",
        "Drivers die by SIGKILL at each request between two epochs. Their {epochs repeated} epochs"
        " that ran again returned the same rows.",
    ),
    Kind(
        "Python functions with state, killed",
        "Python functions with state, killed",
        "{runs} queries",
        "{workers killed} Python workers and {drivers killed} drivers killed, {restarts} restarts",
        "Cuts stored {in-flight rows} in-flight rows. Each result is compared with a model of the"
        " function. The differences are defects of the campaign, which its records explain.",
    ),
    Kind(
        "Drivers of sinks killed, with concurrent readers",
        "Sinks with concurrent readers",
        "{polls} polls",
        "{drivers killed} drivers killed",
        "Each poll of PostgreSQL, Kafka, MariaDB and Redis returned whole epochs.",
    ),
    Kind(
        "Each sink, killed and paused",
        "Each sink, killed and paused",
        "{epochs} epochs",
        "{drivers killed} drivers killed, {drivers paused} paused",
        "A driver that continues after a newer one has published changes nothing.",
    ),
    Kind(
        "Dataflows, killed",
        "Dataflows, killed",
        "{rows} rows",
        "{drivers} drivers and {coordinators} coordinators killed",
        "Each cut of four queries in a diamond and a loop was consistent.",
    ),
    Kind(
        "Operations, killed",
        "Operations, killed",
        "{lines} operations",
        "{killed before its end} killed before their end, {killed between the cut and Spark's logs}"
        " between the cut and Spark's logs",
        "No key was lost or counted twice.",
    ),
    Kind(
        "Operations, interrupted",
        "Operations, interrupted",
        "{operations} operations",
        "{killed} killed and {overtaken} overtaken at a call of the file system",
        "{starts refused} starts were refused; the others had the state from before or after the"
        " operation.",
    ),
    Kind(
        "Operations with in-flight rows, killed",
        "Operations with in-flight rows, killed",
        "{operations} operations",
        "{drivers killed} drivers and {executors killed} executors killed",
        "{rows compared} rows of the queries after the operations were compared.",
    ),
    Kind(
        "Corrupted objects of a bucket",
        "Corrupted objects of a bucket",
        "{corruptions} corruptions",
        "{named} named by `verify`, {refused} refused by it, {restarts} restarts",
        "Each other one changed no row of the state. A restart was refused, or its rows were"
        " right.",
    ),
    Kind(
        "Every fault at every step",
        "Every fault at every step",
        "{queries} queries",
        "{injected} faults of an S3 server",
        "Each request of a query fails once in each way.",
    ),
    Kind(
        "The simulated protocol",
        "The simulated protocol",
        "{runs} runs",
        "{drivers crashed} drivers and {executors crashed} executors crashed, and other faults",
        "The records explain the wrong runs: by a defect that is fixed, or a wrong check of the"
        " simulation.",
    ),
    Kind(
        "Simulated dataflows",
        "Simulated dataflows",
        "{runs} runs",
        "queries, channels and requests that fail",
        "{checked} vectors of cuts were checked.",
    ),
]


def section(records: str, heading: str) -> str:
    """Returns a section of the records.

    Raises:
        ValueError: if there is none.
    """
    for part in re.split(r"^## ", records, flags=re.MULTILINE)[1:]:
        if part.partition("\n")[0].strip() == heading:
            return part
    raise ValueError(f"{RECORDS} has no section {heading}")


def lines_of(text: str) -> Iterator[Mapping[str, str]]:
    """Yields the lines of all tables, by column."""
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = cells
        elif not set(line) <= set("|-: "):
            yield dict(zip(header, cells, strict=True))


def sums_of(lines: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Returns the sum of each column with numbers; of texts, the sum before each noun."""
    sums: dict[str, int] = {"lines": len(lines)}
    for line in lines:
        for column, cell in line.items():
            if cell.isdecimal():
                sums[column] = sums.get(column, 0) + int(cell)
            elif column == "killed":
                for count, noun in re.findall(r"(\d+) ([a-z]+?)s?\b", cell):
                    sums[f"{noun}s"] = sums.get(f"{noun}s", 0) + int(count)
    return sums


def render(records: str | None = None) -> str:
    """Renders the table of the summary."""
    text = RECORDS.read_text(encoding="utf-8") if records is None else records
    rows = [
        "| campaign | runs | faults | lost | duplicated | out of order | wrong | meaning |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        sums = sums_of(list(lines_of(section(text, kind.heading))))
        shown = {name: f"{total:,}" for name, total in sums.items()}
        anchor = re.sub(r"[^\w\s-]", "", kind.heading).lower().replace(" ", "-")
        cells = [
            f"[{kind.title}](project/campaign-records.md#{anchor})",
            kind.runs.format_map(shown),
            kind.faults.format_map(shown),
            *(_total(sums, names) for names in (_LOST, _DUPLICATED, _DISORDERED, _WRONG)),
            kind.meaning.format_map(shown),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    # A table needs an empty line before it.
    return "\n".join(["", *rows, ""])


def _total(sums: Mapping[str, int], names: Sequence[str]) -> str:
    totals = [sums[name] for name in names if name in sums]
    return f"{sum(totals):,}" if totals else _NO_COLUMN


def written(page: Path = PAGE) -> str:
    """Returns the part of the page between the marks."""
    return marked_pages.written(page, _BEGIN)


def main() -> int:
    """Writes the table."""
    marked_pages.update(PAGE, _BEGIN, render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
