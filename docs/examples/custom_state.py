"""Keeps the largest value of each key in state of its own, with transformWithStateInPandas.

    python custom_state.py DIRECTORY

It requires pandas and protobuf.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import cleancut
import pandas as pd
from cleancut.sinks import EpochFiles
from cleancut.testing import SkewedInput
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

home = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = cleancut.configure(builder, cuts=True).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


class Largest(StatefulProcessor):
    """Emits the largest value of a key whenever it grows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.largest = handle.getValueState("largest", "value long")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        before = self.largest.get()[0] if self.largest.exists() else None
        value = max(int(frame["number"].max()) for frame in rows)
        if before is None or value > before:
            self.largest.update((value,))
            yield pd.DataFrame({"key": [key[0]], "largest": [value]})

    def close(self) -> None:
        pass


orders = SkewedInput(home / "orders", seed=7, rows=100)
orders.write(0, 1)
sink = EpochFiles(str(home / "largest"))
query = (
    orders.stream(spark)
    .groupBy("key")
    .transformWithStateInPandas(
        Largest(), outputStructType="key long, largest long", outputMode="Update", timeMode="None"
    )
    .writeStream.outputMode("update")
    .foreachBatch(sink)
    .option("checkpointLocation", str(home / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

largest = sink.read(spark).groupBy("key").max("largest").collect()
print("keys:", len(largest), "largest:", max(row[1] for row in largest))
