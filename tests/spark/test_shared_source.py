"""Queries whose plan reads one source in two places, as a self-join does.

Spark records an offset for each place, and has one log for the source. Verified against the answer
of a batch: rows after each operation, and that `verify` reports nothing.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from tests.support.lines import NAMED_SOURCES
from tests.support.sessions import with_cuts
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

Build = Callable[[DataFrame, DataFrame], DataFrame]
# The forms of Spark's offset log: by place, and by source.
OFFSET_LOGS = ("1", "2") if NAMED_SOURCES.is_here else ("1",)
# The rows of a file of the first source and of the second one.
FIRST, SECOND = 24, 7


def join(first: DataFrame, _: DataFrame) -> DataFrame:
    left = first.where("v % 2 = 0").select("k", f.col("v").alias("l"))
    right = first.where("v % 3 = 0").select(f.col("k").alias("r"), "v")
    return left.join(right, f.expr("k = r"))


def union(first: DataFrame, second: DataFrame) -> DataFrame:
    sides = [first.where("v % 2 = 0"), first.where("v % 3 = 0"), second]
    named = [rows.withColumn("side", f.lit(at)) for at, rows in enumerate(sides)]
    return named[0].unionByName(named[1]).unionByName(named[2]).dropDuplicates(["k", "v", "side"])


class Query:
    """A query over two directories, and the rows that its sink received by epoch."""

    def __init__(self, session: SparkSession, home: Path, build: Build) -> None:
        self.session, self.build = session, build
        self.given: dict[int, list[tuple[object, ...]]] = {}
        self._inputs = [home / "first", home / "second"]
        for directory in self._inputs:
            directory.mkdir(parents=True)

    def add(self, number: int) -> None:
        """Adds a file to the first source, and to the second one at even numbers."""
        for directory, size in zip(self._inputs, (FIRST, SECOND), strict=True):
            if size == FIRST or number % 2 == 0:
                rows = (f'{{"k": {n % 5}, "v": {n + 100 * number}}}' for n in range(size))
                (directory / f"{number}.json").write_text("\n".join(rows), encoding="utf-8")

    def stream(self) -> DataFrame:
        """The query."""
        return self.build(
            *(
                self.session.readStream.schema("k int, v int")
                .option("maxFilesPerTrigger", 1)
                .json(str(directory))
                for directory in self._inputs
            )
        )

    def run(self, location: str) -> None:
        """Runs the query to the end of its input."""

        def take(rows: DataFrame, epoch: int) -> None:
            self.given[epoch] = [tuple(row) for row in rows.collect()]

        query = self.stream().writeStream.foreachBatch(take).trigger(availableNow=True)
        query.option("checkpointLocation", location).start().awaitTermination()

    def missing(self) -> Counter[tuple[object, ...]]:
        """The rows of the batch that are missing or, with a negative count, too many."""
        rows = self.build(
            *(self.session.read.schema("k int, v int").json(str(at)) for at in self._inputs)
        )
        difference = Counter(tuple(row) for row in rows.collect())
        difference.subtract(row for given in self.given.values() for row in given)
        return Counter({row: count for row, count in difference.items() if count})


BUILDS: dict[str, tuple[Build, int]] = {"join": (join, 1), "union": (union, 2)}
USUAL = {"union-1", "join-2"}


@pytest.mark.parametrize(
    ("build", "logs", "version"),
    usually(
        USUAL,
        [f"{name}-{version}" for name in BUILDS for version in OFFSET_LOGS],
        lambda name: (*BUILDS[name[:-2]], name[-1]),
    ),
)
def test_operations_run_on_a_query_that_reads_a_source_twice(
    spark: SparkSession,
    tmp_path: Path,
    build: Build,
    logs: int,
    version: str,
) -> None:
    session = with_cuts(spark, 2)
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    it = Query(session, tmp_path, build)
    location, clone, new = (str(tmp_path / name) for name in ("q", "clone", "new"))
    for number in range(3):
        it.add(number)
    it.run(location)
    assert len(list((tmp_path / "q" / "sources").iterdir())) == logs
    assert not it.missing()
    assert cleancut.check_compatibility(location, it.stream())
    assert Checkpoint(location).verify().problems == ()

    cleancut.rescale(location, 3, session=session).apply(session)
    it.add(3)
    it.run(location)
    assert not it.missing()

    cleancut.rollback(location, 1, session=session).apply(session)
    kept = {epoch: rows for epoch, rows in it.given.items() if epoch <= 1}
    it.given = dict(kept)
    it.run(location)
    assert not it.missing()

    # It reads again what its origin has read after the epoch.
    cleancut.clone(location, clone, 1, session=session).apply(session)
    it.given = kept
    it.run(clone)
    assert not it.missing()
    for checkpoint in (location, clone):
        assert Checkpoint(checkpoint).verify().problems == ()

    cleancut.bootstrap(new, it.stream(), {}, cuts=True).apply(session)
    it.given = {}
    it.run(new)
    assert not it.missing()


def test_a_lost_log_of_two_sources_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    session = with_cuts(spark, 2)
    it, location = Query(session, tmp_path, union), str(tmp_path / "q")
    for number in range(3):
        it.add(number)
    it.run(location)
    # The other log has as many entries.
    shutil.rmtree(tmp_path / "q" / "sources" / "1")
    with pytest.raises(RequestError, match=r"entry 2 of sources/1 is missing"):
        cleancut.rescale(location, 3, session=session)
    assert Checkpoint(location).verify().problems
