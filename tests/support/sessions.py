"""Sessions and query runs of the end-to-end tests."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut.settings import PROVIDER_CLASS, PROVIDER_KEY
from tests.support.queries import Events, Operator
from tests.support.results import EpochFiles

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLEANCUT = PROVIDER_CLASS


def builder(master: str) -> SparkSession.Builder:
    """A builder with the provider's jar, and settings that suit small inputs on one machine."""
    # Python workers must find what this interpreter finds.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = SparkSession.Builder().master(master).appName("cleancut-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    for key, value in settings.items():
        made = made.config(key, value)
    return cleancut.configure(made)


def start(
    spark: SparkSession, operator: Operator, *, events: Path, root: Path, provider: str
) -> StreamingQuery:
    """Starts a query that ends when it has read all files that are there now.

    Its checkpoint is `root/checkpoint`, its results lie in `root/results`.
    """
    spark.conf.set(PROVIDER_KEY, provider)
    return (
        operator.build(Events(spark, events))
        .writeStream.outputMode(operator.mode)
        .option("checkpointLocation", str(root / "checkpoint"))
        .foreachBatch(EpochFiles(root / "results"))
        .trigger(availableNow=True)
        .start()
    )


def results(root: Path) -> dict[int, list[str]]:
    """What the query at `root` has written, by epoch."""
    return EpochFiles(root / "results").read()
