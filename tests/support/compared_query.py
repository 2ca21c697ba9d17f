"""A query of distinct numbers, one file per epoch, into one of Spark's sinks or ours.

`python -m tests.support.compared_query <kind> <home>` runs it to the end of its input as one more
driver, which pauses in the middle of its last file until it is released.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut.testing import Block
from tests.support.kills import die_with_the_test
from tests.support.patience import PATIENCE_S
from tests.support.sessions import builder
from tests.support.spark_sinks import read, writer

ROWS = 6
# Two, so that one task has ended when the other one pauses.
_PARTITIONS = 2


class ComparedQuery:
    """The query, its input, and the rows that a reader sees.

    Attributes:
        checkpoint: the location of the query's checkpoint.
        output: the directory of the sink.
    """

    def __init__(self, kind: str, spark: SparkSession, home: Path) -> None:
        self._kind = kind
        self._spark = spark
        self._input = home / "input"
        self.checkpoint = home / "checkpoint"
        self.output = home / "rows"
        self.block = Block(home / "block", timeout_s=PATIENCE_S)
        self._input.mkdir(exist_ok=True)
        self._taken_away = 0

    @property
    def _files(self) -> int:
        return self._taken_away + len(list(self._input.iterdir()))

    def add(self, files: int) -> None:
        """Adds files, one per epoch."""
        for number in range(self._files, self._files + files):
            path = self._input / f"{number:03}.json"
            ids = range(number * ROWS, (number + 1) * ROWS)
            path.write_text("\n".join(json.dumps({"id": number}) for number in ids))
            os.utime(path, (number, number))

    def run(self, *, blocked: bool = False) -> None:
        """Runs the query to the end of its input."""
        stream = self._spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        rows = stream.json(str(self._input)).dropDuplicates(["id"])
        if blocked:
            last = self._files * ROWS - 1
            rows = rows.select(self.block.at("id", when=F.col("id") == last).alias("id"))
        written = writer(self._kind, rows, self.output)
        written = written.option("checkpointLocation", str(self.checkpoint))
        written.trigger(availableNow=True).start().awaitTermination()

    def delete_log_entries(self, after: int, *logs: str) -> None:
        """Deletes the entries of Spark's logs after an epoch."""
        for log in logs:
            for path in (self.checkpoint / log).iterdir():
                name = path.name.removeprefix(".").removesuffix(".crc")
                if name.isdigit() and int(name) > after:
                    path.unlink()

    def delete_input(self) -> None:
        """Deletes the files that the query has read."""
        for path in sorted(self._input.iterdir()):
            path.unlink()
            self._taken_away += 1

    def wanted(self) -> "Counter[int]":
        """Returns all numbers of the input, each once."""
        return Counter(range(self._files * ROWS))

    def is_partly_written(self, epoch: int) -> bool:
        """Whether one of the tasks of an epoch has reported its file to the driver.

        Derived from the number of files: each earlier epoch has one per task.
        """
        files = [file for file in self.output.rglob("*.parquet") if "attempt_" not in str(file)]
        return len(files) > epoch * _PARTITIONS

    def seen(self) -> "Counter[int]":
        """Returns the rows that a reader of the sink sees."""
        return Counter(number for (number,) in read(self._kind, self.output, self._spark, "id"))

    def seen_by_others(self) -> "Counter[int]":
        """Returns the rows of all files in the directory, for a reader without Spark's log."""
        names = self.output.glob("*.parquet")
        return Counter(number for name in names for number in pq.read_table(name)["id"].to_pylist())


def main(kind: str, home: Path) -> None:
    """Runs the query, and pauses in the middle of its last file."""
    spark = builder("local[2]").config("spark.sql.shuffle.partitions", _PARTITIONS).getOrCreate()
    ComparedQuery(kind, spark, home).run(blocked=True)
    spark.stop()


if __name__ == "__main__":
    die_with_the_test()
    main(sys.argv[1], Path(sys.argv[2]))
