"""What Spark's metrics system tells of a query with cuts."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.file_epochs import PLACES, Epochs
from tests.support.tiers import long

pytestmark = pytest.mark.spark

PATIENCE_S = 30


def gauges(spark: SparkSession, name: str) -> dict[str, int]:
    """All that the source of this name tells; nothing if there is none."""
    jvm: Any = spark._jvm
    # By its name alone: some of its other methods have types that are not there.
    named = jvm.java.lang.Class.forName
    kind = jvm.java.lang.invoke.MethodType.methodType(
        named("org.apache.spark.metrics.MetricsSystem")
    )
    method = jvm.java.lang.invoke.MethodHandles.publicLookup().findVirtual(
        named("org.apache.spark.SparkEnv"), "metricsSystem", kind
    )
    arguments = jvm.java.util.ArrayList()
    arguments.add(spark.sparkContext._jsc.sc().env())
    sources: Any = method.invokeWithArguments(arguments).getSourcesByName(name)
    if sources.isEmpty():
        return {}
    found = sources.head().metricRegistry().getGauges()
    return {key: found[key].getValue() for key in found}


def test_the_last_proof_is_told_beside_the_last_epoch(spark: SparkSession, tmp_path: Path) -> None:
    told = {"spark.sql.streaming.metricsEnabled": "true"}
    it = Epochs(spark, tmp_path, PLACES["cuts"] | told)
    it.add(2)
    it.run()
    proof = Checkpoint(it.checkpoint).drill()
    it.add()
    query = it.start()
    name = f"cleancut.{query.id}"
    try:
        query.processAllAvailable()
        until = time.monotonic() + PATIENCE_S
        # It is looked for in the background, when it is asked for.
        while gauges(spark, name)["proven-epoch"] < 0 and time.monotonic() < until:
            time.sleep(0.05)
        expected = {"committed-epoch": 2, "proven-epoch": 1}
        assert gauges(spark, name) == expected | {
            "proven-time": round(proof.proven.timestamp() * 1000)
        }
    finally:
        query.stop()
    while gauges(spark, name) and time.monotonic() < until:
        time.sleep(0.05)
    assert gauges(spark, name) == {}


@long
def test_nothing_is_told_unless_spark_tells_of_queries(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add()
    query = it.start()
    try:
        query.processAllAvailable()
        assert gauges(spark, f"cleancut.{query.id}") == {}
    finally:
        query.stop()
