"""Spark's own sinks, in real queries and with single epochs from a test."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cleancut.sinks import EpochFiles
from cleancut.sinks._core.query_side import query_side
from tests.support.sessions import DELTA_JARS

needs_delta = pytest.mark.skipif(not DELTA_JARS, reason="Delta's connector is for Spark 4.2")
# The columns of docs/use/sinks/compared.md, from the second one on.
APPEND, FILES, DELTA, OURS = "append", "files", "delta", "ours"
KINDS = [APPEND, FILES, pytest.param(DELTA, marks=needs_delta), OURS]

Row = tuple[Any, ...]


def epoch_by_epoch(kind: str, path: Path) -> Callable[[DataFrame, int], None]:
    """Creates the sink like a new driver: a function of a batch and an epoch."""
    if kind == OURS:
        return EpochFiles(path)
    if kind == APPEND:
        return lambda rows, epoch: rows.write.mode("append").parquet(str(path))
    made: list[Any] = []

    def write(rows: DataFrame, epoch: int) -> None:
        if not made:
            made.append(_of_jvm(kind, path, rows.sparkSession))
        # Delta's sink identifies a query by it.
        rows.sparkSession.sparkContext.setLocalProperty(
            "sql.streaming.queryId", query_side(rows, epoch).batch.query_id
        )
        made[0].addBatch(epoch, rows._jdf)

    return write


def _of_jvm(kind: str, path: Path, spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    nothing = convert.asScala(jvm.java.util.ArrayList()).toSeq()
    options = getattr(jvm.scala.collection.immutable.Map, "from")(
        convert.asScala(jvm.java.util.HashMap())
    )
    sql = jvm.org.apache.spark.sql
    if kind == FILES:
        parquet = sql.execution.datasources.parquet.ParquetFileFormat()
        sinks = sql.execution.streaming.sinks
        return sinks.FileStreamSink(session, str(path), parquet, nothing, options)
    return sql.delta.sources.DeltaSink(
        session.sqlContext(),
        jvm.org.apache.hadoop.fs.Path(str(path)),
        nothing,
        sql.streaming.OutputMode.Append(),
        sql.delta.DeltaOptions(options, session.sessionState().conf()),
        jvm.scala.Option.empty(),
    )


def writer(kind: str, rows: DataFrame, path: Path) -> DataStreamWriter:
    """Returns the writer of a query with the sink."""
    if kind in (APPEND, OURS):
        return rows.writeStream.foreachBatch(epoch_by_epoch(kind, path))
    form = "parquet" if kind == FILES else "delta"
    return rows.writeStream.format(form).option("path", str(path))


def read(kind: str, path: Path, spark: SparkSession, *columns: str) -> Iterable[Row]:
    """Returns the rows that a reader in Spark sees."""
    if not list(path.glob("*")):
        return []
    if kind == OURS:
        sink = EpochFiles(path)
        return sink.read(spark).select(*columns).collect() if sink.epochs(session=spark) else []
    form = "delta" if kind == DELTA else "parquet"
    selected = spark.read.format(form).load(str(path)).select(*columns).collect()
    return [tuple(row) for row in selected]
