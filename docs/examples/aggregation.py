"""Counts orders per customer and shows each epoch on the console.

python aggregation.py DIRECTORY
"""

import sys
from pathlib import Path

import cleancut
from cleancut.testing import SkewedInput
from pyspark.sql import SparkSession

home = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = cleancut.configure(builder, cuts=True).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

orders = SkewedInput(home / "orders", seed=7, rows=100)
orders.write(0, 1)  # two files, each of which becomes an epoch

query = (
    orders.stream(spark)
    .groupBy("key")
    .count()
    .writeStream.outputMode("update")
    .format("console")
    .option("checkpointLocation", str(home / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print(cleancut.Checkpoint(str(home / "checkpoint")).cuts())
