"""A client of Spark Connect whose query writes by a sink, on a server that a test kills.

`python -m tests.support.connected_sinks <remote> <home> <target> <place> <step>`: `run` starts the
query, whose rows are slow, and exits after some committed epochs; `end` runs it to its end;
`read` prints the rows of the target as JSON.
"""

import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut.sinks import (
    DeltaSink,
    EpochFiles,
    EpochSink,
    KafkaSink,
    PostgresSink,
    RedisSink,
    SqlSink,
)
from cleancut.testing import slow
from tests.support.patience import PATIENCE_S

TABLE = "rows"
ROWS, KEYS = 30, 5
Row = tuple[int, int]
# Spark waits for the worker process of a function for ten seconds, whatever else runs.
_NO_WORKER = "Python worker failed to connect back"
_TRIES = 20


def json_of(sink: EpochSink) -> Callable[[DataFrame, int], None]:
    """Lets a sink of records encode each row as JSON."""

    def write_rows(df: DataFrame, epoch: int) -> None:
        with sink.epoch(df, epoch) as e:
            e.write(e.rows.selectExpr("to_json(struct(k, n)) AS value"))

    return write_rows


def sink_at(target: str, home: Path, place: str) -> Callable[[DataFrame, int], None]:
    """Returns the sink that the client passes to `foreachBatch`.

    Args:
        target: its kind.
        home: a directory that client and server share.
        place: the address of the target's server.
    """
    from tests.support.lakes import OfIceberg

    made: dict[str, Callable[[], Any]] = {
        "files": lambda: EpochFiles(home / "files"),
        "sqlite": lambda: SqlSink(f"sqlite:///{home}/rows.db", TABLE),
        "postgres": lambda: PostgresSink(place, TABLE),
        "delta": lambda: DeltaSink(home / "delta"),
        "iceberg": lambda: OfIceberg(home).sink(),
        "redis": lambda: RedisSink(place, stream=TABLE),
        "kafka": lambda: json_of(KafkaSink(place, topic=TABLE)),
    }
    sink: Callable[[DataFrame, int], None] = made[target]()
    return sink


def write(home: Path, files: Iterable[int]) -> None:
    """Writes files, one per epoch; each second row is a duplicate."""
    (home / "in").mkdir(exist_ok=True)
    for number in files:
        rows = [(k % KEYS, number * ROWS + k) for k in range(ROWS)]
        text = "\n".join(json.dumps({"k": k, "n": n}) for k, n in [*rows, *rows[::2]])
        (home / f"{number}.json").write_text(text)
        (home / f"{number}.json").rename(home / "in" / f"{number}.json")


def wanted(files: int) -> list[Row]:
    """Returns the expected rows of the target at the end."""
    return sorted((k % KEYS, n * ROWS + k) for n in range(files) for k in range(ROWS))


def start(spark: SparkSession, home: Path, target: str, place: str, slowly: bool) -> StreamingQuery:
    """Starts the query from its last state."""
    stream = spark.readStream.schema("k int, n int").option("maxFilesPerTrigger", 1)
    rows = stream.json(str(home / "in"))
    if slowly:
        rows = rows.withColumn("n", slow("n", per_row_ms=20, when=F.col("k") == 0))
    writer = (
        rows.dropDuplicates(["k", "n"])
        .writeStream.foreachBatch(sink_at(target, home, place))
        .option("checkpointLocation", str(home / "checkpoint"))
    )
    for _ in range(_TRIES):
        try:
            return writer.start()
        except Exception as failure:
            if _NO_WORKER not in str(failure):
                raise
    raise TimeoutError


def read(spark: SparkSession, home: Path, target: str) -> list[Row]:
    """Returns the rows of a target on a file system; the test reads the others."""
    if target == "files":
        return [(row.k, row.n) for row in EpochFiles(home / "files").read(spark).collect()]
    if target == "sqlite":
        with contextlib.closing(sqlite3.connect(home / "rows.db")) as database:
            return database.execute(f"SELECT k, n FROM {TABLE}").fetchall()
    from tests.support.lakes import lake_at

    return [(row["k"], row["n"]) for row in lake_at(target, home).rows()]


def main(remote: str, home: Path, target: str, place: str, act: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    if act == "read":
        print(json.dumps(sorted(read(spark, home, target))))
        return
    query = start(spark, home, target, place, slowly=act == "run")
    if act == "run":
        watched, deadline = cleancut.coordinator(query), time.monotonic() + PATIENCE_S
        begun = watched.status().committed or -1
        while (watched.status().committed or -1) < begun + 2:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        print("BEGUN", flush=True)
        # The query continues without its client.
        os._exit(0)
    query.processAllAvailable()
    cleancut.stop(query)
    print("DONE")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
