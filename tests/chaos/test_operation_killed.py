"""Operations on a checkpoint, killed at random moments: it has either the old or the new state."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import RequestError
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.options import PREFIX
from cleancut.types import Plan
from demo.processes import ProcessTree
from tests.support.copies import copied
from tests.support.file_epochs import session_of
from tests.support.kills import environment
from tests.support.lines import STATE_FOR_SPARK
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import ROCKSDB, START_REFUSED
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(4711)
KILLS = 4 if chaos_runs() == 1 else 20
KEYS = 60_000
PARTITIONS = 3
# A process prints this when its session exists; the rest takes a few seconds.
OPERATION = """
import sys
import cleancut
from tests.support.sessions import builder

from tests.chaos.test_operation_killed import planned

operation, location = sys.argv[1:]
spark = cleancut.configure(builder("local-cluster[2,1,1024]")).getOrCreate()
plan = planned(operation, location)
print("BEGIN", flush=True)
plan.apply()
print("END", flush=True)
"""
OWN = {PROVIDER_KEY: PROVIDER_CLASS}
CUTS = OWN | {f"{PREFIX}cuts": "true"}
CASES = {
    "convert": ("convert", {PROVIDER_KEY: ROCKSDB}),
    "rescale": ("rescale", OWN),
    "rescale-rocksdb": ("rescale", {PROVIDER_KEY: ROCKSDB}),
    "rollback-rocksdb": ("rollback", {PROVIDER_KEY: ROCKSDB}),
    "edit-rocksdb": ("edit", {PROVIDER_KEY: ROCKSDB}),
    "rescale-cuts": ("rescale", CUTS),
    "double-cuts": ("double", CUTS),
    "rollback": ("rollback", OWN),
    "rollback-cuts": ("rollback", CUTS),
    "clone": ("clone", OWN),
    "clone-cuts": ("clone", CUTS),
    "edit-cuts": ("edit", CUTS),
    "bootstrap-cuts": ("bootstrap", CUTS),
}
# The maximum time before a kill; operations without copied rows take no longer.
LONGEST_S = {"double-cuts": 0.8, "rollback-cuts": 0.8}
# The number of input files before an operation, one per epoch.
FILES = 2


def planned(operation: str, location: str) -> Plan:
    if operation == "convert":
        return cleancut.convert(location)
    if operation == "rescale":
        return cleancut.rescale(location, 5, rewrite=True)
    if operation == "double":
        return cleancut.rescale(location, 2 * PARTITIONS)
    if operation == "rollback":
        return cleancut.rollback(location, 0)
    if operation == "edit":
        return cleancut.edit(location, 0, lambda state: state)
    if operation == "bootstrap":
        return bootstrapped(location)
    return cleancut.clone(location, clone_of(location), 0)


def clone_of(location: str) -> str:
    return f"{location}-clone"


def bootstrapped(location: str) -> Plan:
    """Each key with a count."""
    running = SparkSession.getActiveSession()
    assert running is not None
    session = of_settings(running, CUTS)
    key = f.struct(f.col("id").cast("int").alias("k"))
    value = f.struct(f.lit(0).cast("long").alias("count"))
    rows = session.range(KEYS).select(key.alias("key"), value.alias("value"))
    query = counted(session, Path(location).parent / "in")
    return cleancut.bootstrap(location, query, {0: rows}, "update", cuts=True)


def of_settings(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    return session_of(spark, {"spark.sql.shuffle.partitions": str(PARTITIONS), **settings})


def counted(session: SparkSession, source: Path) -> DataFrame:
    stream = session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
    return stream.json(str(source)).groupBy("k").agg(f.count("*").alias("count"))


class Query:
    """Counts rows by key; each run reads one file more."""

    def __init__(self, spark: SparkSession, home: Path, settings: dict[str, str]) -> None:
        self.session = of_settings(spark, settings)
        self.home = home

    def run(self, checkpoint: Path, files: int) -> dict[int, int]:
        source = self.home / "in"
        source.mkdir(exist_ok=True)
        for number in range(files):
            if not (source / f"{number}.json").exists():
                rows = (json.dumps({"k": (7 * at + number) % KEYS}) for at in range(KEYS))
                (source / f"{number}.json").write_text("\n".join(rows))
        counts: dict[int, int] = {}

        def take(batch: DataFrame, _: int) -> None:
            counts.update({row.k: row["count"] for row in batch.collect()})

        query = counted(self.session, source).writeStream.outputMode("update").foreachBatch(take)
        query = query.option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()
        return counts


def kill(operation: str, checkpoint: Path, log: Path, delay_s: float) -> bool:
    """Kills the operation; returns whether it was running."""
    with ProcessTree(
        [sys.executable, "-c", OPERATION, operation, str(checkpoint)], env=environment(), log=log
    ) as it:
        while "BEGIN" not in log.read_text():
            assert it.exit_code() is None, log.read_text()
            time.sleep(0.02)
        time.sleep(delay_s)
    return "END" not in log.read_text()


def is_refused(operation: str, location: str, first: int) -> bool:
    """Whether an operation is refused because it is done; any other error fails.

    A repeatable operation has another epoch then.
    """
    try:
        epoch = planned(operation, location).epoch
    except RequestError as refused:
        return "already" in str(refused)
    return epoch != first


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=STATE_FOR_SPARK.needed if case.endswith("-rocksdb") else ())
        for case in CASES
    ],
)
def test_a_killed_operation_leaves_the_old_or_the_new_state(
    case: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    operation, settings = CASES[case]
    longest_s = LONGEST_S.get(case, 8)
    draw = random.Random(SEED)
    query = Query(spark, tmp_path, settings)
    begun = tmp_path / "begun"
    query.run(begun, files=FILES)
    untouched = tmp_path / "untouched"
    if operation != "bootstrap":
        copied(begun, untouched)
    first = planned(operation, str(untouched)).epoch
    tally: Counter[str] = Counter()
    for number in range(KILLS):
        location = tmp_path / f"killed-{number}"
        if operation != "bootstrap":
            copied(begun, location)
        struck = kill(operation, location, tmp_path / f"{number}.log", draw.random() * longest_s)
        tally["struck" if struck else "too late"] += 1
        is_done = is_refused(operation, str(location), first)
        tally["done" if is_done else "not done"] += 1
        if not is_done and (operation == "clone" or draw.random() < 0.5):
            tally["begun again"] += 1
            planned(operation, str(location)).apply()
        continued = (
            [location] if operation != "clone" else [location, Path(clone_of(str(location)))]
        )
        expected = Counter((7 * at + file) % KEYS for file in range(3) for at in range(KEYS))
        for checkpoint in continued:
            try:
                counts = query.run(checkpoint, files=FILES + 1)
            except START_REFUSED:
                # Killed between the two logs, so that it has to be repeated.
                tally["between"] += 1
                planned(operation, str(location)).apply()
                counts = query.run(checkpoint, files=FILES + 1)
            assert counts == {key: expected[key] for key in counts}
            assert len(counts) == KEYS
    show(f"{case}, seed {SEED}: {dict(tally)}")
    assert tally["struck"] > 0
