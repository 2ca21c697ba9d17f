"""Queries with state under some settings, restarted once, on Cleancut with cuts and on RocksDB.

`python -m tests.support.compared_settings HOME KEY=VALUE...` compares them in a session that has
the settings from its start, on a cluster of two executors, and exits with 1 if they differ.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

import cleancut
from cleancut._session.options import PREFIX
from tests.support.events import write_closing, write_events
from tests.support.queries import OPERATORS, Events, Operator
from tests.support.results import EpochFiles
from tests.support.sessions import CLEANCUT, ROCKSDB, builder, results, start, take_out_defaults

_CUTS = {f"{PREFIX}cuts": "true", f"{PREFIX}mode": "unaligned", f"{PREFIX}requireProvider": "true"}
_ROWS = 60
_DECOMMISSION_EVERY_S = 3.0


def _count(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    count = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((int(count),))
    yield pd.DataFrame({"k": [key[0]], "n": [int(count)]})


def _counts(events: Events) -> DataFrame:
    """The latest row of a key does not depend on the epochs of its rows."""
    by_key = events().groupBy("k")
    return by_key.applyInPandasWithState(
        _count, "k int, n long", "n long", "update", GroupStateTimeout.NoTimeout
    )


class _Counter(StatefulProcessor):
    """Counts the rows of each key, like `_counts`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(map(len, rows))
        self._count.update((int(count),))
        yield pd.DataFrame({"k": [key[0]], "n": [int(count)]})


def _counts_by_processor(events: Events) -> DataFrame:
    by_key = events().groupBy("k")
    return by_key.transformWithStateInPandas(_Counter(), "k int, n long", "update", "none")


_FUNCTION = Operator(_counts, "update")
_QUERIES = {
    "aggregation": OPERATORS["aggregation-append"],
    "join": OPERATORS["join-full_outer-bounds"],
    "function": _FUNCTION,
}
_SESSIONS = {"sessions": OPERATORS["session-windows"]}
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
# Spark refuses other operators with this encoding.
_PROCESSOR = {"function": Operator(_counts_by_processor, "update")}
# Spark refuses outer joins of format 1.
_INNER = {"join": OPERATORS["join-inner-bounds"]}


@dataclass
class Comparison:
    """Queries under some settings, on both providers.

    Attributes:
        spark: the parent of their sessions.
        home: the directory of input, checkpoints and results.
        seed: the seed of the input and of the moments of cuts.
        in_flight: in-flight rows of all cuts, after `run`.
        refused: Spark's reason to refuse a query on its own provider, by query.
    """

    spark: SparkSession
    home: Path
    seed: int
    in_flight: int = field(default=0, init=False)
    refused: dict[str, str] = field(default_factory=dict, init=False)

    def run(self, first: Mapping[str, str], then: Mapping[str, str]) -> list[str]:
        """Runs the queries twice, and returns the differences.

        Args:
            first: settings of the first start.
            then: settings of the restart.
        """
        queries = dict(_QUERIES)
        if any("sessionWindow" in key for key in first):
            queries |= _SESSIONS
        if first.get(_JOIN_FORMAT) == "1":
            queries |= _INNER
        if _ENCODING in first:
            queries = dict(_PROCESSOR)
        events = self.home / "events"
        for settings, files in ((first, range(2)), (then, range(2, 4))):
            write_events(events, seed=self.seed, files=files, rows=_ROWS)
            if files.stop == 4:
                write_closing(events, 4)
            self._once(queries, settings)
        return [problem for name in queries for problem in self._problems(name)]

    def _once(self, queries: dict[str, Operator], settings: Mapping[str, str]) -> None:
        peers = {
            name: self._start(name, ROCKSDB, query, settings) for name, query in queries.items()
        }
        for name, query in peers.items():
            if (failure := _failure(query)) is not None:
                self.refused[name] = failure
                del queries[name]
        ours = [self._start(name, CLEANCUT, query, settings) for name, query in queries.items()]
        is_over = threading.Event()
        arguments = (ours, random.Random(self.seed), is_over)
        cutter = threading.Thread(target=_cut_until, args=arguments, daemon=True)
        cutter.start()
        try:
            for query in ours:
                query.awaitTermination()
        finally:
            is_over.set()
            cutter.join()

    def _start(
        self, name: str, provider: str, operator: Operator, settings: Mapping[str, str]
    ) -> StreamingQuery:
        root = self.home / ("ours" if provider == CLEANCUT else "peer") / name
        files = EpochFiles(root / "results")

        def sealed(batch: DataFrame, epoch: int) -> None:
            rows = cleancut.seal(batch, epoch)
            try:
                files(rows, epoch)
            finally:
                rows.unpersist()

        ours = provider == CLEANCUT
        return start(
            self.spark,
            operator,
            events=self.home / "events",
            root=root,
            provider=provider,
            sink=sealed if ours else files,
            settings={**settings, **(_CUTS if ours else {})},
            is_named=any("SourceEvolution" in key for key in settings),
            has_named_sink=any("SinkEvolution" in key for key in settings),
        )

    def _problems(self, name: str) -> Iterator[str]:
        expected = _rows(results(self.home / "peer" / name), is_latest=name == "function")
        actual = _rows(results(self.home / "ours" / name), is_latest=name == "function")
        checkpoint = cleancut.Checkpoint(self.home / "ours" / name / "checkpoint")
        self.in_flight += sum(cut.in_flight_rows for cut in checkpoint.history())
        if not expected:
            yield f"{name}: no rows"
        if expected != actual:
            lost = sorted(set(expected) - set(actual))[:3]
            more = sorted(set(actual) - set(expected))[:3]
            yield f"{name}: {len(expected)} rows on RocksDB, {len(actual)} here: -{lost} +{more}"
        if not checkpoint.verify().ok:
            yield f"{name}: {checkpoint.verify()}"


def _rows(epochs: Mapping[int, list[str]], *, is_latest: bool) -> list[str]:
    rows = sorted(row for rows_of_epoch in epochs.values() for row in rows_of_epoch)
    if not is_latest:
        return rows
    latest: dict[str, int] = {}
    for row in rows:
        key, count = row.removeprefix("Row(").removesuffix(")").split(", n=")
        latest[key] = max(int(count), latest.get(key, 0))
    return sorted(f"{key}: {count}" for key, count in latest.items())


def _failure(query: StreamingQuery) -> str | None:
    """Returns the failure of the query after its end, if it has failed."""
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        return str(failure).partition("\n")[0]
    return None


def _cut_until(
    queries: list[StreamingQuery], draw: random.Random, is_over: threading.Event
) -> None:
    while not is_over.wait(draw.uniform(0.01, 0.1)):
        # A query has a coordinator only between its start and its end.
        with contextlib.suppress(cleancut.CleancutError):
            cleancut.coordinator(draw.choice(queries)).cut_now()


class Decommissions:
    """Decommissions an executor every few seconds while another one is alive.

    Attributes:
        count: executors that Spark began to decommission.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.count = 0
        self._context = spark.sparkContext._jsc.sc()
        self._jvm = spark.sparkContext._jvm
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Decommissions":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        assert self._jvm is not None
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "a test", self._jvm.scala.Option.empty()
        )
        backend = self._context.schedulerBackend()
        while not self._is_over.wait(_DECOMMISSION_EVERY_S):
            ids = backend.getExecutorIds()
            # The target is unchanged, so that Spark starts another executor.
            if ids.size() > 1 and backend.decommissionExecutor(ids.head(), info, False, False):
                self.count += 1


def main(home: Path, settings: Mapping[str, str]) -> int:
    """Compares the queries in a session with these settings."""
    spark = builder("local-cluster[2,1,1024]", settings).getOrCreate()
    take_out_defaults(spark)
    comparison = Comparison(spark, home, seed=1)
    if settings.get("spark.decommission.enabled") == "true":
        with Decommissions(spark) as decommissions:
            problems = comparison.run({}, {})
        print(f"{decommissions.count} executors were decommissioned")
        if decommissions.count == 0:
            problems.append("no executor was decommissioned")
    else:
        problems = comparison.run({}, {})
    spark.stop()
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[2:])
    sys.exit(main(Path(sys.argv[1]), given))
