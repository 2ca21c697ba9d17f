"""Every place that lists the lines of Spark lists the same."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cleancut._spark.installed import SPARK
from tests.support.lines import STATE_FOR_SPARK

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "org/apache/spark/sql/execution/streaming/state/cleancut"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_wheel_carries_a_jar_for_each_line() -> None:
    (value,) = (
        node.value
        for node in ast.parse(read("hatch_build.py")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_SPARK_LINES"
    )
    assert ast.literal_eval(value) == SPARK


def test_the_build_makes_a_jar_for_each_line() -> None:
    named = re.findall(r'(?:sourcesFor|older)\("(.+?)"[,)]', read("build.sbt"))
    assert sorted(named) == sorted(SPARK)


def test_a_release_publishes_the_jar_of_each_line() -> None:
    found = re.search(r"^RELEASED := (.*)$", read("Makefile"), re.MULTILINE)
    assert found is not None
    older = [f"spark{line.replace('.', '')}" for line in SPARK[:-1]]
    assert sorted(found[1].split()) == sorted(["common", "core", *older])


def test_the_jar_of_each_line_knows_its_line_and_the_others() -> None:
    for line in SPARK:
        built_for = read(f"jvm/src/main/scala-{line}/{PACKAGE}/session/BuiltFor.scala")
        assert f'val Spark = "{line}"' in built_for
    check = read(f"jvm/src/main/scala/{PACKAGE}/session/SparkLine.scala")
    listed = ", ".join(f'"{line}"' for line in SPARK)
    assert f"val Supported = Seq({listed})" in check


@pytest.mark.parametrize("sources", ["main", "test"])
def test_no_line_has_two_files_of_one_name(sources: str) -> None:
    folders = list((ROOT / "jvm/src" / sources).glob("scala*"))
    assert any(folder.name.endswith("-") for folder in folders)
    for line in SPARK:
        own = [folder for folder in folders if is_for(folder.name, line)]
        files = Counter(p.relative_to(of) for of in own for p in of.rglob("*.scala"))
        assert [str(path) for path, times in files.items() if times > 1] == [], line


@pytest.mark.parametrize(
    ("folder", "lines"),
    [
        ("scala", ["4.0", "4.1", "4.2", "4.3"]),
        ("scala-4.1", ["4.1"]),
        ("scala-4.1-", ["4.0", "4.1"]),
        ("scala-4.2+", ["4.2", "4.3"]),
    ],
)
def test_a_folder_says_which_lines_have_it(folder: str, lines: list[str]) -> None:
    assert [line for line in SPARK if is_for(folder, line)] == lines


def is_for(folder: str, line: str) -> bool:
    """As `project/SparkLines.scala` has it."""
    if folder == "scala":
        return True
    found = re.fullmatch(r"scala-(\d+\.\d+)([+-]?)", folder)
    assert found, folder
    at, bound = SPARK.index(line), SPARK.index(found[1])
    return {"": at == bound, "+": at >= bound, "-": at <= bound}[found[2]]


def test_pip_installs_these_lines_and_no_other() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    (wanted,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "pyspark")
    for line in SPARK:
        assert wanted.specifier.contains(f"{line}.1")
        assert wanted.specifier.contains(f"{line}.9")
    assert not wanted.specifier.contains("4.0.0")
    major, newest = SPARK[-1].split(".")
    assert not wanted.specifier.contains(f"{major}.{int(newest) + 1}.0")
    assert not wanted.specifier.contains("3.5.9")


def test_the_jars_know_which_of_it_they_can() -> None:
    for line in SPARK:
        (own,) = (
            path
            for path in (ROOT / "jvm/src/main").glob(
                f"scala*/{PACKAGE}/offline/StoreOperations.scala"
            )
            if is_for(path.relative_to(ROOT / "jvm/src/main").parts[0], line)
        )
        can = str(STATE_FOR_SPARK.has(line)).lower()
        assert f"CanWriteForSpark: Boolean = {can}" in own.read_text(encoding="utf-8")


def test_the_documents_name_them() -> None:
    for name in ("README.md", "docs/concepts/limits.md", "CHANGELOG.md"):
        assert all(line in read(name) for line in SPARK), name
