"""A query with state into an Iceberg table, by our sink or by Iceberg's own, for the tests to kill.

`python -m tests.support.iceberg_query <master> <kind> <home>` runs it to the end of its input, from
its last state, and then writes the rows of the table by Iceberg's runtime in this session.
`CLEANCUT_ICEBERG_JARS`, which `make spark41` sets, is the runtime, and SQLite's driver for its
catalog, which Python has a client for too.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.events import SCHEMA
from tests.support.lakes import OfIceberg
from tests.support.sessions import builder, with_cuts

JARS = os.environ.get("CLEANCUT_ICEBERG_JARS", "")
OURS, THEIRS = "ours", "theirs"
_WATERMARK, _WINDOW = "10 seconds", "5 seconds"
_PARTITIONS = 3


def session(master: str, home: Path) -> SparkSession:
    """Returns a session with Iceberg's runtime and the catalog of `OfIceberg`."""
    lake = OfIceberg(home)
    settings = {
        "spark.jars": JARS,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{home}/catalog.db",
        "spark.sql.catalog.lake.warehouse": lake.properties["warehouse"],
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }
    return builder(master, settings).getOrCreate()


def counted(rows: DataFrame) -> DataFrame:
    """Returns each event once, and the count of events by key and window."""
    # A watermark begins at 0, and rows before it are late.
    events = rows.where("t >= 0").withColumn("ts", f.timestamp_seconds("t"))
    timed = events.withWatermark("ts", _WATERMARK)
    once = timed.dropDuplicates(["k", "v", "ts"])
    windows = once.groupBy(f.window("ts", _WINDOW), "k").agg(f.count("*").alias("n"), f.sum("v"))
    return windows.select(
        f.unix_seconds("window.start").alias("at"), "k", "n", f.col("sum(v)").alias("total")
    )


def start(spark: SparkSession, kind: str, home: Path) -> StreamingQuery:
    """Runs the query until the end of its input."""
    session = with_cuts(spark, _PARTITIONS)
    stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    writer = counted(stream.json(str(home / "events"))).writeStream.outputMode("append")
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    if kind == OURS:
        return writer.foreachBatch(OfIceberg(home).sink()).start()
    return writer.format("iceberg").toTable(f"lake.{OfIceberg.NAME}")


def read(spark: SparkSession) -> list[list[int]]:
    """Returns the rows of the table by Iceberg's runtime."""
    rows = spark.read.format("iceberg").load(f"lake.{OfIceberg.NAME}")
    return sorted(list(row) for row in rows.select("at", "k", "n", "total").collect())


def main(master: str, kind: str, home: Path) -> None:
    """Runs the query, and writes the rows of the table next to it."""
    spark = session(master, home)
    if kind == THEIRS:
        columns = "at BIGINT, k INT, n BIGINT, total BIGINT"
        spark.sql(f"CREATE TABLE IF NOT EXISTS lake.{OfIceberg.NAME} ({columns}) USING iceberg")
    start(spark, kind, home).awaitTermination()
    (home / "read.json").write_text(json.dumps(read(spark)), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
