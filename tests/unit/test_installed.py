"""Unsupported versions are refused before a JVM starts."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from cleancut import RequestError
from cleancut._session import installation as installed
from cleancut._session.installation import check_platform, check_pyspark
from tests.unit.installations import Installation, install


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return install(tmp_path, monkeypatch)


def problems(running_java: str | None = None) -> str:
    with pytest.raises(RequestError) as raised:
        check_platform(running_java)
    assert raised.value.error_id == "CLEANCUT_VERSION_UNSUPPORTED"
    supported = (
        "Install supported versions: Spark 4.0.x, 4.1.x, 4.2.x or 4.3.x, except 4.0.0; Scala 2.13; "
        "Java 17 or later."
    )
    assert supported in str(raised.value)
    return raised.value.params["problems"]


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0", "4.2.0", "4.3.0", "4.3.1", "4.3.0.dev1"])
def test_a_supported_pyspark_is_accepted(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    check_pyspark()


@pytest.mark.parametrize("version", ["4.0.0", "4.20.0", "4.30.0", "3.5.6", "5.0.0"])
def test_an_unsupported_pyspark_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(RequestError, match=r"install pyspark==4\.3\.\*") as raised:
        check_pyspark()
    assert f"PySpark is {version}" in raised.value.params["problems"]


def test_a_missing_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(RequestError, match="PySpark is not installed"):
        check_pyspark()


def test_a_supported_installation_is_accepted(installation: Installation) -> None:
    check_platform(None)


def test_the_installation_of_this_environment_is_accepted(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME")
    check_platform(None)


def test_another_spark_in_spark_home_is_refused(installation: Installation) -> None:
    installation.spark(version="3.5.8")
    assert "holds Spark 3.5.8: unset SPARK_HOME" in problems()


@pytest.mark.parametrize("version", ["4.0.0", "4.0.0-vendor-1"])
def test_the_first_release_of_4_0_is_refused(installation: Installation, version: str) -> None:
    installation.spark(version=version)
    assert f"holds Spark {version}: unset SPARK_HOME" in problems()


def test_a_vendor_build_of_a_later_release_is_accepted(installation: Installation) -> None:
    installation.spark(version="4.0.1-vendor-1")
    check_platform(None)


@pytest.mark.parametrize(("scala", "library"), [("2.12", "2.12.20"), ("2.13", "3.3.1")])
def test_another_scala_is_refused(installation: Installation, scala: str, library: str) -> None:
    installation.spark(scala=scala, library=library)
    assert f"holds Scala {'2.12' if scala == '2.12' else library}" in problems()


def test_a_spark_home_without_jars_is_refused(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    assert "has no jar of Spark" in problems()


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "11.0.2"),
        ('java version "1.8.0_392"', "1.8.0_392"),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "16" 2021', "16"),
        ("Error: could not find libjava.so", "of an unknown version"),
    ],
)
def test_an_old_java_is_refused(installation: Installation, answer: str, version: str) -> None:
    installation.java(answer)
    reported = problems()
    assert f"{installation.java_home}/bin/java is Java {version}" in reported
    assert "set JAVA_HOME to a JDK 17 or later" in reported


@pytest.mark.parametrize("answer", ['openjdk version "21.0.1"', 'openjdk version "25-ea" 2025'])
def test_a_later_java_is_accepted(installation: Installation, answer: str) -> None:
    installation.java(answer)
    check_platform(None)


def test_a_java_home_without_java_is_refused(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "No Java was found" in problems()


def test_the_spark_of_a_running_jvm_is_used_if_pyspark_finds_none(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver in a YARN container was refused: PySpark is in an archive there."""

    def nowhere() -> str:
        raise SystemExit(-1)

    monkeypatch.setattr("pyspark.find_spark_home._find_spark_home", nowhere)
    monkeypatch.setattr(installed, "running_jvm", lambda: None)
    with pytest.raises(RequestError, match="PySpark does not find a Spark: set SPARK_HOME"):
        installed.spark_line()
    location = SimpleNamespace(getPath=lambda: f"{installation.spark_home}/jars/spark-core.jar")
    source = SimpleNamespace(getLocation=lambda: location)
    context = SimpleNamespace(
        getProtectionDomain=lambda: SimpleNamespace(getCodeSource=lambda: source)
    )
    lang = SimpleNamespace(Class=SimpleNamespace(forName=lambda _: context))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=lang))
    monkeypatch.setattr(installed, "running_jvm", lambda: jvm)
    installation.spark(version="4.2.1")
    assert installed.spark_line() == "4.2"
    check_platform(None)


def test_java_is_searched_on_the_path(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.java('openjdk version "11"')
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{installation.java_home}/bin:/bin:/usr/bin")
    assert f"{installation.java_home}/bin/java is Java 11" in problems()


def test_the_version_of_a_running_jvm_counts(installation: Installation) -> None:
    installation.java('openjdk version "11"')
    check_platform("17")
    assert "the JVM that runs already is Java 11" in problems("11")


def test_all_unsupported_versions_are_reported_together(installation: Installation) -> None:
    installation.spark(version="3.5.8", scala="2.12", library="2.12.18")
    installation.java('openjdk version "11"')
    reported = problems()
    assert all(text in reported for text in ("Spark 3.5.8", "Scala 2.12", "Java 11"))
