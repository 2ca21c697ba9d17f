"""Shared by all tests: the session with the jar, and the figures printed after the run."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVMs of these tests are short-lived, drivers and executors, and spend more on the second
# compiler and on concurrent garbage collection than they save. Without the second compiler the JVM
# reserves little space for code, which the queries of a session fill. Without native code, Hadoop
# starts processes for each file; the option for these makes them start faster. With the archive of
# tests/support/share_classes.py, if it exists, they load their classes in half of the time. The
# warning of a JVM about another archive would be read as output of Spark's launcher.
_ARCHIVE = Path(__file__).parents[1] / ".cache" / "user-classes.jsa"
_SHARED = f" '-XX:SharedArchiveFile={_ARCHIVE}' -Xlog:disable -Xlog:all=error:stderr"
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
    "-Djdk.lang.Process.launchMechanism=VFORK" + (_SHARED if _ARCHIVE.exists() else ""),
)

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests that need one: a JVM takes its class path once."""
    # Tests without a JVM must not wait for this import.
    from tests.support.sessions import builder, take_out_defaults

    # The second number: a task may fail twice, like on a cluster.
    session = builder("local[2,3]").getOrCreate()
    take_out_defaults(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> list[str]:
    """The lines that are printed at the end of the run."""
    return request.config.stash.setdefault(_FIGURES, [])


@pytest.fixture
def show(request: pytest.FixtureRequest, figures: list[str]) -> Callable[[str], None]:
    """Returns a function that prints a line at the end of the run, passed or failed."""
    return lambda text: figures.append(f"{request.node.name}: {text}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Passes the figures of a worker to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = session.config.stash.get(_FIGURES, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    figures = getattr(node, "workeroutput", {}).get("figures", [])
    node.config.stash.setdefault(_FIGURES, []).extend(figures)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(figure)
