"""What every tier shares: the session with the jar, and the figures shown after the run."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVMs of these tests are short-lived, drivers and executors, and spend more on the second
# compiler and on collecting garbage beside their work than they save. Without the second compiler
# the JVM keeps little room for code, which all queries of a session together fill. Where Hadoop has
# no native code it starts processes for each file; the last option has them start at once.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
    "-Djdk.lang.Process.launchMechanism=VFORK",
)

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests that need one: a JVM takes its class path once."""
    # The tests without a JVM must not wait for this import.
    from tests.support.sessions import builder

    # The second number: a task may fail twice, as on a cluster it may.
    session = builder("local[2,3]").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes what a test counted; all of it stands at the end of the run, passed or failed."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    return lambda text: figures.append(f"{request.node.name}: {text}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(figure)
