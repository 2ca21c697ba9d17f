"""Edits rows of a side of a join; the query continues as if the edited rows had arrived."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES, session_of, write_file
from tests.support.lines import JOINS_OF_FORMAT_3, JOINS_OF_FORMAT_4, Ability
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/use/editing.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"
START = datetime(2026, 1, 1)
WATERMARK = "1 minute"
# Far enough to close all windows.
CLOSING = 1000
REPAIRED, DROPPED, MOVED, ADDED = 1, 2, 3, 50
EDITED = (REPAIRED, DROPPED, MOVED, ADDED)
ALL = range(6)
# The end of the edited rows of a side; later rows of those keys arrive on the other side.
FILES, EDITED_AFTER = 4, 2


@dataclass(frozen=True)
class Event:
    """A row of one side."""

    k: int
    t: datetime
    v: int

    def file_row(self) -> dict[str, object]:
        return {"k": self.k, "t": f"{self.t:%Y-%m-%d %H:%M:%S}", "v": self.v}


def events(side: str, number: int, edited: str) -> Iterator[Event]:
    """Returns the rows of a file, one minute each.

    Edited rows of one side join no earlier row of the other, as if the edited rows had arrived
    instead.
    """
    keys = ALL if side == edited or number >= EDITED_AFTER else set(ALL).difference(EDITED)
    begin = START + timedelta(minutes=number)
    for at, k in enumerate(sorted(keys)):
        for again in range(2):
            second = 7 * at + 9 * again + (3 if side == "left" else 0)
            yield Event(k, begin + timedelta(seconds=second), 100 * number + 10 * at + again)
    if side != edited and number >= EDITED_AFTER:
        # They join rows of one minute before.
        for k in EDITED:
            yield Event(k, begin - timedelta(seconds=5), number)


def as_edited(rows: list[Event]) -> list[Event]:
    """Applies the edit to the rows of a side in Python."""
    changed = [
        replace(
            row,
            v=row.v + (1000 if row.k == REPAIRED else 0),
            t=row.t + timedelta(seconds=60 if row.k == MOVED else 0),
        )
        for row in rows
        if row.k != DROPPED
    ]
    return [*changed, ADDED_ROW, ADDED_ROW]


CONDITIONS = {
    "bounds": " and rt between lt - interval 1 minute and lt + interval 1 minute",
    "minutes": " and date_trunc('minute', lt) = date_trunc('minute', rt)",
    "unbounded": "",
}
ADDED_ROW = Event(ADDED, START + timedelta(minutes=EDITED_AFTER - 1, seconds=50), 7)


class Join:
    """A join of two file streams that records all emitted rows."""

    def __init__(
        self, spark: SparkSession, home: Path, place: str, how: str, kind: str, version: int
    ) -> None:
        self.home, self.how, self.kind, self.edited = home, how, kind, "left"
        self.session = session_of(
            spark,
            PLACES[place]
            | {
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.streaming.join.stateFormatVersion": str(version),
            },
        )
        self.checkpoint = str(home / "checkpoint")
        self.given: Counter[tuple[object, ...]] = Counter()
        self.files = 0
        for side in ("left", "right"):
            (home / side).mkdir(parents=True)

    def add(self) -> None:
        for side in ("left", "right"):
            rows = [event.file_row() for event in events(side, self.files, self.edited)]
            write_file(self.home / side / f"{self.files}.json", rows, self.files)
        self.files += 1

    def close(self) -> None:
        """Advances the watermark past all rows."""
        last = Event(-1, START + timedelta(minutes=CLOSING), 0)
        for side in ("left", "right"):
            write_file(self.home / side / "last.json", [last.file_row()], CLOSING)

    def sides(self, read: Callable[[str], DataFrame]) -> DataFrame:
        """Returns the join of two inputs, streaming or not."""
        if self.kind == "windows":
            left, right = (
                read(side).select(
                    "k", f.window("t", "1 minute").alias("w"), f.col("v").alias(value_name)
                )
                for side, value_name in (("left", "lv"), ("right", "rv"))
            )
            return left.join(right, ["k", "w"], self.how)
        left = read("left").select("k", f.col("t").alias("lt"), f.col("v").alias("lv"))
        right = read("right").select("k", f.col("t").alias("rt"), f.col("v").alias("rv"))
        on = f.expr("l.k = r.k" + CONDITIONS[self.kind])
        return left.alias("l").join(right.alias("r"), on, self.how)

    def query(self) -> DataFrame:
        def read(side: str) -> DataFrame:
            stream = self.session.readStream.schema("k int, t timestamp, v int")
            rows = stream.option("maxFilesPerTrigger", 1).json(str(self.home / side))
            return rows if self.kind == "unbounded" else rows.withWatermark("t", WATERMARK)

        return self.sides(read)

    def run(self) -> None:
        def take(batch: DataFrame, _: int) -> None:
            self.given.update(tuple(row) for row in batch.collect())

        writer = self.query().writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", self.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    def expected(self) -> Counter[tuple[object, ...]]:
        """Returns the rows of a batch whose input matches the edited state."""

        def read(side: str) -> DataFrame:
            files = [list(events(side, number, self.edited)) for number in range(self.files)]
            before = list(itertools.chain(*files[:EDITED_AFTER]))
            after = list(itertools.chain(*files[EDITED_AFTER:]))
            of_side = [*(as_edited(before) if side == self.edited else before), *after]
            rows = [(event.k, event.t, event.v) for event in of_side]
            return self.session.createDataFrame(rows, "k int, t timestamp, v int")

        return Counter(tuple(row) for row in self.sides(read).collect())

    def change(self, rows: DataFrame) -> DataFrame:
        """Fixes a value, deletes all rows of a key, changes times, and adds two equal rows."""
        letter = self.edited[0]
        k, value, key = f.col("key.field0"), f.col("value"), f.col("key")
        more = f.col(f"value.{letter}v") + 1000
        value = f.when(k == REPAIRED, value.withField(f"{letter}v", more)).otherwise(value)
        if self.kind == "windows":
            later = f.window(f.col("value.w.start") + f.expr("interval 1 minute"), "1 minute")
            rows = rows.withColumn("later", later)
            value = f.when(k == MOVED, value.withField("w", f.col("later"))).otherwise(value)
            key = f.when(k == MOVED, key.withField("field1", f.col("later"))).otherwise(key)
        else:
            later = f.col(f"value.{letter}t") + f.expr("interval 1 minute")
            value = f.when(k == MOVED, value.withField(f"{letter}t", later)).otherwise(value)
            if self.kind == "minutes":
                minute = f.col("key.field1") + f.expr("interval 1 minute")
                key = f.when(k == MOVED, key.withField("field1", minute)).otherwise(key)
        changed = rows.where(k != DROPPED).withColumns({"value": value, "key": key}).drop("later")
        added = self.session.createDataFrame([self.row(ADDED_ROW, changed.columns)], changed.schema)
        return changed.union(added).union(added)

    def row(self, event: Event, columns: list[str]) -> tuple[object, ...]:
        """Returns the state row as a row of a side."""
        start = event.t.replace(second=0)
        window = Row(start=start, end=start + timedelta(minutes=1))
        beside = {"windows": (window,), "minutes": (start,)}.get(self.kind, ())
        t = window if self.kind == "windows" else event.t
        return ((event.k, *beside), (event.k, t, event.v), False)[: len(columns)]

    def remaining_keys(self, side: str) -> set[int]:
        """Returns the keys of a side in the state, by Spark's own reader."""
        read = self.session.read.format("statestore").option("joinSide", side)
        return {row.k for row in read.load(self.checkpoint).select("value.k").collect()}


FORMATS = {2: Ability("4.0"), 3: JOINS_OF_FORMAT_3, 4: JOINS_OF_FORMAT_4}
CASES = {
    f"{version}-{how}-{kind}-{place}-{edited}": (version, how, kind, place, edited)
    for version, how, kind, place, edited in itertools.product(
        (2, 3, 4),
        ("inner", "left_outer"),
        ("bounds", "windows"),
        ("rocksdb", "cuts"),
        ("left", "right"),
    )
    # Spark 4 starts no join of the first format.
    if FORMATS[version].is_here
}
USUAL = {"2-left_outer-bounds-cuts-left"}


@pytest.mark.parametrize(
    ("version", "how", "kind", "place", "edited"), usually(USUAL, CASES, CASES.__getitem__)
)
def test_a_join_continues_with_an_edited_side(
    spark: SparkSession,
    tmp_path: Path,
    version: int,
    how: str,
    kind: str,
    place: str,
    edited: str,
) -> None:
    it = Join(spark, tmp_path, place, how, kind, version)
    it.edited = edited
    for _ in range(EDITED_AFTER):
        it.add()
    it.run()
    side: Any = edited
    plan = cleancut.edit(it.checkpoint, 0, it.change, side=side, session=it.session)
    assert plan.apply().operators[0].rows
    if place == "cuts":
        check_agreement(it.checkpoint, version)
    for _ in range(EDITED_AFTER, FILES):
        it.add()
    it.run()
    if place == "cuts":
        check_agreement(it.checkpoint, version)
    it.close()
    it.run()
    given = Counter({row: n for row, n in it.given.items() if row[0] != -1})
    assert given == it.expected()
    assert any(row[0] == ADDED and row[-1] is not None for row in given)
    # All edited rows are found and evicted.
    assert it.remaining_keys("left") | it.remaining_keys("right") <= {-1}


def check_agreement(checkpoint: str, version: int) -> None:
    """Checks that counts and indexes of a join match its rows."""

    def keys(side: str, kind: str) -> list[dict[str, Any]]:
        name = f"{side}-{kind}"
        options: Any = {"store": name} if version < 3 else {"family": name}
        entries: list[dict[str, Any]] = Checkpoint(checkpoint).state(0, **options).to_pylist()
        return entries

    for side in ("left", "right"):
        if version == 4:
            rows, index = (keys(side, kind) for kind in ("keyWithTsToValues", "tsWithKey"))
            assert Counter(map(_key, rows)) == Counter(map(_key, index))
            continue
        numbers: dict[str, list[int]] = {}
        for row in keys(side, "keyWithIndexToValue"):
            number = row["key"].pop("index")
            numbers.setdefault(_key(row), []).append(number)
        counts = {_key(row): row["value"]["value"] for row in keys(side, "keyToNumValues")}
        assert {key: sorted(numbers_of_key) for key, numbers_of_key in numbers.items()} == {
            key: list(range(count)) for key, count in counts.items()
        }


def _key(row: dict[str, Any]) -> str:
    return repr((row["key"], row["partition"]))


@long
def test_invalid_rows_of_a_side_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    version = 4 if JOINS_OF_FORMAT_4.is_here else 2
    it = Join(spark, tmp_path, "cuts", "inner", "windows", version)
    for _ in range(EDITED_AFTER):
        it.add()
    it.run()

    def edit(change: Callable[[DataFrame], DataFrame] = it.change, **named: Any) -> object:
        return cleancut.edit(it.checkpoint, 0, change, session=it.session, **named).apply()

    def unmatched(rows: DataFrame) -> DataFrame:
        return rows.withColumn("matched", f.lit(None).cast("boolean"))

    def elsewhere(rows: DataFrame) -> DataFrame:
        later = f.window(f.col("value.w.end"), "1 minute")
        rows = rows.withColumn("later", later)
        moved = rows.withColumn("value", f.col("value").withField("w", f.col("later")))
        return moved.drop("later")

    def older(rows: DataFrame) -> DataFrame:
        old = Event(ADDED, START - timedelta(days=1), 0)
        added = it.session.createDataFrame([it.row(old, rows.columns)], rows.schema)
        return rows.union(added)

    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: edit(), "use the side, 'left' or 'right', instead of a store"),
        (lambda: edit(store="left-keyToNumValues"), "must agree with each other"),
        (lambda: edit(family="left-tsWithKey"), "must agree with each other"),
        (lambda: edit(lambda rows: rows.drop("matched"), side="left"), "must have the columns"),
        (lambda: edit(unmatched, side="left"), "no key, or no value"),
    ]
    if version == 4:
        refusals += [
            (lambda: edit(elsewhere, side="left"), "the event time fields of a row differ"),
            (lambda: edit(older, side="right"), "not after the watermark, and before all rows"),
        ]
    for call, reason in refusals:
        with pytest.raises(RequestError, match=reason) as raised:
            call()
        assert raised.value.error_id == REFUSED
    with pytest.raises(TypeError, match="either a side of a join, or"):
        edit(side="left", family="left")
    # All rows unchanged: the refused edits have left nothing.
    edit(lambda rows: rows, side="left")
    check_agreement(it.checkpoint, version)


@JOINS_OF_FORMAT_4.needed
@pytest.mark.parametrize("kind", usually((), ("minutes", "unbounded")))
def test_the_event_time_column_is_detected(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A timestamp in the key need not be the event time, and a join may have none.

    Spark then uses a random number instead, and has no index.
    """
    it = Join(spark, tmp_path, "cuts", "inner", kind, 4)
    for _ in range(EDITED_AFTER):
        it.add()
    it.run()
    cleancut.edit(it.checkpoint, 0, it.change, side="left", session=it.session).apply()
    for _ in range(EDITED_AFTER, FILES):
        it.add()
    it.run()
    assert it.given == it.expected()
    if kind == "minutes":
        check_agreement(it.checkpoint, 4)
    else:
        assert Checkpoint(it.checkpoint).state(0, family="left-tsWithKey").num_rows == 0


@long
@pytest.mark.parametrize("version", [2, 4])
def test_a_join_is_bootstrapped_with_given_rows(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    """The rows of both sides, from a join that has run at another location."""
    if not FORMATS[version].is_here:
        pytest.skip(f"this Spark has no joins of state format {version}")
    old, it = (
        Join(spark, tmp_path / name, "cuts", "left_outer", "windows", version)
        for name in ("old", "new")
    )
    for _ in range(EDITED_AFTER):
        old.add()
    old.run()
    given: dict[Any, DataFrame] = {}
    for side in ("left", "right"):
        # A plan suffices to get the rows.
        def keep(rows: DataFrame, side: str = side) -> DataFrame:
            given[0, side] = rows
            return rows

        named: Any = side
        cleancut.edit(old.checkpoint, 0, keep, side=named, session=old.session)
    cleancut.bootstrap(it.checkpoint, it.query(), given).apply()
    check_agreement(it.checkpoint, version)
    it.files = EDITED_AFTER
    for _ in range(EDITED_AFTER, FILES):
        it.add()
        old.add()
    for one in (it, old):
        one.close()
    before = Counter(old.given)
    it.run()
    old.run()
    assert it.given == old.given - before
    assert it.remaining_keys("left") <= {-1}


def test_the_documented_edit_of_a_side_runs(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows = [{"k": k, "price": k - 2.5} for k in range(5)]
        write_file(tmp_path / name / "0.json", rows, 0)

    def read(name: str) -> DataFrame:
        return spark.readStream.schema("k int, price double").json(str(tmp_path / name))

    checkpoint = str(tmp_path / "checkpoint")
    writer = read("a").join(read("b").withColumnRenamed("price", "paid"), "k").writeStream
    writer = writer.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    _, code, *_ = blocks(GUIDE, "python")
    exec(code.replace("checkpoints/clicks", checkpoint), {})
    stored = spark.read.format("statestore").option("joinSide", "left").load(checkpoint)
    assert {(row.k, row.price) for row in stored.select("value.k", "value.price").collect()} == {
        (0, 0.0),
        (1, 0.0),
        (2, 0.0),
        (4, 1.5),
    }
