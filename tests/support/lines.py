"""Features of Cleancut by Spark version; tests of a missing feature are skipped.

`tests/lines` generates a table of their results for the documentation.
"""

from dataclasses import dataclass

import pytest

from cleancut._session.installation import SPARK, spark_line

# `make test` builds the jars of the two newest versions.
OTHERS = [
    pytest.param(line, marks=() if line in SPARK[-2:] else pytest.mark.long)
    for line in SPARK
    if line != spark_line()
]


@dataclass(frozen=True)
class Ability:
    """A feature that exists from a Spark version on."""

    since: str

    def has(self, line: str) -> bool:
        return SPARK.index(line) >= SPARK.index(self.since)

    @property
    def is_here(self) -> bool:
        """Whether the Spark version of the tests has it."""
        return self.has(spark_line())

    @property
    def needed(self) -> pytest.MarkDecorator:
        """Skips a test if the feature is missing."""
        return pytest.mark.skipif(not self.is_here, reason=f"from Spark {self.since} on")


EVERYWHERE = Ability("4.0")
JOINS_OF_FORMAT_3 = Ability("4.1")
JOINS_OF_FORMAT_4 = Ability("4.3")
ROWS_OF_PROCESSORS = Ability("4.1")
STATE_FOR_SPARK = Ability("4.2")
REAL_TIME = Ability("4.3")
# Read by Spark from its RocksDB provider; on 4.0 Spark also reads those of Cleancut.
STATE_WITH_IDS = Ability("4.1")
NAMED_SOURCES = Ability("4.2")
# PySpark before fails to encode their keys.
TIMERS_OF_STRUCTS = Ability("4.2")
