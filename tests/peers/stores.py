"""Randomized stateful queries on each state store, whose drivers and executors are killed.

Topology: the queries of `tests/chaos/test_sigkill_in_flight.py` on `local-cluster`, aligned, with a
plain function for `foreachBatch`. All stores have the queries, input and number of kills of a seed.
A kill waits for an epoch that is written and not committed. The rows are compared with those of a
batch over the same files.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

from cleancut._provider import PROVIDER_KEY
from cleancut.testing import SkewedInput
from tests.peers.store_victim import TwoWays
from tests.peers.stored import Section
from tests.support.in_flight_queries import (
    IN_PYTHON,
    QUERIES,
    ROWS,
    SETTINGS,
    draw_queries,
    draw_size,
    epochs_of_files,
    in_file_order,
)
from tests.support.kills import Campaign
from tests.support.revision import short_commit
from tests.support.sessions import CLEANCUT, HDFS, ROCKSDB, SPARK_CHECKPOINT_FILES

CLUSTER = "local-cluster[2,1,1024]"
STORES = {"RocksDB": ROCKSDB, "HDFS-backed": HDFS, "Cleancut": CLEANCUT}
# The only operator in Python that Spark's HDFS-backed store supports.
_ON_HDFS = "applyInPandasWithState"


@dataclass(frozen=True)
class StoreRun:
    """A query on a state store whose processes were killed.

    Attributes:
        store: the name of the state store.
        seed: the seed of the query, its input and the kills.
        query: the name of the query.
        drivers: kills of the driver.
        executors: kills of an executor.
    """

    store: str
    seed: int
    query: str
    drivers: int
    executors: int


@dataclass(frozen=True)
class StoreResult(StoreRun):
    """The rows of a run, compared with those of a batch.

    Attributes:
        commit: the commit of the run.
        epochs: the number of epochs.
        repeated: the number of epochs that ran again after the function had returned.
        rows: the number of expected rows.
        lost: the number of missing rows.
        duplicated: the number of surplus copies of rows.
        wrong: the number of rows that the batch does not have.
        unordered: the number of rows out of order.
        changed: the number of epochs that ran again with other rows.
        appended_lost: the number of rows that a plain append lacks.
        appended_duplicated: the number of surplus rows of a plain append.
    """

    commit: str
    epochs: int
    repeated: int
    rows: int
    lost: int
    duplicated: int
    wrong: int
    unordered: int
    changed: int
    appended_lost: int
    appended_duplicated: int


STORE_RESULTS = Section("stores", StoreResult, ["store", "seed", "query"])


def queries_of(store: str, seed: int) -> list[str]:
    """Returns the randomized queries of a seed that a state store supports."""
    return [
        name
        for name in draw_queries(seed)
        if store != "HDFS-backed" or name not in IN_PYTHON or name == _ON_HDFS
    ]


def has_uncommitted(root: Path) -> bool:
    """Whether a function has written an epoch that Spark has not committed yet."""
    for query in root.iterdir():
        epochs = [int(path.stem) for path in query.glob("results/*.json")]
        if epochs and not (query / "checkpoint/commits" / str(max(epochs))).exists():
            return True
    return False


def run(spark: SparkSession, seed: int, store: str, home: Path) -> Iterator[StoreResult]:
    """Runs the queries of a seed on one state store, and compares their rows."""
    names = queries_of(store, seed)
    files, driver_kills, executor_kills = draw_size(seed)
    source, root = SkewedInput(home / "input", seed=seed, rows=ROWS), home / "queries"
    source.write(*range(files))
    command = ["-m", "tests.peers.store_victim", CLUSTER, str(seed)]
    campaign = Campaign(
        [*command, str(source.directory), str(root), *names],
        work=home,
        seed=seed,
        driver_kills=driver_kills,
        executor_kills=executor_kills,
        is_worth_it=lambda: has_uncommitted(root),
    )
    of_spark = SPARK_CHECKPOINT_FILES | {"spark.sql.streaming.stateStore.cleancut.cuts": "false"}
    settings = {PROVIDER_KEY: STORES[store]} | ({} if store == "Cleancut" else of_spark)
    with mock.patch.dict(os.environ, {SETTINGS: json.dumps(settings)}):
        campaign.run(progress=lambda: len(list(root.glob("*/results/*.json"))))
    kills = (campaign.drivers_killed, campaign.executors_killed)
    for name in names:
        yield _compared(spark, StoreRun(store, seed, name, *kills), source, root / name)


def _compared(spark: SparkSession, run: StoreRun, source: SkewedInput, root: Path) -> StoreResult:
    written = TwoWays(root)
    rows = written.by_epoch.read()
    appended, once = (Counter(map(repr, some)) for some in (written.appended(), rows))
    offsets = _offsets(root / "checkpoint/offsets")
    if run.query in IN_PYTHON:
        rows = in_file_order(rows, epochs_of_files(offsets))
    compared = QUERIES[run.query].compare(rows, source.batch(spark))
    return StoreResult(
        **vars(run),
        commit=short_commit(),
        epochs=len(offsets),
        repeated=len(written.by_epoch.repeated()),
        rows=compared.expected,
        lost=compared.lost,
        duplicated=compared.duplicated,
        wrong=compared.unexpected,
        unordered=compared.out_of_order,
        changed=len(written.by_epoch.changed()),
        appended_lost=(once - appended).total(),
        appended_duplicated=(appended - once).total(),
    )


def _offsets(log: Path) -> dict[int, str | None]:
    """Returns the offset of the source after each epoch."""
    entries = [path for path in log.iterdir() if path.name.isdigit()]
    return {int(path.name): path.read_text(encoding="utf-8").splitlines()[2] for path in entries}
