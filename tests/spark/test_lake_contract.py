"""The contract of sinks, for tables of Delta Lake and Iceberg."""

import shutil
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cleancut.errors import RequestError
from cleancut.sinks import DeltaSink, IcebergSink
from cleancut.sinks._core.query_side import Operation
from cleancut.testing import SinkContract
from cleancut.testing._simulated_query import SimulatedQuery
from tests.support.contracts import (
    DIES,
    FOLLOWED,
    GONE,
    GONE_SEALED,
    LOST,
    MOVED,
    SEALED,
    briefly,
    in_a_block,
)
from tests.support.lakes import LAKES, OfDelta, OfIceberg, lake_at
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

Row = tuple[Any, ...]
SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("n", pa.int32())])


def tuples_of(rows: list[dict[str, Any]]) -> list[Row]:
    return [(row["id"], row["word"], row["n"]) for row in rows]


class DeltaContract(SinkContract):
    """Appends rows; a rollback removes their files."""

    def make_sink(self, home: Path) -> DeltaSink:
        return OfDelta(home).sink()

    def read(self, home: Path) -> Iterable[Row]:
        return tuples_of(OfDelta(home).rows())


@briefly(LOST, GONE, GONE_SEALED, MOVED)
class TestDeltaSinkThatWasLost(DeltaContract):
    pass


@long
class TestDeltaSink(DeltaContract):
    pass


@long
class TestDeltaSinkWithKeys(DeltaContract):
    """Merges rows; a rollback restores the version before them."""

    keys = ("id",)

    def make_sink(self, home: Path) -> DeltaSink:
        return OfDelta(home).sink(keys="id")


@long
class TestDeltaSinkByPartitions(DeltaContract):
    def make_sink(self, home: Path) -> DeltaSink:
        return OfDelta(home).sink(partition_by=["n", "word"])


@long
@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
class TestDeltaSinkInABlock(DeltaContract):
    pass


class IcebergContract(SinkContract):
    """Appends rows; a rollback removes their files."""

    def lake(self, home: Path) -> OfIceberg:
        return OfIceberg(home)

    def make_sink(self, home: Path) -> IcebergSink:
        return self.lake(home).sink()

    def read(self, home: Path) -> Iterable[Row]:
        return tuples_of(self.lake(home).rows())

    def restore(self, home: Path, saved: Path) -> None:
        """Restores the file of the catalog in place, because the sink keeps a connection to it."""
        if (saved / "warehouse").exists():
            shutil.rmtree(home / "warehouse")
            shutil.copytree(saved / "warehouse", home / "warehouse")
        (home / "catalog.db").write_bytes((saved / "catalog.db").read_bytes())

    def drop(self, home: Path) -> None:
        self.lake(home).catalog().drop_table(OfIceberg.NAME)
        shutil.rmtree(home / "warehouse/shop/rows", ignore_errors=True)


@long
class TestIcebergSink(IcebergContract):
    pass


@long
class TestIcebergSinkWithKeys(IcebergContract):
    """Merges rows; a rollback restores the files before them."""

    keys = ("id",)

    def make_sink(self, home: Path) -> IcebergSink:
        return OfIceberg(home).sink(keys="id")


@long
@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
class TestIcebergSinkInABlock(IcebergContract):
    pass


@briefly(DIES, LOST, GONE, MOVED)
class TestIcebergSinkBriefly(IcebergContract):
    crashes = 2


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server.endpoint


@long
class TestDeltaSinkInABucket(SinkContract):
    """Commits are conditional writes in a bucket."""

    endpoint: str

    @pytest.fixture(autouse=True)
    def given_bucket(self, bucket: str) -> None:
        self.endpoint = bucket

    def options(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "access",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def make_sink(self, home: Path) -> DeltaSink:
        return DeltaSink(f"s3://{S3Server.BUCKET}/{home.name}", storage_options=self.options())

    def read(self, home: Path) -> Iterable[Row]:
        place = f"s3://{S3Server.BUCKET}/{home.name}"
        if not DeltaTable.is_deltatable(place, self.options()):
            return []
        table = DeltaTable(place, storage_options=self.options())
        return tuples_of(pa.table(table.to_pyarrow_table()).to_pylist())


@long
class TestIcebergSinkInABucket(IcebergContract):
    """The table's files are in the bucket, and its catalog is on the disk."""

    endpoint: str

    @pytest.fixture(autouse=True)
    def given_bucket(self, bucket: str) -> None:
        self.endpoint = bucket

    def lake(self, home: Path) -> OfIceberg:
        lake = OfIceberg(home)
        lake.properties |= {
            "warehouse": f"s3://{S3Server.BUCKET}/iceberg/{home.name}",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "access",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }
        return lake


@pytest.mark.parametrize("kind", LAKES)
@pytest.mark.parametrize("keys", [pytest.param((), marks=long), ("id",)])
def test_a_table_restored_to_an_earlier_state_has_lost_epochs(
    kind: str, keys: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    """Its log still has the entries of later epochs, whose rows are no longer in the table."""
    lake, query = lake_at(kind, tmp_path), SimulatedQuery()

    def give(epoch: int, sink: Any = None) -> None:
        rows = spark.range(epoch, epoch + 1).selectExpr("id", "'w' AS word", "int(id) AS n")
        query.start().give(sink or lake.sink(keys=keys), rows, epoch)

    def ids() -> list[int]:
        return sorted(row["id"] for row in lake.rows())

    for epoch in (0, 1):
        give(epoch)
    state = lake.state()
    for epoch in (2, 3):
        give(epoch)
    lake.restore(state)
    assert ids() == [0, 1]
    with pytest.raises(RequestError, match="does not contain epochs 2 to 3 of") as refused:
        give(4)
    assert refused.value.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
    query.operations.append(Operation(epoch=5, source=1))
    give(6)
    assert ids() == [0, 1, 6]
    # Later commits of others, and a second loss.
    lake.append(pa.Table.from_pylist(lake.rows()[:1], schema=SCHEMA))
    state = lake.state()
    give(7)
    lake.restore(state)
    with pytest.raises(RequestError, match="does not contain epoch 7 of the query"):
        give(8)
    sink = lake.sink(keys=keys)
    sink.accept_gap(7, 7)
    give(8, sink)
    give(9)
    assert sorted(set(ids())) == [0, 1, 6, 8, 9]


def test_a_delta_table_restored_to_a_time_has_lost_epochs(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, query = OfDelta(tmp_path), SimulatedQuery()
    rows = spark.range(1).selectExpr("id", "'w' AS word", "int(id) AS n")
    query.start().give(lake.sink(), rows, 0)
    time.sleep(0.05)
    moment = datetime.now(UTC)
    time.sleep(0.05)
    query.start().give(lake.sink(), rows, 1)
    DeltaTable(lake.path).restore(moment)
    assert lake.count() == 1
    with pytest.raises(RequestError, match="does not contain epoch 1 of the query"):
        query.start().give(lake.sink(), rows, 2)
