"""A driver of the query of `tests.bench.handover`.

`python -m tests.bench.handover_query <kind> <location> <endpoint> <log> <keys> <rows> <cores>`
writes a line for each published epoch: its number, and the time in nanoseconds since 1970. The kind
"fill" ends when the state has all keys, the others when the query ends or `<log>.stop` exists.
"successor" prints "prepared", and takes over when `<log>.go` exists; "standby" prints the same, and
takes over when the query has no driver; "plain" starts the query.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import cleancut
from cleancut._session.options import PREFIX
from cleancut.sinks import sealed
from tests.support.kills import die_with_the_test
from tests.support.patience import wait_until

PREPARED = "prepared"
# A prime, so that the keys of an epoch are distributed over all partitions.
_SCATTER = 7919
_FILL_EPOCHS = 10
_PARTITIONS = 4


def _session(endpoint: str, cores: int) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(_PARTITIONS),
        f"{PREFIX}handoverTimeout": "60s",
    }
    builder = SparkSession.Builder().master(f"local[{cores}]").appName("cleancut-handover")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return cleancut.configure(builder, endpoint=endpoint).getOrCreate()


def _writer(spark: SparkSession, log: Path, keys: int, rows: int) -> DataStreamWriter:
    @sealed
    def publish(batch: DataFrame, epoch: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        with log.open("a") as published:
            published.write(f"{epoch} {time.time_ns()}\n")

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    counts = source.groupBy((f.col("value") * _SCATTER % keys).alias("key")).agg(
        f.count("*").alias("n"), f.sum("value").alias("s")
    )
    return counts.writeStream.outputMode("update").foreachBatch(publish)


def main(
    kind: str, location: str, endpoint: str, log: Path, keys: int, rows: int, cores: int
) -> None:
    """Runs the query to its end."""
    spark = _session(endpoint, cores)
    if kind == "fill":
        rows = -(-keys // _FILL_EPOCHS)

    def build() -> DataStreamWriter:
        return _writer(spark, log, keys, rows)

    query: StreamingQuery
    if kind in {"successor", "standby"}:
        with cleancut.successor(build, location, handover_timeout=60.0) as successor:
            successor.prepare()
            print(PREPARED, flush=True)
            if kind == "standby":
                query = successor.stand_by()
            else:
                wait_until(log.with_suffix(".go").exists)
                query = successor.take_over()
    else:
        query = build().option("checkpointLocation", location).start()

    def is_over() -> bool:
        if kind == "fill":
            return log.exists() and len(log.read_text().splitlines()) > _FILL_EPOCHS
        return log.with_suffix(".stop").exists()

    wait_until(lambda: not query.isActive or is_over())
    query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure


if __name__ == "__main__":
    die_with_the_test()
    kind, location, endpoint, log, *counts = sys.argv[1:]
    keys, rows, cores = map(int, counts)
    main(kind, location, endpoint, Path(log), keys, rows, cores)
