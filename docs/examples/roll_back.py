"""Inspects the checkpoint of a query without Spark, and rolls the query back.

python roll_back.py DIRECTORY
"""

import sys
from pathlib import Path

import cleancut
from cleancut import Checkpoint
from cleancut.sinks import EpochFiles
from cleancut.testing import SkewedInput
from pyspark.sql import SparkSession

home = Path(sys.argv[1])
location = str(home / "checkpoint")
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = cleancut.configure(builder, cuts=True).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

orders = SkewedInput(home / "orders", seed=7, rows=100)
counts = EpochFiles(str(home / "counts"))


def run() -> None:
    """Processes all orders, and ends."""
    query = (
        orders.stream(spark)
        .groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .foreachBatch(counts)
        .option("checkpointLocation", location)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def total() -> int:
    """The number of orders in the state of the query."""
    return sum(row["value"]["count"] for row in Checkpoint(location).state(0).to_pylist())


orders.write(0, 1, 2)
run()
print("orders:", total())
print(Checkpoint(location).history())
print(Checkpoint(location).verify())

plan = cleancut.rollback(location, 0)
print(plan)
plan.apply()
print("orders after the rollback:", total())

run()  # the query processes the files of the later epochs again
print("orders after the next run:", total())
