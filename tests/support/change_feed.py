"""A change feed out of order, some of it twice and some missing, put in sequence again.

`python -m tests.support.change_feed <master> <seed> <files> <input> <root>` runs the query to the
end of the feed, cut at random, from wherever it was left: what the kill tests kill.
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
# In time of the feed: longer than what comes late is late, so that only what never comes is given
# up.
WAIT = timedelta(minutes=1)
_FAR = timedelta(days=1)
# Spark takes files in the order of their modification times.
_FIRST_TIME_S = 1_000_000_000


@dataclass(frozen=True)
class ChangeFeed:
    """Changes of accounts: numbered densely by account, and by a log that they share.

    Attributes:
        directory: of its files, each an epoch of a stream.
        seed: the same seed gives the same feed.
        files: how many there are.
        late: the part of the changes (0 to 1) that come late.
        late_by: by how many places at most.
        twice: the part that comes twice.
        missing: the part that never comes.
        keys: how many accounts there are; the first has half of all changes.
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
        """All rows, in the order in which they arrive; a last one is far behind all others."""
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
        """What comes out: each row that was sent once, and what it comes behind if not its own."""
        rows = {(row["key"], row["number"]): row for row in self.sent}
        answer = []
        for key, number in sorted(rows):
            row = rows[key, number]
            before = max((n for k, n in rows if k == key and n < number), default=0)
            gap = before if before != number - 1 else None
            answer.append({name: row[name] for name in ("key", "number", "value")} | {"gap": gap})
        return answer

    def write(self) -> None:
        """Writes all files; a stream meets the last row in one of its own."""
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
        """The files as a stream, one in each epoch."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(self.directory.as_uri())


def in_sequence(rows: DataFrame, per_row_ms: int) -> DataFrame:
    """The feed in sequence; rows of one partition take their time behind that."""
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
    """Starts the query, which goes on wherever it was left and ends with the feed."""
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
