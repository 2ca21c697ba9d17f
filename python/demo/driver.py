"""The process that is killed: both queries in one session, until all input is processed.

`python -m demo.driver <job.json> <life>` continues from the last state of the checkpoints.
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
    """Orders cuts while tasks run, so that rows stay in flight.

    Otherwise only stragglers are overtaken, and the flights of an hour make no task slow.
    """
    while True:
        time.sleep(draw.uniform(*_CUT_EVERY_S))
        for query in queries:
            # A query has a coordinator only after its start, and no epochs after its end.
            with contextlib.suppress(CleancutError):
                if query.isActive:
                    coordinator(query).cut_now()


def _start(spark: SparkSession, job: Job, query: str) -> StreamingQuery:
    # The thread of a query inherits the pool of the thread that starts it.
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
    """Ends this process after the other end of its standard input is closed.

    Otherwise a driver would outlive a supervisor that was killed.
    """
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_die_with_supervisor, daemon=True).start()
    run(Job.load(Path(sys.argv[1])), int(sys.argv[2]))
