"""Queries on a cluster of two executors, killed at random moments, against a run left in peace."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.kills import Campaign
from tests.support.queries import OPERATORS
from tests.support.results import Difference
from tests.support.sessions import CLEANCUT, ROCKSDB, results, start

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = 4711
FILES = 10
CLUSTER = "local-cluster[2,1,1024]"
KILLED_TOGETHER = ["aggregation-update", "join-full", "session-windows", "pandas-with-state"]


def test_nothing_is_lost_or_doubled_when_drivers_and_executors_are_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    events, killed, peaceful = (tmp_path / name for name in ("events", "killed", "peaceful"))
    write_events(events, seed=SEED, files=range(FILES))
    write_closing(events, FILES)
    command = ["-m", "tests.support.victim", CLUSTER, CLEANCUT, str(events), str(killed)]
    campaign = Campaign(
        command + KILLED_TOGETHER, work=tmp_path, seed=SEED, driver_kills=3, executor_kills=2
    )
    campaign.run(progress=lambda: len(list(killed.glob("*/results/*.json"))))
    assert (campaign.drivers_killed, campaign.executors_killed) == (3, 2)
    for name in KILLED_TOGETHER:
        root = peaceful / name
        start(spark, OPERATORS[name], events=events, root=root, provider=ROCKSDB).awaitTermination()
        difference = Difference.between(results(root), results(killed / name))
        print(
            f"{name}: seed {SEED}, {campaign.drivers_killed} drivers and "
            f"{campaign.executors_killed} executors killed, "
            f"{len(results(killed / name))} epochs, {difference}"
        )
        assert difference.none, difference
