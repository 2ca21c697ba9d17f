"""Connects two queries by a channel, and cuts both consistently.

python two_queries.py DIRECTORY
"""

import sys
from pathlib import Path

import cleancut
from cleancut import Channel, Dataflow
from cleancut.sinks import EpochFiles
from cleancut.testing import SkewedInput
from pyspark.sql import SparkSession

home = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = cleancut.configure(builder, cuts=True).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

orders = SkewedInput(home / "orders", seed=7, rows=100)
orders.write(0, 1)

# The first query removes duplicates, and sends the rows into the channel.
channel = Channel(str(home / "channel"))
sender = (
    orders.stream(spark)
    .dropDuplicates(["key", "number"])
    .writeStream.foreachBatch(channel)
    .option("checkpointLocation", str(home / "unique"))
    .trigger(availableNow=True)
    .start()
)
sender.awaitTermination()

# The second query counts the rows of the channel.
counts = EpochFiles(str(home / "counts"))
reader = (
    channel.stream(spark)
    .groupBy("key")
    .count()
    .writeStream.outputMode("update")
    .foreachBatch(counts)
    .option("checkpointLocation", str(home / "counting"))
    .trigger(availableNow=True)
    .start()
)
reader.awaitTermination()

flow = Dataflow(str(home / "dataflow"))
flow.add("unique", str(home / "unique"))
flow.add("counting", str(home / "counting"))
print(flow.cut())

latest = counts.read(spark).groupBy("key").max("count").collect()
print("rows:", sum(row[1] for row in latest))
