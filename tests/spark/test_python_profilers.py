"""PySpark's profiler of functions measures functions with state, with each loop over groups."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.support.lines import ROWS_OF_PROCESSORS
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

ACCELERATE = "spark.sql.streaming.stateStore.cleancut.acceleratePython"
PROFILER = "spark.sql.pyspark.udf.profiler"
OUTPUT = "key long, n long"


class Counts(StatefulProcessor):
    """Counts the rows of a key."""

    def __init__(self, *, is_pandas: bool) -> None:
        self._is_pandas = is_pandas

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._n = handle.getValueState("n", "n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        n = (self._n.get() or (0,))[0] + sum(len(r) if self._is_pandas else 1 for r in rows)
        self._n.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]}) if self._is_pandas else Row(key=key[0], n=n)

    def close(self) -> None:
        pass


def count(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [n]})


def groups(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").applyInPandasWithState(
        count, OUTPUT, "n long", "update", "NoTimeout"
    )


def frames(rows: DataFrame) -> DataFrame:
    processor = Counts(is_pandas=True)
    return rows.groupBy("key").transformWithStateInPandas(processor, OUTPUT, "Update", "None")


def rows_of_processors(rows: DataFrame) -> DataFrame:
    processor = Counts(is_pandas=False)
    return rows.groupBy("key").transformWithState(processor, OUTPUT, "Update", "None")


def collect(emitted: list[tuple[int, int]], batch: DataFrame, _epoch: int) -> None:
    emitted.extend(map(tuple, batch.collect()))


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
        emitted: list[tuple[int, int]] = []
        query = (
            build(session.readStream.schema("key long").json(source))
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(tmp_path / accelerated))
            .trigger(availableNow=True)
            .foreachBatch(partial(collect, emitted))
            .start()
        )
        query.awaitTermination()
        assert sorted(emitted) == [(1, 2), (2, 1)]
        measured = session._profiler_collector._perf_profile_results
        profiled[accelerated] = sum(
            bool(stats.get_stats_profile().func_profiles) for stats in measured.values()
        )
    assert profiled["true"] == profiled["false"]
    # Not every version of PySpark profiles these functions.
    assert spark.version < "4.3" or profiled["true"] > 0
