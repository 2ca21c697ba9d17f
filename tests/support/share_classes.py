"""Archives the classes that a driver of Spark loads, for JVMs of tests that are started after it.

`python -m tests.support.share_classes <archive>` runs a small query and writes what the JVM has
loaded and verified by then. A JVM that is given the archive, drivers and executors, maps it and
starts with half of the work; one with another class path or Java leaves it alone.
"""

import os
import sys
from pathlib import Path

from tests.support.sessions import builder


def main(archive: Path) -> None:
    """Writes the archive, whole or not at all."""
    written = archive.with_suffix(f".{os.getpid()}")
    options = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={written} -Xlog:disable"
    spark = builder("local[2]").config("spark.driver.extraJavaOptions", options).getOrCreate()
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
    main(Path(sys.argv[1]))
