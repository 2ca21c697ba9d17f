"""What took long in `make test`: its stages, and the slowest ten tests of both languages.

`python -m tests.support.slowest DIRECTORY` reads what the stages have noted in that directory, and
the reports of ScalaTest that are not older.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[2]
_SCALA = ("jvm/target/test-reports", "jvm/older/target/test-reports")
_SHOWN = 10


@dataclass(frozen=True)
class Timed:
    """A test that has run.

    Attributes:
        name: of its suite and of the test.
        seconds: that it took, its set-up included where the report tells.
    """

    name: str
    seconds: float


def tests_of(report: Path) -> Iterator[Timed]:
    """The tests of a report in JUnit's form, which both ScalaTest and pytest write."""
    for case in ElementTree.parse(report).iter("testcase"):
        suite = case.get("classname", "").rsplit(".", 1)[-1]
        yield Timed(f"{suite}: {case.get('name')}", float(case.get("time", 0)))


def reports(stages: Path) -> Iterator[Path]:
    """The reports of this run: those of pytest, and those that ScalaTest has written since."""
    since = (stages / "began").stat().st_mtime
    yield from stages.glob("*.xml")
    for directory in _SCALA:
        found = (_ROOT / directory).glob("*.xml")
        yield from (report for report in found if report.stat().st_mtime >= since)


def lines(stages: Path) -> Iterator[str]:
    """What stands at the end of a run."""
    yield "Stages, wall time and time of processors:"
    for note in sorted(stages.glob("*.time"), key=lambda note: note.stat().st_mtime):
        wall, user, system = map(float, note.read_text().split()[-3:])
        yield f"  {note.stem:<18}{_clock(wall):>7}{_clock(user + system):>7}"
    tests = [test for report in reports(stages) for test in tests_of(report)]
    slowest = sorted(tests, key=lambda test: -test.seconds)[:_SHOWN]
    yield f"The slowest {len(slowest)} of {len(tests):,} tests, in seconds:"
    yield from (f"  {test.seconds:6.1f}  {test.name}" for test in slowest)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    print("\n".join(lines(Path(sys.argv[1]))))
