"""A query whose state is large for the number of its keys."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def padded(rows: DataFrame) -> DataFrame:
    """Returns the count of each key, with two kilobytes that compress to no less than half."""
    parts = [f.sha2(f.concat_ws(" ", "k", f.lit(part)), 512) for part in range(16)]
    kept = rows.withColumn("padding", f.concat(*parts))
    return kept.groupBy("k").agg(f.count("*").alias("c"), f.first("padding").alias("padding"))
