"""Queries with state under each Spark key that can change them: the rows match RocksDB's.

Each case runs an aggregation, a join and a function in Python with cuts in mode `unaligned`, cut at
random moments and restarted once, next to the same queries on Spark's RocksDB provider. `make test`
combines keys in two cases, and `make chaos` tests each value separately.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support import spark_keys
from tests.support.compared_settings import Comparison
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.seeds import hunting
from tests.support.spark_keys import APPLICATIONS, PREFIX, REASONS, VALUES, Case
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = hunting(48)
# Keys of one case do not depend on each other, so that a failure names few of them.
COMBINED = {
    "formats and files": {
        f"{PREFIX}stateStore.checkpointFormatVersion": "2",
        f"{PREFIX}stateStore.minDeltasForSnapshot": "1",
        f"{PREFIX}stateStore.maintenanceInterval": "10ms",
        f"{PREFIX}stateStore.unloadOnCommit": "true",
        f"{PREFIX}minBatchesToRetain": "1",
        f"{PREFIX}fileSource.log.compactInterval": "2",
        f"{PREFIX}offsetLog.formatVersion": "2",
        f"{PREFIX}asyncLogPurge.enabled": "false",
        "spark.sql.adaptive.enabled": "true",
    },
    "operators": {
        f"{PREFIX}multipleWatermarkPolicy": "max",
        f"{PREFIX}aggregation.stateFormatVersion": "1",
        f"{PREFIX}sessionWindow.merge.sessions.in.local.partition": "true",
        f"{PREFIX}stateStore.stateSchemaCheck": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Kolkata",
    },
}


def keys_of(spark: SparkSession) -> dict[str, Any]:
    """Returns each key of this Spark version with its entry."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    module = jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$")
    iterator = module.getField("MODULE$").get(None).getConfigEntries().iterator()
    entries = {}
    while iterator.hasNext():
        entry = iterator.next()
        entries[entry.key()] = entry
    return entries


def test_each_key_of_spark_has_values_to_test_or_a_reason(spark: SparkSession) -> None:
    known = {PREFIX + key for key in (*VALUES, *REASONS)}
    of_spark = {key for key in keys_of(spark) if key.startswith(PREFIX)}
    ours = {key for key in of_spark if key.startswith(f"{PREFIX}stateStore.cleancut.")}
    assert len(of_spark) > 50
    assert of_spark - ours - known == set()
    assert not set(VALUES) & set(REASONS)
    assert all(REASONS.values())


def test_spark_accepts_each_value_to_test_and_has_another_default(spark: SparkSession) -> None:
    known = keys_of(spark)
    refused, defaults = {}, []
    for case in spark_keys.cases():
        session = spark.newSession()
        for key, value in {**case.settings, **case.after}.items():
            if key in known:
                # The session of the tests sets others.
                if key.startswith(PREFIX) and known[key].defaultValueString() == value:
                    defaults.append(case.name)
                try:
                    session.conf.set(key, value)
                except Exception as error:
                    refused[case.name] = str(error).partition("\n")[0]
    assert (refused, defaults) == ({}, [])


def check(spark: SparkSession, home: Path, case: Case, show: Callable[[str], None]) -> None:
    comparison = Comparison(spark, home, SEED)
    problems = comparison.run(case.settings, case.after)
    show(f"seed {SEED}, {comparison.in_flight} in-flight rows, refused: {comparison.refused}")
    assert len(comparison.refused) < 3, comparison.refused
    assert problems == [], f"seed {SEED}"


@pytest.mark.parametrize("name", COMBINED)
def test_queries_give_the_rows_of_rocksdb_under_several_keys(
    spark: SparkSession, tmp_path: Path, name: str, show: Callable[[str], None]
) -> None:
    known = keys_of(spark)
    settings = {key: value for key, value in COMBINED[name].items() if key in known}
    check(spark, tmp_path, Case(name, settings, settings), show)


@long
@pytest.mark.parametrize("case", list(spark_keys.cases()), ids=lambda case: case.name)
def test_queries_give_the_rows_of_rocksdb_under_each_key(
    spark: SparkSession, tmp_path: Path, case: Case, show: Callable[[str], None]
) -> None:
    if not set(case.settings) <= set(keys_of(spark)):
        pytest.skip("this Spark version does not have the key")
    check(spark, tmp_path, case, show)


@long
@pytest.mark.parametrize("name", APPLICATIONS)
def test_queries_give_the_rows_of_rocksdb_in_each_kind_of_application(
    tmp_path: Path, name: str
) -> None:
    settings = [f"{key}={value}" for key, value in APPLICATIONS[name].items()]
    command = [sys.executable, "-m", "tests.support.compared_settings", str(tmp_path), *settings]
    ran = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-4000:]
