"""A new version of a query is prepared next to the running one, and takes over between two epochs.

Topology: a count by key over files, one per epoch, written by `EpochFiles`. Checked: the rows of
the batch answer, without a lost, duplicated or older row.
"""

import json
import socket
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut._query.metrics_server import DriverScan
from cleancut.sinks import EpochFiles
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

KEYS = 50
REFUSED = "CLEANCUT_OPERATION_REFUSED"


class Counts(CountedFiles):
    """The query, whose older version has run some epochs and ended."""

    def __init__(self, spark: SparkSession, home: Path, *, epochs: int = 3) -> None:
        super().__init__(home, keys=KEYS)
        self.session = with_cuts(spark, 2)
        self.home = home
        self.checkpoint = home / "checkpoint"
        self.sink = EpochFiles(home / "published")
        self.builds = 0
        if epochs:
            self.add(epochs)
            query = self.start()
            query.processAllAvailable()
            query.stop()

    def build(self) -> DataStreamWriter:
        self.builds += 1
        writer = self.counted(self.session).writeStream.outputMode("update")
        return writer.foreachBatch(self.sink).trigger(processingTime="50 milliseconds")

    def start(self) -> StreamingQuery:
        return self.build().option("checkpointLocation", str(self.checkpoint)).start()

    def successor(
        self, build: Callable[[], DataStreamWriter] | None = None
    ) -> cleancut.types.Successor:
        return cleancut.successor(build or self.build, str(self.checkpoint))

    def stored(self) -> dict[Path, int]:
        """Returns the files of the checkpoint, and everything next to it."""
        paths = [*self.checkpoint.rglob("*"), *self.home.iterdir()]
        return {
            path: path.stat().st_mtime_ns for path in paths if not path.is_dir()
        } | dict.fromkeys(self.home.iterdir(), 0)

    def check(self) -> None:
        """Compares the published rows with the batch answer."""
        rows = self.sink.read(self.session, epoch_column="epoch").orderBy("epoch").collect()
        counts: dict[int, list[int]] = {}
        for row in rows:
            counts.setdefault(row["k"], []).append(row["count"])
        for key, values in counts.items():
            assert values == sorted(set(values)), (key, values)
        keys = [(37 * file + i) % KEYS for file in range(self.files) for i in range(ROWS)]
        assert {key: values[-1] for key, values in counts.items()} == dict(Counter(keys))


def parked_roles(session: SparkSession) -> list[str]:
    """Returns the roles of the runs that wait to take over, from the metrics of the driver."""
    samples = DriverScan(session).scan()
    return [one.labels["role"] for one in samples if one.metric == "parked_timestamp_seconds"]


def test_a_successor_changes_nothing_until_it_takes_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    before = counts.stored()
    successor = counts.successor()
    assert counts.builds == 1
    begun = datetime.now(UTC).replace(microsecond=0)
    # The last epoch of the query is repeated on the clone.
    assert successor.prepare(epochs=1) == 1
    assert counts.builds == 3
    assert counts.stored() == before
    (parked,) = counts.session.streams.active
    status = cleancut.coordinator(parked).status()
    assert (status.run_id, status.committed, status.is_standby) == (None, 2, False)
    assert status.parked_since is not None
    assert begun <= status.parked_since <= datetime.now(UTC)
    assert parked_roles(counts.session) == ["successor"]
    counts.add(2)
    query = successor.take_over()
    assert query.runId == parked.runId
    assert parked_roles(counts.session) == []
    query.processAllAvailable()
    successor.close()
    assert query.isActive
    with pytest.raises(RuntimeError, match="has taken over"):
        successor.prepare()
    query.stop()
    assert [cut.epoch for cut in Checkpoint(counts.checkpoint).cuts()] == [0, 1, 2, 3, 4]
    counts.check()


def test_a_successor_that_gives_up_leaves_the_query_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    before = counts.stored()
    with counts.successor() as successor:
        assert successor.prepare(epochs=0) == 0
        (parked,) = counts.session.streams.active
    assert not parked.isActive
    assert parked.exception() is None
    assert counts.stored() == before
    # Neither the session nor the location is different for a usual start.
    counts.add()
    query = counts.start()
    query.processAllAvailable()
    query.stop()
    counts.check()


def test_an_incompatible_version_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    before = counts.stored()

    def summed() -> DataStreamWriter:
        rows: DataFrame = counts.session.readStream.schema("k long").json(str(counts.source))
        sums = rows.groupBy("k").agg(f.count("*").alias("count"), f.sum("k"))
        return sums.writeStream.outputMode("update").foreachBatch(counts.sink)

    with counts.successor(summed) as successor:
        with pytest.raises(RequestError, match="migrate") as refused:
            successor.prepare()
        assert refused.value.error_id == "CLEANCUT_QUERY_INCOMPATIBLE"
        with pytest.raises(RequestError, match="operator 0"):
            successor.take_over()
    assert counts.stored() == before
    assert not counts.session.streams.active
    counts.add()
    with counts.successor() as other:
        other.take_over().processAllAvailable()
        (query,) = counts.session.streams.active
    query.stop()
    counts.check()


def test_a_function_that_builds_no_query_prepares_none(spark: SparkSession, tmp_path: Path) -> None:
    counts = Counts(spark, tmp_path)
    before = counts.stored()

    def frame() -> Any:
        return counts.counted(counts.session)

    def broken() -> DataStreamWriter:
        raise ZeroDivisionError

    with pytest.raises(TypeError, match="must return a DataStreamWriter"):
        counts.successor(frame).prepare()
    with pytest.raises(ZeroDivisionError):
        counts.successor(broken).prepare()
    builds: list[int] = []

    def once() -> DataStreamWriter:
        builds.append(1 // (1 - len(builds)))
        return counts.build()

    with counts.successor(once) as successor, pytest.raises(ZeroDivisionError):
        successor.prepare()
    assert counts.stored() == before
    assert not counts.session.streams.active


def test_a_version_that_fails_is_found_on_the_clone(spark: SparkSession, tmp_path: Path) -> None:
    counts = Counts(spark, tmp_path)
    before = counts.stored()

    def failing() -> DataStreamWriter:
        fails = f.raise_error(f.concat(f.lit("no key "), f.col("k"))).cast("long")
        rows = counts.counted(counts.session).select(fails.alias("k"), "count")
        return rows.writeStream.outputMode("update").foreachBatch(counts.sink)

    with counts.successor(failing) as successor:
        with pytest.raises(StreamingQueryException, match=r"(?s)STREAM_FAILED.*no key"):
            successor.prepare()
        assert len(counts.session.streams.active) == 1
    assert counts.stored() == before
    counts.check()


def test_the_first_version_of_a_query_takes_over_from_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path, epochs=0)
    counts.add(2)
    with counts.successor() as successor:
        assert successor.prepare() == 0
        query = successor.take_over()
    query.processAllAvailable()
    query.stop()
    counts.check()


def test_a_query_without_owner_or_of_this_driver_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    query = counts.start()
    query.processAllAvailable()
    with pytest.raises(RequestError, match="runs in this driver") as refused:
        counts.successor().prepare()
    assert refused.value.error_id == REFUSED
    query.stop()
    counts.session = spark.newSession()
    with pytest.raises(RequestError, match="not committed by cuts"):
        cleancut.successor(counts.build, str(tmp_path / "other")).prepare()


def test_a_standby_waits_for_the_death_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    counts = Counts(spark, tmp_path)
    owner = {"generation": 2, "queryId": None, "runId": "other", "startedMs": 0, "token": "t"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        note = owner | {"host": socket.gethostname(), "address": f"127.0.0.1:{port}"}
        (counts.checkpoint / f"cleancut/owners/{2:020}.json").write_text(json.dumps(note))
        with counts.successor() as successor:
            with pytest.raises(TimeoutError, match="has had a driver"):
                successor.stand_by(timeout=0.1)
            server.close()
            counts.add()
            query = successor.stand_by()
            with pytest.raises(RuntimeError, match="has taken over"):
                successor.stand_by()
    query.processAllAvailable()
    query.stop()
    counts.check()
    assert Checkpoint(counts.checkpoint).cuts()[-1].generation == 3


def test_a_standby_takes_over_from_a_driver_that_is_silent(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    note = {"generation": 2, "queryId": None, "runId": "other", "host": "another host"}
    path = counts.checkpoint / f"cleancut/owners/{2:020}.json"
    path.write_text(json.dumps(note | {"startedMs": 0, "token": "t"}))
    with cleancut.successor(counts.build, str(counts.checkpoint), handover_timeout=0.0) as standby:
        with pytest.raises(TimeoutError):
            standby.stand_by(timeout=0.1)
        query = standby.stand_by(silence=0.5)
    query.stop()
    counts.check()


def test_a_standby_takes_over_a_query_that_has_been_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = Counts(spark, tmp_path)
    counts.add()
    with counts.successor() as standby:
        query = standby.stand_by()
    query.processAllAvailable()
    query.stop()
    counts.check()
    assert [cut.generation for cut in Checkpoint(counts.checkpoint).cuts()] == [1, 1, 1, 2]
