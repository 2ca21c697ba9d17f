"""The state that a query has left, as Spark's own reader gives it."""

from pathlib import Path

from pyspark.sql import SparkSession


def state(spark: SparkSession, root: Path, **options: str) -> dict[tuple[int, str], list[str]]:
    """The rows of every state store of the query at `root`, sorted, by operator and store name.

    Args:
        spark: a session with the providers on its class path.
        root: where `tests.support.sessions.start` ran the query.
        options: more options of the reader.
    """
    location = str(root / "checkpoint")
    stores = spark.read.format("state-metadata").load(location)
    found = {}
    for operator, name in stores.select("operatorId", "stateStoreName").collect():
        reader = spark.read.format("statestore").options(**options)
        rows = reader.option("operatorId", operator).option("storeName", name).load(location)
        found[operator, name] = sorted(str(row) for row in rows.collect())
    return found
