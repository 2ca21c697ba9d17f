"""Random corruption of random files of a checkpoint: an error that names the file, or the right
result.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.input_coverage.log import INPUTS
from tests.support.random_damages import FILES, RandomDamage
from tests.support.results import Difference, EpochFiles
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import ROCKSDB, run
from tests.support.stopped import OPERATOR, Stopped, restart, stop_with_base_and_deltas
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

SEED = hunting(99)
TRIALS = 10 * chaos_runs()


@long
def test_a_restart_after_random_corruption_names_it_or_is_right(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    intact = stop_with_base_and_deltas(spark, tmp_path / "intact", seed=SEED)
    expected = run(spark, OPERATOR, events=intact.events, root=tmp_path / "peer", provider=ROCKSDB)
    outcomes = Counter[str]()
    for trial in range(TRIALS):
        damage = RandomDamage(FILES, SEED, trial)
        INPUTS.add(FILES.space, f"{SEED} {trial}", damage.covered())
        query = intact.copy(tmp_path / str(trial))
        files = damageable(query)
        victim = damage.victim(files)
        damage.apply(victim, files)
        how = damage.selected["corruption"]
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


def damageable(query: Stopped) -> dict[str, list[Path]]:
    """Returns the bases and the deltas."""
    root = query.checkpoint / "cleancut"
    return {kind: sorted(root.rglob(f"*.{kind}")) for kind in ("base", "delta")}
