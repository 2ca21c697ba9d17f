"""Randomized Python queries with state, whose workers and drivers are killed.

Topology: queries with a function in Python, in each form of PySpark, with all kinds of state, keys
and batches, in each mode, several at once in one JVM. Python workers are killed by SIGKILL while
they process rows, functions raise, and queries are stopped and restarted. Some queries run in
their own driver, which is killed. Verified against a model of the function: lost, duplicated and
unordered results, results with another state, and that faults and in-flight rows have happened.
`SEED` replays a run; `CLEANCUT_CHAOS_RUNS` makes it a campaign, whose sums are a line for
`docs/project/campaign-records.md`; `CLEANCUT_CAMPAIGN_MINUTES` ends it earlier.
"""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.kills import Campaign
from tests.support.python_inputs import SELECTIONS
from tests.support.python_queries import PythonQuery
from tests.support.python_runs import PythonRun, Result
from tests.support.seeds import chaos_runs, hunting
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

SEED = hunting(5300)
# Several runs are a complete cycle of queries, which has all pairs of values, or more.
SEEDS = range(SEED, SEED + 1)
if chaos_runs() > 1:
    _FIRST = SEED - SEED % SELECTIONS.size
    SEEDS = range(_FIRST, _FIRST + max(chaos_runs(), SELECTIONS.size))
CONCURRENT = 6
# Of the seeds, one in this number is of a query with its own driver.
_DRIVERS_OF_SEEDS = 20
_MINUTES = float(os.environ.get("CLEANCUT_CAMPAIGN_MINUTES", "inf"))
# Columns of the table in docs/project/campaign-records.md, after the seeds.
COUNTED = ["runs", "events", "epochs", "held", "in_flight", "killed", "failed", "drivers"]
COUNTED += ["restarts", "lost", "duplicated", "disordered", "wrong"]


@pytest.fixture(scope="module")
def tally(figures: list[str]) -> Iterator[Counter[str]]:
    """Sums over all seeds."""
    counter: Counter[str] = Counter()
    yield counter
    counts = " | ".join(str(counter[name]) for name in COUNTED)
    last = counter["last"]
    first = SEEDS.start
    figures.append(f"for docs/project/campaign-records.md: | {first} to {last} | {counts} |")


def _add(tally: Counter[str], result: Result) -> None:
    outcome = result.outcome
    tally.update(result.counts)
    tally.update(
        runs=1,
        events=outcome.events,
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        disordered=outcome.disordered,
        wrong=not result.is_right,
    )
    tally["last"] = max(tally["last"], result.query.seed)


def test_results_survive_kills_of_workers(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None], tally: Counter[str]
) -> None:
    began = time.monotonic()
    results: list[Result] = []
    run = partial(_run, spark, tmp_path, began, show, results)
    with ThreadPoolExecutor(CONCURRENT) as pool:
        list(pool.map(run, SEEDS))
    for result in results:
        _add(tally, result)
    assert results
    assert [str(result) for result in results if not result.is_right] == []


def _run(
    spark: SparkSession,
    home: Path,
    began: float,
    show: Callable[[str], None],
    results: list[Result],
    seed: int,
) -> None:
    if time.monotonic() - began > 60 * _MINUTES:
        return
    run = PythonRun(PythonQuery.draw(seed), home / str(seed))
    try:
        run.run(spark)
    except Exception as failure:
        run.problems.append(f"{type(failure).__name__}: {failure}")
    result = run.result()
    show(str(result))
    results.append(result)
    if result.is_right:
        shutil.rmtree(home / str(seed))


@pytest.mark.parametrize(
    "seed", range(SEED, SEED + chaos_runs(), _DRIVERS_OF_SEEDS), ids=lambda seed: f"driver-{seed}"
)
def test_results_survive_kills_of_drivers(
    seed: int, tmp_path: Path, show: Callable[[str], None], tally: Counter[str]
) -> None:
    query, home = PythonQuery.draw(seed), tmp_path / "query"
    run = PythonRun(query, home)
    campaign = Campaign(
        ["-m", "tests.support.python_runs", str(seed), str(home)],
        work=tmp_path,
        seed=seed,
        driver_kills=random.Random(seed).randint(1, 2),
        executor_kills=0,
        is_worth_it=lambda: run.conditions.running_process() is not None,
    )
    campaign.run(progress=lambda: len(list(home.glob("results/*.json"))))
    result = run.result()
    show(f"{result}; {campaign.drivers_killed} drivers killed in {campaign.lives} lives")
    _add(tally, result)
    tally["drivers"] += campaign.drivers_killed
    tally["restarts"] += campaign.lives - 1
    assert result.is_right, result
