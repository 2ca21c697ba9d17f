"""A query that is stopped between two epochs leaves no planned epoch."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.documented import blocks
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT

pytestmark = pytest.mark.spark

SEED = fixed(61)
KEYS = "spark.sql.streaming.stateStore.cleancut."
FILES = 12
STARTS = 4


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", CLEANCUT)
    session.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass",
        "io.cleancut.CleancutCheckpointFileManager",
    )
    session.conf.set(f"{KEYS}cuts", "true")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


class Counting(CountedFiles):
    """A count by key whose sink records its rows, and can be blocked."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        super().__init__(directory, keys=50)
        self.session = session
        self.checkpoint = directory / "checkpoint"
        self.sunk: list[int] = []
        self.takes_s = 0.0
        self.goes_on = threading.Event()
        self.goes_on.set()

    def start(self) -> StreamingQuery:
        def sink(batch: DataFrame, epoch: int) -> None:
            batch.collect()
            time.sleep(self.takes_s)
            assert self.goes_on.wait(PATIENCE_S)
            self.sunk.append(epoch)

        writer = self.counted(self.session).writeStream.outputMode("update").foreachBatch(sink)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def wait_for_an_epoch(self) -> None:
        known = len(self.sunk)
        wait_until(lambda: len(self.sunk) > known)

    def entries(self, log: str) -> list[int]:
        names = (path.name for path in (self.checkpoint / log).iterdir())
        return sorted(int(name) for name in names if name.isdecimal())

    def total(self) -> int:
        rows = Checkpoint(self.checkpoint).state(0).to_pylist()
        return sum(row["value"]["count"] for row in rows)


def test_no_epoch_is_left_planned_by_a_stop_at_any_moment(
    session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    draw = Random(SEED)
    counting = Counting(session, tmp_path)
    counting.add(FILES)
    # So that it is stopped many times before all input is processed.
    counting.takes_s = 0.3
    stops: list[int | None] = []
    total = 0
    while total < FILES * ROWS:
        query = counting.start()
        if len(stops) % 3 < 2:
            time.sleep(draw.choice((0.0, draw.uniform(0.0, 2.0))))
        else:
            # A slow machine may run no epoch between starts.
            counting.wait_for_an_epoch()
        last = cleancut.stop(query)
        assert not query.isActive
        assert query.exception() is None
        stops.append(last)
        if last is None:
            continue
        assert counting.entries("offsets")[-1] == counting.entries("commits")[-1] == last
        # If files were planned at the stop, the next epoch reads the first of them, too.
        assert counting.total() >= max(total, (last + 1) * ROWS)
        total = counting.total()
        # No epoch ran twice, as an interrupted one does.
        assert counting.sunk == list(range(last + 1))
    assert total == FILES * ROWS
    show(f"seed {SEED}, stopped after {stops}")
    assert len(set(stops)) > 2


def test_an_epoch_that_the_start_of_a_run_plans_is_run_before_it_ends(
    session: SparkSession, tmp_path: Path
) -> None:
    """As after a run without an end marker, which may still plan an epoch."""
    counting = Counting(session, tmp_path)
    counting.add(1)
    query = counting.start()
    query.processAllAvailable()
    last = cleancut.stop(query)
    assert last is not None
    for _ in range(STARTS):
        for end in (counting.checkpoint / "cleancut" / "owners").glob("*.ended"):
            end.unlink()
        planned = last + 1
        last = cleancut.stop(counting.start())
        assert last is not None
        assert counting.entries("offsets")[-1] == counting.entries("commits")[-1] == last
        assert last in (planned - 1, planned)
    assert last > 0, "no run has planned an epoch"


def test_a_stop_does_not_interrupt_a_long_epoch(session: SparkSession, tmp_path: Path) -> None:
    counting = Counting(session, tmp_path)
    counting.add(3)
    counting.goes_on.clear()
    query = counting.start()
    try:
        while not counting.checkpoint.exists() or not (counting.checkpoint / "offsets/0").exists():
            time.sleep(0.05)
        with pytest.raises(TimeoutError, match=r"takes longer than 0\.2 s"):
            cleancut.stop(query, timeout=0.2)
        counting.goes_on.set()
        query.processAllAvailable()
        assert counting.sunk == [0, 1, 2]
        # The query is idle, and its last state gets a savepoint.
        assert cleancut.stop(query, savepoint="over", timeout=PATIENCE_S) == 2
    finally:
        query.stop()
    savepoint = Checkpoint(counting.checkpoint).savepoints()[0]
    assert (savepoint.name, savepoint.epoch) == ("over", 2)
    again = counting.start()
    counting.add()
    again.processAllAvailable()
    with pytest.raises(RequestError, match="CLEANCUT_SAVEPOINT_INVALID"):
        cleancut.stop(again, savepoint="no name")
    assert not again.isActive
    assert cleancut.stop(again) == 3


def test_the_documented_stop_runs(session: SparkSession, tmp_path: Path) -> None:
    counting = Counting(session, tmp_path)
    counting.add(2)
    query = counting.start()
    query.processAllAvailable()
    names: dict[str, object] = {"query": query}
    exec(blocks("docs/operate/recovery.md", "python")[0], names)
    assert names["last"] == 1
    assert [savepoint.name for savepoint in Checkpoint(counting.checkpoint).savepoints()] == [
        "before-release"
    ]
