"""What each line of Spark can do with Cleancut: tests leave out what theirs cannot do.

`tests/lines` makes a table of what they find, which the documentation has.
"""

from dataclasses import dataclass

import pytest

from cleancut._session.installed import SPARK, spark_line

# `make test` builds the jars of the two newest.
OTHERS = [
    pytest.param(line, marks=() if line in SPARK[-2:] else pytest.mark.long)
    for line in SPARK
    if line != spark_line()
]


@dataclass(frozen=True)
class Ability:
    """What a line of Spark can do, and all later lines."""

    since: str

    def has(self, line: str) -> bool:
        return SPARK.index(line) >= SPARK.index(self.since)

    @property
    def is_here(self) -> bool:
        """Whether the line that the tests run on has it."""
        return self.has(spark_line())

    @property
    def needed(self) -> pytest.MarkDecorator:
        """Leaves a test out where it is not there."""
        return pytest.mark.skipif(not self.is_here, reason=f"from Spark {self.since} on")


EVERYWHERE = Ability("4.0")
JOINS_OF_FORMAT_3 = Ability("4.1")
JOINS_OF_FORMAT_4 = Ability("4.3")
ROWS_OF_PROCESSORS = Ability("4.1")
STATE_FOR_SPARK = Ability("4.2")
REAL_TIME = Ability("4.3")
# Read by Spark from its RocksDB provider; it also reads those of Cleancut's on 4.0.
STATE_WITH_IDS = Ability("4.1")
NAMED_SOURCES = Ability("4.2")
