"""Each list of supported Spark versions in the repository is the same."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cleancut._session.installation import SPARK
from tests.support.lines import STATE_FOR_SPARK

ROOT = Path(__file__).resolve().parents[2]
SPARK_MODULE = "jvm/spark/src"
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
    named = re.findall(r'(?:sourcesFor|earlier)\("(.+?)"[,)]', read("build.sbt"))
    assert sorted(named) == sorted(SPARK)


def test_a_release_publishes_the_jar_of_each_line() -> None:
    match = re.search(r"^RELEASED := (.*)$", read("Makefile"), re.MULTILINE)
    assert match is not None
    older = [f"spark{line.replace('.', '')}" for line in SPARK[:-1]]
    assert sorted(match[1].split()) == sorted(["core", "spark43", *older])


def test_the_jar_of_each_line_knows_its_line_and_the_others() -> None:
    for line in SPARK:
        built_for = read(
            f"{SPARK_MODULE}/main/scala-shims/spark-{line}/{PACKAGE}/sparkapi/BuiltFor.scala"
        )
        assert f'val Spark = "{line}"' in built_for
    check = read(f"{SPARK_MODULE}/main/scala/{PACKAGE}/sparkapi/SparkLine.scala")
    listed = ", ".join(f'"{line}"' for line in SPARK)
    assert f"val Supported = Seq({listed})" in check


def shims(sources: str) -> dict[str, list[Path]]:
    """Returns the folders of shims by the relative path of the shim."""
    shims: dict[str, list[Path]] = {}
    for folder in (ROOT / SPARK_MODULE / sources / "scala-shims").iterdir():
        for path in folder.rglob("*.scala"):
            shims.setdefault(str(path.relative_to(folder)), []).append(folder)
    return shims


def versions(folder: Path) -> list[str]:
    """Returns the Spark versions of a folder of shims, as `project/SparkVersions.scala` parses
    them.
    """
    match = re.fullmatch(r"spark-(\d+\.\d+)(?:-(\d+\.\d+))?", folder.name)
    assert match, folder
    first, last = SPARK.index(match[1]), SPARK.index(match[2] or match[1])
    assert first <= last
    return list(SPARK[first : last + 1])


@pytest.mark.parametrize("sources", ["main", "test"])
def test_no_shim_exists_twice_for_a_version(sources: str) -> None:
    assert shims(sources)
    for path, folders in shims(sources).items():
        covered = [version for folder in folders for version in versions(folder)]
        assert len(covered) == len(set(covered)), path


def test_shims_used_by_shared_code_exist_for_each_version() -> None:
    sources = (ROOT / SPARK_MODULE / "main/scala").rglob("*.scala")
    shared = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    used = {
        path: folders
        for path, folders in shims("main").items()
        if Path(path).name != "package.scala" and re.search(rf"\b{Path(path).stem}\b", shared)
    }
    assert len(used) > 10
    for path, folders in used.items():
        assert sorted(version for folder in folders for version in versions(folder)) == list(
            SPARK
        ), path


def test_pip_installs_these_versions_and_no_other() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    (wanted,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "pyspark")
    for line in SPARK:
        assert wanted.specifier.contains(f"{line}.1")
        assert wanted.specifier.contains(f"{line}.9")
    assert not wanted.specifier.contains("4.0.0")
    major, newest = SPARK[-1].split(".")
    assert not wanted.specifier.contains(f"{major}.{int(newest) + 1}.0")
    assert not wanted.specifier.contains("3.5.9")


def test_the_jars_know_their_features() -> None:
    for line in SPARK:
        (source,) = (
            folder / path
            for path, folders in shims("main").items()
            for folder in folders
            if path.endswith("/stored/StoreOperations.scala") and line in versions(folder)
        )
        can = str(STATE_FOR_SPARK.has(line)).lower()
        assert f"CanWriteForSpark: Boolean = {can}" in source.read_text(encoding="utf-8")


def test_the_documents_list_them() -> None:
    for name in ("README.md", "docs/concepts/limits.md", "CHANGELOG.md"):
        assert all(line in read(name) for line in SPARK), name
