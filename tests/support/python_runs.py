"""Runs randomized Python queries while cuts, kills, failures and restarts occur.

`python -m tests.support.python_runs SEED HOME` runs the query of a seed in a session of its own,
from the last state of its checkpoint; the kill tests kill it.
"""

import contextlib
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint, CleancutError, coordinator
from cleancut.sinks import sealed
from tests.input_coverage.log import INPUTS
from tests.support.in_flight_queries import OrderedEpochs
from tests.support.kills import die_with_the_test
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.python_comparison import Outcome, compare
from tests.support.python_functions import PLANNED, Conditions, applied
from tests.support.python_inputs import SPACE
from tests.support.python_queries import DELAY_S, Input, PythonQuery
from tests.support.sessions import builder, take_out_defaults

KEYS = "spark.sql.streaming.stateStore.cleancut."
_FAULT_EVERY_S = (0.01, 0.12)
_CUT_CHANCE = 0.5
_DUE_S = 1.0
# Failures of a query that the faults cause.
_EXPECTED = (PLANNED, "Python worker exited unexpectedly", "Python worker failed to connect back")


@dataclass
class Result:
    """What happened in the run of a query.

    Attributes:
        query: the query.
        outcome: its events compared with the model.
        counts: `epochs`, `held` (with in-flight rows), `in_flight` rows, `killed` workers, tasks
            that `failed`, failures that the function `raised`, `restarts`, and stops.
        problems: other defects.
    """

    query: PythonQuery
    outcome: Outcome
    counts: Counter[str]
    problems: list[str]

    @property
    def is_right(self) -> bool:
        """Whether there is no defect."""
        return self.outcome.is_right and not self.problems

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        text = f"{self.query}: {self.outcome.events} events, {counts}"
        return text if self.is_right else f"{text}: {self.outcome} {self.problems}"


@dataclass
class PythonRun:
    """The run of a query.

    Attributes:
        query: the query.
        home: the directory of its files; empty, or that of an earlier run that was killed.
        counts: see `Result`.
        problems: see `Result`.
    """

    query: PythonQuery
    home: Path
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._written = Input.draw(self.query)
        self._work = self.home / "work"
        if not self._work.exists():
            self._work.mkdir(parents=True)
            self._written.write(self.query, self.home / "source")
        self._function = self._written.function(self.query, self._work)
        self._epochs = OrderedEpochs(self.home / "results")
        self._kills, self._stops = self.query.kills, self.query.stops
        INPUTS.add(SPACE, self.query.seed, self.query.covered())

    @property
    def conditions(self) -> Conditions:
        """The conditions of the function."""
        return self._function.conditions

    def run(self, spark: SparkSession) -> None:
        """Runs the query to the end of its input."""
        draw = random.Random(f"faults {self.query.seed}")
        began = time.monotonic()
        starts = 0
        while True:
            query = self._start(spark, self.query.modes[starts % len(self.query.modes)])
            starts += 1
            try:
                is_over = self._live(query, draw, spark, began)
            finally:
                query.stop()
                self._count_failures(spark, query)
            if is_over:
                break
            failure = query.exception()
            if failure is not None and not any(text in str(failure) for text in _EXPECTED):
                self.problems.append(f"failed: {failure}")
                return
        self.counts["restarts"] += starts - 1

    def result(self) -> Result:
        """Compares the results; must be called after the end of the query."""
        checkpoint = Checkpoint(str(self.home / "checkpoint"))
        self.problems += map(str, checkpoint.verify().problems)
        changed = self._epochs.changed()
        self.problems += [f"epoch {epoch} ran again with other rows" for epoch in changed]
        if (self._work / "pyspark").exists():
            self.problems.append("PySpark's loop ran")
        history = checkpoint.history()
        in_flight = [info.in_flight_rows for info in history]
        self.counts["epochs"] += len(in_flight)
        self.counts["held"] += sum(rows > 0 for rows in in_flight)
        self.counts["in_flight"] += sum(in_flight)
        self.counts["raised"] += self.conditions.failed()
        outcome = compare(
            self.query, self._written, self._epochs.read(), has_in_flight=sum(in_flight) > 0
        )
        return Result(self.query, outcome, self.counts, self.problems)

    def _start(self, spark: SparkSession, mode: str) -> StreamingQuery:
        query = self.query
        session = spark.newSession()
        for key, value in {
            f"{KEYS}cuts": "true",
            f"{KEYS}mode": mode,
            f"{KEYS}alignmentTimeout": "100ms",
            f"{KEYS}splitGroups": str(query.splits_groups).lower(),
            "spark.sql.shuffle.partitions": str(query.partitions),
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(query.batch_rows),
            # The radix sort moves the first row after the others of its key if a null key follows.
            "spark.sql.sort.enableRadixSort": "false",
        }.items():
            session.conf.set(key, value)
        reader = session.readStream.schema(query.schema).option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(self.home / "source"))
        if query.time_mode == "EventTime":
            rows = rows.withWatermark("ts", f"{DELAY_S} seconds")
        results = applied(
            rows,
            query.form,
            self._function,
            key=query.key_columns,
            time_mode=query.time_mode,
            ttl_ms=query.ttl_ms,
        )

        @sealed
        def collect(batch: DataFrame, epoch: int) -> None:
            self._epochs(batch, epoch)

        writer = results.writeStream.outputMode("update").foreachBatch(collect)
        return writer.option("checkpointLocation", str(self.home / "checkpoint")).start()

    def _live(
        self, query: StreamingQuery, draw: random.Random, spark: SparkSession, began: float
    ) -> bool:
        """Runs the query with faults; returns whether it has processed its input."""
        stop_at = time.monotonic() + draw.uniform(0.3, 4) if self._stops else None
        while query.isActive:
            if time.monotonic() - began >= PATIENCE_S:
                raise AssertionError(f"{self.query} does not end")
            if _end(query) >= self._last_entry():
                # Overtaken rows are processed in the next epoch, which follows without a cut.
                return self._finish(query)
            if stop_at is not None and time.monotonic() > stop_at and self._is_running():
                self._stops -= 1
                self.counts["stops"] += 1
                return False
            time.sleep(draw.uniform(*_FAULT_EVERY_S))
            self._disturb(query, draw, spark)
        return False

    def _last_entry(self) -> float:
        """The entry of the source's log with the last file. A restart adds entries without one."""
        entries: dict[str, int] = {}
        for log in (self.home / "checkpoint/sources/0").glob("[0-9]*"):
            for line in log.read_text("utf-8").splitlines()[1:]:
                file = json.loads(line)
                entries[file["path"]] = file["batchId"]
        return max(entries.values()) if len(entries) == self.query.files else float("inf")

    def _is_running(self) -> bool:
        return self.conditions.running_process() is not None

    def _disturb(self, query: StreamingQuery, draw: random.Random, spark: SparkSession) -> None:
        process = self.conditions.running_process()
        if process is None:
            return
        # A query has a coordinator only between its start and its end.
        if draw.random() < _CUT_CHANCE:
            with contextlib.suppress(CleancutError):
                coordinator(query).cut_now()
        elif self._kills and draw.random() < 0.3 and process in python_workers(spark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                self._kills -= 1
                self.counts["killed"] += 1

    def _finish(self, query: StreamingQuery) -> bool:
        if self.query.time_mode != "ProcessingTime":
            # A query that fails here is started again, as at any other time.
            with contextlib.suppress(StreamingQueryException):
                query.processAllAvailable()
                query.processAllAvailable()
        else:
            # There is always another epoch. Timers are due after a while.
            wait_until(lambda: not query.isActive or not coordinator(query).status().in_flight)
            time.sleep(_DUE_S)
            last = _last_epoch(query) + 2
            wait_until(lambda: not query.isActive or _last_epoch(query) >= last)
        if query.isActive and coordinator(query).status().in_flight:
            self.problems.append("rows stay in flight at the end")
        return query.isActive

    def _count_failures(self, spark: SparkSession, query: StreamingQuery) -> None:
        tracker = spark.sparkContext.statusTracker()
        for job in tracker.getJobIdsForGroup(str(query.runId)):
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(stage) for stage in (info.stageIds if info else [])]
            self.counts["failed"] += sum(stage.numFailedTasks for stage in stages if stage)


def _end(query: StreamingQuery) -> int:
    """The entry of the source's log that the query has read last, or -1."""
    progress: Any = query.lastProgress
    offset = re.search(r"logOffset\W+(\d+)", str(progress and progress.sources[0].endOffset))
    return int(offset[1]) if offset else -1


def _last_epoch(query: StreamingQuery) -> int:
    progress: Any = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


def python_workers(spark: SparkSession) -> set[int]:
    """The Python workers of this driver: children of the daemons that its JVM has started."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    process = jvm.java.lang.ProcessHandle.current().pid()
    return {worker for daemon in _children(process) for worker in _children(daemon)}


def _children(process: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, tasks.read_text("ascii").split())


def main(seed: int, home: Path) -> None:
    """Runs the query of a seed; a failure ends the process with another exit code than 0."""
    spark = builder("local[2,3]").getOrCreate()
    take_out_defaults(spark)
    run = PythonRun(PythonQuery.draw(seed), home)
    run.run(spark)
    for name, count in run.counts.items():
        with (home / "counts").open("a", encoding="utf-8") as lines:
            lines.write(f"{name} {count}\n")
    assert not run.problems, run.problems
    spark.stop()


if __name__ == "__main__":
    die_with_the_test()
    main(int(sys.argv[1]), Path(sys.argv[2]))
