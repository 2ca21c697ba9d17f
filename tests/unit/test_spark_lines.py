"""Every place that lists the lines of Spark lists the same."""

import ast
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from cleancut._spark.installed import SPARK

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
    assert set(re.findall(r'sourcesFor\("(.+)"\)', read("build.sbt"))) == set(SPARK)


def test_the_jar_of_each_line_knows_its_line_and_the_others() -> None:
    for line in SPARK:
        built_for = read(f"jvm/src/main/scala-{line}/{PACKAGE}/session/BuiltFor.scala")
        assert f'val Spark = "{line}"' in built_for
    check = read(f"jvm/src/main/scala/{PACKAGE}/session/SparkLine.scala")
    listed = ", ".join(f'"{line}"' for line in SPARK)
    assert f"val Supported = Seq({listed})" in check


def test_the_folders_of_the_lines_have_the_same_files() -> None:
    folders = sorted((ROOT / "jvm/src/main").glob("scala-*"))
    assert [folder.name for folder in folders] == [f"scala-{line}" for line in SPARK]
    files = {folder: {p.relative_to(folder) for p in folder.rglob("*.scala")} for folder in folders}
    assert len({frozenset(found) for found in files.values()}) == 1


def test_pip_installs_these_lines_and_no_other() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    (wanted,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "pyspark")
    for line in SPARK:
        assert wanted.specifier.contains(f"{line}.0")
        assert wanted.specifier.contains(f"{line}.9")
    major, newest = SPARK[-1].split(".")
    assert not wanted.specifier.contains(f"{major}.{int(newest) + 1}.0")
    assert not wanted.specifier.contains(f"{major}.{int(SPARK[0].split('.')[1]) - 1}.9")


def test_the_documents_name_them() -> None:
    for name in ("README.md", "docs/concepts/limits.md", "CHANGELOG.md"):
        assert all(line in read(name) for line in SPARK), name
