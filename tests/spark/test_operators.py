"""Stateful operators through restarts, compared with the same query on Spark's RocksDB provider.

`make test` runs a selection with each operator and format; the randomized queries in Scala combine
them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.lines import STATE_WITH_IDS
from tests.support.queries import OPERATORS, RUNNABLE
from tests.support.results import Difference
from tests.support.seeds import fixed
from tests.support.sessions import CLEANCUT, ROCKSDB, results, start
from tests.support.states import read_state
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

SEED = fixed(20131)
# New files of each run of the query: every later run is a restart from the checkpoint.
RUNS = [range(2), range(2, 4)]
CHOICE = {
    "aggregation-append-ids",
    "join-full_outer-bounds-v4-ids",
    "two-operators",
}
_REFUSED = pytest.mark.skip(reason="this line of Spark refuses the operator on any provider")


@pytest.mark.parametrize(
    "name",
    [
        *usually(CHOICE, (name for name in OPERATORS if name in RUNNABLE)),
        *(pytest.param(name, marks=_REFUSED) for name in OPERATORS if name not in RUNNABLE),
    ],
)
def test_operator_gives_the_rows_and_the_state_of_the_built_in_provider(
    name: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    events, peer, ours = (tmp_path / part for part in ("events", "peer", "ours"))

    def run() -> None:
        queries = [
            start(spark, OPERATORS[name], events=events, root=root, provider=provider)
            for root, provider in ((peer, ROCKSDB), (ours, CLEANCUT))
        ]
        for query in queries:
            query.awaitTermination()

    for files in RUNS:
        write_events(events, seed=SEED, files=files)
        run()
    state = read_state(spark, ours, OPERATORS[name].settings)
    if STATE_WITH_IDS.is_here or not name.endswith("-ids"):
        assert state == read_state(spark, peer, OPERATORS[name].settings)
    write_closing(events, RUNS[-1].stop)
    run()
    difference = Difference.between(results(peer), results(ours))
    kept = sum(map(len, state.values()))
    show(
        f"seed {SEED}, {len(RUNS)} restarts, {len(results(ours))} epochs, {kept} rows of state "
        f"in {len(state)} stores, {difference}"
    )
    assert difference.none, difference
    assert kept > 0
