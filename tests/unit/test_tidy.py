"""Style as a test: sizes, forbidden imports, and calls that belong to the injected clock."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 70
MAX_WIDTH = 100

PURE_PACKAGES = ("error", "conf", "format", "engine", "protocol")
CLOCK = "jvm/core/src/main/scala/io/cleancut/base/Clock.scala"

BANNED_CALLS = {
    r"\bSystem\.(currentTimeMillis|nanoTime)\b": "take the time from the injected Clock",
    r"\bThread\.sleep\b": "wait through the injected Clock",
    r"\bnew (scala\.util\.|java\.util\.|)Random\b": "take random numbers from the injected Clock",
    r"\bUUID\.randomUUID\b": "take ids from the injected Clock",
}

# The speed of the machine decides the result of such a test. Waits poll for a condition
# (`Patience`, `tests/support/patience.py`).
TIMED_TESTS = {
    r"assert.*\b(monotonic|perf_counter|nanoTime|monotonicNs)\(\) - .*<": "a timed assertion",
    r"\bdeadline=(?!None)": "a time limit of Hypothesis",
    r"\bPatienceConfig\(": "mix in testkit.Patience",
    r"\.(get|await)\(\d+L?, (TimeUnit\.)?SECONDS\)": "the limit is Patience.Seconds",
    r"\beventually\(timeout\(": "mix in testkit.Patience",
    r"\bAwait\.result\(.*\d\.(seconds|minutes)": "the limit is Patience.Seconds",
    r"monotonic\(\) \+ \d": "the limit is PATIENCE_S",
    r"\b(timeout|timeout_s|within_s)=(?!600)\d\d": "the limit is PATIENCE_S",
}
# A limit that is the subject of the test, or a wait that no failure of the test waits for.
TIMED_EXCEPTIONS = {
    "jvm/spark/src/test/scala/io/cleancut/testkit/Patience.scala",
    "jvm/spark/src/test/scala/io/cleancut/objectstore/AtomicRenameSuite.scala",
    "tests/unit/test_tidy.py",
}

FOREIGN_TEXT = {
    r"(?<![\w.$}~*])/(root|work|home|Users)/": "a path of one machine",
    r"(?<!\w)/tmp/[a-z]": "a path of one machine",
    r"\b[Ii]ssue #?\d": "a number that means nothing outside a tracker",
    r"https?://[\w.-]*(maven|sonatype|pypi|pythonhosted|npmjs|artifact|registry)": "a registry",
    r"\b(TODO|FIXME|XXX)\b(?!\(docs/design/)": "a TODO without its design document",
}


def tracked(*suffixes: str) -> list[Path]:
    """Returns all files of the project with one of the suffixes, including new ones."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name.endswith(suffixes))
    return sorted(path for path in paths if path.is_file())


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:1024]


def matches(paths: list[Path], banned: dict[str, str]) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(lines_of(path), start=1):
            for pattern, reason in banned.items():
                if re.search(pattern, line):
                    yield f"{named(path)}:{number}: {reason}: {line.strip()}"


def python_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yields name and length in lines of each function, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            yield (
                node.name,
                (node.end_lineno or node.lineno) - node.lineno + 1 - docstring.count("\n"),
            )


def scala_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yields name and length in lines of each `def` in formatted code.

    A body is indented deeper than its `def`; at the same depth are only the brackets that close the
    parameter list or the body.
    """
    lines = source.splitlines()
    for start, line in enumerate(lines):
        definition = re.match(r"( *)(?:[\w\[\]]+ )*def (\w+|`.+?`|\W+)", line)
        if definition is None:
            continue
        depth, end = len(definition[1]), start
        for number, following in enumerate(lines[start + 1 :], start + 1):
            indent = len(following) - len(following.lstrip())
            if following.strip() and indent <= depth and following.lstrip()[0] not in ")}|":
                break
            if following.strip():
                end = number
            if following.startswith(" " * depth + "}"):
                break
        yield definition[2], end - start + 1


def test_no_file_is_longer_than_the_hard_stop() -> None:
    sizes = {named(path): len(lines_of(path)) for path in tracked(".scala", ".py")}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


@pytest.mark.parametrize(
    ("suffix", "functions"), [(".py", python_functions), (".scala", scala_functions)]
)
def test_no_function_is_longer_than_the_hard_stop(
    suffix: str, functions: Callable[[str], Iterator[tuple[str, int]]]
) -> None:
    sizes = [
        (named(path), name, size)
        for path in tracked(suffix)
        for name, size in functions(path.read_text(encoding="utf-8"))
    ]
    assert sizes
    assert [entry for entry in sizes if entry[2] > MAX_FUNCTION_LINES] == []


def test_no_test_depends_on_the_speed_of_the_machine() -> None:
    tests = [
        path
        for path in tracked(".scala", ".py")
        if named(path).startswith(("tests/", "jvm/spark/src/test/"))
        and not named(path).startswith(("tests/bench/", "tests/image/"))
        and named(path) not in TIMED_EXCEPTIONS
    ]
    assert tests
    assert list(matches(tests, TIMED_TESTS)) == []
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_no_line_of_code_is_wider_than_the_limit() -> None:
    wide = [
        f"{named(path)}:{number}"
        for path in tracked(".scala", ".sbt", ".py", ".sh")
        for number, line in enumerate(lines_of(path), start=1)
        if len(line) > MAX_WIDTH
    ]
    assert wide == [], "\n".join(wide)


def test_pure_packages_know_neither_spark_nor_hadoop() -> None:
    main = ROOT / "jvm/core/src/main/scala/io/cleancut"
    pure = [path for package in PURE_PACKAGES for path in (main / package).rglob("*.scala")]
    assert pure
    reason = "a pure package needs no cluster to be tested"
    assert list(matches(pure, {r"\borg\.apache\.(spark|hadoop)\b": reason})) == []


def test_spark_private_code_is_in_its_packages() -> None:
    below = "jvm/spark/src/main/scala/org/apache/spark/sql/"
    # The private classes of a Spark Connect server are in a separate package.
    homes = (f"{below}execution/streaming/state/cleancut/", f"{below}connect/cleancut/")
    outside = [
        named(path)
        for path in tracked(".scala")
        if named(path).startswith("jvm/spark/src/main/scala/org/")
        and not named(path).startswith(homes)
    ]
    assert outside == []


def test_time_sleep_and_random_numbers_come_from_the_clock() -> None:
    main = [
        path
        for path in tracked(".scala")
        if named(path).startswith(("jvm/core/src/main/", "jvm/spark/src/main/"))
    ]
    assert list(matches([path for path in main if named(path) != CLOCK], BANNED_CALLS)) == []


def test_the_project_names_no_other_tracker() -> None:
    this = Path(__file__).resolve()
    texts = [path for path in tracked("") if path != this and is_text(path)]
    assert list(matches(texts, FOREIGN_TEXT)) == []


def test_every_key_is_read_into_the_settings() -> None:
    main = ROOT / "jvm/core/src/main"
    keys = (main / "scala/io/cleancut/conf/Keys.scala").read_text(encoding="utf-8")
    declared = re.findall(r"^  val (\w+): Key\[", keys, re.MULTILINE)
    settings = (main / "scala/io/cleancut/conf/Settings.scala").read_text(encoding="utf-8")
    assert declared
    assert [key for key in declared if f"Keys.{key}.read" not in settings] == []


def test_function_lengths_are_measured_correctly() -> None:
    scala = "\n".join(
        [
            "class A {",
            "  def one: Int = 1",
            "",
            "  private def two(",
            "      a: Int",
            "  ): Int = {",
            "    a",
            "  }",
            "",
            "  override def three(): Int =",
            "    if (true) 1",
            "    else 2",
            "",
            "  val after = 1",
            "}",
        ]
    )
    assert list(scala_functions(scala)) == [("one", 1), ("two", 5), ("three", 3)]
    python = "def one():\n    return 1\n\n\nasync def two():\n    return 2\n"
    assert [size for _, size in python_functions(python)] == [2, 2]
