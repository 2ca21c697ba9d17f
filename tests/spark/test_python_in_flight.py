"""Stateful operators in Python that are cut while their worker is busy with a slow key."""

import json
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from cleancut import Checkpoint, coordinator
from cleancut.sinks import sealing
from tests.support.slow_keys import FORMS, SCHEMA, SLOW_KEY

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
SLOW_ROWS, FAST_ROWS, FAST_KEYS = 240, 400, 40
SECONDS_PER_ROW = 0.005
# What the last row that a function sees may be behind the order to cut.
BOUND_SECONDS = 0.25


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(f"{KEYS}cuts", "true")
    session.conf.set(f"{KEYS}mode", "auto")
    # Nothing is overtaken but by hand.
    session.conf.set(f"{KEYS}alignmentTimeout", "1h")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def write(source: Path, file: int, counts: Counter[int]) -> None:
    """Rows of all keys, numbered from file to file within each."""
    lines = []
    for i in range(SLOW_ROWS if file else 1):
        keys = [SLOW_KEY, *(1 + (j + i) % FAST_KEYS for j in range(FAST_ROWS // SLOW_ROWS + 1))]
        for key in keys:
            lines.append(json.dumps({"k": key, "n": counts[key]}))
            counts[key] += 1
    made = source.parent / f"{file}.json"
    made.write_text("\n".join(lines), encoding="utf-8")
    made.rename(source / made.name)


@pytest.mark.parametrize("form", FORMS)
def test_a_worker_gives_rows_of_a_slow_key_back_when_it_is_cut(
    form: str, session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    source, location = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    counts: Counter[int] = Counter()
    write(source, 0, counts)
    found: dict[int, list[Row]] = {}

    @sealing
    def collect(batch: DataFrame, epoch: int) -> None:
        found[epoch] = batch.collect()

    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
    query = (
        FORMS[form](rows, SECONDS_PER_ROW)
        .writeStream.outputMode("update")
        .foreachBatch(collect)
        .option("checkpointLocation", str(location))
        .start()
    )
    cuts: list[float] = []
    done = threading.Event()

    def cut() -> None:
        while not done.wait(0.5):
            cuts.append(time.time())
            coordinator(query).cut_now()

    cutter = threading.Thread(target=cut)
    try:
        query.processAllAvailable()
        write(source, 1, counts)
        write(source, 2, counts)
        cutter.start()
        query.processAllAvailable()
        assert coordinator(query).status().in_flight == ()
        assert coordinator(query).status().aligned == {}
    finally:
        done.set()
        cutter.join()
        query.stop()
    _compare(found, counts)
    checkpoint = Checkpoint(str(location))
    assert checkpoint.verify().problems == ()
    assert sum(cut.mode == "unaligned" for cut in checkpoint.cuts()) >= 2
    behind = list(_behind(found, cuts))
    show(
        f"{len(behind)} epochs of {len(found)} were cut; the last row was behind the order by "
        f"{1000 * statistics.median(behind):.0f} ms, at most {1000 * max(behind):.0f} ms"
    )
    assert len(behind) >= 2
    assert statistics.median(behind) <= BOUND_SECONDS


def _compare(found: dict[int, list[Row]], counts: Counter[int]) -> None:
    """Each key has come once, in the order of the input, and counted on what was before."""
    by_key = defaultdict(list)
    for epoch in sorted(found):
        for row in found[epoch]:
            by_key[row["k"]].append((row["n"], row["c"]))
    expected = {key: [(i, i + 1) for i in range(count)] for key, count in counts.items()}
    assert by_key == expected


def _behind(found: dict[int, list[Row]], cuts: list[float]) -> list[float]:
    """For each epoch that was cut among slow rows, how far behind that its last row was."""
    behind = []
    for rows in found.values():
        slow = [row["at"] for row in rows if row["k"] == SLOW_KEY]
        within = [cut for cut in cuts if slow and min(slow) < cut < max(slow)]
        if within:
            behind.append(max(slow) - within[0])
    return behind
