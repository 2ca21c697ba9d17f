"""Functions for `foreachBatch` as documentation describes them, on Spark's own providers.

Each calls its steps, so that a campaign kills or pauses its driver before, during and after the
write. It has no other code for failures than the documentation of its idiom.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from adbc_driver_postgresql import dbapi
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

from tests.support.faults import BEGUN, ENTERED, LOOKED, PUBLISHED, SEALED, STAGED, SWEPT
from tests.support.lakes import OfDelta, OfIceberg
from tests.support.sessions import HDFS, ROCKSDB

Row = tuple[int, int, int]
OnStep = Callable[[str], None]
Write = Callable[[str, DataFrame, int, OnStep], None]
# Each with the parameters of its rows.
Statements = Sequence[tuple[str, Sequence[Sequence[int]]]]

TABLE = "totals"
# The local property in which Spark stores the ID of a query.
QUERY_ID = "sql.streaming.queryId"
_SPARK = "https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html"
_POSTGRES = "https://www.postgresql.org/docs/current"
_SCHEMA = pa.schema([("k", pa.int32()), ("n", pa.int32()), ("v", pa.int32())])
AT_LEAST_ONCE = "at least once"
BY_BATCH_ID = "exactly once, if the batch ID removes duplicates"
LAST_VERSION = "each version of an application once"


@dataclass(frozen=True)
class Idiom:
    """An idiom.

    Attributes:
        name: the name in tables.
        target: the kind of its target.
        documentation: the page that describes it.
        documented: the documented guarantee.
        write: writes the rows of an epoch to a place.
        provider: the class of the state store.
    """

    name: str
    target: str
    documentation: str
    documented: str
    write: Write
    provider: str = ROCKSDB


@dataclass
class IdiomSink:
    """The function for `foreachBatch` of an idiom, in one driver.

    Attributes:
        idiom: the idiom.
        place: the address of its target.
        on_step: called at each step with the step and the epoch.
    """

    idiom: Idiom
    place: str
    on_step: Callable[[str, int], None]
    _has_begun: bool = field(default=False)

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        def reach(step: str) -> None:
            self.on_step(step, epoch)

        if not self._has_begun:
            reach(ENTERED)
            reach(BEGUN)
            self._has_begun = True
        reach(LOOKED)
        self.idiom.write(self.place, rows, epoch, reach)
        reach(PUBLISHED)
        reach(SWEPT)


def _collected(rows: DataFrame, reach: OnStep) -> list[Row]:
    collected = [(row["k"], row["n"], row["v"]) for row in rows.collect()]
    reach(STAGED)
    return collected


def _in_transaction(place: str, reach: OnStep, statements: Statements) -> None:
    """Executes statements in one transaction, with the step within the rows of the last one."""
    *first, (statement, rows) = statements
    with dbapi.connect(place) as connection, connection.cursor() as cursor:
        for before, parameters in first:
            if parameters:
                cursor.executemany(before, parameters)
            else:
                cursor.execute(before)
        half = (len(rows) + 1) // 2
        if rows:
            cursor.executemany(statement, rows[:half])
        reach(SEALED)
        if rows[half:]:
            cursor.executemany(statement, rows[half:])
        connection.commit()


_CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE}"


def _executes(columns: str, statement: str) -> Write:
    """Writes all rows of an epoch by one statement for each, in one transaction."""

    def write(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
        collected = _collected(rows, reach)
        statements: Statements = [(f"{_CREATE} ({columns})", []), (statement, collected)]
        _in_transaction(place, reach, statements)

    return write


_insert = _executes("k INT, n INT, v INT", f"INSERT INTO {TABLE} VALUES ($1, $2, $3)")
_upsert = _executes(
    "k INT PRIMARY KEY, n INT, v INT",
    f"INSERT INTO {TABLE} VALUES ($1, $2, $3) "
    "ON CONFLICT (k) DO UPDATE SET n = excluded.n, v = excluded.v",
)
_merge = _executes(
    "k INT PRIMARY KEY, n INT, v INT",
    f"MERGE INTO {TABLE} t USING (SELECT $1::int AS k, $2::int AS n, $3::int AS v) s "
    "ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n, v = s.v "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n, s.v)",
)


def _replace(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
    collected = [(*row, epoch) for row in _collected(rows, reach)]
    statements: Statements = [
        (f"{_CREATE} (k INT, n INT, v INT, batch INT)", []),
        (f"DELETE FROM {TABLE} WHERE batch = $1", [(epoch,)]),
        (f"INSERT INTO {TABLE} VALUES ($1, $2, $3, $4)", collected),
    ]
    _in_transaction(place, reach, statements)


def _parquet(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
    reach(STAGED)
    reach(SEALED)
    # Spark's default, which sessions of tests lack.
    writer = rows.write.option("mapreduce.fileoutputcommitter.algorithm.version", "1")
    writer.mode("append").parquet(place)


def _table(rows: DataFrame, reach: OnStep) -> pa.Table:
    collected = _collected(rows, reach)
    columns = [list(column) for column in zip(*collected, strict=True)] or [[], [], []]
    return pa.table(columns, schema=_SCHEMA)


def _iceberg(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
    table = _table(rows, reach)
    reach(SEALED)
    OfIceberg(Path(place)).append(table)


def _delta(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
    table = _table(rows, reach)
    reach(SEALED)
    OfDelta(Path(place)).append(table)


def _delta_once(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
    """Reads the last version and commits in one transaction of the table, as a connector does."""
    lake = OfDelta(Path(place))
    # The documentation proposes the ID of the query.
    query = str(rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID))
    table = DeltaTable(lake.path) if lake.exists() else None
    last = table.transaction_version(query) if table else None
    if last is not None and last >= epoch:
        return
    collected = _table(rows, reach)
    reach(SEALED)
    properties = CommitProperties(app_transactions=[Transaction(query, epoch)])
    write_deltalake(table or lake.path, collected, mode="append", commit_properties=properties)


_PLAIN = [
    Idiom("INSERT", "PostgreSQL rows", _SPARK, AT_LEAST_ONCE, _insert),
    Idiom(
        "INSERT … ON CONFLICT DO UPDATE",
        "PostgreSQL keys",
        f"{_POSTGRES}/sql-insert.html",
        "each row inserted or updated",
        _upsert,
    ),
    Idiom(
        "MERGE",
        "PostgreSQL keys",
        f"{_POSTGRES}/sql-merge.html",
        "each row inserted or updated",
        _merge,
    ),
    Idiom("DELETE and INSERT by batch ID", "PostgreSQL rows", _SPARK, BY_BATCH_ID, _replace),
    Idiom("append to Parquet", "Parquet", _SPARK, AT_LEAST_ONCE, _parquet),
    Idiom("append to Iceberg", "Iceberg", _SPARK, AT_LEAST_ONCE, _iceberg),
    Idiom("append to Delta", "Delta", _SPARK, AT_LEAST_ONCE, _delta),
    Idiom(
        "append to Delta with a transaction version",
        "Delta",
        "https://docs.delta.io/kernel/rust/writing/idempotent_writes",
        LAST_VERSION,
        _delta_once,
    ),
]
_ON_HDFS = [
    replace(one, name=f"{one.name}, HDFS provider", provider=HDFS)
    for one in _PLAIN
    if one.name in ("INSERT … ON CONFLICT DO UPDATE", "DELETE and INSERT by batch ID")
]
IDIOMS = {one.name: one for one in (*_PLAIN, *_ON_HDFS)}
