"""The versions of Spark, Scala and Java that would run, determined without starting a JVM."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cleancut._session.class_path import jars_of_spark, running_jvm
from cleancut.errors import CleancutError, error_of

SPARK = ("4.0", "4.1", "4.2", "4.3")
# Its state stores have other iterators than all later releases of its Spark version.
_UNFIT = "4.0.0"
SCALA = "2.13"
MIN_JAVA = 17

_SPARK_CORE = re.compile(r"spark-core_([0-9.]+)-(.+)\.jar")
_JAVA_VERSION = re.compile(r'version "([^"]+)"')
_JAVA_TIMEOUT_S = 60
_REMEDY = f"install pyspark=={SPARK[-1]}.*"
_RUNS_WITH = f"{', '.join(f'{line}.x' for line in SPARK[:-1])} or {SPARK[-1]}.x, except {_UNFIT}"


def check_pyspark() -> None:
    """Refuses an unsupported PySpark, before any API is used that it may lack.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED.
    """
    try:
        import pyspark
    except ImportError as error:
        raise _not_installed() from error
    if not _is_supported(pyspark.__version__):
        raise _unsupported([f"PySpark is {pyspark.__version__}: {_REMEDY}."])


def check_platform(running_java: str | None) -> None:
    """Refuses versions of Spark's jars, Scala or Java that this release does not support.

    Args:
        running_java: version of the running JVM; None checks the Java that Spark would start: that
            of JAVA_HOME, else the one on the PATH.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, with all problems.
    """
    problems = [*_spark_problems(), *_java_problems(running_java)]
    if problems:
        raise _unsupported(problems)


def spark_home() -> Path:
    """The directory of the Spark that PySpark would start.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, PySpark is missing, or finds no Spark.
    """
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ImportError as error:
        raise _not_installed() from error
    try:
        return Path(_find_spark_home())
    except SystemExit as error:
        raise _unsupported(["PySpark does not find a Spark: set SPARK_HOME."]) from error


def spark_jars() -> Path:
    """The directory with the jars of the Spark that PySpark would start.

    If PySpark finds none, that of the running JVM: a driver in a YARN container has PySpark from an
    archive.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, PySpark or Spark is missing.
    """
    try:
        return spark_home() / "jars"
    except CleancutError as problem:
        is_there = isinstance(problem.__cause__, SystemExit)
        jvm = running_jvm() if is_there else None
        if jvm is None:
            raise
        return jars_of_spark(jvm)


def spark_line() -> str:
    """The version of the Spark that PySpark would start, one of `SPARK`.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, it is none of them, or Spark is missing.
    """
    problems = list(_spark_problems())
    if problems:
        raise _unsupported(problems)
    _, spark = _core_jar(spark_jars())
    return next(line for line in SPARK if _is_line(spark, line))


def _not_installed() -> CleancutError:
    return _unsupported([f"PySpark is not installed: {_REMEDY}."])


def _unsupported(problems: list[str]) -> CleancutError:
    return error_of(
        "CLEANCUT_VERSION_UNSUPPORTED",
        problems=" ".join(problems),
        spark=_RUNS_WITH,
        scala=SCALA,
        java=f"{MIN_JAVA} or later",
    )


def _spark_problems() -> Iterator[str]:
    jars = spark_jars()
    remedy = f"unset SPARK_HOME, or set it to a Spark {_RUNS_WITH}"
    scala, spark = _core_jar(jars)
    if not spark:
        yield f"{jars} has no jar of Spark: {remedy}."
        return
    if not _is_supported(spark):
        yield f"{jars} holds Spark {spark}: {remedy}."
    libraries = [jar.stem.removeprefix("scala-library-") for jar in jars.glob("scala-library-*")]
    wrong = [version for version in [scala, *libraries] if not _is_line(version, SCALA)]
    if wrong:
        yield f"{jars} holds Scala {wrong[0]}: use a build of Spark for Scala {SCALA}."


def _core_jar(jars: Path) -> tuple[str, str]:
    """The Scala and Spark versions in the name of Spark's core jar; empty if there is none."""
    matches = [m for jar in jars.glob("spark-core_*") if (m := _SPARK_CORE.fullmatch(jar.name))]
    return (matches[0][1], matches[0][2]) if matches else ("", "")


def _is_supported(spark: str) -> bool:
    is_unfit = spark == _UNFIT or spark.startswith(f"{_UNFIT}-")
    return not is_unfit and any(_is_line(spark, line) for line in SPARK)


def _is_line(version: str, line: str) -> bool:
    return version == line or version.startswith(f"{line}.")


def _java_problems(running: str | None) -> Iterator[str]:
    remedy = f"set JAVA_HOME to a JDK {MIN_JAVA} or later"
    if running is not None:
        java, version = "the JVM that runs already", running
    else:
        command = _java_command()
        if command is None:
            yield f"No Java was found: {remedy}."
            return
        java, version = str(command), _java_version(command)
    major = re.match(r"(?:1\.)?([0-9]+)", version)
    if major is None or int(major[1]) < MIN_JAVA:
        yield f"{java} is Java {version or 'of an unknown version'}: {remedy}."


def _java_command() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(command) if command and Path(command).is_file() else None


def _java_version(command: Path) -> str:
    """The version in the output of `java -version`; empty if it has none."""
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    return match[1] if match else ""
