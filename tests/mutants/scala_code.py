"""Defects in Scala: the changed file is compiled alone, and its classes precede those of the build.

A defect must not change what other files are compiled with: signatures, and constants that the
compiler copies.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import Mutant
from tests.mutants.server import NoResultError, Server

_ROOT = Path(__file__).parents[2]
_SUITES = _ROOT / "jvm/spark/src/test/scala"
_JVM = _ROOT / ".cache/test-jvm.txt"
_SERVER = Path(__file__).with_name("SuiteServer.java")
# The runs of a simulation that must find a defect, and the limit of waits that a defect may reach.
_SETTINGS = {"CLEANCUT_SIMULATIONS": "40", "CLEANCUT_PATIENCE_SECONDS": "30"}
_FAILED = re.compile(r"^\s*- (.*) \*\*\* FAILED \*\*\*", re.M)
_ABORTED = re.compile(r"^(\*\*\* ABORTED \*\*\*|Exception encountered|\*\*\* RUN ABORTED)", re.M)
# Suites with a Spark session, of which a JVM has one.
_WITH_SESSION = (".e2e.", ".operations.")


class SuiteJvm(NamedTuple):
    """The JVM in which sbt runs suites.

    Attributes:
        classes: directories with the classes of the build and of its tests.
        libraries: the class path of libraries.
        options: other options of the JVM.
    """

    classes: Sequence[str]
    libraries: Sequence[str]
    options: Sequence[str]


@cache
def suite_jvm() -> SuiteJvm:
    """Compiles the build, and reads how sbt runs its suites."""
    # Suites of defects use classes, and no jars.
    environment = os.environ | {"CLEANCUT_JARS_ARE_MADE": "yes"}
    subprocess.run(["project/sbt", "spark43/testJvm"], cwd=_ROOT, env=environment, check=True)
    return read_suite_jvm(_JVM.read_text(encoding="utf-8"))


def read_suite_jvm(text: str) -> SuiteJvm:
    """The JVM from the file that sbt writes."""
    class_path, *options = text.splitlines()
    parts = class_path.split(os.pathsep)
    libraries = [part for part in parts if part.endswith(".jar")]
    return SuiteJvm([part for part in parts if part not in libraries], libraries, options)


def new_server(settings: Mapping[str, str]) -> Server:
    """A process for suites with some environment variables."""
    jvm = suite_jvm()
    home = os.environ.get("JAVA_HOME")
    command = [
        str(Path(home, "bin", "java")) if home else "java",
        *jvm.options,
        *("-XX:+UseSerialGC", "-Xss8m", "-XX:+ErrorFileToStdout"),
        *("-cp", os.pathsep.join(jvm.libraries), str(_SERVER)),
    ]
    return Server("SuiteServer", command, os.environ | settings)


@cache
def server(**settings: str) -> Server:
    """The process for suites with some environment variables."""
    return new_server(settings)


def run(suite: str, classes: Sequence[str] = (), **settings: str) -> tuple[bool, str]:
    """Runs a suite, or one test of it; returns whether all tests passed, and the output.

    Args:
        suite: its name, or `suite::test`.
        classes: directories whose classes precede those of the build.
        settings: environment variables.

    Raises:
        NoResultError: it does not end, or crashes.
    """
    name, _, test = suite.partition("::")
    full = suite_named(name)
    path = " ".join([*classes, *suite_jvm().classes])
    arguments = ["-R", path, "-s", full, *(["-t", test] if test else [])]
    options = ["-oW", "-l", "io.cleancut.testkit.LongTest"]
    if not any(part in full for part in _WITH_SESSION):
        result, output = server(**settings).request("run", *arguments, *options)
        return result == "true", output
    separate = new_server(settings)
    try:
        result, output = separate.request("run", *arguments, *options)
        return result == "true", output
    finally:
        separate.end()


def suite_named(name: str) -> str:
    """The full name of a suite's class.

    Raises:
        ValueError: there is no such suite, or several.
    """
    files = list(_SUITES.rglob(f"{name}.scala"))
    if len(files) != 1:
        raise ValueError(f"{len(files)} suites are named {name}")
    return ".".join(files[0].relative_to(_SUITES).with_suffix("").parts)


def failing_test(mutant: Mutant) -> str | None:
    """The first test that fails with a defect; None if all pass."""
    text = mutant.text((_ROOT / mutant.path).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="cleancut-mutant-") as directory:
        source, classes = Path(directory, Path(mutant.path).name), Path(directory, "classes")
        source.write_text(text, encoding="utf-8")
        classes.mkdir()
        jvm = suite_jvm()
        path = os.pathsep.join([*jvm.classes, *jvm.libraries])
        arguments = ["-nowarn", "-classpath", path, "-d", str(classes), str(source)]
        result, output = server(**_SETTINGS).request("compile", *arguments)
        if result != "true":
            raise RuntimeError(f"{mutant.defect} is not compiled\n{output}")
        return first_failure(mutant.tests, [str(classes)])


def first_failure(suites: Sequence[str], classes: Sequence[str] = ()) -> str | None:
    """The first failing test of suites, with other classes; None if all pass."""
    for suite in suites:
        name = suite.partition("::")[0]
        try:
            is_passed, output = run(suite, classes, **_SETTINGS)
        except NoResultError:
            return f"`{name}`, which does not end or crashes"
        failed = _FAILED.search(output)
        if failed:
            return f"`{name}`: {failed[1]}"
        if not is_passed:
            if not _ABORTED.search(output):
                raise RuntimeError(f"{name} has failed\n{output}")
            return f"`{name}`, which is aborted"
    return None
