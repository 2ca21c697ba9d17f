"""The public names of the package, and its requirements."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import cleancut
from cleancut import RequestError
from cleancut._session import jars
from cleancut._session.installation import SPARK
from tests.support.patience import PATIENCE_S
from tests.unit.installations import install

ROOT = Path(__file__).resolve().parents[2]
SUBMODULES = {"dataflow", "errors", "sinks", "testing", "types"}
STORED = ROOT / "tests/checkpoints/0.1.0/pages"
READING = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Blocker())
import cleancut
from cleancut._cli import main as _cli

location = sys.argv[1]
checkpoint = cleancut.Checkpoint(location)
assert len(checkpoint.cuts()) == 18
assert checkpoint.state(0, limit=3).num_rows == 3
assert checkpoint.history() and checkpoint.verify().frames == 195
for command in ("ls", "show", "history"):
    assert _cli.main([command, location]) == _cli.OK
assert _cli.main(["state", location, "--operator", "0", "--limit", "3"]) == _cli.OK
assert _cli.main(["verify", location]) == _cli.DAMAGED
assert _cli.main(["show", location, "--at", "99"]) == _cli.REFUSED
assert _cli.main(["conf"]) == _cli.REFUSED
assert not {"pyspark", "py4j"} & set(sys.modules)
print("READ")
"""


def test_public_names_are_sorted_and_exist() -> None:
    assert cleancut.__all__ == sorted(cleancut.__all__)
    assert all(hasattr(cleancut, name) for name in cleancut.__all__)


def test_only_these_modules_are_public() -> None:
    public = {name for name in modules() if not any(part.startswith("_") for part in parts(name))}
    assert public == {f"cleancut.{name}" for name in SUBMODULES}


def test_no_module_has_the_name_of_a_function() -> None:
    """`cleancut.coordinator` was a function or a module, depending on the last import."""
    for name in modules():
        importlib.import_module(name)
    for place in (cleancut, cleancut.dataflow, cleancut.sinks, cleancut.testing, cleancut.types):
        submodules = {
            name for name in place.__all__ if isinstance(getattr(place, name), ModuleType)
        }
        assert submodules == (SUBMODULES if place is cleancut else set())


def modules() -> list[str]:
    packages = pkgutil.walk_packages(cleancut.__path__, "cleancut.")
    return [module.name for module in packages if not module.name.endswith("__main__")]


def parts(module: str) -> list[str]:
    return module.split(".")


def test_the_release_is_that_of_the_project_and_of_the_jar() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    build = (ROOT / "project/Versions.scala").read_text(encoding="utf-8")
    assert project["version"] == cleancut.__version__
    assert re.findall(r'val Cleancut = "(.+)"', build) == [cleancut.__version__]
    assert project["scripts"]["cleancut"] == "cleancut._cli.main:main"


def test_the_metadata_of_the_package_matches_its_requirements() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    classifiers = project["classifiers"]
    assert classifiers == sorted(classifiers)
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in classifiers
    assert ("Typing :: Typed" in classifiers) == (ROOT / "python/cleancut/py.typed").exists()


@pytest.mark.parametrize("line", SPARK)
def test_the_jars_for_the_installed_spark_are_found(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch).spark(version=f"{line}.1")
    monkeypatch.setattr(jars, "_JARS", tmp_path)
    with pytest.raises(RequestError) as raised:
        cleancut.jar_paths()
    assert raised.value.error_id == "CLEANCUT_JAR_MISSING"
    names = ("cleancut-common", f"cleancut-spark-{line}")
    paths = [tmp_path / f"{name}_2.13-{cleancut.__version__}.jar" for name in names]
    for jar in paths:
        jar.touch()
    assert cleancut.jar_paths() == tuple(str(jar) for jar in paths)


def test_the_jars_of_a_package_in_an_archive_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths pointed into the archive, which Spark cannot read."""
    install(tmp_path, monkeypatch).spark()
    release = cleancut.__version__
    names = [f"cleancut-{artifact}_2.13-{release}.jar" for artifact in ("common", "spark-4.3")]
    archive = tmp_path / "cleancut.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for name in names:
            made.writestr(f"cleancut/jars/{name}", name)
    monkeypatch.setattr(jars, "_JARS", archive / "cleancut" / "jars")
    paths = cleancut.jar_paths()
    assert [Path(jar).name for jar in paths] == names
    assert [Path(jar).read_text() for jar in paths] == names
    assert cleancut.jar_paths() == paths
    monkeypatch.setattr(jars, "_JARS", archive / "elsewhere" / "jars")
    with pytest.raises(RequestError, match="CLEANCUT_JAR_MISSING"):
        cleancut.jar_paths()


def test_the_build_writes_the_jar_to_the_expected_path() -> None:
    build = (ROOT / "build.sbt").read_text(encoding="utf-8")
    assert '"python" / "cleancut" / "jars"' in build
    assert jars._JARS == ROOT / "python" / "cleancut" / "jars"


def test_checkpoints_are_read_without_pyspark() -> None:
    """Inspecting a checkpoint requires neither Spark nor a JVM, nor packages that use them."""
    answer = subprocess.run(
        [sys.executable, "-c", READING, str(STORED)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == "READ"
    assert "PySpark is not installed" in answer.stderr


def test_only_modules_for_spark_import_pyspark() -> None:
    """`cleancut.errors` imported it, and so did all modules that raise errors."""
    package = ROOT / "python/cleancut"
    driver = re.compile(r"^ *from cleancut\._(session|query|operations)\b", re.MULTILINE)
    importing = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if driver.search(path.read_text("utf-8"))
    }
    assert importing == {
        "__init__.py",
        "_checkpoint",
        "_cli",
        "dataflow",
        "_operations",
        "_query",
        "_session",
        "sinks",
        "testing",
        "types.py",
    }
