"""`EpochFiles` in queries: repeated epochs, refusals, and readers."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.fs
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from cleancut import CorruptedError, FencedError, RequestError
from cleancut.errors import error_of
from cleancut.sinks import EpochFiles
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.query_side import RunningSide
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._files.publisher import Publisher
from tests.support.documented import blocks
from tests.support.events import write_closing
from tests.support.file_queries import EPOCHS, Query
from tests.support.queries import OPERATORS, Events, Operator
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.sink_places import (
    KEYS,
    Bucket,
    Disk,
    Place,
    attempts,
    credentials,
)
from tests.support.tiers import long

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started, credentials(spark):
        yield started


# The tests of a bucket cover the same code paths.
@pytest.fixture(params=["disk", pytest.param("bucket", marks=long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Disk(tmp_path / "sink")
    return Bucket(request.getfixturevalue("server").endpoint, f"lake/{tmp_path.name}/sink")


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, place: Place) -> Query:
    return Query(spark, tmp_path, place)


@pytest.fixture
def on_disk(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path, Disk(tmp_path / "sink"))


def failing(sink: EpochFiles, at: int) -> Callable[[DataFrame, int], None]:
    """A sink whose driver crashes after the publication, from Spark's point of view."""

    def write(df: DataFrame, epoch: int) -> None:
        sink(df, epoch)
        if epoch == at:
            raise OSError("after the manifest")

    return write


@pytest.mark.parametrize("place", [pytest.param("disk", marks=long), "bucket"], indirect=True)
@pytest.mark.parametrize(
    "cuts", [pytest.param(False, id="files", marks=long), pytest.param(True, id="cuts")]
)
def test_a_published_epoch_is_not_written_again(
    cuts: bool, spark: SparkSession, tmp_path: Path, place: Place
) -> None:
    query = Query(spark, tmp_path, place, cuts=cuts)
    spark = query.spark
    with pytest.raises(StreamingQueryException, match="after the manifest"):
        query.run(failing(query.sink, at=1))
    before = {info.epoch: info for info in query.sink.epochs(session=spark)}
    assert list(before) == [0, 1]
    # A new driver knows nothing of the other's writes.
    query.sink = EpochFiles(place.location)
    query.run()
    after = {info.epoch: info for info in query.sink.epochs(session=spark)}
    assert list(after) == list(range(EPOCHS))
    assert {epoch: after[epoch] for epoch in before} == before
    assert after[2].run_id != after[1].run_id
    assert len(attempts(query.place)) == EPOCHS
    # The epoch was not written again, but its state includes all of its rows.
    assert query.last() == query.batch()
    assert sum(info.rows for info in after.values()) == query.sink.read(spark).count()
    # If Spark lost an entry whose input it knows, the entry is the same again.
    if not cuts:
        query.delete_log_entries(EPOCHS - 1, "commits")
        query.run()
        assert list(query.sink.epochs(session=spark)) == list(after.values())


def test_a_query_with_an_older_offset_log_is_refused(query: Query) -> None:
    spark = query.spark
    query.run()
    before = list(query.sink.epochs(session=spark))
    query.delete_log_entries(EPOCHS - 1, "commits", "offsets", "sources/0")
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_EPOCH_CONFLICT") as raised:
        query.run()
    assert f"Epoch {EPOCHS - 1}" in str(raised.value)
    assert list(query.sink.epochs(session=spark)) == before
    # As the error says: without its manifest the epoch is unpublished, and the query writes it
    # again.
    query.place.delete(f"_epochs/{EPOCHS - 1:020d}.json")
    assert [info.epoch for info in query.sink.epochs(session=spark)] == list(range(EPOCHS - 1))
    query.run()
    assert len(attempts(query.place)) == EPOCHS
    assert query.last() == query.batch()


def test_another_query_is_refused_before_it_runs_a_task(query: Query) -> None:
    spark = query.spark
    query.run()
    before = list(query.sink.epochs(session=spark))
    shutil.rmtree(query.root)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_SINK_OWNER_MISMATCH") as raised:
        query.run()
    assert before[0].query_id in str(raised.value)
    assert list(query.sink.epochs(session=spark)) == before
    assert not list((query.root / "checkpoint/cleancut").glob("stores/**/*.delta"))


def test_a_fenced_driver_publishes_nothing(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = query.spark

    def fenced(side: RunningSide, output: str) -> None:
        epoch = side.batch.epoch
        raise error_of("CLEANCUT_FENCED", location="s3://b/q", owner="another", epoch=epoch)

    failures: list[Exception] = []

    def sink(df: DataFrame, epoch: int) -> None:
        try:
            query.sink(df, epoch)
        except Exception as failure:
            failures.append(failure)
            raise

    monkeypatch.setattr(RunningSide, "close", fenced)
    with pytest.raises(StreamingQueryException, match="CLEANCUT_FENCED"):
        query.run(sink)
    assert [type(failure) for failure in failures] == [FencedError]
    assert list(query.sink.epochs(session=spark)) == []
    assert {name.split("/")[0] for name in query.place.sizes()} == {"_files"}


def test_rows_outside_of_a_query_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as raised:
        EpochFiles(tmp_path / "sink")(spark.range(3).toDF("k"), 0)
    assert raised.value.error_id == "CLEANCUT_SEAL_BATCH_INVALID"
    assert not (tmp_path / "sink").exists()


@long
def test_a_batch_whose_rows_spark_sorts(query: Query) -> None:
    """Spark cannot read such a batch after it has cached it."""
    spark = query.spark
    query.run(operator=OPERATORS["aggregation-update"])
    rows = query.sink.read(spark, epoch_column="e").orderBy("e").collect()
    sorted_rows = {row["k"]: (row["n"], row["max(s)"]) for row in rows}
    events = spark.read.schema("k int, s string").json(str(query.home / "events"))
    wanted = events.groupBy("k").agg(F.count("*"), F.max("s")).collect()
    assert sorted_rows == {row["k"]: tuple(row)[1:] for row in wanted}
    # Its partitions are unchanged.
    assert query.sink.epochs(session=spark)[0].files == 3


def test_epochs_without_rows_are_published_without_files(query: Query) -> None:
    spark = query.spark
    write_closing(query.home / "events", EPOCHS)
    query.run(operator=OPERATORS["aggregation-append"])
    epochs = query.sink.epochs(session=spark)
    empty = [info for info in epochs if info.rows == 0]
    assert empty
    assert len(empty) < len(epochs)
    assert {(info.files, info.bytes) for info in empty} == {(0, 0)}
    assert len(attempts(query.place)) == len(epochs) - len(empty)
    columns = query.sink.read(spark).columns
    only_empty = query.sink.read(spark, [info.epoch for info in empty])
    assert (only_empty.columns, only_empty.count()) == (columns, 0)
    assert query.sink.read(spark).count() == sum(info.rows for info in epochs) > 0


def odd_place(place: Place) -> str:
    """A path with letters that have a special meaning in URIs, if the location allows them."""
    return place.location + (" {b}[c]*%41" if isinstance(place, Disk) else "%41-ä")


def test_partitions_options_and_added_columns(query: Query) -> None:
    """Names with each special letter of paths, and values that look like numbers."""
    spark = query.spark
    odd = "concat('0', k % 3, ' {a,b}[c]*?%41 é/\\\\:=#字')"

    def stateless(*columns: str) -> Operator:
        return Operator(lambda events: events().selectExpr(*columns), "append")

    sink = EpochFiles(
        odd_place(query.place),
        "csv",
        partition_by=["p", "v2"],
        options={"header": "true", "sep": "|"},
    )
    old = ("v", f"{odd} as p", "v % 2 as v2", "'x|' as `a.b`")
    query.run(sink, stateless(*old))
    query.add(EPOCHS)
    query.run(sink, stateless(*old[:3], "double(v) / 4 as `new``er`"))
    rows = sink.read(spark, epoch_column="epoch")
    assert rows.columns == ["v", "p", "v2", "new`er", "epoch", "a.b"]
    sources = spark.read.schema("k int, v int").json(str(query.home / "events"))
    number = F.regexp_extract(F.input_file_name(), "([0-9]+).json", 1).cast("long")
    wanted = sources.withColumn("epoch", number).selectExpr(
        *old[:3],
        f"if(epoch < {EPOCHS}, null, double(v) / 4)",
        "epoch",
        f"if(epoch < {EPOCHS}, 'x|', null)",
    )
    assert sorted(map(str, map(tuple, rows.collect()))) == sorted(
        map(str, map(tuple, wanted.collect()))
    )
    one = sink.read(spark, [1])
    assert one.columns == ["v", "p", "v2", "a.b"]
    assert one.count() == 50
    assert one.where("p like '01%'").count() == one.where("v2 >= 0 and p like '01%'").count() > 0


def test_missing_epochs_and_missing_files(query: Query) -> None:
    spark = query.spark
    with pytest.raises(RequestError) as raised:
        query.sink.read(spark)
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MISSING"
    assert list(query.sink.epochs(session=spark)) == []
    query.run()
    with pytest.raises(RequestError, match="7, 9") as raised:
        query.sink.read(spark, [9, 0, 7])
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MISSING"
    shown = str(query.sink.epochs(session=spark))
    assert "parquet" in shown
    lost = next(name for name in query.place.sizes() if f"={0:020d}-" in name)
    query.place.delete(lost)
    with pytest.raises(CorruptedError) as damaged:
        query.sink.read(spark)
    assert damaged.value.error_id == "CLEANCUT_SINK_CORRUPTED"
    assert lost.split("/")[-1] in str(damaged.value)
    assert query.sink.read(spark, [1, 2]).count() > 0
    # Without the manifests, Spark's own reader finds no file, and so no duplicate.
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        spark.read.parquet(query.place.location)


def test_a_file_system_without_create_if_absent_is_refused(on_disk: Query) -> None:
    """The view hides that the disk below it could create files atomically."""
    settings = {"fs.viewfs.mounttable.epochs.link./lake": f"file://{on_disk.home}"}
    with pytest.raises(StreamingQueryException, match="CLEANCUT_OBJECT_STORE_UNSAFE"):
        on_disk.run(EpochFiles("viewfs://epochs/lake/sink"), settings=settings)


def test_the_documented_sink(on_disk: Query, spark: SparkSession) -> None:
    writing, reading, keeping = (
        code.replace("/lake", f"{on_disk.home}/lake").replace(
            "/checkpoints", f"{on_disk.home}/ckpt"
        )
        for code in blocks("docs/use/sinks/files.md", "python")
    )
    events = Events(spark.newSession(), on_disk.home / "events")
    counts = events().groupBy(F.to_date("ts").alias("day"), "k").count()
    names: dict[str, Any] = {"counts": counts, "spark": spark, "EpochFiles": EpochFiles}
    exec(writing, names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    assert list((on_disk.home / "lake/counts").glob("_files/*/day=1970-01-01/part-*"))
    exec(reading, names)
    total = names["sink"].read(spark).where("k is not null")
    assert total.count() == sum(info.rows for info in names["sink"].epochs(session=spark)) > 0
    exec(keeping, names)
    assert total.count() == sum(info.rows for info in names["sink"].epochs(session=spark))


def test_the_second_of_two_runs_of_an_epoch_follows_the_first(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two concurrent drivers: each has found no manifest, and both have staged the epoch."""
    spark = query.spark
    publish = Publisher.publish
    batches: list[DataFrame] = []

    def sink(df: DataFrame, epoch: int) -> None:
        batches.append(df)
        query.sink(df, epoch)

    def late(self: Publisher, staged: Manifest, batch: Batch, expected: Expected) -> Manifest:
        other = Publisher(self._directory, self._output)
        other._has_published = self._has_published
        first = publish(other, other.stage(batches[-1], batch), batch, expected)
        assert publish(self, staged, batch, expected) == first != staged
        return first

    monkeypatch.setattr(Publisher, "publish", late)
    query.run(sink)
    assert [info.epoch for info in query.sink.epochs(session=spark)] == list(range(EPOCHS))
    assert query.last() == query.batch()
    assert len(attempts(query.place)) == EPOCHS


def test_plain_readers_find_the_files_of_published_epochs(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow and Spark's own reader, which do not read manifests."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "access" if name.endswith("ID") else "secret")
    endpoint = query.place.settings.get(f"{KEYS}s3.endpoint")
    sink = EpochFiles(query.place.location, partition_by="p")
    query.run(sink, Operator(lambda events: events().selectExpr("v", "k % 3 as p"), "append"))
    wanted = sorted((row["v"], row["p"]) for row in sink.read(query.spark).collect())
    paths = sink.paths(endpoint=endpoint)
    assert len(wanted) == 50 * EPOCHS
    records = dataset(paths, endpoint).to_table(columns=["v", "p"]).to_pylist()
    assert sorted((row["v"], row["p"]) for row in records) == wanted
    base = f"{query.place.location}/_files"
    rows = query.spark.read.option("basePath", base).parquet(*paths).select("v", "p").collect()
    assert sorted(map(tuple, rows)) == wanted
    assert sink.paths([1], endpoint=endpoint) == [p for p in paths if f"={1:020d}-" in p]
    # Files without a manifest belong to no epoch.
    query.place.delete(f"_epochs/{EPOCHS - 1:020d}.json")
    assert sink.paths(endpoint=endpoint) == sink.paths(range(EPOCHS - 1), endpoint=endpoint)


def dataset(paths: list[str], endpoint: str | None) -> Any:
    files = None
    if endpoint is not None:
        files = pyarrow.fs.S3FileSystem(
            endpoint_override=endpoint, access_key="access", secret_key="secret"
        )
        paths = [path.removeprefix("s3://") for path in paths]
    return pyarrow.dataset.dataset(paths, filesystem=files, partitioning="hive")


@long
def test_hidden_epochs_follow_a_rollback_and_its_undo(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, Disk(tmp_path / "sink"), cuts=True)
    query.run()
    first = sorted(query.sink.read(query.spark).collect())
    location = str(query.root / "checkpoint")
    cleancut.rollback(location, 0, session=query.spark).apply()
    assert [published.epoch for published in query.sink.hide_epochs(after=0)] == [1, 2]
    query.run()
    # All files of the hidden epochs are read in one epoch with a new number.
    one, other = query.sink.epochs(session=query.spark)
    assert (one.epoch, other.epoch > EPOCHS) == (0, True)
    assert query.last() == query.batch()
    # After the undo, the epoch in between is hidden, and the hidden ones are visible.
    cleancut.rollback(location, undo=True, session=query.spark).apply()
    assert [published.epoch for published in query.sink.hide_epochs(after=EPOCHS - 1)] == [
        other.epoch
    ]
    assert [published.epoch for published in query.sink.unhide_epochs(until=EPOCHS - 1)] == [1, 2]
    assert sorted(query.sink.read(query.spark).collect()) == first
    query.add(EPOCHS)
    query.run()
    assert query.last() == query.batch()
    # Hidden epochs are kept until they are deleted and the query runs again.
    assert len(attempts(query.place)) == 5
    assert query.sink.delete_hidden_epochs() == 1
    query.add(EPOCHS + 1)
    query.run()
    assert len(attempts(query.place)) == 5
    assert query.last() == query.batch()


def test_a_sink_follows_rollbacks_and_undos_automatically(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, Disk(tmp_path / "sink"), cuts=True)
    query.run()
    first = sorted(query.sink.read(query.spark, epochs=range(EPOCHS)).collect())
    location = str(query.root / "checkpoint")
    cleancut.rollback(location, 0, session=query.spark).apply()
    query.run()
    one, other = query.sink.epochs(session=query.spark)
    assert (one.epoch, other.epoch > EPOCHS) == (0, True)
    assert query.last() == query.batch()
    # After the undo and a restart, the epoch in between is hidden, and the hidden ones are visible.
    cleancut.rollback(location, undo=True, session=query.spark).apply()
    query.add(EPOCHS)
    query.run()
    epochs = [published.epoch for published in query.sink.epochs(session=query.spark)]
    assert epochs[:EPOCHS] == list(range(EPOCHS))
    assert len(epochs) == EPOCHS + 1
    assert epochs[-1] > other.epoch
    assert sorted(query.sink.read(query.spark, epochs=range(EPOCHS)).collect()) == first
    assert query.last() == query.batch()
    # A rollback to the epoch before the first operation, and to none after it.
    cleancut.rollback(location, 1, session=query.spark).apply()
    query.run()
    assert [published.epoch for published in query.sink.epochs(session=query.spark)][:2] == [0, 1]
    assert query.last() == query.batch()
