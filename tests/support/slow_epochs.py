"""A query with slow epochs, each with a different cause, on a cluster with Spark's UI.

`python -m tests.support.slow_epochs <work>` reads files from `<work>/input` as they arrive, writes
the URL of Spark's UI to `<work>/pages`, and ends when the file `<work>/stop` exists.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from cleancut.testing import slow
from tests.support.sessions import builder

SCHEMA = "key long, value long"
PARTITIONS = 4
# A row with this value takes this long.
SLOW_VALUE, SLOW_MS = 5000, 20
# While this file exists, the sink lets the driver collect garbage for this long.
PAUSE, PAUSE_S = "pause", 5.0


def main(work: Path) -> None:
    """Runs the query until the stop file exists."""
    for name in ("input", "events"):
        (work / name).mkdir(exist_ok=True)
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (work / "events").as_uri(),
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.cleancut.cuts": "true",
        "spark.log.level": "WARN",
    }
    build = builder("local-cluster[2,1,1024]")
    for key, value in settings.items():
        build = build.config(key, value)
    spark = build.getOrCreate()

    def sink(batch: DataFrame, epoch: int) -> None:
        batch.collect()
        if (work / PAUSE).exists():
            stand_still(spark)
            (work / PAUSE).unlink()

    rows = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(work / "input"))
        .repartition(PARTITIONS, "key")
        .withColumn("value", slow("value", per_row_ms=SLOW_MS, when=f.col("value") == SLOW_VALUE))
    )
    query = (
        rows.dropDuplicates(["key"])
        .writeStream.queryName("orders")
        .option("checkpointLocation", str(work / "checkpoint"))
        .foreachBatch(sink)
        .start()
    )
    run_until_stopped(spark, query, work)


def run_until_stopped(spark: SparkSession, query: StreamingQuery, work: Path) -> None:
    """Writes the address of Spark's UI to the file `pages`, and waits for the file `stop`."""
    assert spark.sparkContext.uiWebUrl is not None
    pages = work / "pages.tmp"
    pages.write_text(spark.sparkContext.uiWebUrl)
    pages.rename(work / "pages")
    while not (work / "stop").exists():
        assert query.exception() is None, query.exception()
        time.sleep(0.1)
    query.stop()
    spark.stop()


def stand_still(spark: SparkSession) -> None:
    """Lets the driver collect garbage repeatedly."""
    jvm = spark._jvm
    assert jvm is not None
    until = time.monotonic() + PAUSE_S
    while time.monotonic() < until:
        jvm.java.lang.System.gc()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
