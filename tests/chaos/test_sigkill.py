"""Queries on a cluster of two executors, killed at random moments, against a run left in peace."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.kills import Campaign
from tests.support.queries import OPERATORS
from tests.support.results import Difference
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import CLEANCUT, ROCKSDB, results, run
from tests.support.states import state

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

USUAL_SEED = 4711
SEED = hunting(USUAL_SEED)
FILES = 10
DRIVER_KILLS = 4
EXECUTOR_KILLS = 3
CLUSTER = "local-cluster[2,1,1024]"
KILLED_TOGETHER = [
    "aggregation-update",
    "join-full_outer-bounds",
    "session-windows",
    "pandas-with-state",
]


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_nothing_is_lost_or_doubled_when_drivers_and_executors_are_killed(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    events, killed, peaceful = (tmp_path / name for name in ("events", "killed", "peaceful"))
    # By the seed alone, so that it replays the whole run.
    drawn = random.Random(seed).sample(list(OPERATORS), len(KILLED_TOGETHER))
    names = KILLED_TOGETHER if seed == USUAL_SEED else drawn
    write_events(events, seed=seed, files=range(FILES))
    write_closing(events, FILES)
    command = ["-m", "tests.support.victim", CLUSTER, CLEANCUT, str(events), str(killed)]
    campaign = Campaign(
        command + names,
        work=tmp_path,
        seed=seed,
        driver_kills=DRIVER_KILLS,
        executor_kills=EXECUTOR_KILLS,
    )
    campaign.run(progress=lambda: len(list(killed.glob("*/results/*.json"))))
    show(
        f"seed {seed}, {campaign.drivers_killed} drivers and {campaign.executors_killed} "
        f"executors killed in {campaign.lives} lives"
    )
    for name in names:
        root = peaceful / name
        run(spark, OPERATORS[name], events=events, root=root, provider=ROCKSDB)
        found = results(killed / name)
        difference = Difference.between(results(root), found)
        show(f"{name}: {len(found)} epochs, {difference}")
        assert difference.none, difference
        assert state(spark, killed / name) == state(spark, root)
    assert (campaign.drivers_killed, campaign.executors_killed) == (DRIVER_KILLS, EXECUTOR_KILLS)
    assert campaign.lives == DRIVER_KILLS + 1
