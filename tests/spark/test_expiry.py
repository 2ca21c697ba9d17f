"""A query continues after its old cuts expired, and from savepoints."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut.types import RestoreTestStatus
from tests.spark.test_replicas import SETTINGS
from tests.support.counted_files import CountedFiles
from tests.support.patience import PATIENCE_S
from tests.support.seeds import fixed

pytestmark = pytest.mark.spark

SEED = fixed(29)
FILES = 14
PINS = 3


class Counting(CountedFiles):
    """A count by key, whose sink records the last row of each key."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        super().__init__(directory, keys=50)
        self.session = spark.newSession()
        # Cuts are retained until they expire by command, and old ones reference other snapshots.
        for key, value in (SETTINGS | {"spark.sql.streaming.minBatchesToRetain": "100"}).items():
            self.session.conf.set(key, value)
        self.checkpoint = directory / "checkpoint"
        self.shown: dict[int, int] = {}
        self.epochs: list[int] = []

    def run(self, *, dies_at: int | None = None) -> None:
        """Processes all files, or fails in an epoch before its commit."""

        def sink(batch: DataFrame, epoch: int) -> None:
            self.shown |= {row["k"]: row["count"] for row in batch.collect()}
            self.epochs.append(epoch)
            if epoch == dies_at:
                raise ArithmeticError

        writer = self.counted(self.session).writeStream.outputMode("update").foreachBatch(sink)
        writer = writer.trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.awaitTermination()
        except Exception:
            assert dies_at == self.epochs[-1]

    def expected(self) -> dict[int, int]:
        """Returns the answer of a batch over all files."""
        rows = self.session.read.schema("k long").json(str(self.source)).groupBy("k").count()
        return {row["k"]: row["count"] for row in rows.collect()}

    def stored(self, **at: object) -> dict[int, int]:
        rows = Checkpoint(self.checkpoint).state(0, **at).to_pylist()  # type: ignore[arg-type]
        return {row["key"]["k"]: row["value"]["count"] for row in rows}


def when_over(there: Checkpoint) -> None:
    """Waits for the end marker of the run, which Spark's listener writes a little later."""
    end = time.monotonic() + PATIENCE_S
    while there.collect_garbage().owner is not None:
        assert time.monotonic() < end
        time.sleep(0.05)


def stored_bytes(location: Path) -> int:
    kinds = ("cuts", "savepoints", "segments", "pages", "stores")
    files = (path for kind in kinds for path in (location / "cleancut" / kind).rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file())


def test_a_query_continues_after_its_cuts_expired(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    draw = Random(SEED)
    counting = Counting(spark, tmp_path)
    counting.add(FILES)
    counting.run()
    there = Checkpoint(counting.checkpoint)
    epochs = [cut.epoch for cut in there.cuts()]
    pins = draw.sample(epochs[:-2], PINS)
    for epoch in pins:
        there.create_savepoint(f"of-{epoch}", epoch)
    states = {epoch: counting.stored(at=epoch) for epoch in epochs}
    keep = draw.randint(1, 4)
    when_over(there)
    before = stored_bytes(counting.checkpoint)
    plan = there.expire(retain_last=keep)
    done = plan.apply()
    assert len(there.cuts()) == keep
    assert done.epochs == plan.epochs == tuple(epochs[:-keep])
    assert done.segments > 0
    assert stored_bytes(counting.checkpoint) == before - plan.bytes == plan.bytes_left
    # The retained states are unchanged, byte for byte and row by row.
    assert there.verify().ok, str(there.verify())
    for epoch in epochs[-keep:]:
        assert counting.stored(at=epoch) == states[epoch]
    for epoch in pins:
        assert counting.stored(at=f"of-{epoch}") == states[epoch]
        there.test_restore(f"of-{epoch}")
    # An epoch fails after its sink, with only one earlier cut; it leaves orphans.
    there.expire(retain_last=1).apply()
    counting.add()
    counting.run(dies_at=epochs[-1] + 1)
    when_over(there)
    collected = there.collect_garbage().apply()
    assert collected.epochs == ()
    counting.add(2)
    counting.run()
    assert counting.epochs[FILES:] == [epochs[-1] + step for step in (1, 1, 2, 3)]
    assert counting.stored() == counting.shown == counting.expected()
    # A rollback to a savepoint whose epoch has no cut, and the same result from there.
    oldest = min(pins)
    cleancut.rollback(str(counting.checkpoint), f"of-{oldest}", session=counting.session).apply()
    assert counting.stored() == states[oldest]
    counting.run()
    assert counting.stored() == counting.shown == counting.expected()
    assert there.verify().ok, str(there.verify())
    show(f"seed {SEED}, {keep} of {len(epochs)} cuts kept, savepoints of {sorted(pins)}: {done}")


def test_an_expiry_is_refused_while_a_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    counting = Counting(spark, tmp_path)
    counting.add(3)
    writer = counting.counted(counting.session).writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(counting.checkpoint)).start()
    try:
        query.processAllAvailable()
        there = Checkpoint(counting.checkpoint)
        plan = there.expire(retain_last=1)
        assert plan.epochs
        with pytest.raises(RequestError, match=str(query.runId)):
            plan.apply()
        assert len(there.cuts()) == 3
        # `status` reports it to operators.
        proof = there.test_restore(1)
        there.replicate(tmp_path / "copy")
        counting.add()
        query.processAllAvailable()
        status = cleancut.coordinator(query).status()
        assert status.restore_test == RestoreTestStatus(1, proof.tested)
        (copy,) = status.replicas
        assert (copy.location, copy.epoch) == (str(tmp_path / "copy"), 2)
        assert copy.lag_epochs == 1
        assert copy.lag_ms is not None
        assert copy.lag_ms > 0
        history = cleancut.coordinator(query).history()
        assert [epoch.restore_tested for epoch in history] == [None, proof.tested, None, None]
    finally:
        query.stop()
    when_over(there)
    assert plan.apply().epochs == plan.epochs
    assert counting.stored() == counting.expected()
