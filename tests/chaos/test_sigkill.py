"""Queries on a cluster of two executors, killed at random moments, compared with an undisturbed
run.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.events import write_closing, write_events
from tests.support.file_offsets import files_by_epoch, write_epochs
from tests.support.kills import Campaign
from tests.support.lines import (
    EVERYWHERE,
    JOINS_OF_FORMAT_3,
    JOINS_OF_FORMAT_4,
    ROWS_OF_PROCESSORS,
    Ability,
)
from tests.support.queries import OPERATORS, PROCESSORS, RUNNABLE
from tests.support.results import Difference
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import CLEANCUT, ROCKSDB, results, run
from tests.support.states import read_state
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(4711)
FILES = 10 if chaos_runs() > 1 else 6
# Each kill of a driver costs the start of another one.
DRIVER_KILLS, EXECUTOR_KILLS = (1, 1) if chaos_runs() == 1 else (4, 3)
CLUSTER = "local-cluster[2,1,1024]"
DRAWN = 4
ALL = OPERATORS | PROCESSORS
# All operators, in queries that run and are killed together, by Spark's features.
TOGETHER: dict[str, tuple[list[str], Ability]] = {
    "keyed": (
        [
            "aggregation-append",
            "session-windows",
            "deduplication-watermark",
            "deduplication-within-watermark",
        ],
        EVERYWHERE,
    ),
    "joins": (
        ["join-inner-no-bounds", "join-full_outer-bounds", "join-left_semi-windows"],
        EVERYWHERE,
    ),
    "functions": (
        ["pandas-with-state", "transform-in-pandas", "limit", "two-operators"],
        EVERYWHERE,
    ),
    "processors": (["transform-by-rows"], ROWS_OF_PROCESSORS),
    "joins-v3": (["join-full_outer-bounds-v3", "join-left_outer-windows-v3"], JOINS_OF_FORMAT_3),
    "joins-v4": (
        ["join-full_outer-bounds-v4-ids", "join-left_semi-bounds-v4", "join-inner-no-bounds-v4"],
        JOINS_OF_FORMAT_4,
    ),
}


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_no_row_is_lost_or_duplicated_by_kills_of_drivers_and_executors(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    # By the seed only, so that it replays the complete run.
    names = random.Random(seed).sample(RUNNABLE, DRAWN)
    _check(names, seed, spark, tmp_path, show)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(queries, id=name, marks=since.needed)
        for name, (queries, since) in TOGETHER.items()
    ],
)
def test_every_operator_survives_the_kills_of_drivers_and_executors(
    names: list[str], spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    _check(names, SEED, spark, tmp_path, show)


def _check(
    names: list[str], seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Kills them, and compares their rows and state with those of an undisturbed run."""
    events, killed, peaceful = (tmp_path / name for name in ("events", "killed", "peaceful"))
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
    # that only advances the watermark skips that epoch; one more file compensates for it.
    write_closing(events, FILES + 1)
    for name in names:
        operator = ALL[name]
        run(spark, operator, events=events, root=killed / name, provider=CLEANCUT)
        actual = results(killed / name)
        expected = _undisturbed(spark, name, killed / name / "checkpoint", peaceful / name)
        difference = Difference.between(expected, actual)
        show(f"{name}: {len(actual)} epochs, {difference}")
        assert difference.expected > 0
        assert (difference.lost, difference.duplicated) == (0, 0), difference
        left, expected_left = (
            read_state(spark, root / name, operator.settings) for root in (killed, peaceful)
        )
        assert left == expected_left
    assert (campaign.drivers_killed, campaign.executors_killed) == (DRIVER_KILLS, EXECUTOR_KILLS)
    assert campaign.lives == DRIVER_KILLS + 1


def _undisturbed(spark: SparkSession, name: str, killed: Path, root: Path) -> dict[int, list[str]]:
    """Returns the results of the same epochs by Spark's own provider in two runs without kills."""
    epochs = files_by_epoch(killed)
    for those in (epochs[:-1], epochs):
        write_epochs(those, root / "events")
        run(spark, ALL[name], events=root / "events", root=root, provider=ROCKSDB)
    return results(root)
