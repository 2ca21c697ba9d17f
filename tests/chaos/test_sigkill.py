"""Queries on a cluster of two executors, killed at random moments, against a run left in peace."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.kills import Campaign
from tests.support.queries import OPERATORS, RUNNABLE
from tests.support.results import Difference
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import CLEANCUT, ROCKSDB, results, run
from tests.support.states import read_state
from tests.support.taken import taken, write_taken
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

USUAL_SEED = 4711
SEED = hunting(USUAL_SEED)
FILES = 10 if chaos_runs() > 1 else 6
# Each kill of a driver costs the start of another one.
DRIVER_KILLS, EXECUTOR_KILLS = (1, 1) if chaos_runs() == 1 else (4, 3)
CLUSTER = "local-cluster[2,1,1024]"
DRAWN = 4
JOIN = "join-full_outer-bounds-v4-ids"
KILLED_TOGETHER = [
    JOIN if JOIN in RUNNABLE else "join-full_outer-bounds-v3",
    "pandas-with-state",
]


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_nothing_is_lost_or_doubled_when_drivers_and_executors_are_killed(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    events, killed, peaceful = (tmp_path / name for name in ("events", "killed", "peaceful"))
    # By the seed alone, so that it replays the whole run.
    drawn = random.Random(seed).sample(RUNNABLE, DRAWN)
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
    # After a restart Spark runs no epoch without input. A kill between the last file and the epoch
    # that would only have moved the watermark leaves that one out; one more file makes up for it.
    write_closing(events, FILES + 1)
    for name in names:
        run(spark, OPERATORS[name], events=events, root=killed / name, provider=CLEANCUT)
        found = results(killed / name)
        expected = _in_peace(spark, name, killed / name / "checkpoint", peaceful / name)
        difference = Difference.between(expected, found)
        show(f"{name}: {len(found)} epochs, {difference}")
        assert difference.expected > 0
        assert (difference.lost, difference.doubled) == (0, 0), difference
        settings = OPERATORS[name].settings
        left, expected_left = (
            read_state(spark, root / name, settings) for root in (killed, peaceful)
        )
        assert left == expected_left
    assert (campaign.drivers_killed, campaign.executors_killed) == (DRIVER_KILLS, EXECUTOR_KILLS)
    assert campaign.lives == DRIVER_KILLS + 1


def _in_peace(spark: SparkSession, name: str, killed: Path, root: Path) -> dict[int, list[str]]:
    """The results of the same epochs, run by Spark's own provider in two runs without kills."""
    epochs = taken(killed)
    for those in (epochs[:-1], epochs):
        write_taken(those, root / "events")
        run(spark, OPERATORS[name], events=root / "events", root=root, provider=ROCKSDB)
    return results(root)
