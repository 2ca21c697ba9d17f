"""PySpark's profiler of functions measures functions with state, with each loop over groups."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.counted_keys import frames, groups, rows_of_processors, run
from tests.support.lines import ROWS_OF_PROCESSORS
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

ACCELERATE = "spark.sql.streaming.stateStore.cleancut.acceleratePython"
PROFILER = "spark.sql.pyspark.udf.profiler"
FORMS = [groups, frames, *([rows_of_processors] if ROWS_OF_PROCESSORS.is_here else [])]


@pytest.mark.parametrize("build", FORMS)
def test_the_profiler_measures_a_function_with_state(
    build: Callable[[DataFrame], DataFrame], spark: SparkSession, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    spark.createDataFrame([(1,), (2,), (1,)], "key long").write.json(source)
    profiled = {}
    for accelerated in ("false", "true"):
        session = with_cuts(spark, 2)
        session.conf.set(ACCELERATE, accelerated)
        session.conf.set(PROFILER, "perf")
        # Sessions share the results.
        session.profile.clear(type="perf")
        rows = session.readStream.schema("key long").json(source)
        emitted, _ = run(build(rows), str(tmp_path / accelerated))
        assert emitted == [(1, 2), (2, 1)]
        measured = session._profiler_collector._perf_profile_results
        profiled[accelerated] = sum(
            bool(stats.get_stats_profile().func_profiles) for stats in measured.values()
        )
    assert profiled["true"] == profiled["false"]
    # Not every version of PySpark profiles these functions.
    assert spark.version < "4.3" or profiled["true"] > 0
