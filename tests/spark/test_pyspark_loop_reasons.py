"""`status()` has the reason why PySpark's loop over groups is not replaced."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from cleancut import coordinator
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

ACCELERATE = "spark.sql.streaming.stateStore.cleancut.acceleratePython"
OUTPUT = "key long, n long"


class Counts(StatefulProcessor):
    """Counts the rows of a key, from an initial state on."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._n = handle.getValueState("n", "n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        n = (self._n.get() or (0,))[0] + sum(map(len, rows))
        self._n.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    def handleInitialState(  # noqa: N802
        self,
        key: Any,
        initialState: pd.DataFrame,  # noqa: N803
        timerValues: Any,  # noqa: N803
    ) -> None:
        self._n.update((int(initialState["n"].sum()),))

    def close(self) -> None:
        pass


def count(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [n]})


def grouped(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").applyInPandasWithState(
        count, OUTPUT, "n long", "update", "NoTimeout"
    )


def transformed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(Counts(), OUTPUT, "Update", "None")


def with_initial_state(rows: DataFrame) -> DataFrame:
    known = rows.sparkSession.createDataFrame([(1, 10)], OUTPUT).groupBy("key")
    return rows.groupBy("key").transformWithStateInPandas(
        Counts(), OUTPUT, "Update", "None", initialState=known
    )


@pytest.mark.parametrize(
    ("build", "settings", "reasons", "expected"),
    [
        pytest.param(transformed, {}, {}, [(1, 2), (2, 1)], id="replaced"),
        pytest.param(
            grouped,
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
    emitted: list[tuple[int, int]] = []
    query = (
        build(session.readStream.schema("key long").json(source))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: emitted.extend(map(tuple, batch.collect())))
        .start()
    )
    query.awaitTermination()
    assert sorted(emitted) == expected
    # It is kept after the run.
    assert coordinator(query).status().pyspark_loop == reasons
