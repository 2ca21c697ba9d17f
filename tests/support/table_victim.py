"""A query with in-flight rows that writes to files and to tables; a test kills it.

`python -m tests.support.table_victim <master> <seed> <input> <root> <target>` runs it to the end of
its input, with random cuts, from its last state. The target is a server of PostgreSQL, by its
connection string, or `lakes`.
"""

import random
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut.sinks import EpochFiles, EpochSink, FanOut, PostgresSink, fan_out
from cleancut.testing import SkewedInput
from tests.support.in_flight_queries import PARTITIONS, QUERIES, cut_at_random
from tests.support.kills import die_with_the_test
from tests.support.sessions import builder, take_out_defaults

ROWS = 120
QUERY = QUERIES["unique"]
ALL, NEWEST = "every_row", "newest"
LAKES = "lakes"
_KEYS = "spark.sql.streaming.stateStore.cleancut."


def source_at(directory: Path, seed: int) -> SkewedInput:
    """Returns the input of the query."""
    return SkewedInput(directory, seed=seed, rows=ROWS)


def files_at(root: Path) -> EpochFiles:
    """Returns the files that record each epoch's rows."""
    return EpochFiles(root / "files")


def sinks_at(root: Path, target: str) -> FanOut:
    """Returns sinks for files, tables of all rows, and one of the newest row of each partition."""
    if target == LAKES:
        return fan_out(files_at(root), *_lakes(root))
    return fan_out(files_at(root), *_tables(target))


def _tables(dsn: str) -> list[EpochSink]:
    every = PostgresSink(dsn, ALL, epoch_column="epoch")
    return [every, PostgresSink(dsn, NEWEST, keys="partition", order_by="number")]


def _lakes(root: Path) -> list[EpochSink]:
    # Imported here, because the packages are optional.
    from tests.support.lakes import OfDelta, OfIceberg

    every = OfDelta(root / ALL).sink(partition_by="partition")
    newest = OfDelta(root / NEWEST).sink(keys="partition", order_by="number")
    return [every, newest, OfIceberg(root).sink()]


def start(
    spark: SparkSession, source: SkewedInput, root: Path, sink: FanOut, mode: str = "unaligned"
) -> StreamingQuery:
    """Starts the query from its last state; it ends with its input."""
    session = spark.newSession()
    session.conf.set(f"{_KEYS}cuts", "true")
    session.conf.set(f"{_KEYS}mode", mode)
    session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    return (
        QUERY.build(source.stream(session))
        .writeStream.outputMode(QUERY.mode)
        .option("checkpointLocation", str(root / "checkpoint"))
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
    )


def run(master: str, seed: int, source: Path, root: Path, sink: FanOut) -> None:
    """Runs the query to the end of its input, in a process that a test kills."""
    die_with_the_test()
    spark = builder(master).getOrCreate()
    take_out_defaults(spark)
    query = start(spark, source_at(source, seed), root, sink)
    draw = random.Random(seed)
    threading.Thread(target=cut_at_random, args=([query], draw), daemon=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    master, seed, source, root, target = sys.argv[1:6]
    run(master, int(seed), Path(source), Path(root), sinks_at(Path(root), target))
