"""Edits variables with a TTL, which expire at the edited time."""

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES, session_of, write_file
from tests.support.processors import BRIEF_TTL_MS, LASTING_TTL_MS, OUTPUT, Remembering
from tests.support.tiers import long

pytestmark = pytest.mark.spark

GUIDE = "docs/use/editing.md"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # With processing time, Spark would run epochs without rows for as long as the query runs.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
REPAIRED, DROPPED, ENDED, LEAVING, LONGER, ADDED = 1, 2, 3, 4, 5, 77
VARIABLES = ("total", "recent", "counts")


@dataclass
class Seen:
    """The values of a key in each kind of state."""

    total: int | None = None
    recent: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, v: int, s: str) -> None:
        self.total = (self.total or 0) + 1
        self.recent.append(v)
        self.counts[s] = self.counts.get(s, 0) + 1


class Query:
    """A query whose processor emits its state, one file per epoch, and the expected values."""

    def __init__(self, spark: SparkSession, home: Path, place: str, ttl_ms: int) -> None:
        self.home, self.ttl_ms, self.files = home, ttl_ms, 0
        self.session = session_of(spark, PLACES[place] | SETTINGS)
        self.checkpoint = str(home / "checkpoint")
        self.expected: dict[int, Seen] = {}
        self.given: dict[int, tuple[Any, ...]] = {}
        (home / "in").mkdir(parents=True)

    def query(self) -> DataFrame:
        stream = self.session.readStream.schema("k int, v int, s string")
        keyed = stream.json(str(self.home / "in")).groupBy("k")
        return keyed.transformWithState(
            Remembering(self.ttl_ms), OUTPUT, "update", "processingTime"
        )

    def epoch(self, keys: Iterable[int]) -> None:
        """Runs an epoch with two rows of each key, and compares the values before it."""
        events = [(k, 10 * self.files + at, "ab"[at]) for k in keys for at in range(2)]
        rows = [{"k": k, "v": v, "s": s} for k, v, s in events]
        write_file(self.home / "in" / f"{self.files}.json", rows, self.files)
        self.files += 1
        self.given.clear()

        def take(batch: DataFrame, _: int) -> None:
            self.given.update({row.k: ast.literal_eval(row.kept) for row in batch.collect()})

        writer = self.query().writeStream.outputMode("update").foreachBatch(take)
        writer = writer.option("checkpointLocation", self.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        before = {k: self.expected.get(k, Seen()) for k in keys}
        assert self.given == {
            k: (counted.total, counted.recent, sorted(counted.counts.items()))
            for k, counted in before.items()
        }
        for k, v, s in events:
            self.expected.setdefault(k, Seen()).add(v, s)

    def edit(self, variable: str, change: Callable[[DataFrame], DataFrame]) -> None:
        cleancut.edit(self.checkpoint, 0, change, family=variable, session=self.session).apply()

    def keys(self, variable: str) -> set[int]:
        """Returns the keys of the state by Spark's own reader."""
        read = self.session.read.format("statestore").option("stateVarName", variable)
        return {row.k for row in read.load(self.checkpoint).select("key.k").collect()}


def changed(column: Column, at: int, to: Column) -> Column:
    return f.when(f.col("key.k") == at, to).otherwise(column)


def in_an_hour() -> Column:
    return f.current_timestamp() + f.expr("interval 1 hour")


def change_total(state: DataFrame) -> DataFrame:
    more = f.struct((f.col("value.n") + 100).alias("n"))
    rows = state.where(f.col("key.k") != DROPPED).withColumns(
        {
            "value": changed(f.col("value"), REPAIRED, more),
            "expiry": changed(f.col("expiry"), ENDED, f.current_timestamp()),
        }
    )
    added = f.struct(f.lit(ADDED).alias("k")), f.struct(f.lit(9).cast("long").alias("n"))
    return rows.union(rows.limit(1).select(*added, in_an_hour()))


def change_recent(state: DataFrame) -> DataFrame:
    first = f.element_at("value", 1).withField("expiry", f.current_timestamp())
    ended = f.concat(f.array(first), f.expr("slice(value, 2, size(value) - 1)"))
    value = changed(changed(f.col("value"), REPAIRED, f.reverse("value")), ENDED, ended)
    rows = state.where(f.col("key.k") != DROPPED).withColumn("value", value)
    element = f.struct(f.struct(f.lit(5).alias("v")).alias("value"), in_an_hour().alias("expiry"))
    key = f.struct(f.lit(ADDED).alias("k"))
    return rows.union(rows.limit(1).select(key, f.array(element, element)))


def change_counts(state: DataFrame) -> DataFrame:
    (key, name) = state.select("key.*").columns
    k, s = f.col(f"key.{key}.k"), f.col(f"key.{name}.s")
    value = f.when((k == REPAIRED) & (s == "a"), f.struct(f.lit(50).cast("long").alias("n")))
    expiry = f.when((k == ENDED) & (s == "b"), f.current_timestamp())
    rows = state.where(k != DROPPED).withColumns(
        {
            "value": value.otherwise(f.col("value")),
            "expiry": expiry.otherwise(f.col("expiry")),
        }
    )
    added = f.struct(
        f.struct(f.lit(ADDED).alias("k")).alias(key), f.struct(f.lit("c").alias("s")).alias(name)
    )
    return rows.union(rows.limit(1).select(added, f.struct(f.lit(3).cast("long")), in_an_hour()))


CHANGES = {"total": change_total, "recent": change_recent, "counts": change_counts}


@long
@pytest.mark.parametrize("place", ["rocksdb", "rocksdb-1", "cuts", "level-0"])
def test_values_lists_and_maps_that_expire_are_edited(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    it = Query(spark, tmp_path, place, LASTING_TTL_MS)
    for _ in range(2):
        it.epoch(range(6))
    for variable in VARIABLES:
        it.edit(variable, partial(change_and_expire, variable))
    if place == "cuts":
        run_the_documented_edit(it.checkpoint)
        check_indexes(it.checkpoint)
    one, ended = it.expected[REPAIRED], it.expected[ENDED]
    it.expected[REPAIRED] = Seen((one.total or 0) + 100, one.recent[::-1], {**one.counts, "a": 50})
    it.expected[ENDED] = Seen(None, ended.recent[1:], {"a": ended.counts["a"]})
    it.expected[ADDED] = Seen(9, [5, 5], {"c": 3})
    del it.expected[DROPPED], it.expected[LEAVING]
    it.epoch([0, REPAIRED, DROPPED, ENDED, LONGER, ADDED])
    # A key without new rows expires as well: the index has the edited time.
    for variable in VARIABLES:
        assert it.keys(variable) == set(it.expected)
    if place == "cuts":
        check_indexes(it.checkpoint)


def change_and_expire(variable: str, state: DataFrame) -> DataFrame:
    """Changes one key, and expires all values of another."""
    return with_expiry(CHANGES[variable](state), LEAVING, f.current_timestamp())


def run_the_documented_edit(checkpoint: str) -> None:
    """Extends the life of a value by a week."""

    def expiries() -> dict[int, int]:
        rows = Checkpoint(checkpoint).state(0, family="total").to_pylist()
        return {row["key"]["k"]: row["value"]["ttlExpirationMs"] for row in rows}

    before = expiries()
    _, _, code, *_ = blocks(GUIDE, "python")
    exec(code.replace("checkpoints/orders", checkpoint), {})
    week_ms = 7 * 24 * 3_600_000
    assert expiries() == {**before, LONGER: before[LONGER] + week_ms}


def with_expiry(state: DataFrame, k_value: int, moment: Column) -> DataFrame:
    """Sets the expiry of all values of a key."""
    (key, *_) = state.select("key.*").columns
    k = f.col("key.k") if key == "k" else f.col(f"key.{key}.k")
    if "expiry" in state.columns:
        expiry = f.when(k == k_value, moment).otherwise(f.col("expiry"))
        return state.withColumn("expiry", expiry)
    value = f.transform("value", lambda element: element.withField("expiry", moment))
    return state.withColumn("value", f.when(k == k_value, value).otherwise(f.col("value")))


def check_indexes(checkpoint: str) -> None:
    """Checks that Spark's indexes of each variable match its rows."""

    def rows(family: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = Checkpoint(checkpoint).state(0, family=family).to_pylist()
        return entries

    def expiry(row: dict[str, Any]) -> int:
        return int(row["value"]["ttlExpirationMs"])

    for variable in VARIABLES:
        firsts: dict[str, int] = {}
        counts: Counter[str] = Counter()
        for row in rows(variable):
            key = repr(row["key"])
            counts[key] += 1
            firsts[key] = min(firsts.get(key, expiry(row)), expiry(row))
        index = [list(row["key"].values()) for row in rows(f"$ttl_{variable}")]
        assert Counter((moment, repr(key)) for moment, key in index) == Counter(
            (moment, key) for key, moment in firsts.items()
        )
        if variable == "recent":
            kept = {repr(row["key"]): row["value"] for row in rows("$count_recent")}
            assert {key: value["count"] for key, value in kept.items()} == dict(counts)
            least = {repr(row["key"]): list(row["value"].values()) for row in rows("$min_recent")}
            assert least == {key: [moment] for key, moment in firsts.items()}


@long
def test_a_later_expiry_keeps_a_value(spark: SparkSession, tmp_path: Path) -> None:
    """A TTL of one millisecond ends before the next epoch, unless the rows have another expiry."""
    it = Query(spark, tmp_path, "cuts", BRIEF_TTL_MS)
    it.epoch(range(3))
    for variable in VARIABLES:
        it.edit(variable, lambda state: with_expiry(state, 1, in_an_hour()))
    it.expected = {1: it.expected[1]}
    it.epoch(range(3))


@long
def test_an_expiry_that_spark_would_ignore_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Query(spark, tmp_path, "cuts", LASTING_TTL_MS)
    it.epoch(range(2))
    none = f.lit(None).cast("timestamp")
    past = f.lit(datetime.now(UTC) - timedelta(minutes=10))
    for variable in VARIABLES:
        with pytest.raises(RequestError, match="the time of the last epoch"):
            it.edit(variable, lambda state: with_expiry(state, 1, past))
        with pytest.raises(RequestError, match="no key, or no value"):
            it.edit(variable, lambda state: with_expiry(state, 1, none))
    with pytest.raises(RequestError, match="it is an index that Spark maintains"):
        it.edit("$ttl_total", lambda state: state)


@long
@long
def test_a_bootstrap_with_values_that_expire(spark: SparkSession, tmp_path: Path) -> None:
    it = Query(spark, tmp_path, "cuts", LASTING_TTL_MS)
    one = it.session.range(1)
    key = f.struct(f.lit(1).alias("k")).alias("key")
    n = f.struct(f.lit(9).cast("long").alias("n")).alias("value")
    element = f.struct(f.struct(f.lit(5).alias("v")).alias("value"), in_an_hour().alias("expiry"))
    given: dict[Any, DataFrame] = {
        (0, "total"): one.select(key, n, in_an_hour().alias("expiry")),
        (0, "recent"): one.select(key, f.array(element, element).alias("value")),
    }
    cleancut.bootstrap(it.checkpoint, it.query(), given, "update").apply()
    check_indexes(it.checkpoint)
    it.expected[1] = Seen(9, [5, 5])
    it.epoch([1, 2])
    check_indexes(it.checkpoint)
