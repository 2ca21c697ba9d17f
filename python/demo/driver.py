"""The process that gets killed: both queries in one session, until all input is processed.

`python -m demo.driver <job.json> <life>` goes on from the checkpoints wherever it was left.
"""

import contextlib
import os
import random
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import coordinator
from cleancut.errors import CleancutError
from demo.events import EpochLog
from demo.job import QUERIES, Job
from demo.providers import open_session
from demo.queries import build
from demo.results import results_of

_CUT_EVERY_S = (0.1, 0.8)


def run(job: Job, life: int) -> None:
    """Runs both queries to the end of the input.

    Raises:
        StreamingQueryException: a query failed.
    """
    spark = open_session(job)
    spark.streams.addListener(EpochLog(job.events(life)))
    queries = [_start(spark, job, query) for query in QUERIES]
    job.started(life).touch()
    if job.has_rows_in_flight:
        draw = random.Random(f"cuts {job.seed} {life}")
        threading.Thread(target=_cut_at_random, args=(queries, draw), daemon=True).start()
    while any(query.isActive for query in queries):
        # Whichever ends first: a failure must not wait for the other query's end.
        spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
    for query in queries:
        query.awaitTermination()
    spark.stop()


def _cut_at_random(queries: list[StreamingQuery], draw: random.Random) -> None:
    """Cuts epochs by hand while their tasks run, so that rows stay in flight.

    Otherwise only tasks that hold their epoch up are overtaken, and the flights of an hour are
    nobody's burden.
    """
    while True:
        time.sleep(draw.uniform(*_CUT_EVERY_S))
        for query in queries:
            # One that has not begun has no coordinator, and one that has ended no more epochs.
            with contextlib.suppress(CleancutError):
                if query.isActive:
                    coordinator(query).cut_now()


def _start(spark: SparkSession, job: Job, query: str) -> StreamingQuery:
    # The thread that starts a query hands its pool down to the query's own.
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", query)
    sink = results_of(job, query).sink(is_sealing=job.has_rows_in_flight)
    return (
        build(spark, job, query)
        .writeStream.queryName(query)
        .outputMode("append")
        .option("checkpointLocation", job.checkpoint(query).uri)
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )


def _die_with_supervisor() -> None:
    """Ends this process once nobody holds the other end of its standard input.

    Nobody is left to stop a driver whose supervisor was itself killed.
    """
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_die_with_supervisor, daemon=True).start()
    run(Job.load(Path(sys.argv[1])), int(sys.argv[2]))
