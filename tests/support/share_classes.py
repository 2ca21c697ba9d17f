"""Archives the classes that a Spark driver loads, for later JVMs of tests.

`python -m tests.support.share_classes <whose> <archive>` runs a small query and writes what the JVM
has loaded and verified by then. A JVM that is given the archive, drivers and executors, maps it and
starts with half of the work; one with another class path or Java ignores it. So there are two:
for sessions that a user starts, and for those of `tests.support.sessions`.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import cleancut
from tests.support.sessions import builder


def _of_a_user() -> SparkSession.Builder:
    made = SparkSession.Builder().master("local[2]").config("spark.sql.shuffle.partitions", "3")
    return cleancut.configure(made)


BUILDERS: Mapping[str, Callable[[], SparkSession.Builder]] = {
    "users": _of_a_user,
    "tests": lambda: builder("local[2]"),
}


def main(whose: str, archive: Path) -> None:
    """Writes the archive atomically."""
    written = archive.with_suffix(f".{os.getpid()}")
    options = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={written} -Xlog:disable"
    made = BUILDERS[whose]().config("spark.driver.extraJavaOptions", options)
    spark = made.config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = (
        rows.groupBy("value")
        .count()
        .writeStream.outputMode("update")
        .format("noop")
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait()
    written.replace(archive)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
