"""`python -m tests.bench.python_state`: Python functions with state, on each provider.

Each epoch has the same number of rows of each key. The functions are cheap: they read a state
variable, write it, and return a row. Subjects run in turn on one session: Cleancut with its loop
over groups, Cleancut with PySpark's loop, Spark's RocksDB provider with changelog checkpointing,
and for `applyInPandasWithState` Spark's HDFS provider, which has no `transformWithState`. It fails
if the sums of any two outputs differ. The time of an epoch is `addBatch` of Spark's progress.
"""

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import cleancut
from cleancut._provider import PROVIDER_KEY
from cleancut._session.options import PREFIX
from tests.support.sessions import HDFS, ROCKSDB

_OUTPUT = "key long, n long, s long"
# The first epochs of each run start the Python workers and compile the JVM's code.
_WARM_UP_EPOCHS = 2
_OURS, _PLAIN, _ROCKSDB, _HDFS = "Cleancut", "Cleancut, PySpark's loop", "RocksDB", "HDFS"
_SUBJECTS: Mapping[str, Mapping[str, str]] = {
    _OURS: {f"{PREFIX}acceleratePython": "true"},
    _PLAIN: {f"{PREFIX}acceleratePython": "false"},
    _ROCKSDB: {
        PROVIDER_KEY: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
    _HDFS: {PROVIDER_KEY: HDFS},
}


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of it is run.

    Attributes:
        keys: of an epoch.
        rows: of each key in an epoch.
        epochs: that count.
        turns: runs of each subject.
        forms: functions to run.
        states: kinds of state of `transformWithState`.
        busy_us: microseconds that the function computes for a key.
    """

    keys: int
    rows: int
    epochs: int
    turns: int
    forms: Sequence[str]
    states: Sequence[str]
    busy_us: float


class Sums(StatefulProcessor):
    """Counts and sums the rows of a key in a kind of state."""

    def __init__(self, state: str, busy_s: float, *, is_pandas: bool) -> None:
        self._kind = state
        self._busy_s = busy_s
        self._is_pandas = is_pandas

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state."""
        self._handle = handle
        if self._kind == "list":
            self._list = handle.getListState("list", "n long, s long")
        elif self._kind == "map":
            self._map = handle.getMapState("map", "u long", "n long, s long")
        else:
            self._value = handle.getValueState("value", "n long, s long")

    # PySpark's name.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Returns the sums of the key."""
        n = s = 0
        for part in rows:
            n += len(part) if self._is_pandas else 1
            s += int(part["value"].sum()) if self._is_pandas else part.value
        _compute(self._busy_s)
        n, s = self._add(n, s)
        if self._is_pandas:
            yield pd.DataFrame({"key": [key[0]], "n": [n], "s": [s]})
        else:
            yield Row(key=key[0], n=n, s=s)

    def _add(self, n: int, s: int) -> tuple[int, int]:
        if self._kind == "list":
            earlier = list(self._list.get())
            n, s = n + sum(row[0] for row in earlier), s + sum(row[1] for row in earlier)
            self._list.put([(n, s)])
            return n, s
        old = self._map.getValue((0,)) if self._kind == "map" else self._value.get()
        if old is not None:
            n, s = n + old[0], s + old[1]
        if self._kind == "map":
            self._map.updateValue((0,), (n, s))
        else:
            self._value.update((n, s))
        if self._kind == "timers":
            # Never expires: the watermark does not advance.
            self._handle.registerTimer(1 << 50)
        return n, s

    def close(self) -> None:
        """Has nothing to release."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all subjects and prints the table; returns 1 if an output differs."""
    options = _parse(arguments)
    spark = _session()
    rows = []
    for form in options.forms:
        for state in options.states if form != "applyInPandasWithState" else ("value",):
            subjects = [
                name for name in _SUBJECTS if name != _HDFS or form == "applyInPandasWithState"
            ]
            times: dict[str, list[float]] = {name: [] for name in subjects}
            expected: list[tuple[int, ...]] | None = None
            for turn in range(options.turns):
                # The first one of a turn would be colder than the others.
                first = turn % len(subjects)
                names = subjects[first:] + subjects[:first]
                for name in names:
                    measured, sums = _run(spark, options, _SUBJECTS[name], form, state)
                    expected = expected or sums
                    if sums != expected:
                        print(f"The output of {name} differs in {form}.", file=sys.stderr)
                        return 1
                    times[name] += measured
                    print(f"# {form}, {state}, {name}: {measured}", file=sys.stderr, flush=True)
            rows.append(_line(f"`{form}`, {state}", times))
    heads = ["function, state", *(f"{name}: median, min" for name in _SUBJECTS)]
    heads += ["over the better provider: medians, minima"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    print("\n".join(rows))
    spark.stop()
    return 0


def _line(name: str, times: Mapping[str, Sequence[float]]) -> str:
    medians = {subject: statistics.median(taken) for subject, taken in times.items()}
    minima = {subject: min(taken) for subject, taken in times.items()}
    cells = [
        f"{medians[subject]:.0f} ms, {minima[subject]:.0f} ms" if subject in times else "-"
        for subject in _SUBJECTS
    ]
    ratios = [
        min(values[name] for name in (_ROCKSDB, _HDFS) if name in values) / values[_OURS]
        for values in (medians, minima)
    ]
    return "| " + " | ".join([name, *cells, f"{ratios[0]:.2f}, {ratios[1]:.2f}"]) + " |"


def _compute(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while seconds and time.perf_counter() < end:
        pass


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.Builder().master("local[2]").appName("cleancut-python-state")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return cleancut.configure(builder).getOrCreate()


def _run(
    spark: SparkSession, options: Options, settings: Mapping[str, str], form: str, state: str
) -> tuple[list[float], list[tuple[int, ...]]]:
    """The milliseconds of each epoch, and the sums of each epoch's output."""
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    if PROVIDER_KEY in settings:
        session.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    sums: list[tuple[int, ...]] = []

    def sink(batch: DataFrame, epoch: int) -> None:
        sums.append(tuple(batch.selectExpr("count(*)", "sum(n)", "sum(s)").collect()[0]))

    last = _WARM_UP_EPOCHS + options.epochs
    groups = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", options.keys * options.rows)
        .option("numPartitions", 2)
        .load()
        .selectExpr(f"value % {options.keys} as key", "value", "timestamp")
        .withWatermark("timestamp", "1 hour")
        .select("key", "value", "timestamp")
        .groupBy("key")
    )
    with tempfile.TemporaryDirectory(prefix="cleancut-python-state-") as checkpoint:
        query = (
            _applied(groups, options, form, state)
            .writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .foreachBatch(sink)
            .start()
        )
        while len(sums) < last + 1 and query.isActive:
            time.sleep(0.1)
        query.stop()
        error = query.exception()
        if error is not None:
            raise error
    taken = {epoch["batchId"]: epoch["durationMs"]["addBatch"] for epoch in query.recentProgress}
    return [taken[epoch] for epoch in range(_WARM_UP_EPOCHS, last)], sums[:last]


def _applied(groups: Any, options: Options, form: str, state: str) -> DataFrame:
    busy_s = options.busy_us / 1e6
    mode = "EventTime" if state == "timers" else "None"
    made: dict[str, Callable[[], DataFrame]] = {
        "transformWithState": lambda: groups.transformWithState(
            Sums(state, busy_s, is_pandas=False), _OUTPUT, "Update", mode
        ),
        "transformWithStateInPandas": lambda: groups.transformWithStateInPandas(
            Sums(state, busy_s, is_pandas=True), _OUTPUT, "Update", mode
        ),
        "applyInPandasWithState": lambda: groups.applyInPandasWithState(
            _grouped(busy_s), _OUTPUT, "n long, s long", "update", GroupStateTimeout.NoTimeout
        ),
    }
    return made[form]()


def _grouped(busy_s: float) -> Any:
    def add(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        n, s = state.get if state.exists else (0, 0)
        for frame in frames:
            n, s = n + len(frame), s + int(frame["value"].sum())
        _compute(busy_s)
        state.update((n, s))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "s": [s]})

    return add


def _parse(arguments: Sequence[str] | None) -> Options:
    forms = ["transformWithState", "transformWithStateInPandas", "applyInPandasWithState"]
    states = ["value", "list", "map", "timers"]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.python_state", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="of an epoch")
    parser.add_argument("--rows", type=int, default=1, help="of each key in an epoch")
    parser.add_argument("--epochs", type=int, default=3, help="that count")
    parser.add_argument("--turns", type=int, default=3, help="runs of each subject")
    parser.add_argument("--forms", nargs="+", default=forms, choices=forms, help="functions")
    parser.add_argument("--states", nargs="+", default=states, choices=states, help="of functions")
    parser.add_argument("--busy-us", type=float, default=0, help="computing for a key")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
