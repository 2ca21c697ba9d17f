"""Offline operations on a query whose sources have names."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.file_epochs import PLACES, session_of, write_file
from tests.support.lines import NAMED_SOURCES

pytestmark = [pytest.mark.spark, NAMED_SOURCES.needed]

NAMES = ("b", "a")
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
}


class NamedQuery:
    """Counts rows by key from several sources, one file of each per epoch."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.session = session_of(spark, PLACES["cuts"] | SETTINGS)
        self.home = home
        self.checkpoint = str(home / "checkpoint")
        self.written: Counter[int] = Counter()
        self.files = 0

    def add(self, *names: str) -> None:
        for name in names:
            (self.home / name).mkdir(exist_ok=True)
            rows = [{"k": (self.files + at) % 7} for at in range(10)]
            write_file(self.home / name / f"{self.files:03}.json", rows, self.files)
            self.written.update(row["k"] for row in rows)
            self.files += 1

    def counts(self, *names: str, named: bool = True) -> DataFrame:
        frames = []
        for name in names:
            (self.home / name).mkdir(exist_ok=True)
            reader = self.session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
            reader = reader.name(name) if named else reader
            frames.append(reader.json(str(self.home / name)))
        all_rows = frames[0]
        for frame in frames[1:]:
            all_rows = all_rows.unionByName(frame)
        return all_rows.groupBy("k").count()

    def run(self, *names: str, checkpoint: str | None = None) -> Counter[int]:
        location = checkpoint or self.checkpoint
        writer = self.counts(*names).writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", location).trigger(availableNow=True)
        writer.start().awaitTermination()
        return state_of(location)


def state_of(location: str) -> Counter[int]:
    rows = Checkpoint(location).state(0).to_pylist()
    return Counter({row["key"]["k"]: row["value"]["count"] for row in rows})


def test_each_operation_finds_sources_by_name(spark: SparkSession, tmp_path: Path) -> None:
    it = NamedQuery(spark, tmp_path)
    it.add(*NAMES, *NAMES)
    assert it.run(*NAMES) == it.written
    report = cleancut.check_compatibility(it.checkpoint, it.counts(*NAMES), output_mode="update")
    assert report, str(report)
    # In another order, without one source, and with a new one.
    changed = cleancut.check_compatibility(it.checkpoint, it.counts("c", "b"), output_mode="update")
    assert changed, str(changed)
    assert "no offsets of source 'c'" in str(changed)
    assert "offsets of source 'a'" in str(changed)
    clone, migrated = str(tmp_path / "clone"), str(tmp_path / "migrated")
    cleancut.clone(it.checkpoint, clone, 0).apply()
    # The logs of sources end with the epoch, so that later files are read one by one.
    for name in NAMES:
        assert [entry.name for entry in (Path(clone) / "sources" / name).glob("[0-9]*")] == ["0"]
    assert it.run(*reversed(NAMES), checkpoint=clone) == it.written
    cleancut.migrate(it.checkpoint, migrated, it.counts(*NAMES), {}, "update").apply()
    it.add("a")
    assert it.run("a", "b", checkpoint=migrated) == it.written
    cleancut.rollback(it.checkpoint, 0).apply()
    assert it.run(*NAMES) == it.written
    (tmp_path / "a/003.json").unlink()
    with pytest.raises(RequestError, match="1 of the 3 input files"):
        cleancut.rollback(it.checkpoint, 0).apply()
    assert Checkpoint(it.checkpoint).verify().ok
    (Path(it.checkpoint) / "sources/a/1").unlink()
    damaged = Checkpoint(it.checkpoint).verify()
    assert "sources/a/1" in str(damaged)
    assert not damaged.ok


def test_a_state_is_bootstrapped_for_named_sources(spark: SparkSession, tmp_path: Path) -> None:
    it = NamedQuery(spark, tmp_path)
    it.add(*NAMES)
    rows = it.session.sql("select struct(3 as k) as key, struct(100L as count) as value")
    cleancut.bootstrap(it.checkpoint, it.counts(*NAMES), {0: rows}, "update", cuts=True).apply()
    assert it.run(*NAMES) == it.written + Counter({3: 100})
