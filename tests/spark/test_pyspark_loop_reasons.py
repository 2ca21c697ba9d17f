"""`status()` has the reason why PySpark's loop over groups is not replaced."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cleancut import coordinator
from tests.support.counted_keys import OUTPUT, frames, groups, run
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

ACCELERATE = "spark.sql.streaming.stateStore.cleancut.acceleratePython"


def with_initial_state(rows: DataFrame) -> DataFrame:
    return frames(rows, rows.sparkSession.createDataFrame([(1, 10)], OUTPUT))


@pytest.mark.parametrize(
    ("build", "settings", "reasons", "expected"),
    [
        pytest.param(frames, {}, {}, [(1, 2), (2, 1)], id="replaced"),
        pytest.param(
            groups,
            {ACCELERATE: "false"},
            {0: f"{ACCELERATE} is false"},
            [(1, 2), (2, 1)],
            id="turned off",
        ),
        pytest.param(
            with_initial_state,
            {},
            {0: "it processes its initial state"},
            [(1, 12), (2, 1)],
            id="initial state",
        ),
    ],
)
def test_the_status_has_the_reason_for_pysparks_loop(
    build: Callable[[DataFrame], DataFrame],
    settings: Mapping[str, str],
    reasons: Mapping[int, str],
    expected: list[tuple[int, int]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    session = with_cuts(spark, 2)
    for key, value in settings.items():
        session.conf.set(key, value)
    source = str(tmp_path / "source")
    session.createDataFrame([(1,), (2,), (1,)], "key long").write.json(source)
    rows = session.readStream.schema("key long").json(source)
    emitted, query = run(build(rows), str(tmp_path / "checkpoint"))
    assert emitted == expected
    # It is kept after the run.
    assert coordinator(query).status().pyspark_loop == reasons
