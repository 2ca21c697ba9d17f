"""`DeltaSink` and `IcebergSink`: types, partitions, keys, refusals, concurrent writers."""

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from cleancut import RequestError
from cleancut.sinks import DeltaSink, EpochSink
from cleancut.sinks._core.query_side import Operation
from cleancut.testing._simulated_query import SimulatedQuery
from tests.support.kills import environment
from tests.support.lakes import LAKES, Lake, OfDelta, OfIceberg, columns, lake_at
from tests.support.patience import PATIENCE_S
from tests.support.refusals import refusal
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

UTC = dt.UTC
# For each type: its column in Spark SQL, and the value that a reader returns.
TYPES: dict[str, tuple[str, Any]] = {
    "truth": ("true", True),
    "tiny": ("tinyint(-128)", -128),
    "small": ("smallint(32767)", 32767),
    "whole": ("int(-2147483648)", -2147483648),
    "large": ("bigint(9223372036854775807)", 9223372036854775807),
    "single": ("float(1.5)", 1.5),
    "double": ("double('-Infinity')", float("-inf")),
    "exact": (
        "cast('12345678901234567890.123456' as decimal(38,6))",
        Decimal("12345678901234567890.123456"),
    ),
    "words": ("'ä ''\"\\\\ \\t☃'", "ä '\"\\ \t☃"),
    "fixed": ("cast('ab' as varchar(5))", "ab"),
    "bytes": ("unhex('00FF')", b"\x00\xff"),
    "day": ("date'0001-01-01'", dt.date(1, 1, 1)),
    "moment": (
        "timestamp'2024-03-31 02:30:00.123456'",
        dt.datetime(2024, 3, 31, 2, 30, 0, 123456, UTC),
    ),
    "local": (
        "timestamp_ntz'1600-02-29 23:59:59.999999'",
        dt.datetime(1600, 2, 29, 23, 59, 59, 999999),
    ),
    "list": ("array(1, null, 3)", [1, None, 3]),
    "struct": (
        "named_struct('a', 1, 'b', array('x'), 'c', timestamp'2024-01-01 00:00:00')",
        {"a": 1, "b": ["x"], "c": dt.datetime(2024, 1, 1, tzinfo=UTC)},
    ),
    "map": ("map('k', date'2024-01-01')", [("k", dt.date(2024, 1, 1))]),
    'odd "%:`na.me': ("'x'", "x"),
}
REFUSED = {
    "nothing": "null",
    "calendar": "make_interval(1, 2, 3)",
    "lasting": "interval '1' day",
    "shape": "parse_json('1')",
    "inner": "array(make_interval(1))",
}


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_at(request.param, tmp_path)


Give = Callable[[EpochSink, DataFrame, int], None]


@pytest.fixture
def query() -> SimulatedQuery:
    return SimulatedQuery()


@pytest.fixture
def give(query: SimulatedQuery) -> Give:
    """Passes an epoch of a simulated query to a sink, each in a separate run."""
    return lambda sink, rows, epoch: query.start().give(sink, rows, epoch)


def refused(call: Callable[[], object], *words: str) -> None:
    error = refusal(call)
    assert error.error_id == "CLEANCUT_SINK_REFUSED", error
    for word in words:
        assert word in str(error)


def selected(spark: SparkSession, columns_by_name: dict[str, str]) -> DataFrame:
    quoted = (f"{sql} AS `{name.replace('`', '``')}`" for name, sql in columns_by_name.items())
    return spark.sql(f"SELECT {', '.join(quoted)}")


@pytest.mark.parametrize("lake", usually({"delta"}, names=LAKES), indirect=True)
def test_each_type_of_spark_round_trips(spark: SparkSession, lake: Lake, give: Give) -> None:
    session = spark.newSession()
    # In this zone a timestamp would be written wrongly if its local time were written.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = selected(session, {name: sql for name, (sql, _) in TYPES.items()})
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    nulls = rows.selectExpr(
        *(f"if(rand() > 2, `{name.replace('`', '``')}`, null)" for name in TYPES)
    ).toDF(*TYPES)
    give(lake.sink(), rows.unionByName(nulls), 0)
    written = sorted(lake.rows(), key=lambda row: row["truth"] is None)
    assert written[0] == {name: value for name, (_, value) in TYPES.items()}
    assert set(written[1].values()) == {None}


@pytest.mark.parametrize("lake", usually({"iceberg"}, names=LAKES), indirect=True)
def test_an_unsupported_type_is_refused_before_any_write(
    spark: SparkSession, lake: Lake, give: Give
) -> None:
    rows = selected(spark, {"id": "1", **REFUSED})
    refused(lambda: give(lake.sink(), rows, 0), *(f"{name} (" for name in REFUSED))
    assert not lake.exists()


@long
def test_partitions_are_kept_and_files_have_statistics(
    spark: SparkSession, lake: Lake, give: Give
) -> None:
    rows = spark.createDataFrame(
        [
            (at, f"a b/c=%{at % 2}" if at % 5 else None, dt.date(2024, 1, 1 + at % 3), f"w{at}")
            for at in range(60)
        ],
        "id long, place string, day date, word string",
    ).repartition(3)
    give(lake.sink(partition_by=["place", "day"]), rows, 0)
    give(lake.sink(), rows.withColumn("id", rows["id"] + 60), 1)
    assert columns(lake.rows(), "id") == [(at,) for at in range(120)]
    files = list(lake.files())
    assert len(files) >= 9
    for values, bounds in files:
        assert set(values) == {"place", "day"}
        low, high = bounds["id"]
        mine = [
            row["id"]
            for row in lake.rows()
            if low <= row["id"] <= high and values == {n: row[n] for n in values}
        ]
        assert mine, "the bounds of a file have none of its rows"
    assert {bound for _, bounds in files for bound in bounds["id"]} >= {0, 119}
    refused(lambda: give(lake.sink(partition_by="word"), rows, 2), "partitioned by place, day")


@long
def test_an_incompatible_table_is_refused_before_any_write(
    spark: SparkSession, lake: Lake, give: Give
) -> None:
    rows = spark.sql("SELECT 1L AS id, 'x' AS word")
    refused(lambda: give(lake.sink(create=False), rows, 0), "does not exist")
    assert not lake.exists()
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("word", pa.string()), ("more", pa.int32())]
    )
    lake.append(pa.table({"id": [0], "word": ["a"], "more": [1]}, schema=schema))
    refused(lambda: give(lake.sink(), spark.sql("SELECT 1L AS id, 2 AS other"), 0), "other")
    refused(lambda: give(lake.sink(), spark.sql("SELECT 1L AS id, 2 AS word"), 0), "word is int")
    refused(lambda: give(lake.sink(), spark.sql("SELECT 'x' AS word"), 0), "requires values", "id")
    assert len(lake.rows()) == 1
    # A column that the batch lacks is null; columns that refuse nulls are checked.
    give(lake.sink(), rows, 0)
    assert columns(lake.rows(), "id") == [(0,), (1,)]
    nulls = spark.sql("SELECT if(rand() > 2, 1L, null) AS id")
    with pytest.raises(Exception, match="accept no nulls: id"):
        give(lake.sink(), nulls, 1)
    assert len(lake.rows()) == 2


FEATURES = {
    "constraints": lambda path: DeltaTable(path).alter.add_constraint({"small": "id < 9"}),
    "change data feed": lambda path: DeltaTable(path).alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true"}
    ),
    "deletionVectors": lambda path: DeltaTable(path).alter.add_feature(
        _feature("DeletionVectors"), allow_protocol_versions_increase=True
    ),
    "columnMapping": lambda path: DeltaTable(path).alter.add_feature(
        _feature("ColumnMapping"), allow_protocol_versions_increase=True
    ),
    "identityColumns": lambda path: DeltaTable(path).alter.add_feature(
        _feature("IdentityColumns"), allow_protocol_versions_increase=True
    ),
}


def _feature(name: str) -> Any:
    from deltalake import TableFeatures

    return getattr(TableFeatures, name)


@long
@pytest.mark.parametrize("feature", FEATURES)
def test_a_delta_table_with_an_unsupported_feature_is_refused(
    feature: str, spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    lake = OfDelta(tmp_path)
    lake.append(pa.table({"id": pa.array([1], pa.int64())}))
    FEATURES[feature](lake.path)
    refused(lambda: give(lake.sink(), spark.range(3), 0), feature)
    files = [path for path in lake.path.rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(files) == 1


@pytest.mark.parametrize("kind", LAKES)
def test_a_missing_package_is_named_with_its_extra(
    kind: str, spark: SparkSession, tmp_path: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = lake_at(kind, tmp_path).sink()
    package = {"delta": "deltalake", "iceberg": "pyiceberg.catalog"}[kind]
    monkeypatch.setitem(sys.modules, package, None)
    error = refusal(lambda: give(sink, spark.range(3), 0))
    assert error.error_id == "CLEANCUT_DEPENDENCY_MISSING"
    assert f".whl[{kind}]" in str(error)


@long
def test_concurrent_commits_are_kept_and_no_row_is_duplicated(
    spark: SparkSession, lake: Lake, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They commit between the read of the table and the commit, twice in a row."""
    give(lake.sink(), spark.range(3), 0)
    sink: Any = lake.sink()
    others = iter([100, 101])
    original = type(sink)._commit

    def late(self: Any, *arguments: Any) -> None:
        other = next(others, None)
        if other is not None:
            lake.append(pa.table({"id": pa.array([other], pa.int64())}))
        original(self, *arguments)

    monkeypatch.setattr(type(sink), "_commit", late)
    give(sink, spark.range(3, 6), 1)
    assert columns(lake.rows(), "id") == [(number,) for number in (0, 1, 2, 3, 4, 5, 100, 101)]
    assert next(others, None) is None


def roll_back_and_give(query: SimulatedQuery, sink: EpochSink, spark: SparkSession) -> None:
    query.operations.append(Operation(epoch=5, source=0))
    query.start().give(sink, spark.range(10, 11), 6)


@long
def test_a_rollback_keeps_files_of_other_writers(
    spark: SparkSession, lake: Lake, query: SimulatedQuery, give: Give
) -> None:
    for epoch in range(3):
        give(lake.sink(), spark.range(epoch, epoch + 1), epoch)
        lake.append(pa.table({"id": pa.array([100 + epoch], pa.int64())}))
    roll_back_and_give(query, lake.sink(), spark)
    assert columns(lake.rows(), "id") == [(number,) for number in (0, 10, 100, 101, 102)]
    listed = lake.sink().epochs(query.query_id)
    assert [(epoch.epoch, epoch.incarnation, epoch.rows) for epoch in listed] == [
        (0, 0, 1),
        (6, 5, 1),
    ]


@long
def test_a_rollback_past_rewritten_rows_is_refused(
    spark: SparkSession, lake: Lake, query: SimulatedQuery, give: Give
) -> None:
    for epoch in range(3):
        give(lake.sink(), spark.range(epoch, epoch + 1), epoch)
    lake.rewrite()
    error = refusal(lambda: roll_back_and_give(query, lake.sink(), spark))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "rewritten" in str(error)
    assert "epoch 1 (1 rows), epoch 2 (1 rows)" in str(error)
    assert columns(lake.rows(), "id") == [(0,), (1,), (2,)]
    # The rows were deleted by hand, and the operator confirms it.
    assert lake.sink().mark_unpublished(query.query_id, after=0) == 2
    query.start().give(lake.sink(), spark.range(10, 11), 6)
    assert columns(lake.rows(), "id") == [(0,), (1,), (2,), (10,)]


@long
def test_a_rollback_of_merged_rows_with_another_writer_is_refused(
    spark: SparkSession, tmp_path: Path, query: SimulatedQuery, give: Give
) -> None:
    lake = OfDelta(tmp_path)
    for epoch in range(3):
        give(lake.sink(keys="id"), spark.range(epoch, epoch + 1), epoch)
    lake.append(pa.table({"id": pa.array([100], pa.int64())}))
    error = refusal(lambda: roll_back_and_give(query, lake.sink(keys="id"), spark))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "is not the query's" in str(error)
    assert columns(lake.rows(), "id") == [(0,), (1,), (2,), (100,)]


def test_rows_replace_and_delete_those_with_their_keys(
    spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    lake = OfDelta(tmp_path)
    sink = lake.sink(keys=["a", "b"], order_by="at", delete_when="gone", partition_by="part")

    def epoch(number: int, *rows: tuple[int, str, int, str, str | None, bool | None]) -> None:
        schema = "a int, b string, at int, v string, part string, gone boolean"
        give(sink, spark.createDataFrame(list(rows), schema), number)

    def table() -> list[tuple[Any, ...]]:
        return [row[:3] for row in columns(lake.rows(), "a", "b", "v", "part")]

    epoch(
        0,
        (1, "x", 1, "one", "p/q %", False),
        (1, "y", 1, "two", None, None),
        (2, "x", 1, "three", "r", False),
    )
    assert table() == [(1, "x", "one"), (1, "y", "two"), (2, "x", "three")]
    untouched = {
        action["add"]["path"]
        for action in added(lake)
        if action["add"]["partitionValues"]["part"] == "r"
    }
    # The last of several rows of a key counts: a deletion, or a row after one; one row moves to
    # another partition.
    epoch(
        1,
        (1, "x", 2, "four", "p/q %", False),
        (1, "x", 3, "", "", True),
        (1, "y", 1, "", "", True),
        (1, "y", 2, "five", "s", False),
        (9, "z", 1, "", "", True),
        (3, "x", 1, "six", "s", False),
    )
    assert table() == [(1, "y", "five"), (2, "x", "three"), (3, "x", "six")]
    paths = pa.table(DeltaTable(lake.path).get_add_actions(flatten=True))["path"].to_pylist()
    assert untouched <= set(paths), "a file was rewritten that has no such key"
    assert columns(lake.rows(), "a", "part") == [(1, "s"), (2, "r"), (3, "s")]
    left = [path.parent.name for path in lake.path.rglob("*/0000*/*/*.parquet")]
    assert left == [], "what was staged is there still"
    nulls = spark.sql("SELECT int(null) AS a, 'x' AS b, 'v' AS v, 'r' AS part")
    refused(lambda: give(lake.sink(keys=["a", "b"]), nulls, 2), "nulls in the keys")
    twice = spark.sql("SELECT 1 AS a, 'x' AS b, explode(array('v', 'w')) AS v, 'r' AS part")
    refused(lambda: give(lake.sink(keys=["a", "b"]), twice, 2), "1 keys are duplicated")
    assert len(table()) == 3


@long
def test_files_of_other_partitions_are_not_read_for_keys(
    spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    """The keys of each file of the table were read for the rows of one day."""
    lake = OfDelta(tmp_path)
    sink = lake.sink(keys=["day", "k"], partition_by="day")

    def epoch(number: int, rows_from: str, v: str) -> None:
        rows = spark.sql(
            f"SELECT date_add(date'2024-01-01', int(id)) AS day, 1 AS k, '{v}' AS v {rows_from}"
        )
        give(sink, rows, number)

    epoch(0, "FROM range(20) AS t(id)", "first")
    files = pa.table(DeltaTable(lake.path).get_add_actions(flatten=True)).to_pylist()
    other = [file["path"] for file in files if file["partition.day"] != dt.date(2024, 1, 3)]
    hidden = [lake.path / path for path in other]
    assert len(hidden) == 19
    for path in hidden:
        path.rename(path.with_suffix(".hidden"))
    epoch(1, "FROM (SELECT 2 AS id)", "second")
    for path in hidden:
        path.with_suffix(".hidden").rename(path)
    values = columns(lake.rows(), "day", "v")
    assert len(values) == 20
    assert [day for day, v in values if v == "second"] == [dt.date(2024, 1, 3)]


def test_rows_of_iceberg_replace_and_delete_those_with_their_keys(
    spark: SparkSession, tmp_path: Path, query: SimulatedQuery, give: Give
) -> None:
    lake = OfIceberg(tmp_path)
    options: dict[str, Any] = {"keys": ["a", "b"], "order_by": "at", "delete_when": "gone"}
    sink = lake.sink(**options, partition_by="part")

    def epoch(number: int, *rows: tuple[int, str, int, str, str, bool | None]) -> None:
        schema = "a int, b string, at int, v string, part string, gone boolean"
        give(sink, spark.createDataFrame(list(rows), schema), number)

    def table() -> list[tuple[Any, ...]]:
        return columns(lake.rows(), "a", "b", "v", "part")

    epoch(0, (1, "x", 1, "one", "p", False), (1, "y", 1, "two", "q", None))
    epoch(1, (2, "x", 1, "three", "r", False))
    first = table()
    assert first == [(1, "x", "one", "p"), (1, "y", "two", "q"), (2, "x", "three", "r")]
    untouched = next(path for path in paths_of(lake) if "part=r" in path)
    # The last of several rows of a key counts: a deletion, or a row after one; one row moves to
    # another partition.
    epoch(
        2,
        (1, "x", 2, "four", "p", False),
        (1, "x", 3, "", "", True),
        (1, "y", 1, "", "", True),
        (1, "y", 2, "five", "s", False),
        (9, "z", 1, "", "", True),
    )
    assert table() == [(1, "y", "five", "s"), (2, "x", "three", "r")]
    assert untouched in paths_of(lake), "a file was rewritten that has no such key"
    left = [path.parent.name for path in tmp_path.rglob("cleancut-*/0000*/*/*.parquet")]
    assert left == [], "what was staged is there still"
    query.operations.append(Operation(epoch=5, source=1))
    epoch(6, (2, "x", 9, "six", "r", False))
    assert table() == [*first[:2], (2, "x", "six", "r")]
    # A file of another writer.
    lake.append(lake.catalog().load_table(lake.NAME).scan().to_arrow().slice(0, 1))
    query.operations.append(Operation(epoch=8, source=1))
    error = refusal(lambda: epoch(9, (2, "x", 9, "nine", "r", False)))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "another writer" in str(error)


def paths_of(lake: OfIceberg) -> list[str]:
    table = lake.catalog().load_table(lake.NAME)
    return [str(path) for path in table.inspect.files()["file_path"].to_pylist()]


@long
@pytest.mark.parametrize("kind", LAKES)
def test_an_unmatched_row_is_rewritten_unchanged(
    kind: str, spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    """It is in one file with a replaced row, and has a value of each type."""
    lake = lake_at(kind, tmp_path)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = selected(session, {"id": "1", **{name: sql for name, (sql, _) in TYPES.items()}})
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    other = rows.withColumn("id", rows["id"] + 1)
    give(lake.sink(keys="id"), rows.unionByName(other).coalesce(1), 0)
    give(lake.sink(keys="id"), session.sql("SELECT 2 AS id"), 1)
    written = sorted(lake.rows(), key=lambda row: row["id"])
    assert written[0] == {"id": 1, **{name: value for name, (_, value) in TYPES.items()}}
    assert {value for name, value in written[1].items() if name != "id"} == {None}


def added(lake: OfDelta) -> list[dict[str, Any]]:
    """Returns the add actions in the log of a table."""
    logs = sorted((lake.path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [action for action in actions if "add" in action]


@long
def test_an_epoch_outlives_the_deletion_of_its_commit(
    spark: SparkSession, tmp_path: Path, query: SimulatedQuery, give: Give
) -> None:
    """Delta's log keeps commits for some time, and their transactions longer."""
    lake = OfDelta(tmp_path)
    for epoch in range(2):
        give(lake.sink(), spark.range(epoch, epoch + 1), epoch)
    lake.append(pa.table({"id": pa.array([100], pa.int64())}))
    DeltaTable(lake.path).create_checkpoint()
    for log in sorted((lake.path / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    give(lake.sink(), spark.range(1, 2), 1)
    give(lake.sink(), spark.range(2, 3), 2)
    assert columns(lake.rows(), "id") == [(0,), (1,), (2,), (100,)]
    error = refusal(lambda: roll_back_and_give(query, lake.sink(), spark))
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "only epochs from" in str(error)


@long
def test_an_epoch_outlives_the_expiry_of_its_snapshot(
    spark: SparkSession, tmp_path: Path, give: Give
) -> None:
    lake = OfIceberg(tmp_path)
    for epoch in range(3):
        give(lake.sink(), spark.range(epoch, epoch + 1), epoch)
    lake.append(pa.table({"id": pa.array([100], pa.int64())}))
    table = lake.catalog().load_table(lake.NAME)
    table.maintenance.expire_snapshots().older_than(dt.datetime.now() + dt.timedelta(1)).commit()
    assert len(lake.catalog().load_table(lake.NAME).metadata.snapshots) == 1
    give(lake.sink(), spark.range(2, 3), 2)
    give(lake.sink(), spark.range(3, 4), 3)
    assert columns(lake.rows(), "id") == [(0,), (1,), (2,), (3,), (100,)]


@long
def test_secrets_are_in_no_text(
    spark: SparkSession, give: Give, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_ACCESS_KEY_ID": "AKIAHUNTER",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "us-east-1",
        "allow_http": "true",
        "max_retries": "0",
    }
    sink = DeltaSink("s3://nowhere/rows", storage_options=options, retry_for_s=0.3)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # any error without secrets
        give(sink, spark.range(3), 0)
    assert getattr(raised.value, "error_id", "") == "CLEANCUT_SINK_UNREACHABLE"
    texts = [repr(sink), sink.name, str(raised.value), repr(raised.value), caplog.text]
    assert not [text for text in texts if "hunter2" in text or "AKIAHUNTER" in text]


def test_contradictory_arguments_are_refused() -> None:
    with pytest.raises(RequestError, match="require keys"):
        DeltaSink("/lake/rows", order_by="at")


@long
@pytest.mark.parametrize("kind", ["delta", "iceberg", "delta keys"])
def test_a_large_epoch_does_not_pass_through_the_driver(
    kind: str, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Its size is many times the limit of task results and the growth of the driver's memory."""
    rows, (name, _, keys) = 1_500_000, kind.partition(" ")
    command = [sys.executable, "-m", "tests.support.large_epoch", name, str(tmp_path)]
    ended = subprocess.run(
        [*command, str(rows), keys],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[:5000]
    grown = json.loads(ended.stdout.splitlines()[-1])["grownBytes"]
    lake = lake_at(name, tmp_path)
    written = sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    show(f"{kind}: {written >> 20} MB written, {grown >> 20} MB more in the driver's process")
    assert written > 100 << 20
    assert grown < 40 << 20
    files = list(lake.files())
    assert len(files) < 12, "the files are small"
    assert lake.count() == 500 + rows if keys else 1000 + rows
