"""`python -m tests.lines`: runs tests on the installed Spark version, and stores the results.

`run` takes those that the table names, in both languages; `pytest` those that its arguments name,
with what sbt has run last. Both write the table into the documentation. `page` does that alone.
"""

import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import cleancut
from cleancut._session.installation import SPARK, spark_line
from tests.lines import page
from tests.lines.record import ROOT, Result, add, outcomes, source_of, wanted
from tests.lines.rows import ROWS

_LINE = spark_line()
_IS_NEWEST = spark_line() == SPARK[-1]
_PROJECT = "core" if _IS_NEWEST else f"spark{_LINE.replace('.', '')}"
_REPORTS_OF_SBT = ROOT / "jvm" / ("" if _IS_NEWEST else f"older/{_LINE}") / "target/test-reports"
_REPORT = ROOT / f"target/lines/{_LINE}.xml"


def main(command: str, arguments: list[str]) -> int:
    """Runs the command; returns the exit status."""
    if command == "page":
        page.update()
        return 0
    if command == "pytest":
        return _pytest(arguments)
    assert command == "run", command
    # One after the other; the second also if the first has failed.
    return max([_sbt(), _pytest([*_named(), "-p", "tests.lines.only", *arguments])])


def _sbt() -> int:
    """Runs the suites of the table."""
    suites = {
        test for row in ROWS if row.ability.has(_LINE) for test in row.tests if "::" not in test
    }
    tests = " ".join(f"*.{test}" for test in sorted(suites))
    return subprocess.run(["project/sbt", f"{_PROJECT}/testOnly {tests}"], cwd=ROOT).returncode


def _named() -> list[str]:
    """Returns the functions in Python of the table."""
    named = {test.partition("[")[0] for row in ROWS for test in row.tests if "::" in test}
    return [f"tests/{test}" for test in sorted(named)]


def _pytest(arguments: list[str]) -> int:
    """Runs tests, and stores their results and those of the last run of sbt."""
    command = [sys.executable, "-m", "pytest", f"--junitxml={_REPORT}", *arguments]
    status = subprocess.run(command, cwd=ROOT).returncode
    reports = [_REPORT, *sorted(_REPORTS_OF_SBT.glob("*.xml"))]
    collected = [one for report in reports for one in _results(report)]
    add(_LINE, collected)
    print(f"{len(collected)} tests of the table, on Spark {_LINE}")
    page.update()
    return status


def _results(report: Path) -> list[Result]:
    """Returns the results of a report that rows name."""
    day = datetime.fromtimestamp(report.stat().st_mtime, UTC).date().isoformat()
    return [
        Result(test, outcome, _spark_of(test), cleancut.__version__, day, source_of(test) or "")
        for test, outcome in outcomes(report)
        if wanted(test)
    ]


def _spark_of(test: str) -> str:
    """Tests in Scala run on the release that the jar is compiled against."""
    if "::" in test:
        return version("pyspark")
    key = "Spark" if _IS_NEWEST else f"Spark{_LINE.replace('.', '')}"
    versions = (ROOT / "project/Versions.scala").read_text(encoding="utf-8")
    match = re.search(rf'val {key} = "(.+)"', versions)
    assert match is not None, key
    return match[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
