"""`DeltaSink` by Delta's own connector: its contract, and tables that deltalake does not write.

`CLEANCUT_DELTA_JARS`, which `make spark42` sets, has the connector be there.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from cleancut import RequestError
from cleancut.sinks import DeltaSink, EpochSink
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._lakes.delta_spark import SparkDeltaTable
from cleancut.testing import SinkContract
from cleancut.testing._acted_query import ActedQuery
from tests.support.contracts import DIES, FOLLOWED, SEALED, briefly, in_a_block
from tests.support.lakes import OfDelta
from tests.support.refusals import refusal
from tests.support.sessions import DELTA_JARS
from tests.support.spark_sinks import needs_delta
from tests.support.tiers import long

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]


def by_spark(home: Path, **options: Any) -> DeltaSink:
    return OfDelta(home).sink(writer="spark", **options)


def table(spark: SparkSession, home: Path) -> DataFrame:
    """As its connector reads it, with all that a table may have."""
    return spark.read.format("delta").load(str(OfDelta(home).path))


class Contract(SinkContract):
    """Rows that are added; a rollback removes their files."""

    def make_sink(self, home: Path) -> DeltaSink:
        return by_spark(home)

    def read(self, home: Path) -> Iterable[Row]:
        if not OfDelta(home).exists():
            return []
        rows = table(self.session(), home).select("id", "word", "n").collect()
        return [tuple(row) for row in rows]


@long
@needs_delta
@pytest.mark.usefixtures("spark")
class TestRowsThatAreAdded(Contract):
    pass


@long
@needs_delta
@pytest.mark.usefixtures("spark")
class TestRowsByPartitions(Contract):
    def make_sink(self, home: Path) -> DeltaSink:
        return by_spark(home, partition_by=["n", "word"])


@long
@needs_delta
@pytest.mark.usefixtures("spark")
class TestRowsWithKeys(Contract):
    """Rows that are merged; a rollback restores the version before them."""

    keys = ("id",)

    def make_sink(self, home: Path) -> DeltaSink:
        return by_spark(home, keys="id")


@long
@needs_delta
@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
@pytest.mark.usefixtures("spark")
class TestRowsInABlock(Contract):
    pass


Give = Callable[[EpochSink, DataFrame, int], None]


@pytest.fixture
def query() -> ActedQuery:
    return ActedQuery()


@pytest.fixture
def give(query: ActedQuery) -> Give:
    """Has a sink take an epoch of a query that a test plays, each in a run of its own."""
    return lambda sink, rows, epoch: query.start().give(sink, rows, epoch)


@pytest.mark.skipif(bool(DELTA_JARS), reason="the connector is there")
def test_a_driver_without_the_connector_is_told_what_it_takes(
    spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    error = refusal(lambda: give(by_spark(tmp_path), spark.range(3), 0))
    assert isinstance(error, RequestError)
    assert error.error_id == "CLEANCUT_SINK_CONNECTOR_MISSING"
    for word in ("Spark 4.2", "--packages io.delta:delta-spark_4.2_2.13", "DeltaCatalog"):
        assert word in str(error)
    assert not OfDelta(tmp_path).path.exists()


# What a table has, by which of deltalake's writer it is refused, and how it is made.
COLUMNS = "id BIGINT, word STRING, n INT"
FEATURES = {
    "deletion vectors": (COLUMNS, "'delta.enableDeletionVectors' = 'true'"),
    "column mapping": (COLUMNS, "'delta.columnMapping.mode' = 'name'"),
    "row tracking": (COLUMNS, "'delta.enableRowTracking' = 'true'"),
    "a change data feed": (COLUMNS, "'delta.enableChangeDataFeed' = 'true'"),
    "constraints": (COLUMNS, "'delta.constraints.small' = 'n < 100'"),
    "generated columns": (f"{COLUMNS}, twice BIGINT GENERATED ALWAYS AS (id * 2)", ""),
    "identity columns": (f"{COLUMNS}, at BIGINT GENERATED ALWAYS AS IDENTITY", ""),
    "all of these": (
        f"{COLUMNS}, twice BIGINT GENERATED ALWAYS AS (id * 2)",
        "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'id',"
        " 'delta.enableRowTracking' = 'true', 'delta.constraints.small' = 'n < 100'",
    ),
}


def made(spark: SparkSession, home: Path, feature: str) -> None:
    columns, properties = FEATURES[feature]
    told = f"TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE delta.`{OfDelta(home).path}` ({columns}) USING delta {told}")


def of_epoch(spark: SparkSession, epoch: int) -> DataFrame:
    """Four rows, of which two have the keys of the epoch before."""
    first = 2 * epoch
    return spark.range(first, first + 4).selectExpr(
        "id", "concat('word ', id) AS word", f"int({epoch}) AS n"
    )


def expected(epochs: Iterable[int], *, keys: bool) -> list[Row]:
    rows = [(of, f"word {of}", epoch) for epoch in epochs for of in range(2 * epoch, 2 * epoch + 4)]
    return sorted({row[0]: row for row in rows}.values() if keys else rows)


def seen(spark: SparkSession, home: Path) -> list[Row]:
    return sorted(tuple(row) for row in table(spark, home).select("id", "word", "n").collect())


def went_back(query: ActedQuery, sink: EpochSink, spark: SparkSession, to: int) -> None:
    query.acts.append(Act(epoch=5, source=to))
    query.start().give(sink, of_epoch(spark, 6), 6)


@long
@needs_delta
@pytest.mark.parametrize("keys", ["", "id"], ids=["added", "with keys"])
@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_has_what_the_library_does_not_write(
    feature: str, keys: str, spark: SparkSession, tmp_path: Path, query: ActedQuery, give: Give
) -> None:
    made(spark, tmp_path, feature)
    with pytest.raises(RequestError, match="CLEANCUT_SINK_REFUSED"):
        give(OfDelta(tmp_path).sink(keys=keys or ()), of_epoch(spark, 0), 0)
    options: dict[str, Any] = {"keys": keys} if keys else {}
    if feature == "identity columns" and not keys:
        error = refusal(lambda: give(by_spark(tmp_path), of_epoch(spark, 0), 0))
        assert "identity columns" in str(error)
        return
    for epoch in range(3):
        give(by_spark(tmp_path, **options), of_epoch(spark, epoch), epoch)
        # As another run does, whose driver has died before it was told.
        give(by_spark(tmp_path, **options), of_epoch(spark, epoch), epoch)
        assert seen(spark, tmp_path) == expected(range(epoch + 1), keys=bool(keys))
    if "GENERATED ALWAYS AS (id" in FEATURES[feature][0]:
        assert table(spark, tmp_path).where("twice <> id * 2 OR twice IS NULL").count() == 0
    if "IDENTITY" in FEATURES[feature][0]:
        assert table(spark, tmp_path).select("at").distinct().count() == 8
    went_back(query, by_spark(tmp_path, **options), spark, to=0)
    assert seen(spark, tmp_path) == expected([0, 6], keys=bool(keys))
    give(by_spark(tmp_path, **options), of_epoch(spark, 7), 7)
    assert seen(spark, tmp_path) == expected([0, 6, 7], keys=bool(keys))
    listed = by_spark(tmp_path).epochs(query.query_id)
    assert [(of.epoch, of.rows) for of in listed] == [(0, 4), (6, 4), (7, 4)]


@long
@needs_delta
def test_rows_replace_and_delete_those_with_their_keys(
    spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    sink = by_spark(tmp_path, keys=["a", "b`c"], order_by="at", delete_when="gone")

    def epoch(number: int, *rows: tuple[int, str, int, str, bool | None]) -> None:
        schema = "a int, `b``c` string, at int, v string, gone boolean"
        give(sink, spark.createDataFrame(list(rows), schema), number)

    def there() -> list[Row]:
        found = table(spark, tmp_path).select("a", "`b``c`", "v").collect()
        return sorted(tuple(row) for row in found)

    epoch(0, (1, "x", 1, "one", False), (1, "y", 1, "two", None), (2, "x", 1, "three", False))
    assert there() == [(1, "x", "one"), (1, "y", "two"), (2, "x", "three")]
    epoch(
        1,
        (1, "x", 2, "four", False),
        (1, "x", 3, "", True),
        (1, "y", 1, "", True),
        (1, "y", 2, "five", False),
        (9, "z", 1, "", True),
        (3, "x", 1, "six", False),
    )
    assert there() == [(1, "y", "five"), (2, "x", "three"), (3, "x", "six")]
    # Of an epoch that only deletes what is not there, the table says that it has it.
    epoch(2, (7, "q", 1, "", True))
    epoch(2, (7, "q", 1, "", True))
    assert len(there()) == 3
    # Columns that a batch lacks are null.
    rows = spark.sql("SELECT 2 AS a, 'x' AS `b``c`, 9 AS at, false AS gone")
    give(by_spark(tmp_path, keys=["a", "b`c"], delete_when="gone"), rows, 3)
    assert there() == [(1, "y", "five"), (2, "x", None), (3, "x", "six")]
    left = [path for path in OfDelta(tmp_path).path.rglob("cleancut-*/*/*") if path.is_dir()]
    assert left == [], "what was staged is there still"


@long
@needs_delta
@pytest.mark.parametrize(
    ("keys", "sweeps"),
    [("", True), ("id", True), ("id", False)],
    ids=["added", "with keys", "with keys, and what it staged is there"],
)
def test_a_run_that_was_followed_commits_nothing_whatever_others_have_committed(
    keys: str,
    sweeps: bool,
    spark: SparkSession,
    tmp_path: Path,
    query: ActedQuery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others move the version between all that the two runs look at and do."""
    lake, options = OfDelta(tmp_path), {"keys": keys} if keys else {}
    others = iter(range(1000, 2000))

    def other() -> None:
        at = next(others)
        lake.append(pa.table({"id": [at], "word": ["other"], "n": pa.array([0], pa.int32())}))

    if not sweeps:
        # So that it is the table which refuses the older one.
        monkeypatch.setattr(DeltaSink, "sweep", lambda *_: None)
    query.start().give(by_spark(tmp_path, **options), of_epoch(spark, 0), 0)
    older, its_sink = query.start(), by_spark(tmp_path, **options)
    older.give(its_sink, of_epoch(spark, 1), 1)
    original = SparkDeltaTable.commit
    waits = [True]

    def late(self: Any, *arguments: Any) -> None:
        """The older one has looked; then the newer one does all of it, and goes on."""
        if waits:
            waits.clear()
            other()
            newer, sink = query.start(), by_spark(tmp_path, **options)
            newer.give(sink, of_epoch(spark, 2), 2)
            other()
            newer.give(sink, of_epoch(spark, 3), 3)
            other()
        original(self, *arguments)

    monkeypatch.setattr(SparkDeltaTable, "commit", late)
    error = refusal(lambda: older.give(its_sink, of_epoch(spark, 2), 2))
    assert error.error_id == "CLEANCUT_FENCED"
    mine = [row for row in seen(spark, tmp_path) if row[0] < 1000]
    assert mine == expected(range(4), keys=bool(keys))
    assert len(seen(spark, tmp_path)) == len(mine) + 3
    # And what others have committed is passed over by a run that begins.
    other()
    query.start().give(by_spark(tmp_path, **options), of_epoch(spark, 3), 3)
    assert [row for row in seen(spark, tmp_path) if row[0] < 1000] == mine


@long
@needs_delta
@pytest.mark.parametrize("keys", ["", "id"], ids=["added", "with keys"])
def test_a_query_goes_from_one_writer_to_the_other(
    keys: str, spark: SparkSession, tmp_path: Path, query: ActedQuery, give: Give
) -> None:
    options: dict[str, Any] = {"keys": keys} if keys else {}
    for epoch in range(6):
        for writer in ("spark", "deltalake") if epoch % 2 else ("deltalake", "spark"):
            give(OfDelta(tmp_path).sink(writer=writer, **options), of_epoch(spark, epoch), epoch)
        assert seen(spark, tmp_path) == expected(range(epoch + 1), keys=bool(keys))
    for writer in ("deltalake", "spark"):
        listed = OfDelta(tmp_path).sink(writer=writer).epochs(query.query_id)
        assert [of.epoch for of in listed] == [*range(6)]


@long
@needs_delta
def test_rows_that_the_table_does_not_take_are_refused_before_the_epoch_is_sealed(
    spark: SparkSession, tmp_path: Path, query: ActedQuery
) -> None:
    made(spark, tmp_path, "constraints")
    sealed: list[int] = []

    def give(rows: DataFrame, epoch: int) -> None:
        query.start().give(by_spark(tmp_path), rows, epoch, lambda: sealed.append(epoch))

    wrong = of_epoch(spark, 0).selectExpr("id", "word", "int(n + 100) AS n")
    error = refusal(lambda: give(wrong, 0))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "n < 100" in str(error)
    other = of_epoch(spark, 0).selectExpr("id", "n AS word")
    assert "word is int" in str(refusal(lambda: give(other, 0)))
    assert sealed == []
    assert seen(spark, tmp_path) == []


@long
@needs_delta
def test_a_table_that_is_changed_after_the_seal_takes_the_epoch_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = ActedQuery(keeps_seals=True)
    query.start().give(by_spark(tmp_path), of_epoch(spark, 0), 0)

    def change() -> None:
        spark.sql(
            f"ALTER TABLE delta.`{OfDelta(tmp_path).path}`"
            " SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )

    error = refusal(
        lambda: query.start().give(by_spark(tmp_path), of_epoch(spark, 1), 1, sealed=change)
    )
    assert error.error_id == "CLEANCUT_SINK_STAGED_LOST"
    assert seen(spark, tmp_path) == expected([0], keys=False)
    query.start().give(by_spark(tmp_path), of_epoch(spark, 1), 1)
    assert seen(spark, tmp_path) == expected([0, 1], keys=False)


@long
@needs_delta
@pytest.mark.parametrize("keys", ["", "id"], ids=["added", "with keys"])
def test_an_epoch_is_known_or_said_to_be_unknown_when_its_commit_is_deleted(
    keys: str, spark: SparkSession, tmp_path: Path, query: ActedQuery, give: Give
) -> None:
    lake, options = OfDelta(tmp_path), {"keys": keys} if keys else {}
    for epoch in range(2):
        give(by_spark(tmp_path, **options), of_epoch(spark, epoch), epoch)
    lake.append(pa.table({"id": [100], "word": ["other"], "n": pa.array([0], pa.int32())}))
    DeltaTable(lake.path).create_checkpoint()
    for log in sorted((lake.path / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    if keys:
        # MERGE has noted less.
        error = refusal(lambda: give(by_spark(tmp_path, **options), of_epoch(spark, 1), 1))
        assert error.error_id == "CLEANCUT_SINK_REFUSED"
        assert "with a new checkpoint" in str(error)
    else:
        give(by_spark(tmp_path), of_epoch(spark, 1), 1)
        give(by_spark(tmp_path), of_epoch(spark, 2), 2)
    mine = [row for row in seen(spark, tmp_path) if row[0] != 100]
    assert mine == expected(range(2 if keys else 3), keys=bool(keys))
