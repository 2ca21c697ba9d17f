"""Randomized Python queries with state, compared with a model, while workers are killed.

`tests/chaos/test_python_killed.py` is the campaign.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.python_queries import PythonQuery
from tests.support.python_runs import PythonRun
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

SEEDS = {str(seed): (seed,) for seed in range(1, 17)}
# Each form of the function once: rows with timers, frames, groups.
USUALLY = {"1", "5", "9"}


@pytest.mark.parametrize("seed", usually(USUALLY, SEEDS, SEEDS.__getitem__))
def test_a_query_returns_the_results_of_its_model(
    seed: int, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    run = PythonRun(PythonQuery.draw(seed), tmp_path / "query")
    run.run(spark)
    result = run.result()
    show(str(result))
    assert result.is_right, result
    assert result.outcome.events > 0
