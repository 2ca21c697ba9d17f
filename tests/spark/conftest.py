"""One session for all tests of this tier, with the jar: a JVM takes its class path once."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import cleancut


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("cleancut-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    session = cleancut.configure(builder).getOrCreate()
    yield session
    session.stop()
