"""The end of `make test`: results and times of stages, the slowest ten tests, all failed tests.

`python -m tests.support.slowest DIRECTORY` reads the records of the stages in that directory, and
the reports of ScalaTest that are not older. It exits with 1 if a stage did not succeed.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[2]
_SCALA = ("jvm/spark/target/test-reports", "jvm/spark/earlier/4.2/target/test-reports")
_SHOWN = 10
_LINES = 12  # of a failed test's message and stack trace


@dataclass(frozen=True)
class Timed:
    """A test that has run.

    Attributes:
        name: of its suite and of the test.
        seconds: that it took, its set-up included where the report tells.
        failure: the message and the stack trace of a failed test, otherwise empty.
    """

    name: str
    seconds: float
    failure: str = ""


def tests_of(report: Path) -> Iterator[Timed]:
    """The tests of a report in JUnit's form, which both ScalaTest and pytest write."""
    for case in ElementTree.parse(report).iter("testcase"):
        suite = case.get("classname", "").rsplit(".", 1)[-1]
        failed = [part for kind in ("failure", "error") for part in case.iter(kind)]
        failure = "\n".join(
            f"{part.get('message', '')}\n{part.text or ''}".strip() for part in failed
        )
        yield Timed(f"{suite}: {case.get('name')}", float(case.get("time", 0)), failure)


def reports(stages: Path) -> Iterator[Path]:
    """The reports of this run: those of pytest, and those that ScalaTest has written since."""
    since = (stages / "began").stat().st_mtime
    yield from stages.glob("*.xml")
    for directory in _SCALA:
        found = (_ROOT / directory).glob("*.xml")
        yield from (report for report in found if report.stat().st_mtime >= since)


def results(stages: Path) -> dict[str, str]:
    """The result of each stage, in the order in which they ended; `ok` is success."""
    found = sorted(stages.glob("*.status"), key=lambda record: record.stat().st_mtime)
    return {record.stem: record.read_text().strip() for record in found}


def lines(stages: Path) -> Iterator[str]:
    """Yields the lines of the report."""
    yield "Stages, wall time, processor time and result:"
    for name, result in results(stages).items():
        record = stages / f"{name}.time"
        measured = record.read_text().split()[-3:] if record.exists() else []
        wall, user, system = map(float, measured) if len(measured) == 3 else (0.0, 0.0, 0.0)
        yield f"  {name:<18}{_clock(wall):>7}{_clock(user + system):>7}  {result}"
    tests = [test for report in reports(stages) for test in tests_of(report)]
    slowest = sorted(tests, key=lambda test: -test.seconds)[:_SHOWN]
    yield f"The slowest {len(slowest)} of {len(tests):,} tests, in seconds:"
    yield from (f"  {test.seconds:6.1f}  {test.name}" for test in slowest)
    for test in tests:
        if test.failure:
            yield f"FAILED {test.name}"
            yield from (f"  {line}" for line in test.failure.splitlines()[:_LINES])


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    print("\n".join(lines(directory)))
    sys.exit(any(result != "ok" for result in results(directory).values()))
