"""`in_sequence`: restarts compared with Spark's provider, gaps, errors, and in-flight rows."""

import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, errors
from cleancut._provider import PROVIDER_KEY
from cleancut.testing import assert_same_rows
from tests.support.change_feed import ChangeFeed, start
from tests.support.cutting import cut_by_hand
from tests.support.documented import blocks, run_as_typed
from tests.support.in_flight_queries import OrderedEpochs
from tests.support.kills import run_script
from tests.support.patience import PATIENCE_S
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT, ROCKSDB
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = fixed(41)
PAGE = "docs/use/order.md"
SCHEMA = "k string, n long, p long, at timestamp"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
FIRST_TIME_S = 1_000_000_000


class Feed:
    """Files of rows, one per epoch, and the query that puts the rows in sequence."""

    def __init__(self, spark: SparkSession, home: Path, provider: str = CLEANCUT) -> None:
        self.session = spark.newSession()
        self.session.conf.set(PROVIDER_KEY, provider)
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        self.home = home
        self.files = 0
        self.rows: list[Row] = []
        (home / "in").mkdir(parents=True)

    def put(self, *rows: dict[str, Any]) -> None:
        path = self.home / "in" / f"{self.files:04d}.json"
        path.write_text("\n".join(json.dumps(row, default=str) for row in rows))
        # Spark reads files in the order of these times.
        os.utime(path, (FIRST_TIME_S + self.files,) * 2)
        self.files += 1

    def put_numbers(self, *numbers: int, second: int = 0) -> None:
        at = BEGIN + timedelta(seconds=second)
        self.put(*({"k": "a", "n": n, "p": n - 1, "at": at.isoformat()} for n in numbers))

    def stream(self) -> DataFrame:
        reader = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.home / "in"))

    def start(self, watermark: str | None = None, trigger: Any = None, **options: Any) -> Any:
        rows = self.stream()
        if watermark is not None:
            rows = rows.withWatermark("at", watermark)
        options = {"gap_column": "gap", **options}
        return (
            cleancut.in_sequence(rows, "k", "n", **options)
            .writeStream.foreachBatch(self._collect)
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, **options: Any) -> list[int]:
        """Runs the query to the end of the input; returns the emitted numbers."""
        before = len(self.rows)
        query = self.start(**options)
        query.awaitTermination()
        self.counts = counts_of(query)
        return [row.n for row in self.rows[before:]]

    def failed(self, **options: Any) -> cleancut.CleancutError:
        query = self.start(**options)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
        error = errors.find_error(query)
        assert error is not None
        return error

    def state(self, family: str) -> list[dict[str, Any]]:
        checkpoint = Checkpoint(str(self.home / "checkpoint"))
        entries: list[dict[str, Any]] = checkpoint.state(0, family=family).to_pylist()
        return entries

    def _collect(self, rows: DataFrame, epoch: int) -> None:
        self.rows += rows.collect()


def counts_of(query: StreamingQuery) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for progress in query.recentProgress:
        for row in progress.observedMetrics.values():
            for name, count in row.asDict().items():
                counts[name] += count
    return counts


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def random_log() -> Iterator[list[dict[str, Any]]]:
    """Returns epochs of unordered rows of several keys, with duplicates and skipped numbers."""
    draw = random.Random(SEED)
    sent: list[tuple[float, dict[str, Any]]] = []
    for key in "abcdef":
        before: int | None = None
        for n in range(1, draw.randrange(20, 90)):
            lsn = n * 10 + draw.randrange(10)
            row = {
                "k": key,
                "n": lsn,
                "p": before,
                "at": (BEGIN + timedelta(seconds=n)).isoformat(),
            }
            before = lsn
            # A key starts with its lowest number in the first epoch.
            late = draw.choice([0, 0, 25]) if n > 1 else 0
            copies = 2 if draw.random() < 0.1 else 1
            sent += [(n + draw.random() * late, row) for _ in range(copies)]
    rows = [row for _, row in sorted(sent, key=lambda one: one[0])]
    size = len(rows) // 8
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))


@pytest.mark.parametrize("provider", [CLEANCUT, pytest.param(ROCKSDB, marks=long)])
def test_a_log_with_gaps_is_emitted_once_and_in_order_through_restarts(
    provider: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    feed = Feed(spark, tmp_path, provider)
    sent: list[dict[str, Any]] = []
    dropped = 0
    for number, rows in enumerate(random_log()):
        sent += rows
        feed.put(*rows)
        if number % 3 == 2:
            feed.run(previous="p")
            dropped += feed.counts["dropped"]
    feed.run(previous="p")
    dropped += feed.counts["dropped"]
    wanted = {(row["k"], row["n"]): row["p"] for row in sent}
    answer = [{"k": k, "n": n, "p": p} for (k, n), p in wanted.items()]
    emitted = [{"k": row.k, "n": row.n, "p": row.p} for row in feed.rows]
    compared = assert_same_rows(emitted, answer, key=["k"], order="n")
    show(f"seed {SEED}: {len(sent)} rows sent, {dropped} dropped; {compared}")
    assert dropped == len(sent) - len(wanted) > 0
    assert all(row.gap is None for row in feed.rows)
    if provider == CLEANCUT:
        assert feed.state("held") == []
        kept = {value["key"]["k"]: value["value"] for value in feed.state("sequence")}
        assert {k: value["last"] for k, value in kept.items()} == {
            key: max(n for k, n in wanted if k == key) for key in "abcdef"
        }
        assert sum(value["dropped"] for value in kept.values()) == dropped


def test_rows_of_an_epoch_are_sorted_by_number_by_spark(feed: Feed) -> None:
    feed.put_numbers(3, 1, 2)
    query: Any = feed.start(first=1)
    query.awaitTermination()
    plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    assert "Sort [k#" in plan
    assert "ASC NULLS FIRST, n#" in plan.split("Sort [")[1].split("]")[0]
    assert [row.n for row in feed.rows] == [1, 2, 3]
    assert feed.state("held") == []
    assert query.lastProgress.stateOperators[0].numRowsUpdated == 1


def test_a_key_without_first_number_begins_with_the_lowest(feed: Feed) -> None:
    feed.put_numbers(7, 5)
    assert feed.run() == [5]
    feed.put_numbers(4, 6)
    assert feed.run() == [6, 7]
    assert feed.counts["dropped"] == 1


def test_a_gap_is_skipped_by_event_time_and_reported(feed: Feed) -> None:
    options = {
        "watermark": "10 seconds",
        "event_time": "at",
        "gap_timeout": timedelta(seconds=16),
        "on_gap": "skip",
        "first": 1,
    }
    feed.put_numbers(1, 3, second=20)
    feed.put_numbers(6, second=40)
    assert feed.run(**options) == [1]
    assert [entry["value"]["held"] for entry in feed.state("sequence")] == [2]
    # The watermark is 36 s before this epoch, and row 3 has waited since 20 s.
    feed.put_numbers(7, second=46)
    assert feed.run(**options) == [3]
    feed.put_numbers(4, 2, 5, second=45)
    assert feed.run(**options) == [4, 5, 6, 7]
    assert [row.gap.after for row in feed.rows if row.gap] == [1]
    since = next(row.gap.since for row in feed.rows if row.gap)
    assert since == datetime(2024, 1, 1, 0, 0, 20)
    assert feed.counts["dropped"] == 1


def test_a_gap_is_skipped_by_processing_time_in_an_epoch_without_rows(feed: Feed) -> None:
    feed.put_numbers(5)
    feed.put_numbers(6, 8)
    query = feed.start(
        trigger={"processingTime": "300 milliseconds"},
        gap_timeout=timedelta(seconds=2),
        on_gap="skip",
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while len(feed.rows) < 3 and time.monotonic() < until:
            assert query.isActive, query.exception()
            time.sleep(0.1)
    finally:
        query.stop()
    assert [row.n for row in feed.rows] == [5, 6, 8]
    assert [row.gap.after if row.gap else None for row in feed.rows] == [None, None, 6]


def test_an_awaited_gap_is_counted_as_overdue(feed: Feed) -> None:
    options = {"watermark": "0 seconds", "event_time": "at", "gap_timeout": timedelta(seconds=16)}
    feed.put_numbers(1, 3, second=0)
    feed.put_numbers(4, second=60)
    assert feed.run(**options, first=1) == [1]
    assert feed.counts["overdue"] == 1
    # Spark drops rows before the watermark.
    feed.put_numbers(2, second=61)
    assert feed.run(**options, first=1) == [2, 3, 4]
    assert feed.counts["overdue"] == 0


def test_a_gap_fails_the_query_until_the_missing_rows_arrive(feed: Feed) -> None:
    options = {
        "watermark": "0 seconds",
        "event_time": "at",
        "gap_timeout": timedelta(seconds=16),
        "on_gap": "fail",
        "first": 1,
    }
    feed.put_numbers(1, 4, second=0)
    feed.put_numbers(5, second=30)
    error = feed.failed(**options)
    assert (type(error), error.error_id) == (cleancut.RequestError, "CLEANCUT_SEQUENCE_GAP")
    assert error.params["key"] == "[a]"
    assert (error.params["after"], error.params["before"]) == ("1", "4")
    assert error.params["since"] == "2024-01-01T00:00:00Z"
    assert [row.n for row in feed.rows] == [1]
    feed.put_numbers(2, 3, second=31)
    assert feed.run(**options | {"on_gap": "wait"}) == [2, 3, 4, 5]


def test_the_number_of_held_rows_of_a_key_is_limited(feed: Feed) -> None:
    feed.put_numbers(1, *range(3, 8))
    error = feed.failed(first=1, max_held=4)
    assert error.error_id == "CLEANCUT_SEQUENCE_FULL"
    assert (error.params["held"], error.params["after"]) == ("4", "1")
    assert feed.run(first=1, max_held=4, on_gap="skip") == [1, 3, 4, 5, 6, 7]
    assert feed.counts["gaps"] == 1


@pytest.mark.parametrize(
    ("rows", "previous", "reason"),
    [
        ([{"k": "a", "n": None}], None, "it has no number"),
        ([{"k": "a", "n": 5, "p": 7}], "p", "its predecessor is 7"),
        ([{"k": "a", "n": 1}, {"k": "a", "n": 2}], "p", "it has no predecessor"),
    ],
)
def test_a_row_that_cannot_be_in_sequence_fails_the_query(
    feed: Feed, rows: list[dict[str, Any]], previous: str | None, reason: str
) -> None:
    feed.put(*rows)
    error = feed.failed(previous=previous)
    assert error.error_id == "CLEANCUT_SEQUENCE_BROKEN"
    assert reason in error.params["reason"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": []}, "key is empty"),
        ({"key": "x"}, "key is 'x', but this column does not exist"),
        ({"sequence": "k"}, "of type STRING, but must be an integer"),
        ({"key": ["k", "n"]}, "'n', which is in the key"),
        ({"previous": "at"}, "of type TIMESTAMP"),
        ({"previous": "p", "first": 1}, "first cannot be combined with previous"),
        ({"on_gap": "jump"}, "on_gap is 'jump'"),
        ({"on_gap": "fail"}, "requires gap_timeout"),
        ({"max_held": 0}, "max_held is 0"),
        ({"gap_timeout": timedelta(0)}, "gap_timeout is 0 ms"),
        ({"event_time": "at"}, "event_time requires gap_timeout"),
        ({"event_time": "at", "gap_timeout": timedelta(1)}, "has no watermark"),
        ({"event_time": "n", "gap_timeout": timedelta(1)}, "but must be a timestamp"),
    ],
    ids=str,
)
def test_invalid_sequences_are_refused_immediately(
    feed: Feed, options: dict[str, Any], problem: str
) -> None:
    feed.put_numbers(1)
    with pytest.raises(cleancut.RequestError) as raised:
        cleancut.in_sequence(feed.stream(), **{"key": "k", "sequence": "n", **options})
    assert raised.value.error_id == "CLEANCUT_SEQUENCE_INVALID"
    assert problem in raised.value.params["problem"]


def test_a_feed_keeps_its_order_with_rows_in_flight(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    feed = ChangeFeed(tmp_path / "in", SEED, files=6)
    feed.write()
    query = start(spark, feed, tmp_path / "query")
    with cut_by_hand(query, every_s=0.4):
        query.awaitTermination()
    emitted = OrderedEpochs(tmp_path / "query" / "results").read()
    compared = assert_same_rows(emitted, feed.answer, key=["key"], order="number")
    checkpoint = Checkpoint(str(tmp_path / "query" / "checkpoint"))
    flying = [cut.epoch for cut in checkpoint.cuts() if cut.mode == "unaligned"]
    channel = {
        (shuffle_input.operator, shuffle_input.store)
        for shuffle_input in checkpoint.cut(flying[0]).shuffle_inputs
    }
    assert channel == {(0, "cleancut-channel-0")}
    rows = checkpoint.in_flight(0, at=flying[0]).num_rows
    assert rows > 0
    show(f"seed {SEED}: {len(flying)} epochs with in-flight rows, {rows} in the first; {compared}")


UNSORTED = """
import sys
from pathlib import Path
from cleancut._session.settings import EXTENSIONS_KEY
from tests.spark.test_in_sequence import Feed
from tests.support.sessions import ROCKSDB, builder
spark = builder("local[2]").config(EXTENSIONS_KEY, "").getOrCreate()
feed = Feed(spark, Path(sys.argv[1]), ROCKSDB)
feed.put_numbers(3, 1, 2, 9, 2)
assert feed.run(first=1) == [1, 2, 3], feed.rows
assert feed.counts["dropped"] == 1
feed.put_numbers(8, 4, 7, 6, 5)
assert feed.run(first=1) == [4, 5, 6, 7, 8, 9], feed.rows
print("ORDERED")
"""


@long
def test_rows_are_sorted_without_the_extension(tmp_path: Path) -> None:
    ended = run_script(UNSORTED, str(tmp_path / "feed"))
    assert "ORDERED" in ended.stdout, ended.stderr


@long
def test_the_documented_feed_comes_in_order(tmp_path: Path) -> None:
    """The page creates its own session, which needs a separate process."""
    page = "\n".join([*blocks(PAGE, "python"), "print(len(emitted), 'rows in order')"])
    assert "7 rows in order" in run_as_typed([sys.executable, "-c", page], tmp_path)
