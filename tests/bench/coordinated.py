"""The costs of a coordinator for a dataflow: `make bench-channel ARGS='--coordinator 12'`.

The four queries of a diamond and a loop run in one driver at an even load. In one of two windows of
time a coordinator in the same driver creates a dataflow cut every second, for which each query
closes its epoch; in the other window there is no coordinator. Every other pair of windows begins
with the coordinator, so that drift affects both. Measured are the processor time of the driver, of
its JVM and its Python together, and the duration of an epoch.
"""

import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Dataflow
from cleancut._storage.access import S3Access
from tests.support.flow_member import MEMBERS, Place, running
from tests.support.flow_places import RealBucket
from tests.support.flow_world import Query

# Spark has to keep the progress of all epochs in a window.
SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
_WARM_UP_S = 60
_SETTLE_S = 2
_EVERY_S = 1.0
_VECTORS, _CUTS_BETWEEN = 25, 4


@dataclass
class Window:
    """The measurements of one window.

    Attributes:
        jvm_ms: processor time of the driver's JVM per second of the window.
        python_ms: the same of its Python, which runs the coordinator.
        epochs_ms: the duration of each epoch with rows, of all queries.
        cuts: the number of dataflow cuts.
    """

    jvm_ms: float = 0.0
    python_ms: float = 0.0
    epochs_ms: list[int] = field(default_factory=list)
    cuts: int = 0


def measure(spark: SparkSession, home: Path, pairs: int, seconds: int, rows: int) -> str:
    """Returns a table of the costs of the coordinator.

    Args:
        spark: the session of the driver.
        home: a directory for all of it.
        pairs: how many pairs of windows.
        seconds: the length of a window.
        rows: how many the dataflow gets in a second.
    """
    place = Place(home, str(home / "flow"))
    for member in MEMBERS:
        place.flow.add(member, place.checkpoint(member))
    total_s = _WARM_UP_S + 2 * pairs * (seconds + 2 * _SETTLE_S) + 60
    _write_input(home, total_s, rows)
    with running(place, spark, every_s=1) as queries:
        time.sleep(_WARM_UP_S)
        windows = []
        for pair in range(pairs):
            is_first = pair % 2 == 0
            first = _window(spark, place, queries, seconds, is_on=is_first)
            second = _window(spark, place, queries, seconds, is_on=not is_first)
            windows.append((first, second) if is_first else (second, first))
        assert all(query.exception() is None for query in queries)
        for query in queries:
            cleancut.stop(query)
    return table(windows)


def _write_input(home: Path, files: int, rows: int) -> None:
    """Writes a file for each second; a tenth of the rows goes through the loop."""
    (home / "in").mkdir(parents=True)
    for number in range(files):
        path = home / "in" / f"{number:05}.json"
        order = {"v": number, "way": "order"}
        path.write_text(
            "\n".join(
                json.dumps(order | {"id": number * rows + n, "hops": int(n % 10 == 0)})
                for n in range(rows)
            )
        )
        os.utime(path, (number, number))


def _window(
    spark: SparkSession, place: Place, queries: list[StreamingQuery], seconds: int, *, is_on: bool
) -> Window:
    window = Window()
    with ExitStack() as stack:
        if is_on:
            flow = place.flow
            for query, member in zip(queries, MEMBERS, strict=True):
                stack.enter_context(flow.participate(query, member, every=_EVERY_S))
            runs = stack.enter_context(flow.run(interval=_EVERY_S, poll=_EVERY_S, timeout="5s"))
        time.sleep(_SETTLE_S)
        before = {query.id: _last(query) for query in queries}
        cuts = runs.cuts if is_on else 0
        jvm_ms, python_ms, began = *_cpu_ms(spark), time.monotonic()
        time.sleep(seconds)
        jvm_after_ms, python_after_ms, ended = *_cpu_ms(spark), time.monotonic()
        window.jvm_ms = (jvm_after_ms - jvm_ms) / (ended - began)
        window.python_ms = (python_after_ms - python_ms) / (ended - began)
        window.cuts = (runs.cuts - cuts) if is_on else 0
        for query in queries:
            window.epochs_ms += [
                progress["durationMs"]["triggerExecution"]
                for progress in query.recentProgress
                if progress["batchId"] > before[query.id] and progress["numInputRows"]
            ]
    # The last request is complete before the other window begins.
    time.sleep(_SETTLE_S)
    return window


def _last(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _cpu_ms(spark: SparkSession) -> tuple[float, float]:
    """Returns the processor time of the JVM of this process, by Linux, and of this process."""
    gateway: Any = spark.sparkContext._gateway
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    jvm_ms = sum(map(int, fields[11:13])) * 1e3 / os.sysconf("SC_CLK_TCK")
    times = os.times()
    return jvm_ms, (times.user + times.system) * 1e3


def table(pairs: list[tuple[Window, Window]]) -> str:
    """Renders pairs of windows, the one with a coordinator first, as Markdown."""
    made = sum(on.cuts for on, _ in pairs)
    lines = [f"{len(pairs)} pairs, {made} cuts of the dataflow", ""]
    lines += ["| | with a coordinator | without | ratio, mean of the pairs |", "|---|---|---|---|"]
    cpu = [(on.jvm_ms + on.python_ms, off.jvm_ms + off.python_ms) for on, off in pairs]
    python = [(on.python_ms, off.python_ms) for on, off in pairs]
    epochs = [(statistics.mean(on.epochs_ms), statistics.mean(off.epochs_ms)) for on, off in pairs]
    counts = [(float(len(on.epochs_ms)), float(len(off.epochs_ms))) for on, off in pairs]
    lines.append(_line("processor time of the driver in a second", cpu, "ms"))
    lines.append(_line("that of its Python alone", python, "ms"))
    lines.append(_line("an epoch, mean of the queries", epochs, "ms"))
    lines.append(_line("epochs in a window", counts, ""))
    return "\n".join(lines)


def _line(what: str, pairs: list[tuple[float, float]], unit: str) -> str:
    on, off = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    noise = 2 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    figures = [f"{value:.0f} {unit}".strip() for value in (on, off)]
    return f"| {what} | {' | '.join(figures)} | {statistics.mean(ratios):.3f} ± {noise:.3f} |"


def alone(home: Path, members: int) -> tuple[float, float, float]:
    """A coordinator over simulated queries in a ring, on a disk, that commit four cuts a vector.

    Returns:
        Medians in ms: processor time and duration of a vector, from the read to the expiry, and
        processor time of a poll without new cuts.
    """
    bucket = RealBucket(str(home), S3Access())
    ring = [Query(f"q{n}", bucket, (f"q{(n - 1) % members}",)) for n in range(members)]
    flow = Dataflow(home / "flow")
    for query in ring:
        flow.add(query.name, query.checkpoint)
    by = flow._coordinator()
    by.begin()
    vectors, idle = [], []
    for _ in range(_VECTORS):
        for _ in range(_CUTS_BETWEEN):
            for n, query in enumerate(ring):
                query.run()
                if ring[n - 1].epoch > 0:
                    query.consume(ring[n - 1], ring[n - 1].epoch - 1)
        cpu_s, began_s = time.process_time(), time.monotonic()
        by.poll()
        by.cut(1, wait=False)
        by.expire(10)
        vectors.append((time.process_time() - cpu_s, time.monotonic() - began_s))
        cpu_s = time.process_time()
        by.poll()
        idle.append(time.process_time() - cpu_s)
    by.end()
    cpu, took = (
        statistics.median(vector_times) * 1e3 for vector_times in zip(*vectors, strict=True)
    )
    return cpu, took, statistics.median(idle) * 1e3


def run(spark: SparkSession, pairs: int, seconds: int, rows: int) -> None:
    """Prints both tables."""
    with tempfile.TemporaryDirectory() as home:
        print(measure(spark, Path(home), pairs, seconds, rows))
    print("\n| members | processor time of a vector | duration | processor time of an empty poll |")
    print("|---|---|---|---|")
    for members in (4, 10):
        with tempfile.TemporaryDirectory() as home:
            figures = " | ".join(f"{figure:.1f} ms" for figure in alone(Path(home), members))
        print(f"| {members} | {figures} |")
