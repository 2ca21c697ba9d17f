"""Queries on a cluster of two executors, cut at random and killed while rows are in flight.

Topology: five random queries in mode unaligned on `local-cluster`, each with a hot key; one has a
slow function in Python. Drivers and executors are killed by SIGKILL at random moments with
in-flight rows of the query in Python. Verified against the answer of a batch over the same files:
lost, duplicated and unordered rows; epochs that ran again with other rows after their seal; and
that kills and in-flight rows have happened. `SEED` replays a run; `CLEANCUT_CHAOS_RUNS` makes it a
campaign, whose sums are a line for `docs/project/campaign-records.md`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut.testing import SkewedInput
from demo.in_flight import has_rows_in_flight, in_flight_rows
from tests.input_coverage.log import INPUTS
from tests.support.in_flight_queries import (
    KILL_SPACE,
    ROWS,
    Ended,
    covered_by,
    draw_queries,
    draw_size,
    start,
)
from tests.support.kills import Campaign
from tests.support.seeds import chaos_runs, hunting
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(4711)
CLUSTER = "local-cluster[2,1,1024]"
# Columns of the table in docs/project/campaign-records.md, after the seeds. A run is one query.
COUNTED = ["runs", "epochs", "held", "drivers", "executors", "met"]
FAULTS = ["lost", "duplicated", "disordered", "wrong"]


@pytest.fixture(scope="module")
def tally(figures: list[str]) -> Iterator[Counter[str]]:
    """Sums over all seeds."""
    counter: Counter[str] = Counter()
    yield counter
    counts = " | ".join(str(counter[name]) for name in COUNTED + FAULTS)
    figures.append(
        f"for docs/project/campaign-records.md: | {SEED} to {SEED + chaos_runs() - 1} | {counts} |"
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + chaos_runs()))
def test_in_flight_rows_survive_kills_of_drivers_and_executors(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None], tally: Counter[str]
) -> None:
    files, driver_kills, executor_kills = draw_size(seed)
    source, root = SkewedInput(tmp_path / "input", seed=seed, rows=ROWS), tmp_path / "queries"
    source.write(*range(files))
    names = draw_queries(seed)
    INPUTS.add(KILL_SPACE, seed, covered_by(seed))
    checkpoints = {name: str(root / name / "checkpoint") for name in names}
    # It waits for the most rows, so that others end before it.
    awaited = checkpoints[names[-1]]
    met: list[dict[str, int]] = []
    campaign = Campaign(
        [
            *("-m", "tests.support.in_flight_queries", CLUSTER, str(seed)),
            *(str(source.directory), str(root), *names),
        ],
        work=tmp_path,
        seed=seed,
        driver_kills=driver_kills,
        executor_kills=executor_kills,
        is_worth_it=lambda: has_rows_in_flight(awaited),
        struck=lambda _: met.append({name: in_flight_rows(at) for name, at in checkpoints.items()}),
    )
    campaign.run(progress=lambda: len(list(root.glob("*/results/*.json"))))
    show(
        f"seed {seed}: {campaign.drivers_killed} drivers and {campaign.executors_killed} executors "
        f"killed in {campaign.lives} lives, with these in-flight rows: {met}"
    )
    tally["drivers"] += campaign.drivers_killed
    tally["executors"] += campaign.executors_killed
    tally["met"] += sum(sum(rows.values()) for rows in met)
    open_epochs = 0
    for name in names:
        start(spark, name, source, root / name, mode="aligned").awaitTermination()
        query = Ended.of(name, spark, source, root / name)
        compared = query.compared
        open_epochs += query.held
        show(f"{name}: {query}")
        is_right = compared.is_same and query.changed == []
        tally.update(
            runs=1,
            epochs=len(query.modes),
            held=query.held,
            lost=compared.lost,
            duplicated=compared.duplicated,
            disordered=compared.out_of_order,
            wrong=not is_right,
        )
        assert compared.expected > 0
        assert is_right, (compared, query.changed)
        assert query.modes[-1] == "aligned"
    assert open_epochs > 0
    assert any(sum(rows.values()) for rows in met)
    assert (campaign.drivers_killed, campaign.executors_killed) == (driver_kills, executor_kills)
