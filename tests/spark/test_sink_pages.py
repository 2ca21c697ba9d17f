"""Runs the code of the pages on sinks as it is printed there."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

import cleancut
from cleancut.sinks import SqlLedger
from demo.postgres_server import postgres_server
from tests.support.documented import blocks
from tests.support.events import SCHEMA, write_events
from tests.support.queries import Events
from tests.support.tiers import long

pytestmark = pytest.mark.spark

EPOCHS = 2
ROWS = 40
SUMS = "SELECT k, CAST(sum(count) AS INT) FROM counts GROUP BY k"


class Page:
    """The blocks of a page, with existing locations."""

    def __init__(self, page: str, spark: SparkSession, home: Path, dsn: str = "") -> None:
        self._blocks = blocks(page, "python")
        self._home = home
        self._dsn = dsn
        write_events(home / "events", seed=1, files=range(EPOCHS), rows=ROWS)
        for name in ("data", "lake/branches", "lake/shown"):
            (home / name).mkdir(parents=True)
        session = spark.newSession()
        session.conf.set("spark.sql.streaming.checkpointLocation", str(home / "checkpoints"))
        self._events = Events(session, home / "events")

    @property
    def counts(self) -> DataFrame:
        return self._events().groupBy(F.to_date("ts").alias("day"), "k").count()

    @property
    def rows(self) -> DataFrame:
        return self._events()

    @property
    def number(self) -> int:
        return len(self._blocks)

    def run(
        self, at: int, *, replaced: Mapping[str, str] | None = None, **names: Any
    ) -> dict[str, Any]:
        """Runs a block and its query until the end of the input; returns the bound names."""
        code = self._blocks[at]
        for text, by in (replaced or {}).items():
            assert text in code
            code = code.replace(text, by)
        for place in ("/data", "/lake", "/checkpoints"):
            code = code.replace(f'"{place}', f'"{self._home}{place}')
            code = code.replace(f"///{place}", f"///{self._home}{place}")
            code = code.replace(f'f"{place}', f'f"{self._home}{place}')
        if self._dsn:
            code = code.replace("postgresql://writer@db/shop", self._dsn)
        given = {"counts": self.counts, "os": os, "shutil": shutil, "cleancut": cleancut} | names
        exec(code, given)
        if "query" in given:
            self.end(given["query"])
        return given

    def end(self, query: Any) -> None:
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def database(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self._home / "data/shop.db")) as opened:
            return opened.execute(sql).fetchall()


def counted(page: Page, spark: SparkSession, home: Path) -> dict[int, int]:
    rows = spark.read.schema("k int").json(str(home / "events")).groupBy("k").count()
    return {row["k"]: row["count"] for row in rows.collect()}


def grouped(spark: SparkSession, home: Path) -> dict[tuple[Any, int], int]:
    rows = spark.read.schema(SCHEMA).json(str(home / "events"))
    counts = rows.groupBy(F.to_date(F.timestamp_seconds("t")).alias("day"), "k").count()
    return {(row["day"], row["k"]): row["count"] for row in counts.collect()}


def test_the_documented_databases(spark: SparkSession, tmp_path: Path) -> None:
    with postgres_server() as server:
        page = Page("docs/use/sinks/databases.md", spark, tmp_path, server.dsn)
        assert page.number == 2
        page.run(0)
        sums = server.rows(SUMS)
    wanted = counted(page, spark, tmp_path)
    assert dict(sums) == wanted
    shutil.rmtree(tmp_path / "checkpoints")
    page.run(1)
    assert dict(page.database(SUMS)) == wanted


@long
def test_the_documented_lakes(spark: SparkSession, tmp_path: Path) -> None:
    page = Page("docs/use/sinks/lakes.md", spark, tmp_path)
    assert page.number == 4
    page.run(0)
    sums = pa.table(DeltaTable(tmp_path / "lake/counts").to_pyarrow_table()).group_by("k")
    groups = sums.aggregate([("count", "sum")]).to_pylist()
    wanted = counted(page, spark, tmp_path)
    assert {row["k"]: row["count_sum"] for row in groups} == wanted
    catalog = load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{tmp_path}/lake/catalog.db",
        warehouse=str(tmp_path / "lake"),
    )
    catalog.create_namespace("shop")
    page.run(3, rows=page.rows)
    assert catalog.load_table("shop.counts").scan().count() == sum(wanted.values())


def test_the_documented_functions_and_targets(spark: SparkSession, tmp_path: Path) -> None:
    page = Page("docs/use/sinks/your-own.md", spark, tmp_path)
    assert page.number == 6
    with contextlib.closing(sqlite3.connect(tmp_path / "data/shop.db")) as database:
        database.execute("CREATE TABLE totals (k INT, n INT)")
        database.execute("CREATE TABLE sizes (n INT)")
        database.commit()
    sink = page.run(0)["sink"]
    rows = sink.read(spark, epoch_column="epoch").orderBy("epoch").collect()
    # The newest row of each group, if it was ever written.
    large = {(row["day"], row["k"]): row["count"] for row in rows}
    wanted = grouped(spark, tmp_path)
    assert large == {group: count for group, count in wanted.items() if count > 1}
    assert 0 < len(large) < len(wanted)
    page.run(1)
    keys = len(counted(page, spark, tmp_path))
    assert len(page.database("SELECT k FROM totals")) > keys
    ledger = SqlLedger(f"sqlite:///{tmp_path}/data/shop.db", "sizes")
    write = page.run(2, ledger=ledger)["write"]
    page.end(page.counts.writeStream.foreachBatch(write).outputMode("update").start())
    assert len(page.database("SELECT n FROM sizes")) == EPOCHS
    page.run(3)
    assert dict(page.database(SUMS)) == counted(page, spark, tmp_path)
    sink = page.run(4)["sink"]
    page.end(page.counts.writeStream.foreachBatch(sink).outputMode("update").start())
    assert len(list((tmp_path / "lake/shown").iterdir())) == EPOCHS
    assert list((tmp_path / "lake/branches").iterdir()) == []


@long
def test_the_documented_proof(spark: SparkSession, tmp_path: Path) -> None:
    page = Page("docs/use/sinks/your-own.md", spark, tmp_path)
    proof = page.run(5, contextlib=contextlib, sqlite3=sqlite3)["TestMySink"]()
    for name in dir(proof):
        if name.startswith("test_"):
            home = tmp_path / name
            home.mkdir()
            getattr(proof, name)(home)
