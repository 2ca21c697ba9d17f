"""`transformWithState` in Python, through restarts, compared with Spark's RocksDB provider."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from tests.support.events import write_events
from tests.support.lines import ROWS_OF_PROCESSORS
from tests.support.processors import OUTPUT, STATE, Grown, Numbered, PandasLedger, RowLedger
from tests.support.queries import AVRO, CHECKPOINT_IDS, Events, Operator
from tests.support.results import Difference
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT, ROCKSDB, results, start
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = fixed(4211)
RUNS = [range(2), range(2, 4)]
ROWS = 40
UNSAFE_ROWS: Mapping[str, str] = {}
SETTINGS = {
    # With processing-time timers, Spark would run epochs without rows for as long as the query
    # runs.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def _query(
    *, pandas: bool, event_time: bool, initial: bool, settings: Mapping[str, str] = UNSAFE_ROWS
) -> Operator:
    def build(events: Events) -> DataFrame:
        keyed = events.timed().groupBy("k")
        known = [(1, 7, "x"), (2, 10, None), (99, 3, "only in the initial state")]
        state = events.spark.createDataFrame(known, STATE).groupBy("k") if initial else None
        mode = "eventTime" if event_time else "processingTime"
        if pandas:
            ledger = PandasLedger(event_time=event_time)
            return keyed.transformWithStateInPandas(ledger, OUTPUT, "update", mode, state)
        return keyed.transformWithState(
            RowLedger(event_time=event_time), OUTPUT, "update", mode, state
        )

    return Operator(build, "update", settings)


QUERIES = {
    "rows-event-time-avro": _query(pandas=False, event_time=True, initial=False, settings=AVRO),
    "rows-processing-time-initial-state": _query(pandas=False, event_time=False, initial=True),
    "pandas-event-time-initial-state": _query(pandas=True, event_time=True, initial=True),
    "pandas-processing-time-ids": _query(
        pandas=True, event_time=False, initial=False, settings=CHECKPOINT_IDS
    ),
}


@long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=ROWS_OF_PROCESSORS.needed if name.startswith("rows") else ())
        for name in QUERIES
    ],
)
def test_transform_with_state_gives_the_rows_of_the_built_in_provider(
    name: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    epochs = _assert_same_as_rocksdb(spark, tmp_path, [QUERIES[name]] * len(RUNS), show)
    rows = [row for rows in epochs.values() for row in rows]
    fired = sum("what='timer'" in row for row in rows)
    show(f"{fired} timers")
    assert 0 < fired < len(rows)
    if not QUERIES[name].settings:
        _compare_readers(spark, tmp_path / "ours")


def _assert_same_as_rocksdb(
    spark: SparkSession, root: Path, runs: Sequence[Operator], show: Callable[[str], None]
) -> dict[int, list[str]]:
    """Returns results by epoch after a comparison with RocksDB; each run has its own input.

    The results of Cleancut are in `root / "ours"`.
    """
    events, peer, ours = (root / part for part in ("events", "peer", "ours"))
    for files, query in zip(RUNS, runs, strict=True):
        write_events(events, seed=SEED, files=files, rows=ROWS)
        for home, provider in ((peer, ROCKSDB), (ours, CLEANCUT)):
            start(
                spark, query, events=events, root=home, provider=provider, settings=SETTINGS
            ).awaitTermination()
    epochs = results(ours)
    difference = Difference.between(results(peer), epochs)
    show(f"seed {SEED}, {len(epochs)} epochs, {difference}")
    assert difference.none, difference
    assert difference.expected > 0
    return epochs


def _compare_readers(spark: SparkSession, root: Path) -> None:
    """The rows that Python reads without a JVM match those of Spark's reader."""
    location = str(root / "checkpoint")
    checkpoint = cleancut.Checkpoint(location)
    families = {family.name: family for family in checkpoint.families(0)}
    reader = spark.read.format("statestore").option("path", location)
    for kind, is_list in (("Sum", False), ("Recent", True)):
        name = f"lasting{kind}"
        spark_rows = reader.option("stateVarName", name).load().count()
        assert checkpoint.state(0, family=name).num_rows == spark_rows > 0
        assert families[name].is_multi_valued == is_list
    assert any(family.is_internal for family in families.values())


@long
def test_state_of_an_older_schema_is_read_after_a_column_was_added(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    runs = [Operator(partial(_grown, release=release), "update", AVRO) for release in (1, 2)]
    epochs = _assert_same_as_rocksdb(spark, tmp_path, runs, show)
    assert any("None), (" in row for rows in epochs.values() for row in rows)


def _grown(events: Events, release: int) -> DataFrame:
    return events().groupBy("k").transformWithState(Grown(release), OUTPUT, "update", "none")


@long
def test_an_aggregation_after_transform_with_state_gives_the_rows_of_the_built_in_provider(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    _assert_same_as_rocksdb(spark, tmp_path, [Operator(_chained, "append")] * len(RUNS), show)


def _chained(events: Events) -> DataFrame:
    numbered = (
        events.timed()
        .groupBy("k")
        .transformWithState(
            Numbered(),
            "k int, at timestamp, n long, v int",
            "append",
            "eventTime",
            eventTimeColumnName="at",
        )
    )
    window = f.window("at", "5 seconds")
    return numbered.groupBy(window).agg(f.count("*"), f.max("n"), f.sum("v"))
