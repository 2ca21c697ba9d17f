"""A driver of a query that may have other drivers.

`python -m tests.support.rival <endpoint> <location> <input> <root> <handover timeout>` runs the
query until the file `done` is in the root, and then to the end of its input. Its last line is the
error that ended it, "handed over" if it has ended before, or "the end".
"""

import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException

import cleancut
from cleancut.errors import from_java
from cleancut.sinks import EpochFiles
from cleancut.testing import SkewedInput
from tests.support.kills import die_with_the_test
from tests.support.sessions import builder

END = "the end"
HANDED_OVER = "handed over"


def input_at(directory: Path) -> SkewedInput:
    """Returns the input of all drivers of the query."""
    return SkewedInput(directory, seed=8, rows=60)


def sink_at(root: Path) -> EpochFiles:
    """Returns the sink of all drivers."""
    return EpochFiles(root / "sink")


def done_at(root: Path) -> Path:
    """Returns the file that stops all running drivers."""
    return root / "done"


def main(endpoint: str, location: str, source: Path, root: Path, timeout: str) -> str:
    """Runs the query; returns its error, "handed over", or "the end"."""
    session = cleancut.configure(builder("local[2]"), endpoint=endpoint, cuts=True)
    keys = "spark.sql.streaming.stateStore.cleancut."
    session = session.config(f"{keys}handoverTimeout", timeout)
    # The tasks of the next epoch then run when the query hands over.
    session = session.config(f"{keys}pipelinedCuts", str(timeout != "0ms").lower())
    spark = session.getOrCreate()
    query = (
        input_at(source)
        .stream(spark)
        .dropDuplicates(["number"])
        .writeStream.foreachBatch(sink_at(root))
        .option("checkpointLocation", location)
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        while query.isActive and not done_at(root).exists():
            time.sleep(0.05)
        if not query.isActive:
            query.awaitTermination()
            return HANDED_OVER
        query.processAllAvailable()
        query.stop()
    except StreamingQueryException as failure:
        return " ".join(str(from_java(failure) or failure).split())
    return END


if __name__ == "__main__":
    die_with_the_test()
    print(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5]))
