"""The query of docs/get-started/try-it.md: sums by key, over files of JSON rows.

`python -m tests.support.trial_query CHECKPOINT INPUT OUTPUT CODE` runs it once in a separate
process, with the session that the code creates under the name `spark`.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


def process(spark: SparkSession, checkpoint: str, orders: str, output: str) -> None:
    """Processes all files that the query has not processed, and writes each epoch once."""

    def write(batch: DataFrame, epoch: int) -> None:
        batch.write.mode("overwrite").parquet(f"{output}/epoch={epoch}")

    rows = spark.readStream.schema("shop int, amount long").json(orders)
    totals = rows.groupBy("shop").agg({"amount": "sum", "*": "count"}).toDF("shop", "total", "n")
    query = totals.writeStream.outputMode("update").foreachBatch(write)
    query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def write_orders(directory: Path, keys: int, amount: int) -> None:
    """Adds a file with one row for each key."""
    directory.mkdir(exist_ok=True)
    lines = (json.dumps({"shop": key, "amount": amount * key}) for key in range(keys))
    number = len(list(directory.iterdir()))
    (directory / f"{number}.json").write_text("\n".join(lines))


def totals(directory: Path) -> dict[int, tuple[int, int]]:
    """Returns count and sum of each key over all files."""
    result: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            count, total = result[row["shop"]]
            result[row["shop"]] = (count + 1, total + row["amount"])
    return dict(result)


def last_output(output: str) -> dict[int, tuple[int, int]]:
    """Returns count and sum of each key in the last epoch that has it."""
    result: dict[int, tuple[int, int]] = {}
    epochs = sorted(Path(output).iterdir(), key=lambda path: int(path.name.partition("=")[2]))
    for epoch in epochs:
        table = pq.ParquetDataset(epoch, partitioning=None).read()
        shops, sums, counts = (table[name].to_pylist() for name in ("shop", "total", "n"))
        result |= dict(zip(shops, zip(counts, sums, strict=True), strict=True))
    return result


if __name__ == "__main__":
    there, source, target, code = sys.argv[1:]
    names: dict[str, Any] = {}
    exec(code, names)
    process(names["spark"], there, source, target)
