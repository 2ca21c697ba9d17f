"""A change feed out of order, with duplicates and gaps, which `in_sequence` sorts.

`python -m tests.support.change_feed <master> <seed> <files> <input> <root>` runs the query to the
end of the feed, with random cuts, from its last state; the kill tests kill it.
"""

import json
import os
import random
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut.sinks import sealed
from cleancut.testing import slow
from tests.support.in_flight_queries import OrderedEpochs, cut_at_random
from tests.support.kills import die_with_the_test
from tests.support.sessions import builder, take_out_defaults

PARTITIONS = 4
ROWS = 300
SCHEMA = "key long, number long, lsn long, previous long, at timestamp, value long"
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_STEP = timedelta(milliseconds=100)
_KEYS = "spark.sql.streaming.stateStore.cleancut."
# In event time of the feed: the timeout is longer than the delay of late rows, so that only missing
# numbers are skipped.
WAIT = timedelta(minutes=1)
_FAR = timedelta(days=1)
# Spark reads files in the order of their modification times.
_FIRST_TIME_S = 1_000_000_000


@dataclass(frozen=True)
class ChangeFeed:
    """Changes of accounts, numbered without gaps per account and in a common log.

    Attributes:
        directory: of its files, each an epoch of a stream.
        seed: the same seed gives the same feed.
        files: the number of files.
        late: the share of changes (0 to 1) that arrive late.
        late_by: the maximum delay, in positions.
        twice: the share of duplicates.
        missing: the share that never arrives.
        keys: the number of accounts; the first has half of all changes.
    """

    directory: Path
    seed: int
    files: int
    late: float = 0.05
    late_by: int = 300
    twice: float = 0.01
    missing: float = 0.02
    keys: int = 20

    @cached_property
    def sent(self) -> list[dict[str, Any]]:
        """Returns all rows in the order of arrival; the last one is far after all others."""
        draw = random.Random(self.seed)
        placed: list[tuple[int, dict[str, Any]]] = []
        numbers: dict[int, int] = {}
        lsns: dict[int, int] = {}
        lsn = 100
        for event in range(ROWS * self.files):
            key = 0 if draw.random() < 0.5 else draw.randrange(self.keys)
            lsn += draw.randrange(1, 50)
            number = numbers[key] = numbers.get(key, 0) + 1
            row: dict[str, Any] = {"key": key, "number": number, "lsn": lsn}
            row |= {"previous": lsns.get(key), "at": (_BEGIN + event * _STEP).isoformat()}
            row["value"] = draw.randrange(1000)
            lsns[key] = lsn
            if draw.random() < self.missing:
                continue
            for _ in range(2 if draw.random() < self.twice else 1):
                is_late = draw.random() < self.late
                placed.append((event + (draw.randrange(self.late_by) if is_late else 0), row))
        placed.sort(key=lambda one: one[0])
        at = (_BEGIN + _FAR).isoformat()
        last = {"key": -1, "number": 1, "lsn": lsn + 1, "previous": None, "at": at, "value": 0}
        return [row for _, row in placed] + [last]

    @property
    def answer(self) -> list[dict[str, Any]]:
        """Returns the expected output: each sent row once, with its predecessor after a gap."""
        rows = {(row["key"], row["number"]): row for row in self.sent}
        answer = []
        for key, number in sorted(rows):
            row = rows[key, number]
            before = max((n for k, n in rows if k == key and n < number), default=0)
            gap = before if before != number - 1 else None
            answer.append({name: row[name] for name in ("key", "number", "value")} | {"gap": gap})
        return answer

    def write(self) -> None:
        """Writes all files; the last row is in a separate file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows = self.sent
        size = (len(rows) - 1 + self.files - 1) // self.files
        parts = [rows[begin : begin + size] for begin in range(0, len(rows) - 1, size)]
        parts[-1] = [row for row in parts[-1] if row is not rows[-1]]
        for number, part in enumerate([*parts, rows[-1:]]):
            path = self.directory / f"{number:05d}.json"
            path.write_text("".join(f"{json.dumps(row)}\n" for row in part), encoding="utf-8")
            os.utime(path, (_FIRST_TIME_S + number,) * 2)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Returns the files as a stream, one per epoch."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(self.directory.as_uri())


def in_sequence(rows: DataFrame, per_row_ms: int) -> DataFrame:
    """Sorts the feed; rows of one partition are slow afterwards."""
    late = rows.withWatermark("at", f"{int(WAIT.total_seconds())} seconds")
    handed_on = cleancut.in_sequence(
        late,
        "key",
        "number",
        first=1,
        gap_timeout=WAIT,
        event_time="at",
        on_gap="skip",
        gap_column="gap",
    )
    value = slow("value", per_row_ms=per_row_ms, when=f.spark_partition_id() == 0)
    return handed_on.select("key", "number", value.alias("value"), f.col("gap.after").alias("gap"))


def start(
    spark: SparkSession, feed: ChangeFeed, root: Path, mode: str = "unaligned", per_row_ms: int = 4
) -> StreamingQuery:
    """Starts the query from its last state; it ends with the feed."""
    session = spark.newSession()
    session.conf.set(f"{_KEYS}cuts", "true")
    session.conf.set(f"{_KEYS}mode", mode)
    session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    return (
        in_sequence(feed.stream(session), per_row_ms)
        .writeStream.foreachBatch(sealed(OrderedEpochs(root / "results")))
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main(master: str, seed: int, feed: ChangeFeed, root: Path) -> None:
    """Runs the query to the end of the feed, in a process that a test kills."""
    die_with_the_test()
    spark = builder(master).getOrCreate()
    take_out_defaults(spark)
    query = start(spark, feed, root)
    draw = random.Random(seed)
    threading.Thread(target=cut_at_random, args=([query], draw), daemon=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    master, seed, files, source, root = sys.argv[1:]
    main(master, int(seed), ChangeFeed(Path(source), int(seed), int(files)), Path(root))
