"""A driver of a count by key, which takes over from another driver or is taken over.

`python -m tests.support.handover_driver <kind> <location> <root> [<key>=<value>…]` runs the query
until the file `done` is in the root. The kind "plain" starts the query; "successor" prepares it,
and takes over when the file `go` is in the root; "standby" prepares it, and takes over when the
query has no driver. The last line is the error that ended it, or "the end". The environment
variable `DSN` names a PostgreSQL server for a table of the newest counts.
"""

import contextlib
import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import cleancut
from cleancut.errors import find_error
from cleancut.sinks import EpochFiles, FanOut, PostgresSink, fan_out
from tests.support.counted_files import CountedFiles
from tests.support.kills import die_with_the_test
from tests.support.patience import wait_until
from tests.support.sessions import builder

KEYS = 50
END = "the end"
PREPARED = "PREPARED"
TOOK_OVER = "TOOK OVER"
DSN = "CLEANCUT_VICTIM_DSN"
TABLE = "newest_counts"
_HANDOVER_S = 10.0


def sink_at(root: Path) -> EpochFiles:
    """Returns the files of all drivers."""
    return EpochFiles(root / "published")


def _sinks(root: Path) -> EpochFiles | FanOut:
    dsn = os.environ.get(DSN)
    if dsn is None:
        return sink_at(root)
    return fan_out(sink_at(root), PostgresSink(dsn, TABLE, keys="k", order_by="count"))


def done_at(root: Path) -> Path:
    """Returns the file that stops all running drivers."""
    return root / "done"


def go_at(root: Path) -> Path:
    """Returns the file at which a prepared successor takes over."""
    return root / "go"


def _query(kind: str, spark: SparkSession, location: str, root: Path) -> StreamingQuery:
    def build() -> DataStreamWriter:
        counted = CountedFiles(root, keys=KEYS).counted(spark)
        writer = counted.writeStream.outputMode("update").foreachBatch(_sinks(root))
        return writer.trigger(processingTime="100 milliseconds")

    if kind == "plain":
        return build().option("checkpointLocation", location).start()
    with cleancut.successor(build, location, handover_timeout=_HANDOVER_S) as successor:
        print(PREPARED, successor.prepare(epochs=2), flush=True)
        if kind == "standby":
            query = successor.stand_by()
        else:
            wait_until(go_at(root).exists)
            query = successor.take_over()
        print(TOOK_OVER, query.runId, flush=True)
        return query


def main(kind: str, location: str, root: Path, settings: dict[str, str]) -> str:
    """Runs the query; returns its error, or "the end"."""
    spark = cleancut.configure(builder("local[2]", settings), cuts=True).getOrCreate()
    query = _query(kind, spark, location, root)
    wait_until(lambda: not query.isActive or done_at(root).exists())
    if query.isActive:
        query.processAllAvailable()
        query.stop()
    # The run has then recorded its end.
    with contextlib.suppress(StreamingQueryException):
        query.awaitTermination()
    failure = find_error(query) or query.exception()
    return END if failure is None else " ".join(str(failure).split())


if __name__ == "__main__":
    die_with_the_test()
    kind, location, root, *settings = sys.argv[1:]
    print(main(kind, location, Path(root), dict(text.split("=", 1) for text in settings)))
