"""Undo records of a table whose columns change, on SQLite without Spark."""

import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from cleancut.sinks import Batch, SqlSink
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._tables.staging import stage_partition
from cleancut.sinks._tables.table import _Staged
from tests.unit.test_sink_ledger import BATCH, Side

SCHEMA = StructType([StructField("k", LongType()), StructField("v", LongType())])
Row = tuple[Any, ...]


class Shop:
    """A database with the table `counts`, whose rows have one key each."""

    def __init__(self, home: Path) -> None:
        self._path = home / "shop.db"

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            yield connection

    def run(self, sql: str) -> list[Row]:
        with self.connected() as connection:
            return connection.execute(sql).fetchall()

    def publish(
        self, epoch: int, rows: Mapping[int, int], *operations: Operation, table: str = "counts"
    ) -> None:
        """Publishes one epoch in a separate run with a new sink."""
        made: Any = SqlSink(f"sqlite:///{self._path}", table, keys="k", keep_undo=9)
        batch = replace(BATCH, epoch=epoch, run_id=f"r-{epoch}", planned_ms=epoch)
        made.begin(Side(batch, done=operations), None)
        made.publish(self._staged(made, rows, batch), batch)

    def _staged(self, sink: Any, rows: Mapping[int, int], batch: Batch) -> str:
        columns = sink._checked(SimpleNamespace(schema=SCHEMA), batch)
        name = sink._names().fresh(batch.epoch, secrets.token_hex(8))
        sink._ledger.within(
            lambda transaction: sink._statements(transaction).make_staging(
                transaction, name, columns
            )
        )
        table = pa.table({"k": list(rows), "v": list(rows.values())})
        (report,) = stage_partition(
            sink._database, name, sink.name, batch.epoch, iter(table.to_batches())
        )
        attempts = {row["attempt"]: row["rows"] for row in report.to_pylist()}
        return _Staged(name, attempts, columns).encode()

    def undo_table(self) -> str:
        ((name,),) = self.run(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'cleancut_undo_%'"
        )
        return str(name)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_undo_includes_a_new_column(shop: Shop) -> None:
    shop.publish(0, {1: 10})
    shop.run("ALTER TABLE counts ADD COLUMN note VARCHAR(20)")
    shop.run("ALTER TABLE counts ADD COLUMN amount NUMERIC(10, 2)")
    shop.run("UPDATE counts SET note = 'mine', amount = 1.5")
    shop.publish(1, {1: 20, 2: 20})
    assert shop.run("SELECT k, v, note, amount FROM counts ORDER BY k") == [
        *((1, 20, "mine", 1.5), (2, 20, None, None)),
    ]
    # The query is rolled back: the rows that epoch 1 replaced are restored with their new columns.
    shop.run("UPDATE counts SET note = 'changed since'")
    shop.publish(3, {3: 30}, Operation(2, 0))
    assert shop.run("SELECT k, v, note, amount FROM counts ORDER BY k") == [
        *((1, 10, "mine", 1.5), (3, 30, None, None)),
    ]


def test_undo_includes_a_column_added_within_a_run(shop: Shop) -> None:
    sink = SqlSink(f"sqlite:///{shop._path}", "counts", keys="k", keep_undo=9)
    batches: Sequence[Batch] = [replace(BATCH, epoch=epoch) for epoch in range(2)]
    made: Any = sink
    made.begin(Side(batches[0]), None)
    made.publish(shop._staged(made, {1: 10}, batches[0]), batches[0])
    shop.run("ALTER TABLE counts ADD COLUMN note TEXT")
    made.publish(shop._staged(made, {1: 20}, batches[1]), batches[1])
    assert shop.run("SELECT k, v, note FROM counts") == [(1, 20, None)]


def test_undo_excludes_a_dropped_column(shop: Shop) -> None:
    shop.run("CREATE TABLE counts (k BIGINT PRIMARY KEY, v BIGINT, note TEXT)")
    shop.publish(0, {1: 10})
    shop.run("ALTER TABLE counts DROP COLUMN note")
    shop.publish(1, {1: 20})
    shop.publish(3, {2: 30}, Operation(2, 0))
    assert shop.run("SELECT k, v FROM counts ORDER BY k") == [(1, 10), (2, 30)]


@pytest.mark.parametrize("table", ["counts", "main.counts"])
def test_undo_records_have_an_index(table: str, shop: Shop) -> None:
    shop.publish(0, {1: 10}, table=table)
    shop.publish(1, {1: 20}, table=table)
    undo = shop.undo_table()
    plan = shop.run(
        f"EXPLAIN QUERY PLAN SELECT * FROM {undo}"
        " WHERE cleancut_query = 'q-1' AND cleancut_epoch = 1"
    )
    assert "USING INDEX" in str(plan)
    assert len(shop.run(f"PRAGMA index_list({undo})")) == 1
