"""`python -m tests.bench.running_rescale`: a query that is rescaled while it runs.

A count and a sum for each key; the input has every key in turn. When the state has all keys, the
query is rescaled to each of the given numbers of partitions, and then runs epochs as before. Time
is lost in the call, in the epoch without input in which executors load the state, and in epochs
whose stores write snapshots of it. Fails if a row is lost or duplicated.
"""

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import coordinator
from cleancut._session.options import PREFIX
from cleancut.types import Plan

# A prime, so that the keys of an epoch are distributed over all partitions.
_SCATTER = 7919
_PATIENCE_S = 600


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of it is run.

    Attributes:
        keys: of the state.
        rows: of an epoch.
        epochs: before and after each operation that count.
        partitions: numbers of partitions; the first is that of the first epoch.
    """

    keys: int
    rows: int
    epochs: int
    partitions: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Rescaled:
    """The times of one operation.

    Attributes:
        before: the number of partitions before it.
        after: the number of partitions after it.
        call_ms: from the call to its return, in milliseconds; it waits for the running epoch.
        usual_ms: the times of epochs before it.
        later_ms: the times of epochs after it, of which the first has no input.
    """

    before: int
    after: int
    call_ms: float
    usual_ms: Sequence[int]
    later_ms: Sequence[int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="cleancut-bench-") as home:
        print(table(options.keys, _run(options, f"{home}/checkpoint")))
    return 0


def table(keys: int, results: Iterable[Rescaled]) -> str:
    """Formats the results as a Markdown table."""
    lines = [
        "| keys | partitions | call | p50 before | first epoch | longest epoch later | p50 later |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        first, *later = one.later_ms
        lines.append(
            f"| {keys:,} | {one.before} to {one.after} | {one.call_ms:.0f} ms"
            f" | {statistics.median(one.usual_ms):.0f} ms | {first} ms | {max(later)} ms"
            f" | {statistics.median(later):.0f} ms |"
        )
    return "\n".join(lines)


def _run(options: Options, location: str) -> list[Rescaled]:
    spark = _session(options)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", options.rows).load()
    query = (
        rows.groupBy((f.col("value") * _SCATTER % options.keys).alias("key"))
        .agg(f.count("*").alias("n"), f.sum("value").alias("s"))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", location)
        .start()
    )
    fill = -(-options.keys // options.rows)
    results = []
    before = options.partitions[0]
    _wait(query, fill)
    for after in options.partitions[1:]:
        results.append(_rescaled(query, before, after, options.epochs))
        before = after
    query.stop()
    taken = sum(one["numInputRows"] for one in query.recentProgress)
    _verify(spark, location, options.keys, taken)
    spark.stop()
    return results


def _session(options: Options) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(options.partitions[0]),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
        f"{PREFIX}cuts": "true",
    }
    builder = SparkSession.Builder().master("local[2]").appName("cleancut-running-rescale")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return cleancut.configure(builder).getOrCreate()


def _rescaled(query: StreamingQuery, before: int, after: int, epochs: int) -> Rescaled:
    _wait(query, _epochs(query)[-1][0] + epochs)
    usual = [ms for _, ms in _epochs(query)[-epochs:]]
    began = time.monotonic()
    plan: Plan = coordinator(query).rescale(after)
    call_ms = (time.monotonic() - began) * 1000
    assert plan.epoch is not None
    _wait(query, plan.epoch + epochs)
    later = [ms for epoch, ms in _epochs(query) if epoch > plan.epoch]
    return Rescaled(before, after, call_ms, usual, later)


def _epochs(query: StreamingQuery) -> list[tuple[int, int]]:
    """Each epoch with its time in milliseconds."""
    progress = [one for one in query.recentProgress if "addBatch" in one["durationMs"]]
    return [(one["batchId"], one["durationMs"]["triggerExecution"]) for one in progress]


def _wait(query: StreamingQuery, epoch: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not (epochs := _epochs(query)) or epochs[-1][0] < epoch:
        error = query.exception()
        if error is not None:
            raise error
        if time.monotonic() > until:
            raise TimeoutError(f"no epoch {epoch} in {_PATIENCE_S} s")
        time.sleep(0.05)


def _verify(spark: SparkSession, location: str, keys: int, rows: int) -> None:
    """Compares the state after the last cut with the rows of all epochs."""
    state = spark.read.format("statestore").load(location).select("value.*")
    count = state.columns[0]
    totals = state.agg(f.count("*").alias("keys"), f.sum(count).alias("rows")).head()
    assert totals is not None
    if (totals["keys"], totals["rows"]) != (keys, rows):
        raise AssertionError(f"{totals} in the state, and not {keys} keys with {rows} rows")


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.running_rescale")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the state")
    parser.add_argument("--rows", type=int, default=100_000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=12, help="that count")
    parser.add_argument(
        "--partitions", type=int, nargs="+", default=[4, 8, 6, 5], help="the first is the initial"
    )
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
