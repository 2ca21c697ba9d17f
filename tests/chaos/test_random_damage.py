"""Random corruption of random files of a checkpoint: an error that names the file, or the right
result.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.damages import append, cut, flip, remove, replace_by, without_checksum_file
from tests.support.results import Difference, EpochFiles
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import ROCKSDB, run
from tests.support.stopped import OPERATOR, Stopped, restart, stop_with_base_and_deltas
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(99)
TRIALS = 10 * chaos_runs()


def corrupt(draw: random.Random, files: list[Path]) -> tuple[str, Path]:
    """Corrupts one of the files; returns the way and the file."""
    victim = draw.choice(files)
    size = victim.stat().st_size
    # Sometimes the checksum file of the file system is kept, and finds the corruption first.
    if draw.random() < 0.7:
        without_checksum_file(victim)
    how = draw.choice(["flip", "cut", "append", "remove", "replace"])
    if how == "flip":
        flip(victim, position=draw.randrange(size), bit=draw.randrange(8))
    elif how == "cut":
        cut(victim, keep=draw.randrange(size))
    elif how == "append":
        append(victim)
    elif how == "remove":
        remove(victim)
    else:
        replace_by(draw.choice([path for path in files if path != victim]))(victim)
    return how, victim


@long
def test_a_restart_after_random_corruption_names_it_or_is_right(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    intact = stop_with_base_and_deltas(spark, tmp_path / "intact", seed=SEED)
    expected = run(spark, OPERATOR, events=intact.events, root=tmp_path / "peer", provider=ROCKSDB)
    outcomes = Counter[str]()
    for trial in range(TRIALS):
        draw = random.Random(f"{SEED} {trial}")
        query = intact.copy(tmp_path / str(trial))
        how, victim = corrupt(draw, damageable(query))
        error = restart(spark, query)
        what = f"trial {trial} of seed {SEED}: {how} {victim.relative_to(query.root)}"
        if error is None:
            actual = EpochFiles(query.root / "results").read()
            assert Difference.between(expected, actual).none, what
            outcomes["right"] += 1
        else:
            assert str(victim.parent) in str(error), f"{what}: {error}"
            outcomes[f"{how}: {error.error_id}"] += 1
    show(f"seed {SEED}, {TRIALS} trials, {dict(outcomes)}")
    assert set(outcomes) != {"right"}


def damageable(query: Stopped) -> list[Path]:
    root = query.checkpoint / "cleancut"
    return sorted(path for suffix in ("base", "delta") for path in root.rglob(f"*.{suffix}"))
