"""Sessions and query runs of the end-to-end tests."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from tests.support.queries import Events, Operator
from tests.support.results import EpochFiles

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
CLEANCUT = PROVIDER_CLASS
# Spark's default file manager, whose rename refuses an existing file.
SPARK_CHECKPOINT_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileContextBasedCheckpointFileManager"
}
# The local disk of jvm/spark/src/test, which does in Java what Hadoop starts processes for if it
# has no native code: a fifth of what an epoch of a few rows costs.
_FORKLESS = Path(__file__).parents[2] / ".cache" / "forkless-files.jar"
_FORKLESS_SETTINGS = {
    "spark.driver.extraClassPath": str(_FORKLESS),
    "spark.executor.extraClassPath": str(_FORKLESS),
    "spark.hadoop.fs.file.impl": "io.cleancut.testkit.ForklessFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "io.cleancut.testkit.ForklessFs",
}
# Classes for JVMs with that jar; tests/conftest.py sets another archive for all others.
_ARCHIVE = _FORKLESS.with_name("test-classes.jsa")
_WORKER_PATH = str(Path(__file__).with_name("worker_path"))
# Delta's connector, on the Spark version that it supports, downloaded by `make spark42`.
DELTA_JARS = os.environ.get("CLEANCUT_DELTA_JARS", "")
DELTA_SETTINGS = {
    "spark.jars": DELTA_JARS,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Otherwise a table of a few rows is read by 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "1",
}
# A query is refused by `start()`, or when it reads its logs.
START_REFUSED = (StreamingQueryException, IllegalArgumentException)
_FILE_SYSTEMS = ("fs.file.", "fs.AbstractFileSystem.", "hadoop.security.")


def builder(master: str, more: Mapping[str, str] | None = None) -> SparkSession.Builder:
    """A builder with the provider's jar, and settings that suit small inputs on one machine.

    Args:
        master: the master of the cluster, or `local`.
        more: other settings of the session; its jars and extensions precede ours.
    """
    # Python workers must find the modules of this interpreter.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if _WORKER_PATH not in (path := os.environ.get("PYTHONPATH", "")):
        os.environ["PYTHONPATH"] = f"{_WORKER_PATH}{os.pathsep}{path}" if path else _WORKER_PATH
    made = SparkSession.Builder().master(master).appName("cleancut-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        # Maintenance runs within these short tests: it writes snapshots and deletes old files.
        "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        # Compiling costs more than the few rows of an epoch.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.python.daemon.module": "tests.support.warm_daemon",
        # Otherwise the built-in provider writes all of its files in every epoch.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    if _FORKLESS.exists():
        settings |= _FORKLESS_SETTINGS
    if DELTA_JARS:
        settings |= DELTA_SETTINGS
    if _ARCHIVE.exists():
        shared = f"-XX:SharedArchiveFile={_ARCHIVE}"
        settings |= {f"spark.{who}.extraJavaOptions": shared for who in ("driver", "executor")}
    for key, value in (settings | dict(more or {})).items():
        made = made.config(key, value)
    return cleancut.configure(made)


def take_out_defaults(spark: SparkSession) -> None:
    """Removes the thousand keys of Hadoop from a session, except those that name file systems.

    Spark sends them all with each stateful operator of each epoch, which is a fifth of the work of
    an epoch with a few rows.
    """
    assert spark._jsc is not None
    conf = spark._jsc.hadoopConfiguration()
    kept = {
        prefix + rest: value
        for prefix in _FILE_SYSTEMS
        for rest, value in conf.getPropsWithPrefix(prefix).items()
    }
    conf.clear()
    for key, value in kept.items():
        conf.set(key, value)


def with_cuts(spark: SparkSession, partitions: int) -> SparkSession:
    """Returns a separate session whose queries have cuts and this number of partitions."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "true")
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return session


def start(
    spark: SparkSession,
    operator: Operator,
    *,
    events: Path,
    root: Path,
    provider: str = CLEANCUT,
    sink: Callable[[DataFrame, int], None] | None = None,
    settings: Mapping[str, str] | None = None,
    ends: bool = True,
    is_named: bool = False,
    has_named_sink: bool = False,
) -> StreamingQuery:
    """Starts a query that ends after all existing files, or never.

    Its checkpoint is `root/checkpoint`. Its results are in `root/results`, unless `sink`, a
    function for `foreachBatch`, writes them elsewhere. It runs in a separate session, so that its
    configuration affects no other query.
    """
    session = spark.newSession()
    for key, value in {PROVIDER_KEY: provider, **operator.settings, **(settings or {})}.items():
        session.conf.set(key, value)
    writer = (
        operator.build(Events(session, events, is_named=is_named))
        .writeStream.outputMode(operator.mode)
        .option("checkpointLocation", str(root / "checkpoint"))
        .foreachBatch(sink or EpochFiles(root / "results"))
    )
    if has_named_sink:
        # PySpark has no method for it.
        writer._jwrite = writer._jwrite.name("results")
    return (writer.trigger(availableNow=True) if ends else writer).start()


def run(
    spark: SparkSession,
    operator: Operator,
    *,
    events: Path,
    root: Path,
    provider: str = CLEANCUT,
    sink: Callable[[DataFrame, int], None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[int, list[str]]:
    """Runs a query to its end like `start`; returns the rows in `root/results`."""
    query = start(
        spark, operator, events=events, root=root, provider=provider, sink=sink, settings=settings
    )
    query.awaitTermination()
    return results(root)


def results(root: Path) -> dict[int, list[str]]:
    """Returns the rows of the query at `root`, by epoch."""
    return EpochFiles(root / "results").read()
