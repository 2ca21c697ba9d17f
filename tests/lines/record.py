"""Results of tests on a Spark version, stored next to the tests."""

import ast
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from cleancut._session.installation import SPARK
from tests.lines.rows import ROWS

HERE = Path(__file__).parent
TESTS = HERE.parent
ROOT = TESTS.parent
_SUITES = ROOT / "jvm/spark/src/test/scala"


@dataclass(frozen=True, order=True)
class Result:
    """The last result of a test on a Spark version.

    Attributes:
        test: the name in rows; a suite in Scala with the name of the test.
        outcome: passed, skipped or failed.
        spark: the release of Spark.
        cleancut: the release of Cleancut.
        day: the day of the run.
        source: a digest of the test's code.
    """

    test: str
    outcome: str
    spark: str
    cleancut: str
    day: str
    source: str


def matches(pattern: str, test: str) -> bool:
    """Whether a row's pattern matches a test; a name matches all of its tests."""
    exact = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(f"{exact}(\\[.*|: .*)?", test, re.DOTALL) is not None


def wanted(test: str, patterns: Sequence[str] | None = None) -> bool:
    """Whether a row names the test."""
    known = patterns or [test for row in ROWS for test in row.tests]
    return any(matches(pattern, test) for pattern in known)


def read(line: str, place: Path = HERE) -> list[Result]:
    """Reads the results of a Spark version."""
    path = place / f"{line}.json"
    if not path.exists():
        return []
    return [Result(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]


def write(line: str, results: Iterable[Result], place: Path = HERE) -> None:
    """Replaces the stored results, one per line of the file."""
    rows = ",\n".join(json.dumps(asdict(result)) for result in sorted(results))
    (place / f"{line}.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def add(line: str, results: Iterable[Result], place: Path = HERE) -> None:
    """Merges results with the stored ones; drops tests that no row names."""
    assert line in SPARK, line
    by_test = {result.test: result for result in read(line, place)} | {
        result.test: result for result in results
    }
    write(line, (result for result in by_test.values() if wanted(result.test)), place)


def outcomes(report: Path) -> Iterator[tuple[str, str]]:
    """Returns the tests of a report in JUnit's format, by pytest or by sbt, with their results."""
    for case in ET.parse(report).getroot().iter("testcase"):
        parts = {part.tag for part in case}
        failed = bool(parts & {"failure", "error"})
        outcome = "failed" if failed else "skipped" if "skipped" in parts else "passed"
        yield _name(case.attrib["classname"], case.attrib["name"]), outcome


def _name(owner: str, name: str) -> str:
    if not owner.startswith("tests."):
        return f"{owner.rpartition('.')[2]}: {name}"
    return f"{owner.removeprefix('tests.').replace('.', '/')}.py::{name}"


@cache
def source_of(test: str) -> str | None:
    """A digest of a test's code, which is a function in Python or a suite in Scala; None if gone.

    The code that they call is not included.
    """
    file, _, name = test.partition("::")
    if name:
        code = _function(TESTS / file, name.partition("[")[0])
    else:
        suite = test.partition(":")[0]
        sources = [path.read_text(encoding="utf-8") for path in _SUITES.rglob(f"{suite}.scala")]
        code = sources[0] if sources else None
    return None if code is None else hashlib.sha256(code.encode()).hexdigest()[:12]


@cache
def parsed(path: Path) -> ast.Module:
    """Parses a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _function(path: Path, name: str) -> str | None:
    for node in parsed(path).body if path.exists() else []:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            # The code without its layout.
            return ast.unparse(node)
    return None
