"""Writes rows to SQLite, each once, while a slow partition does not delay the others.

    python unaligned_sqlite.py DIRECTORY

It requires the packages of `cleancut[sqlalchemy]`.
"""

import sqlite3
import sys
from pathlib import Path

import cleancut
from cleancut.sinks import SqlSink
from cleancut.testing import SkewedInput, slow
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

home = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = cleancut.configure(builder, cuts=True, mode="unaligned").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

orders = SkewedInput(home / "orders", seed=7, rows=200)
orders.write(0, 1, 2)

late = f.spark_partition_id() == 0  # each row of this partition takes 5 ms
query = (
    orders.stream(spark)
    .dropDuplicates(["key", "number"])
    .withColumn("value", slow("value", per_row_ms=5, when=late))
    .writeStream.foreachBatch(
        SqlSink(f"sqlite:///{home}/shop.db", "orders", keys=["key", "number"])
    )
    .option("checkpointLocation", str(home / "checkpoint"))
    .start()
)
query.processAllAvailable()
cleancut.stop(query)

for epoch in cleancut.Checkpoint(str(home / "checkpoint")).history():
    print(f"epoch {epoch.epoch}: {epoch.mode}, {epoch.in_flight_rows} in-flight rows")
database = sqlite3.connect(home / "shop.db")
print("rows:", database.execute("SELECT count(*) FROM orders").fetchone()[0])
database.close()
