"""State that is rescaled by reference at every ratio: equal to a rewritten state, for both readers.

The state has column families of all kinds, or in-flight rows.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import gcd
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import open_root
from cleancut._session.options import PREFIX
from cleancut.sinks import sealed
from cleancut.testing import SkewedInput, slow
from tests.support.processors import OUTPUT, RowLedger
from tests.support.sessions import with_cuts
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

RATIOS = range(1, 10)
USUAL = {"in-flight-6"}

# The values of each key, by operator, partition, store, family and key.
Rows = Mapping[tuple[int, int, str, str, bytes], list[bytes]]


@dataclass(frozen=True)
class Stored:
    """The complete state of a checkpoint.

    Attributes:
        rows: the rows of all families.
        in_flight: the in-flight rows, each as text with its partition, sorted.
    """

    rows: Rows
    in_flight: list[str]


def stored(location: str) -> Stored:
    """Reads the state after the last epoch without Spark."""
    reader = CutReader(open_root(location).objects)
    cut = reader.cut(Checkpoint(location).cuts()[-1].epoch)
    chains = [chain for store, chain in cut.chains.items() if not store.is_channel]
    rows = {
        (store.operator, store.partition, store.store, family.name, key): values
        for store, _, state in reader.states(cut, chains)
        for family in state.families.values()
        for key, values in state.rows[family.family_id].items()
    }
    # Their numbers depend on the operations so far.
    in_flight = Checkpoint(location).in_flight(0).drop_columns(["number"]).to_pylist()
    return Stored(rows, sorted(map(str, in_flight)))


def write_variables(session: SparkSession, home: Path) -> int:
    """Runs a query with values, lists and maps, with and without TTL, their indexes, and timers.

    Returns its last epoch.
    """
    (home / "in").mkdir()
    for epoch in range(3):
        lines = [f'{{"k": {n % 29}, "v": {n * epoch}}}' for n in range(20 * epoch, 90)]
        (home / "in" / f"{epoch}.json").write_text("\n".join(lines), encoding="utf-8")
        rows = session.readStream.schema("k int, v int").json(str(home / "in"))
        rows = rows.withColumns({"t": f.col("v").cast("long"), "s": f.lit("x")})
        rows = rows.withColumn("ts", f.timestamp_seconds("t")).withWatermark("ts", "1 hour")
        ledger = RowLedger(event_time=True)
        emitted = rows.groupBy("k").transformWithState(ledger, OUTPUT, "update", "eventTime")
        writer = emitted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", str(home / "q")).start().awaitTermination()
    return Checkpoint(str(home / "q")).cuts()[-1].epoch


def write_in_flight(session: SparkSession, home: Path) -> int:
    """Runs a query until a cut has in-flight rows, and returns the epoch of the cut."""
    session.conf.set(f"{PREFIX}mode", "unaligned")
    orders = SkewedInput(home / "orders", seed=11, rows=300, hot=0.0)
    orders.write(*range(8))
    slowed = slow("value", per_row_ms=4, when=f.spark_partition_id() == 0)
    rows = orders.stream(session).dropDuplicates(["key", "number"]).withColumn("value", slowed)
    batches: list[int] = []

    @sealed
    def take(batch: DataFrame, epoch: int) -> None:
        batch.collect()
        batches.append(epoch)

    def has_in_flight_rows(query: StreamingQuery) -> bool:
        assert query.isActive, "no cut had in-flight rows"
        cuts = Checkpoint(str(home / "q")).cuts() if batches else []
        return any(cut.mode == "unaligned" for cut in cuts)

    query = (
        rows.writeStream.foreachBatch(take).option("checkpointLocation", str(home / "q")).start()
    )
    while not has_in_flight_rows(query):
        cleancut.coordinator(query).cut_now()
        time.sleep(0.1)
    query.stop()
    return max(cut.epoch for cut in Checkpoint(str(home / "q")).cuts() if cut.mode == "unaligned")


WRITERS = {"variables": write_variables, "in-flight": write_in_flight}


@pytest.fixture(scope="module")
def rewritten(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, int], tuple[str, Stored]]:
    """Returns a checkpoint whose rows were copied to a number of partitions, and its state."""

    @cache
    def written(kind: str) -> tuple[SparkSession, Path, int]:
        session, home = with_cuts(spark, 3), tmp_path_factory.mktemp(kind)
        return session, home, WRITERS[kind](session, home)

    @cache
    def at(kind: str, partitions: int) -> tuple[str, Stored]:
        session, home, epoch = written(kind)
        target = str(home / f"at-{partitions}")
        plan = cleancut.clone(
            str(home / "q"),
            target,
            epoch,
            partitions=partitions,
            same_query=True,
            session=session,
        )
        plan.apply(session)
        return target, stored(target)

    return at


@pytest.mark.parametrize(
    ("kind", "before"),
    usually(
        USUAL,
        [f"{kind}-{before}" for kind in WRITERS for before in RATIOS],
        lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])),
    ),
)
def test_a_state_by_reference_equals_a_rewritten_one(
    spark: SparkSession,
    tmp_path: Path,
    rewritten: Callable[[str, int], tuple[str, Stored]],
    kind: str,
    before: int,
) -> None:
    source, state = rewritten(kind, before)
    assert len({key[3] for key in state.rows}) > (8 if kind == "variables" else 0)
    assert bool(state.in_flight) == (kind == "in-flight")
    session = with_cuts(spark, before)
    for after in RATIOS:
        if after == before:
            continue
        location, copied = str(tmp_path / f"{after}"), str(tmp_path / f"copy-{after}")
        cleancut.clone(source, location, same_query=True, session=session).apply(session)
        done = cleancut.rescale(location, after, session=session).apply(session)
        reads = after // gcd(before, after)
        assert done.copies_rows == (reads > 8 and after % before > 0)
        expected = rewritten(kind, after)[1]
        assert stored(location) == expected, f"{before} to {after}"
        # The query's reader loads the references, and the copy has its own snapshots.
        cleancut.clone(location, copied, same_query=True, session=session).apply(session)
        assert stored(copied) == expected, f"{before} to {after}"
