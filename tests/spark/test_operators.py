"""Every stateful operator, through restarts, against the same query on Spark's RocksDB provider."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.queries import OPERATORS
from tests.support.results import Difference
from tests.support.sessions import CLEANCUT, ROCKSDB, results, start

pytestmark = pytest.mark.spark

SEED = 20131
# Files that each run of the query finds anew: every later run is a restart from the checkpoint.
RUNS = [range(2), range(2, 4)]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_gives_the_rows_of_the_built_in_provider(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    roots = {provider: tmp_path / provider.rpartition(".")[2] for provider in (ROCKSDB, CLEANCUT)}
    for files in [*RUNS, None]:
        if files is None:
            write_closing(events, RUNS[-1].stop)
        else:
            write_events(events, seed=SEED, files=files)
        for provider, root in roots.items():
            start(
                spark, OPERATORS[name], events=events, root=root, provider=provider
            ).awaitTermination()
    difference = Difference.between(results(roots[ROCKSDB]), results(roots[CLEANCUT]))
    print(f"{name}: seed {SEED}, {len(results(roots[CLEANCUT]))} epochs, {difference}")
    assert difference.none, difference
    assert list((roots[CLEANCUT] / "checkpoint" / "cleancut").glob("stores/*/*/*/*.delta"))
