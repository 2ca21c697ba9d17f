"""One session for all tests of this tier, with the jar: a JVM takes its class path once."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.sessions import builder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # The second number: a task may fail twice, as on a cluster it may.
    session = builder("local[2,3]").getOrCreate()
    yield session
    session.stop()
