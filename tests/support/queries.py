"""The stateful operators under test, each as a query over the files of `tests.support.events`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.support.events import SCHEMA
from tests.support.lines import JOINS_OF_FORMAT_3, JOINS_OF_FORMAT_4
from tests.support.processors import OUTPUT, PandasLedger, RowLedger

WATERMARK = "10 seconds"
AVRO = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
CHECKPOINT_IDS = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
UNLOADED = {"spark.sql.streaming.stateStore.unloadOnCommit": "true"}
BOUNDS = "and lt between rt - interval 3 seconds and rt + interval 2 seconds"


@dataclass(frozen=True)
class Operator:
    """A query, and the mode of its sink.

    Attributes:
        build: builds the streaming DataFrame from the stream of events.
        mode: Spark's output mode.
        settings: configuration that the query needs.
    """

    build: Callable[["Events"], DataFrame]
    mode: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Events:
    """The stream of events in a directory; each call is a separate source.

    Attributes:
        directory: of the files, or of a directory `source-<n>` for each source.
        is_named: whether each source has a name.
    """

    spark: SparkSession
    directory: Path
    sources: int = 0
    is_named: bool = False

    def __call__(self) -> DataFrame:
        private = self.directory / f"source-{self.sources}"
        self.sources += 1
        raw = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        if self.is_named:
            raw = raw.name(f"events_{self.sources}")
        events = raw.json(str(private if private.exists() else self.directory))
        return events.withColumn("ts", F.timestamp_seconds("t"))

    def timed(self) -> DataFrame:
        return self().withWatermark("ts", WATERMARK)


def _totals(events: Events) -> DataFrame:
    return events().groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("v"), F.max("s"))


def _windows(events: Events) -> DataFrame:
    window = F.window("ts", "10 seconds", "5 seconds")
    return events.timed().groupBy(window, "k").agg(F.count("*").alias("n"), F.avg("v"))


def _sessions(events: Events) -> DataFrame:
    session = F.session_window("ts", "2 seconds")
    return events.timed().groupBy(session, "k").agg(F.count("*").alias("n"), F.sum("v"))


def _join(how: str, bounds: str) -> Callable[[Events], DataFrame]:
    def build(events: Events) -> DataFrame:
        left = events.timed().filter("v % 5 > 0").select("k", "v", F.col("ts").alias("lt"))
        right = events.timed().filter("v % 3 = 0").select("k", "v", F.col("ts").alias("rt"))
        on = F.expr(f"l.k = r.k and l.v % 50 = r.v % 50 {bounds}")
        return left.alias("l").join(right.alias("r"), on, how)

    return build


def _window_join(how: str) -> Callable[[Events], DataFrame]:
    """Joins on equal windows instead of a time range: state ends when its window has passed."""

    def build(events: Events) -> DataFrame:
        window = F.window("ts", "5 seconds").alias("w")
        left = events.timed().filter("v % 5 > 0").select("k", F.col("v").alias("lv"), window)
        right = events.timed().filter("v % 9 = 0").select("k", F.col("v").alias("rv"), window)
        return left.join(right, ["k", "w"], how)

    return build


def _join_state(version: int) -> dict[str, str]:
    return {"spark.sql.streaming.join.stateFormatVersion": str(version)}


def _counts(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    count, total = state.get if state.exists else (0, 0)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [-int(count)], "v": [int(total)]})
        return
    for frame in frames:
        count += len(frame)
        total += int(frame["v"].sum())
    state.update((int(count), int(total)))
    # Some keys time out between two files, others do not.
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 10_000 + 500 * abs(int(key[0])))
    yield pd.DataFrame({"k": [key[0]], "n": [int(count)], "v": [int(total)]})


def _pandas(events: Events) -> DataFrame:
    return (
        events.timed()
        .groupBy("k")
        .applyInPandasWithState(
            _counts,
            "k int, n long, v long",
            "n long, v long",
            "update",
            GroupStateTimeout.EventTimeTimeout,
        )
    )


OPERATORS: dict[str, Operator] = {
    "aggregation-complete": Operator(_totals, "complete"),
    "aggregation-update": Operator(_totals, "update"),
    "aggregation-append": Operator(_windows, "append"),
    "aggregation-windows-update": Operator(_windows, "update"),
    "deduplication": Operator(lambda e: e().dropDuplicates(["k", "v"]).select("k", "v"), "append"),
    "deduplication-watermark": Operator(
        lambda e: (
            e()
            .withColumn("ts", F.date_trunc("second", "ts"))
            .withWatermark("ts", WATERMARK)
            .dropDuplicates(["k", "ts"])
            .select("k", "ts")
        ),
        "append",
    ),
    "deduplication-within-watermark": Operator(
        lambda e: e.timed().dropDuplicatesWithinWatermark(["k", "v"]).select("k", "v"), "append"
    ),
    "join-inner-no-bounds": Operator(_join("inner", ""), "append"),
    **{
        f"join-{how}-bounds": Operator(_join(how, BOUNDS), "append")
        for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
    },
    **{
        f"join-{how}-windows": Operator(_window_join(how), "append")
        for how in ("left_outer", "right_outer", "full_outer", "left_semi")
    },
    # Spark keeps a join of these formats in one store with column families.
    **{
        f"join-{how}-bounds-v{version}": Operator(
            _join(how, BOUNDS), "append", _join_state(version)
        )
        for version, how in ((3, "full_outer"), (4, "inner"), (4, "left_semi"))
    },
    **{
        f"join-{how}-windows-v{version}": Operator(
            _window_join(how), "append", _join_state(version)
        )
        for version, how in ((3, "left_outer"), (4, "right_outer"))
    },
    "join-inner-no-bounds-v4": Operator(_join("inner", ""), "append", _join_state(4)),
    "aggregation-append-ids": Operator(_windows, "append", CHECKPOINT_IDS),
    "session-windows-unloaded": Operator(_sessions, "append", UNLOADED),
    "join-full_outer-bounds-v4-ids": Operator(
        _join("full_outer", BOUNDS), "append", _join_state(4) | CHECKPOINT_IDS
    ),
    "session-windows": Operator(_sessions, "append"),
    "pandas-with-state": Operator(_pandas, "update"),
    "limit": Operator(lambda e: e().limit(333).select("k", "v"), "append"),
    "two-operators": Operator(
        lambda e: _windows(e).groupBy(F.window("window", "20 seconds")).agg(F.sum("n").alias("n")),
        "append",
    ),
}

# In addition, in the tests that kill; other tests have processors with more of Spark's settings.
PROCESSORS = {
    "transform-in-pandas": Operator(
        lambda e: (
            e.timed()
            .groupBy("k")
            .transformWithStateInPandas(
                PandasLedger(event_time=True), OUTPUT, "update", "eventTime"
            )
        ),
        "update",
    ),
    "transform-by-rows": Operator(
        lambda e: (
            e.timed()
            .groupBy("k")
            .transformWithState(RowLedger(event_time=True), OUTPUT, "update", "eventTime")
        ),
        "update",
    ),
}

_FORMATS = {"-v3": JOINS_OF_FORMAT_3, "-v4": JOINS_OF_FORMAT_4}

# Earlier Spark versions refuse these formats of joins on any provider.
RUNNABLE = [
    name
    for name in OPERATORS
    if all(ability.is_here for part, ability in _FORMATS.items() if part in name)
]
