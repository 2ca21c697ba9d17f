"""Queries that write to a table, on each kind of state store, and rollbacks."""

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from cleancut import Checkpoint
from cleancut._format.cut.cut import read_cut
from cleancut._provider import PROVIDER_KEY
from cleancut.sinks import Batch, SqlSink
from cleancut.sinks._core.columns import prepared
from cleancut.sinks._core.lineage import normal
from cleancut.testing._simulated_query import SimulatedQuery
from tests.support.events import write_events
from tests.support.file_epochs import PLACES
from tests.support.queries import Events, Operator
from tests.support.refusals import refusal
from tests.support.sessions import CLEANCUT, start
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

EPOCHS = 3
ROWS = 50
COUNTS = Operator(lambda events: events().groupBy("k").agg(F.count("*").alias("n")), "update")


class Query:
    """A query over files, one per epoch, and a database."""

    def __init__(self, spark: SparkSession, home: Path, settings: dict[str, str]) -> None:
        self.spark = spark
        self.home = home
        self.root = home / "query"
        self.settings = settings
        write_events(home / "events", seed=5, files=range(EPOCHS), rows=ROWS)

    def sink(self, **options: Any) -> SqlSink:
        return SqlSink(f"sqlite:///{self.home}/db", "counts", **options)

    def run(self, sink: Callable[[DataFrame, int], None]) -> str:
        """Processes all files; returns the query ID."""
        query = start(
            self.spark,
            COUNTS,
            events=self.home / "events",
            root=self.root,
            sink=sink,
            settings=self.settings,
        )
        query.awaitTermination()
        return str(query.id)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.home / "db")) as database:
            return database.execute(sql).fetchall()

    def batch(self) -> dict[int, int]:
        rows = self.spark.read.schema("k int").json(str(self.home / "events"))
        return {row["k"]: row["count"] for row in rows.groupBy("k").count().collect()}


@pytest.mark.parametrize("place", usually({"cuts"}, names=PLACES))
def test_a_recorded_epoch_runs_again_and_is_not_written(
    place: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, PLACES[place])
    first = query.sink(keys="k")

    def failing(df: DataFrame, epoch: int) -> None:
        first(df, epoch)
        if epoch == 1:
            raise OSError("after the transaction")

    with pytest.raises(StreamingQueryException, match="after the transaction"):
        query.run(failing)
    before = query.rows("SELECT * FROM cleancut_epochs ORDER BY epoch")
    assert len(before) == 2
    sink = query.sink(keys="k")
    query_id = query.run(sink)
    after = sink.epochs(query_id)
    assert [published.epoch for published in after] == list(range(EPOCHS))
    assert query.rows("SELECT * FROM cleancut_epochs ORDER BY epoch")[:2] == before
    assert after[2].run_id != after[1].run_id
    assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()
    [(generation, owner)] = query.rows("SELECT generation, owner_generation FROM cleancut_runs")
    # Without generations in the checkpoint, only the ledger decides.
    assert (generation, owner) == (2, 2 if place.startswith("cuts") else 0)


def test_a_table_follows_a_rollback_or_refuses_it(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, PLACES["cuts"])
    query_id = query.run(query.sink(epoch_column="epoch"))
    assert query.rows("SELECT DISTINCT epoch FROM counts") == [(0,), (1,), (2,)]
    first = query.rows("SELECT * FROM counts ORDER BY epoch, k")
    location = str(tmp_path / "query/checkpoint")
    cleancut.rollback(location, 0, session=spark).apply()
    # A sink without an epoch column does not know the epochs of its rows.
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_UNDO_REFUSED") as refused:
        query.run(query.sink())
    assert "epoch 1 (" in str(refused.value)
    assert "epoch 2 (" in str(refused.value)
    assert query.rows("SELECT * FROM counts ORDER BY epoch, k") == first
    query.run(query.sink(epoch_column="epoch"))
    [kept, other] = [
        epoch for (epoch,) in query.rows("SELECT DISTINCT epoch FROM counts ORDER BY epoch")
    ]
    # All files of the undone epochs are read in one epoch with a new number.
    assert kept == 0
    assert other > EPOCHS
    last = dict(query.rows("SELECT k, n FROM counts ORDER BY epoch"))
    assert last == query.batch()
    [_, epoch] = query.sink().epochs(query_id)
    assert (epoch.epoch, epoch.incarnation > EPOCHS) == (other, True)
    # An undo would require deleted rows.
    cleancut.rollback(location, undo=True, session=spark).apply()
    write_events(tmp_path / "events", seed=5, files=range(EPOCHS, EPOCHS + 1), rows=ROWS)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_ROWS_MISSING") as refused:
        query.run(query.sink(epoch_column="epoch"))
    # As the error says.
    assert f"`cleancut rollback file:{location} --to-epoch 0 --apply`" in str(refused.value)
    cleancut.rollback(location, 0, session=spark).apply()
    query.run(query.sink(epoch_column="epoch"))
    assert dict(query.rows("SELECT k, n FROM counts ORDER BY epoch")) == query.batch()


@pytest.mark.parametrize("place", usually({"cuts", "rocksdb"}, names=PLACES))
def test_a_restored_table_is_written_after_a_rollback_of_the_query(
    place: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, PLACES[place])
    files = sorted((tmp_path / "events").iterdir())
    later = [file.rename(tmp_path / file.name) for file in files[1:]]
    query.run(query.sink(keys="k", keep_undo=9))
    shutil.copy(tmp_path / "db", tmp_path / "backup")
    for file in later:
        file.rename(tmp_path / "events" / file.name)
    query.run(query.sink(keys="k", keep_undo=9))
    assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()
    shutil.copy(tmp_path / "backup", tmp_path / "db")
    before = query.rows("SELECT * FROM counts ORDER BY k")
    write_events(tmp_path / "events", seed=5, files=range(EPOCHS, EPOCHS + 1), rows=ROWS)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_EPOCHS_LOST") as refused:
        query.run(query.sink(keys="k", keep_undo=9))
    assert "does not contain epochs 1 to 2 of the query" in str(refused.value)
    assert query.rows("SELECT * FROM counts ORDER BY k") == before
    location = str(tmp_path / "query/checkpoint")
    assert f"`cleancut rollback file:{location} --to-epoch 0 --apply`" in str(refused.value)
    cleancut.rollback(location, 0, session=spark).apply()
    query.run(query.sink(keys="k", keep_undo=9))
    assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()


def test_a_dropped_table_is_created_again_only_by_consent(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, PLACES["cuts"])
    query.run(query.sink(keys="k"))
    query.rows("DROP TABLE counts")
    write_events(tmp_path / "events", seed=5, files=range(EPOCHS, EPOCHS + 1), rows=ROWS)
    with pytest.raises(StreamingQueryException, match=r"accept_gap\(0, 2\)") as refused:
        query.run(query.sink(keys="k"))
    assert "CLEANCUT_SINK_EPOCHS_LOST" in str(refused.value)
    assert query.rows("SELECT name FROM sqlite_master WHERE name = 'counts'") == []
    # A new query would hide the loss from the query whose rows were in the table.
    other = Query(spark, tmp_path, PLACES["cuts"])
    other.root = tmp_path / "other"
    with pytest.raises(StreamingQueryException, match="its ledger has epochs of the queries"):
        other.run(other.sink(keys="k"))
    accepting = query.sink(keys="k")
    accepting.accept_gap(0, 2)
    query.run(accepting)
    batch = query.batch()
    assert all(batch[k] == n for k, n in query.rows("SELECT k, n FROM counts"))


@pytest.mark.parametrize(
    "dropped",
    [
        pytest.param(("counts",), id="table"),
        pytest.param(("cleancut_runs", "cleancut_epochs"), id="ledger"),
        pytest.param(("counts", "cleancut_runs", "cleancut_epochs"), id="both"),
    ],
)
def test_a_table_dropped_during_a_run_has_lost_epochs(
    dropped: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, PLACES["cuts"])
    sink = query.sink(keys="k", keep_undo=9)

    def dropping(df: DataFrame, epoch: int) -> None:
        if epoch == 2:
            for table in dropped:
                query.rows(f"DROP TABLE {table}")
        sink(df, epoch)

    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_EPOCHS_LOST") as refused:
        query.run(dropping)
    assert "does not contain epochs 0 to 1 of the query" in str(refused.value)
    if "counts" in dropped:
        assert query.rows("SELECT name FROM sqlite_master WHERE name = 'counts'") == []


def recorded(location: Path) -> dict[str, tuple[tuple[int, int], ...]]:
    """Returns the published epochs of sinks, by the record of a checkpoint."""
    cuts = sorted((location / "cleancut" / "cuts").glob("*.cut"))
    if cuts:
        return dict(read_cut(cuts[-1].read_bytes(), str(cuts[-1]), None).sinks)
    file = location / "cleancut" / "sinks.json"
    fields = json.loads(file.read_text()) if file.exists() else {"sinks": []}
    return {sink["name"]: tuple(map(tuple, sink["epochs"])) for sink in fields["sinks"]}


@pytest.mark.parametrize("place", usually({"cuts", "level-0"}, names=["cuts", "level-0"]))
def test_the_record_of_published_epochs_belongs_to_one_query(
    place: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, PLACES[place])
    query.run(query.sink(keys="k", keep_undo=9))
    checkpoint = tmp_path / "query/checkpoint"
    sink = "table main.counts"
    assert recorded(checkpoint) == {sink: ((0, 2),)}
    for cuts in (True, False):
        moved, other = tmp_path / f"moved-{cuts}", tmp_path / f"other-{cuts}"
        cleancut.clone(
            str(checkpoint), str(moved), 1, cuts=cuts, same_query=True, session=spark
        ).apply()
        assert recorded(moved) == {sink: ((0, 1),)}
        cleancut.clone(str(checkpoint), str(other), cuts=cuts, session=spark).apply()
        assert recorded(other) == {}
    cleancut.rollback(str(checkpoint), 0, session=spark).apply()
    query.run(query.sink(keys="k", keep_undo=9))
    after = recorded(checkpoint)
    [[first, (epoch, last)]] = after.values()
    assert first == (0, 0)
    assert epoch == last > EPOCHS
    cleancut.rescale(str(checkpoint), 4, session=spark).apply()
    assert recorded(checkpoint) == after


def test_a_query_converted_to_cuts_keeps_its_record(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, PLACES["level-0"])
    query.run(query.sink(keys="k"))
    write_events(tmp_path / "events", seed=5, files=range(EPOCHS, EPOCHS + 1), rows=ROWS)
    query.settings = PLACES["cuts"]
    query.run(query.sink(keys="k"))
    assert recorded(tmp_path / "query/checkpoint") == {"table main.counts": ((0, 3),)}


@pytest.mark.parametrize("cuts", [True, pytest.param(False, marks=long)])
def test_a_moved_query_continues_and_fences_its_former_checkpoint(
    cuts: bool, spark: SparkSession, tmp_path: Path
) -> None:
    query, files = Query(spark, tmp_path, PLACES["cuts"]), EPOCHS

    def run(sink: SqlSink | None = None) -> None:
        nonlocal files
        write_events(tmp_path / "events", seed=5, files=range(files, files + 1), rows=ROWS)
        files += 1
        query.run(sink or query.sink(keys="k", keep_undo=9))

    for _ in range(3):
        run()
    assert query.rows("SELECT owner_generation FROM cleancut_runs") == [(3,)]
    former, moved = tmp_path / "query", tmp_path / "moved"
    cleancut.clone(
        str(former / "checkpoint"),
        str(moved / "checkpoint"),
        cuts=cuts,
        same_query=True,
        session=spark,
    ).apply()
    query.root, query.settings = moved, PLACES["cuts" if cuts else "level-0"]
    for _ in range(2):
        run()
        assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()
    [(locations,)] = query.rows("SELECT checkpoint FROM cleancut_runs")
    assert json.loads(locations) == [f"file:{place}/checkpoint" for place in (former, moved)]
    query.root, query.settings = former, PLACES["cuts"]
    before = query.rows("SELECT * FROM counts ORDER BY k")
    with pytest.raises(StreamingQueryException, match="CLEANCUT_FENCED"):
        run()
    assert query.rows("SELECT * FROM counts ORDER BY k") == before
    # A manual copy records nothing.
    query.root, query.settings = tmp_path / "elsewhere", PLACES["cuts" if cuts else "level-0"]
    moved.rename(query.root)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_CHECKPOINT_UNKNOWN") as seen:
        run()
    assert f'`accept_move("file:{moved}/checkpoint")`' in str(seen.value)
    accepting = query.sink(keys="k", keep_undo=9)
    accepting.accept_move(f"file:{moved}/checkpoint")
    run(accepting)
    run()
    assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()


def migrated(query: Query, former: str, moved: str) -> None:
    """Writes a checkpoint for the same query, as for a changed one."""
    session = query.spark.newSession()
    for key, value in {PROVIDER_KEY: CLEANCUT, **query.settings}.items():
        session.conf.set(key, value)
    rows = COUNTS.build(Events(session, query.home / "events"))
    cleancut.migrate(former, moved, rows, None, "update").apply()


def replicated(query: Query, former: str, moved: str) -> None:
    """Copies the checkpoint with its last epoch, like an up-to-date replica."""
    Checkpoint(former).replicate(moved)


@long
@pytest.mark.parametrize("move", [migrated, replicated])
def test_a_migrated_query_and_a_replica_continue_and_fence_the_former_checkpoint(
    move: Callable[[Query, str, str], None], spark: SparkSession, tmp_path: Path
) -> None:
    query, files = Query(spark, tmp_path, PLACES["cuts"]), EPOCHS

    def run() -> None:
        nonlocal files
        write_events(tmp_path / "events", seed=5, files=range(files, files + 1), rows=ROWS)
        files += 1
        query.run(query.sink(keys="k", keep_undo=9))

    for _ in range(3):
        run()
    former, moved = tmp_path / "query", tmp_path / "moved"
    move(query, f"{former}/checkpoint", f"{moved}/checkpoint")
    query.root = moved
    for _ in range(2):
        run()
        assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()
    [(locations,)] = query.rows("SELECT checkpoint FROM cleancut_runs")
    assert [*map(normal, json.loads(locations))] == [
        f"{place}/checkpoint" for place in (former, moved)
    ]
    query.root = former
    before = query.rows("SELECT * FROM counts ORDER BY k")
    with pytest.raises(StreamingQueryException, match="CLEANCUT_FENCED"):
        run()
    assert query.rows("SELECT * FROM counts ORDER BY k") == before


@long
def test_a_replica_behind_its_target_continues_after_a_deletion(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It would plan other input for an epoch that the target has; the error names the remedy."""
    query, files = Query(spark, tmp_path, PLACES["cuts"]), EPOCHS

    def run() -> str:
        nonlocal files
        write_events(tmp_path / "events", seed=5, files=range(files, files + 1), rows=ROWS)
        files += 1
        return query.run(query.sink(epoch_column="epoch"))

    query_id = run()
    former, moved = tmp_path / "query", tmp_path / "moved"
    replicated(query, f"{former}/checkpoint", f"{moved}/checkpoint")
    run()
    run()
    before = query.rows("SELECT * FROM counts ORDER BY k, epoch")
    query.root = moved
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_EPOCH_CONFLICT") as refused:
        run()
    assert query.rows("SELECT * FROM counts ORDER BY k, epoch") == before
    said = re.search("Take back what the target has from epoch ([0-9]+) on", str(refused.value))
    assert said is not None
    first = int(said[1])
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as database, database:
        database.execute("DELETE FROM counts WHERE epoch >= ?", [first])
    assert query.sink(epoch_column="epoch").mark_unpublished(query_id, first - 1) == 2
    run()
    newest = query.rows("SELECT k, n FROM counts GROUP BY k HAVING epoch = max(epoch)")
    assert dict(newest) == query.batch()
    assert query.rows("SELECT k, epoch FROM counts GROUP BY k, epoch HAVING count(*) > 1") == []


class CrashingSink(SqlSink):
    """Its driver crashes between the publication of an epoch and the cut."""

    def publish(self, handle: str, batch: Batch) -> None:
        super().publish(handle, batch)
        raise OSError("the driver has died")


@long
@pytest.mark.parametrize("is_completed", [True, False], ids=["completed", "rolled back"])
def test_a_sink_is_replaced_after_its_sealed_epoch(
    is_completed: bool, spark: SparkSession, tmp_path: Path
) -> None:
    query, url = Query(spark, tmp_path, PLACES["cuts"]), f"sqlite:///{tmp_path}/db"
    query.run(query.sink(keys="k"))
    write_events(tmp_path / "events", seed=5, files=range(EPOCHS, EPOCHS + 1), rows=ROWS)
    with pytest.raises(StreamingQueryException, match="the driver has died"):
        query.run(CrashingSink(url, "counts", keys="k"))
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_REPLACED") as refused:
        query.run(SqlSink(url, "others", keys="k"))
    assert query.rows("SELECT name FROM sqlite_master WHERE name = 'others'") == []
    said = re.search("`cleancut rollback ([^ ]+) --to-epoch ([0-9]+) --apply`", str(refused.value))
    assert said is not None
    if is_completed:
        query.run(query.sink(keys="k"))
        assert dict(query.rows("SELECT k, n FROM counts")) == query.batch()
    else:
        cleancut.rollback(said[1], int(said[2]), session=spark).apply()
    more = range(EPOCHS + 1, EPOCHS + 2)
    write_events(tmp_path / "events", seed=5, files=more, rows=ROWS)
    query.run(SqlSink(url, "others", keys="k"))
    counts, others = (
        dict(query.rows(f"SELECT k, n FROM {table}")) for table in ("counts", "others")
    )
    assert counts | others == query.batch()


def test_a_run_without_its_staged_rows_is_fenced_by_the_newer_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks fail because the staging table is gone, which no change of the query fixes."""
    played, url = SimulatedQuery(), f"sqlite:///{tmp_path}/db"
    older, sink = played.start(), SqlSink(url, "numbers")
    older.give(sink, spark.range(3), 0)

    def overtaken(columns: Any) -> Any:
        monkeypatch.undo()
        played.start().give(SqlSink(url, "numbers"), spark.range(3, 6), 1)
        return prepared(columns)

    # Between the creation of the staging table and the job that fills it.
    monkeypatch.setattr("cleancut.sinks._tables.table.prepared", overtaken)
    error = refusal(lambda: older.give(sink, spark.range(3, 6), 1))
    assert error.error_id == "CLEANCUT_FENCED"
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as database:
        assert sorted(database.execute("SELECT id FROM numbers")) == [
            (number,) for number in range(6)
        ]
