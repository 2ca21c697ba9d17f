"""Epochs of a query that are put together: their rows, in every format, before and after it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import DamagedError, RequestError
from cleancut.sinks import EpochFiles
from tests.support.file_queries import Query
from tests.support.queries import Operator
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.sink_places import Bucket, Disk, Place, credentials
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

EPOCHS = 6
ALL_TYPES = (
    "k", "v", "'0' || k as text", "k / 3 as fraction", "timestamp_millis(v) as at",
    "date(timestamp_millis(v)) as day", "if(k % 2 = 0, null, v) as gap", "k % 2 as odd",
)  # fmt: skip
STATELESS = Operator(lambda events: events().selectExpr(*ALL_TYPES), "append")


def rows(query: Query, sink: EpochFiles, epochs: Any = None) -> Counter[Any]:
    found = sink.read(query.spark, epochs, epoch_column="epoch")
    return Counter(map(repr, map(tuple, found.select(sorted(found.columns)).collect())))


def epochs(query: Query, sink: EpochFiles) -> dict[int, int]:
    return {info.epoch: info.rows for info in sink.epochs(query.spark)}


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started, credentials(spark):
        yield started


@pytest.fixture(params=["disk", pytest.param("bucket", marks=long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Disk(tmp_path / "sink")
    return Bucket(request.getfixturevalue("server").endpoint, f"lake/{tmp_path.name}/sink")


def data_files(place: Place) -> list[str]:
    return [name for name in place.sizes() if name.startswith(("_files/", "_parts/"))]


FORMATS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "parquet": ("parquet", {}),
    "partitions": ("parquet", {"partition_by": ["day", "odd"]}),
    "csv": ("csv", {"options": {"header": "true", "sep": "|"}}),
    "json": ("json", {}),
    "orc": ("orc", {"partition_by": "odd"}),
}


@pytest.mark.parametrize("name", usually({"partitions"}, of=FORMATS))
def test_rows_are_the_same_and_files_are_few(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    query = Query(spark, tmp_path, place, epochs=EPOCHS)
    spark = query.spark
    kind, options = FORMATS[name]
    sink = EpochFiles(place.location, kind, **options)
    query.run(sink, STATELESS)
    before, some = rows(query, sink), rows(query, sink, [1, 4])
    infos, many = epochs(query, sink), len(data_files(place))
    put = sink.compact(spark, keep=2)
    assert [info.epoch for info in put] == list(range(EPOCHS - 2))
    assert all(info.compacted and info.rows == 50 for info in put)
    assert (rows(query, sink), rows(query, sink, [1, 4])) == (before, some)
    assert epochs(query, sink) == infos
    # Old files stay for their readers, and go with a later call.
    assert len(data_files(place)) > many
    assert sink.compact(spark, keep=2) == []
    sink.compact(spark, keep=2, grace="0s")
    assert len(data_files(place)) <= many / 2
    assert (rows(query, sink), rows(query, sink, [1, 4])) == (before, some)
    # The query goes on, and what it wrote is not written again.
    query.add(EPOCHS)
    query.run(sink, STATELESS)
    assert epochs(query, sink) == infos | {EPOCHS: 50}
    assert not before - rows(query, sink)
    assert [info.epoch for info in sink.expire(keep=3, **_access(place))] == [0, 1, 2, 3]
    sink.compact(spark, keep=2, grace="0s")
    assert epochs(query, sink) == {4: 50, 5: 50, 6: 50}
    assert not rows(query, sink, [4, 5]) - before


def _access(place: Place) -> dict[str, str]:
    return (
        {
            "endpoint": place.settings["spark.sql.streaming.stateStore.cleancut.endpoint"],
            "region": "us-east-1",
        }
        if isinstance(place, Bucket)
        else {}
    )


def on_disk(spark: SparkSession, home: Path, *, cuts: bool = False) -> Query:
    return Query(spark, home, Disk(home / "sink"), cuts=cuts, epochs=EPOCHS)


def read_plainly(sink: EpochFiles) -> int:
    """How many rows other readers find."""
    return int(pyarrow.dataset.dataset(sink.paths()).count_rows())


@long
def test_a_rollback_into_what_was_put_together_and_its_undo(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = on_disk(spark, tmp_path, cuts=True)
    query.run()
    sink, checkpoint = query.sink, str(query.root / "checkpoint")
    whole = rows(query, sink)
    sink.compact(spark, keep=1, grace="0s")
    cleancut.rollback(checkpoint, 3).apply()
    query.add(EPOCHS)
    query.run()
    kept = [of for of in epochs(query, sink) if of < EPOCHS]
    assert kept == [0, 1, 2, 3]
    assert rows(query, sink, kept) == rows(query, sink, kept) & whole
    with pytest.raises(RequestError) as raised:
        sink.paths()
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MIXED"
    assert "0 to 3" in str(raised.value)
    assert "4" in str(raised.value)
    # Put together again, what counts lies apart from what does not.
    again = sink.compact(spark, keep=1, grace="0s")
    assert {0, 1, 2, 3} <= {info.epoch for info in again}
    assert read_plainly(sink) == sum(info.rows for info in sink.epochs(spark))
    assert query.last() == query.batch()
    cleancut.rollback(checkpoint, undo=True).apply()
    query.add(EPOCHS + 1)
    query.run()
    first = [of for of in epochs(query, sink) if of < EPOCHS]
    assert first == list(range(EPOCHS))
    assert rows(query, sink, first) == whole
    assert query.last() == query.batch()


@long
def test_large_epochs_keep_their_files(spark: SparkSession, tmp_path: Path) -> None:
    query = on_disk(spark, tmp_path)
    query.run()
    before, files = rows(query, query.sink), query.sink.paths()
    put = query.sink.compact(spark, keep=1, file_bytes=1)
    assert len(put) == EPOCHS - 1
    assert query.sink.paths() == files
    assert rows(query, query.sink) == before
    query.sink.compact(spark, keep=1, grace="0s")
    assert query.sink.paths() == files
    assert len(list((tmp_path / "sink/_epochs").iterdir())) == 1
    assert rows(query, query.sink) == before
    # What only some of them are asked for is in files of its own.
    assert query.sink.paths([2]) == [path for path in files if f"={2:020d}-" in path]


def test_what_has_no_room_for_its_epoch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = on_disk(spark, tmp_path)
    sink = EpochFiles(tmp_path / "text", "text")
    query.run(sink, Operator(lambda events: events().selectExpr("string(v) as value"), "append"))
    before = rows(query, sink)
    with pytest.raises(RequestError, match="text files with the columns value") as raised:
        sink.compact(spark, keep=1)
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    assert rows(query, sink) == before
    assert not (tmp_path / "text/_parts").exists()
    with pytest.raises(ValueError, match="keep is 0"):
        sink.compact(spark, keep=0)
    with pytest.raises(ValueError, match="file_bytes is 0"):
        sink.compact(spark, file_bytes=0)


def test_rows_that_are_lost_are_found_before_old_files_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A file that is not what it was, and that Spark reads all the same."""
    query = on_disk(spark, tmp_path)
    query.run()
    shorter = Path(query.sink.paths([2])[0].removeprefix("file:"))
    table = pyarrow.parquet.read_table(shorter)
    pyarrow.parquet.write_table(table.slice(1), shorter)
    Path(shorter.parent / f".{shorter.name}.crc").unlink(missing_ok=True)
    before = {path.name for path in (tmp_path / "sink").rglob("*")}
    wanted = {info.epoch: info.rows for info in query.sink.epochs(spark)}[2]
    with pytest.raises(DamagedError, match=rf"epoch 2: {wanted - 1} of {wanted}") as raised:
        query.sink.compact(spark, keep=1)
    assert raised.value.error_id == "CLEANCUT_SINK_DAMAGED"
    after = {path.name for path in (tmp_path / "sink").rglob("*") if path.is_file()}
    assert after <= before
