"""A query on a cluster that is rescaled while it runs, killed at random moments."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from tests.support.kills import Campaign
from tests.support.rescaled_counts import RescaledCounts
from tests.support.seeds import chaos_runs, hunting
from tests.support.sessions import with_cuts
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(5407)
FILES = 40
DRIVER_KILLS, EXECUTOR_KILLS = (3, 1) if chaos_runs() == 1 else (12, 6)
CLUSTER = "local-cluster[2,1,1024]"


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_a_rescaled_query_loses_no_row_if_drivers_and_executors_are_killed(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    home = tmp_path / "home"
    counts = RescaledCounts(with_cuts(spark, 2), home)
    counts.add(FILES)
    campaign = Campaign(
        ["-m", "tests.support.rescaled_counts", CLUSTER, str(home), str(seed)],
        work=tmp_path,
        seed=seed,
        driver_kills=DRIVER_KILLS,
        executor_kills=EXECUTOR_KILLS,
    )
    campaign.run(progress=lambda: len(list(home.glob("checkpoint/commits/[0-9]*"))))
    logs = "\n".join(log.read_text(errors="replace") for log in tmp_path.glob("life-*.log"))
    lines = Counter(line.split()[0] for line in logs.splitlines() if line.split())
    tally = {event: lines[event] for event in ("RESCALED", "REFUSED", "REPEATED")}
    show(f"seed {seed}, {campaign.drivers_killed} drivers killed, {tally}")
    assert counts.stored() == counts.published() == counts.expected()
    assert Checkpoint(counts.location).verify().ok
    assert tally["RESCALED"] > campaign.lives
    assert campaign.drivers_killed == DRIVER_KILLS
