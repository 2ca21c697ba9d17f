"""A change feed in sequence, cut at random and killed while rows are in flight.

Topology: one query in mode unaligned on two executors; 5 % of the feed are out of order within 300
positions, 1 % are duplicates and 2 % are missing. One partition is slow after the operator. Drivers
and executors are killed by SIGKILL at random moments with in-flight rows. Verified: each sent row
is emitted once, in the order of its key, and reports a gap exactly after missing numbers; kills and
in-flight rows have happened.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from cleancut.testing import assert_same_rows
from demo.in_flight import has_rows_in_flight, in_flight_rows
from tests.support.change_feed import ChangeFeed, start
from tests.support.in_flight_queries import OrderedEpochs
from tests.support.kills import Campaign
from tests.support.seeds import chaos_runs, hunting
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(1130)
CLUSTER = "local-cluster[2,1,1024]"
# Files of the feed, kills of drivers, of executors.
SIZES = [(8, 1, 2), (12, 2, 1), (12, 1, 2)]


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_a_change_feed_in_sequence_survives_the_kills_of_drivers_and_executors(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    files, driver_kills, executor_kills = random.Random(seed).choice(SIZES)
    feed, root = ChangeFeed(tmp_path / "input", seed, files), tmp_path / "query"
    feed.write()
    location = str(root / "checkpoint")
    met: list[int] = []
    campaign = Campaign(
        [
            *("-m", "tests.support.change_feed", CLUSTER, str(seed), str(files)),
            *(str(feed.directory), str(root)),
        ],
        work=tmp_path,
        seed=seed,
        driver_kills=driver_kills,
        executor_kills=executor_kills,
        is_worth_it=lambda: has_rows_in_flight(location),
        struck=lambda _: met.append(in_flight_rows(location)),
    )
    campaign.run(progress=lambda: len(list(root.glob("results/*.json"))))
    start(spark, feed, root, mode="aligned").awaitTermination()
    sink = OrderedEpochs(root / "results")
    cuts = Checkpoint(location).cuts()
    flying = [cut for cut in cuts if cut.mode == "unaligned"]
    answer = feed.answer
    gaps = sum(row["gap"] is not None for row in answer)
    compared = assert_same_rows(sink.read(), answer, key=["key"], order="number")
    show(
        f"seed {seed}: {campaign.drivers_killed} drivers and {campaign.executors_killed} executors "
        f"killed with {met} in-flight rows; {len(cuts)} epochs, {len(flying)} with in-flight rows; "
        f"{len(feed.sent)} rows sent, {gaps} gaps; {compared}"
    )
    assert sink.changed() == []
    assert gaps > 0
    assert flying
    assert sum(met) > 0
    assert (campaign.drivers_killed, campaign.executors_killed) == (driver_kills, executor_kills)
