"""Stateful operators in Python that are cut while their worker processes a slow key."""

import json
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut import Checkpoint, coordinator
from cleancut.sinks import sealed
from tests.support.cutting import cut_by_hand
from tests.support.slow_keys import FORMS, SCHEMA, SLOW_KEY, Pace, failing_once
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
SLOW_ROWS, FAST_ROWS, FAST_KEYS = 100, 3, 40
SECONDS_PER_ROW = 0.005
CUTS = 12
CASES = {
    f"{form}-{case}": (form, case)
    for form, case in [
        *((form, "plain") for form in FORMS),
        ("applyInPandasWithState", "event-time"),
        *((form, "event-time") for form in FORMS if form == "transformWithState"),
        ("applyInPandasWithState", "retried"),
        ("transformWithStateInPandas", "retried"),
        *((form, "whole") for form in FORMS),
    ]
}
# Each form once, and each case.
USUALLY = {
    "applyInPandasWithState-whole",
    "transformWithState-plain",
}
# Event time: the seconds in a file, the offset of the next file, and the delay. No row is late on
# arrival, and many rows would be late two files later.
COVERED, STEP, DELAY = 15, 6, "10 seconds"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(f"{KEYS}cuts", "true")
    session.conf.set(f"{KEYS}mode", "auto")
    # Only `cut_now` overtakes a task.
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@dataclass
class Input:
    """Files of rows, numbered within each key from file to file.

    Attributes:
        root: the directory of the files.
        counts: rows of each key in all files.
        ends: for each key, its number of rows after each file.
        files: the number of files.
    """

    root: Path
    counts: Counter[int] = field(default_factory=Counter)
    ends: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    files: int = 0

    @property
    def source(self) -> Path:
        return self.root / "source"

    def add(self, slow_rows: int) -> None:
        self.source.mkdir(exist_ok=True)
        drawn = random.Random(self.files)
        lines = []
        for i in range(slow_rows):
            for key in (SLOW_KEY, *(1 + (j * 7 + i) % FAST_KEYS for j in range(FAST_ROWS))):
                t = STEP * self.files + drawn.uniform(0, COVERED)
                lines.append(json.dumps({"k": key, "n": self.counts[key], "t": t}))
                self.counts[key] += 1
        made = self.root / f"{self.files:04d}.json"
        made.write_text("\n".join(lines), encoding="utf-8")
        made.rename(self.source / made.name)
        for key, count in self.counts.items():
            self.ends[key].add(count)
        self.files += 1


@pytest.mark.parametrize(("form", "case"), usually(USUALLY, CASES, lambda name: CASES[name]))
def test_a_worker_returns_rows_of_a_slow_key_when_it_is_cut(
    form: str, case: str, session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    location, written, late = tmp_path / "checkpoint", Input(tmp_path), case == "event-time"
    written.add(1)
    session.conf.set(f"{KEYS}splitGroups", str(case != "whole").lower())
    emitted: dict[int, list[Row]] = {}

    @sealed
    def collect(batch: DataFrame, epoch: int) -> None:
        emitted[epoch] = batch.collect()

    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(written.source)).withColumn("ts", F.timestamp_seconds("t"))
    rows = rows.withWatermark("ts", DELAY) if late else rows
    pace = Pace(SECONDS_PER_ROW, met=str(tmp_path / "met"))
    counted = FORMS[form](rows, pace, late=late)
    query = (
        (failing_once(counted) if case == "retried" else counted)
        .writeStream.outputMode("update")
        .foreachBatch(collect)
        .option("checkpointLocation", str(location))
        .start()
    )
    try:
        query.processAllAvailable()
        written.add(SLOW_ROWS)
        written.add(SLOW_ROWS)
        with cut_by_hand(query, every_s=0.1, at_most=CUTS, when=pace.is_met) as cuts:
            query.processAllAvailable()
        query.processAllAvailable()
        assert coordinator(query).status().in_flight == ()
        assert coordinator(query).status().aligned == {}
        dropped = [
            epoch.stateOperators[0].numRowsDroppedByWatermark for epoch in query.recentProgress
        ]
        assert sum(dropped) == 0
    finally:
        query.stop()
    _compare(emitted, written.counts)
    if case == "whole":
        _compare_ends(emitted, written.ends)
    checkpoint = Checkpoint(str(location))
    assert checkpoint.verify().problems == ()
    in_flight = sum(cut.mode == "unaligned" for cut in checkpoint.cuts())
    assert in_flight > 0
    show(f"{in_flight} epochs of {len(emitted)} left in-flight rows")
    # Rows that would be late are always processed; a second attempt follows later.
    if case == "plain":
        divided = sum(any(row["k"] == SLOW_KEY for row in rows) for rows in emitted.values())
        assert divided > written.files, "the rows of the slow key were never divided"
        delays = list(_delays(emitted, cuts))
        middle = statistics.median(delays)
        show(f"rows after an order: {1000 * middle:.0f} ms, at most {1000 * max(delays):.0f} ms")


def _compare(emitted: dict[int, list[Row]], counts: Counter[int]) -> None:
    """Each row is emitted once, rows of a key in order, and with the earlier count."""
    by_key = defaultdict(list)
    for epoch in sorted(emitted):
        for row in emitted[epoch]:
            by_key[row["k"]].append((row["n"], row["c"]))
    assert by_key == {key: [(i, i + 1) for i in range(count)] for key, count in counts.items()}


def _compare_ends(emitted: dict[int, list[Row]], ends: dict[int, set[int]]) -> None:
    """Each epoch has processed all available rows of a key, which end with a file."""
    for rows in emitted.values():
        last = {row["k"]: row["c"] for row in rows}
        assert {key: count for key, count in last.items() if count not in ends[key]} == {}


def _delays(emitted: dict[int, list[Row]], cuts: list[float]) -> Iterator[float]:
    """Yields, for each epoch cut during slow rows, the delay from the order to its last row."""
    for rows in emitted.values():
        slow = [row["at"] for row in rows if row["k"] == SLOW_KEY]
        within = [cut for cut in cuts if slow and min(slow) < cut < max(slow)]
        if within:
            yield max(slow) - within[0]
