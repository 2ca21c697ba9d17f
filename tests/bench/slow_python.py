"""`python -m tests.bench.slow_python`: a slow key of a Python function, in each mode.

Half of the rows are of one key, hence in one partition, and each of them takes its time: one run of
all for each given time. The modes and Spark's RocksDB provider run in turn on one cluster, on the
same files, one per epoch, and then process the remaining in-flight rows. It fails if the output of
any two differs: each row with its number among those of its key, and so the order of a key's rows
too. The time of an epoch is that of Spark's progress.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import cleancut
from cleancut._provider import PROVIDER_KEY
from cleancut._session.options import PREFIX
from cleancut.sinks import sealed
from tests.support.sessions import ROCKSDB

_SLOW_KEY = 0
_KEYS = 4000
_FIRST_FILE_S = 1_000_000_000
# The first epochs of each run start the Python workers.
_WARM_UP_EPOCHS = 2
_WITHOUT = "without the slow key"


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of it is run.

    Attributes:
        master: of Spark.
        partitions: of the operator.
        rows: of an epoch.
        epochs: that count.
        slow_ms: what a row of the slow key takes, in milliseconds, of one run each.
        row_ms: what each other row takes.
        timeout: `alignmentTimeout` of mode "auto".
    """

    master: str
    partitions: int
    rows: int
    epochs: int
    slow_ms: Sequence[float]
    row_ms: float
    timeout: str


@dataclasses.dataclass(frozen=True)
class Taken:
    """The measurements of one run.

    Attributes:
        epoch_ms: the duration of each epoch with input, except the first ones.
        in_flight: in-flight rows after each of these epochs.
        capture_ms: the maximum time from the order to a task until its rows were captured.
        drain_ms: the duration of all epochs without input.
        output: all emitted rows, unordered.
    """

    epoch_ms: Sequence[int]
    in_flight: Sequence[int]
    capture_ms: int
    drain_ms: int
    output: Sequence[tuple[int, int, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all subjects and prints the tables; returns 1 if an output differs."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="cleancut-slow-python-") as home:
        source = Path(home, "input")
        _write(options, source)
        spark = _session(options)
        # Otherwise the cluster would warm up in the first measured run.
        _, settings, slow = next(_subjects(options, 0))
        _run(spark, options, settings, slow, source, Path(tempfile.mkdtemp(dir=home)))
        expected: Sequence[tuple[int, int, int]] | None = None
        for slow_ms in options.slow_ms:
            measured: dict[str, Taken] = {}
            for name, settings, slow in _subjects(options, slow_ms):
                checkpoint = Path(tempfile.mkdtemp(dir=home))
                taken = _run(spark, options, settings, slow, source, checkpoint)
                expected = expected or sorted(taken.output)
                if sorted(taken.output) != expected or not expected:
                    print(f"The output of {name} differs.", file=sys.stderr)
                    return 1
                measured[name] = taken
                print(f"# {name}: {taken.epoch_ms} ms", file=sys.stderr, flush=True)
            print(f"\n{slow_ms:g} ms for a row of the slow key:\n\n{table(measured)}", flush=True)
        spark.stop()
    return 0


def table(measured: Mapping[str, Taken]) -> str:
    """Renders the runs, each compared with the one without the slow key, as Markdown."""
    heads = ["mode", "epoch, p50", "p90", "max", "over one without the slow key"]
    heads += ["epochs with in-flight rows", "rows at most", "barrier to capture, max"]
    heads += ["until none are left"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    base = statistics.median(measured[_WITHOUT].epoch_ms)
    for name, taken in measured.items():
        p50 = statistics.median(taken.epoch_ms)
        # With few epochs, the nearest measured one.
        p90 = sorted(taken.epoch_ms)[round(0.9 * (len(taken.epoch_ms) - 1))]
        cells = [name, *(f"{ms:.0f} ms" for ms in (p50, p90, max(taken.epoch_ms)))]
        cells += [f"{p50 / base:.2f}", str(sum(rows > 0 for rows in taken.in_flight))]
        cells += [f"{max(taken.in_flight):,}", f"{taken.capture_ms} ms"]
        cells += [f"{taken.drain_ms / 1000:.1f} s"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _subjects(options: Options, slow_ms: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yields name, settings, and the time of a row of the slow key."""

    def mode(name: str) -> dict[str, str]:
        return {f"{PREFIX}cuts": "true", f"{PREFIX}mode": name}

    yield _WITHOUT, mode("aligned"), 0
    yield "`aligned`", mode("aligned"), slow_ms
    auto = mode("auto") | {f"{PREFIX}alignmentTimeout": options.timeout}
    yield f"`auto`, {options.timeout}", auto, slow_ms
    yield "`unaligned`", mode("unaligned"), slow_ms
    rocks = {
        PROVIDER_KEY: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    yield "RocksDB", rocks, slow_ms


def _write(options: Options, source: Path) -> None:
    """Writes a file per epoch."""
    source.mkdir()
    for epoch in range(options.epochs + _WARM_UP_EPOCHS):
        rows = [
            {"k": _SLOW_KEY if i % 2 == 0 else 1 + i % _KEYS, "n": epoch * options.rows + i}
            for i in range(options.rows)
        ]
        file = source / f"{epoch:05}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        # Spark reads files in the order of their modification times.
        os.utime(file, (_FIRST_FILE_S + epoch, _FIRST_FILE_S + epoch))


def _session(options: Options) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(options.master).appName("cleancut-slow-python")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(options.partitions),
        # Epochs that only process in-flight rows may be more than Spark's default of kept progress.
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return cleancut.configure(builder).getOrCreate()


def _run(
    spark: SparkSession,
    options: Options,
    settings: Mapping[str, str],
    slow_ms: float,
    source: Path,
    checkpoint: Path,
) -> Taken:
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    is_ours = PROVIDER_KEY not in settings
    if not is_ours:
        session.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    output: list[tuple[int, int, int]] = []

    def sink(batch: DataFrame, epoch: int) -> None:
        output.extend((row.k, row.n, row.c) for row in batch.collect())

    rows = (
        session.readStream.schema("k long, n long")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
    )
    query = (
        _numbered(rows, slow_ms / 1000, options.row_ms / 1000)
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(sealed(sink) if is_ours else sink)
        .start()
    )
    query.processAllAvailable()
    epochs = [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    query.stop()
    with_input = [epoch for epoch in epochs if epoch["numInputRows"]][_WARM_UP_EPOCHS:]
    return Taken(
        epoch_ms=[epoch["durationMs"]["triggerExecution"] for epoch in with_input],
        in_flight=[_in_flight(epoch) for epoch in with_input],
        capture_ms=max(map(_capture_ms, epochs)),
        drain_ms=sum(
            epoch["durationMs"]["triggerExecution"] for epoch in epochs if not epoch["numInputRows"]
        ),
        output=output,
    )


def _numbered(rows: DataFrame, slow_s: float, row_s: float) -> DataFrame:
    """Returns each row with its number among those of its key."""

    def number(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        count = state.get[0] if state.exists else 0
        for frame in frames:
            for _ in range(len(frame)):
                time.sleep(slow_s if key[0] == _SLOW_KEY else row_s)
            counts = range(count + 1, count + 1 + len(frame))
            yield pd.DataFrame({"k": key[0], "n": frame["n"].to_numpy(), "c": counts})
            count += len(frame)
        state.update((count,))

    return rows.groupBy("k").applyInPandasWithState(
        number, "k long, n long, c long", "c long", "append", GroupStateTimeout.NoTimeout
    )


def _in_flight(progress: Mapping[str, Any]) -> int:
    return sum(channel["numRowsTotal"] for channel in _channels(progress))


def _capture_ms(progress: Mapping[str, Any]) -> int:
    return max(
        (channel["customMetrics"]["barrierToCaptureMs"] for channel in _channels(progress)),
        default=0,
    )


def _channels(progress: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (
        operator
        for operator in progress["stateOperators"]
        if operator["operatorName"] == "cleancutInFlight"
    )


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.slow_python", description=__doc__)
    parser.add_argument("--master", default="local-cluster[2,2,1024]", help="of Spark")
    parser.add_argument("--partitions", type=int, default=20, help="of the operator")
    parser.add_argument("--rows", type=int, default=1600, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=8, help="that count")
    parser.add_argument(
        "--slow-ms", type=float, nargs="+", default=[5], help="that a row of the slow key takes"
    )
    parser.add_argument("--row-ms", type=float, default=10, help="that any other row takes")
    parser.add_argument("--timeout", default="1s", help="alignmentTimeout of mode auto")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
