"""What each line of Spark can do with Cleancut: tests leave out what theirs cannot do.

The table in `docs/operations/upgrading.md` says the same.
"""

from dataclasses import dataclass

import pytest

from cleancut._spark.installed import SPARK, spark_line

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


JOINS_OF_FORMAT_3 = Ability("4.1")
JOINS_OF_FORMAT_4 = Ability("4.3")
ROWS_OF_PROCESSORS = Ability("4.1")
PYTHON_IN_FLIGHT = Ability("4.3")
STATE_FOR_SPARK = Ability("4.2")
REAL_TIME = Ability("4.3")
# Of Spark's own reader of its RocksDB provider: that of 4.0 fails on them.
STATE_WITH_IDS = Ability("4.1")

# By the first column of the table.
ABILITIES = {
    "Joins of state format 3": JOINS_OF_FORMAT_3,
    "Joins of state format 4": JOINS_OF_FORMAT_4,
    "`transformWithState` in PySpark, row by row": ROWS_OF_PROCESSORS,
    "Rows in flight to functions in Python": PYTHON_IN_FLIGHT,
    "Acts that write state for a provider of Spark's own": STATE_FOR_SPARK,
    "Real-time mode with stateful operators": REAL_TIME,
}
