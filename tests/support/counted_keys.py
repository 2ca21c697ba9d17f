"""Python functions with state that count the rows of a key, in each form of PySpark."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "key long, n long"


class Counts(StatefulProcessor):
    """Counts the rows of a key, from an initial state on if there is one."""

    def __init__(self, *, is_pandas: bool) -> None:
        self._is_pandas = is_pandas

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state."""
        self._n = handle.getValueState("n", "n long")

    # PySpark's name.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Returns the number of rows so far."""
        n = (self._n.get() or (0,))[0] + sum(len(r) if self._is_pandas else 1 for r in rows)
        self._n.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]}) if self._is_pandas else Row(key=key[0], n=n)

    # PySpark's name.
    def handleInitialState(  # noqa: N802
        self,
        key: Any,
        initialState: pd.DataFrame,  # noqa: N803
        timerValues: Any,  # noqa: N803
    ) -> None:
        """Begins with the sum of the column `n`."""
        self._n.update((int(initialState["n"].sum()),))

    def close(self) -> None:
        """Has nothing to release."""


def _count(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [n]})


def groups(rows: DataFrame) -> DataFrame:
    """Counts by `applyInPandasWithState`."""
    return rows.groupBy("key").applyInPandasWithState(
        _count, OUTPUT, "n long", "update", "NoTimeout"
    )


def frames(rows: DataFrame, initial: DataFrame | None = None) -> DataFrame:
    """Counts by `transformWithStateInPandas`."""
    return rows.groupBy("key").transformWithStateInPandas(
        Counts(is_pandas=True),
        OUTPUT,
        "Update",
        "None",
        initialState=None if initial is None else initial.groupBy("key"),
    )


def rows_of_processors(rows: DataFrame) -> DataFrame:
    """Counts by `transformWithState`."""
    processor = Counts(is_pandas=False)
    return rows.groupBy("key").transformWithState(processor, OUTPUT, "Update", "None")


def run(counts: DataFrame, checkpoint: str) -> tuple[list[tuple[int, int]], StreamingQuery]:
    """Runs a query to the end of its input.

    Args:
        counts: one of the above of a stream.
        checkpoint: its location.

    Returns:
        All results, sorted, and the query, which has ended.
    """
    emitted: list[tuple[int, int]] = []
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: emitted.extend(map(tuple, batch.collect())))
        .start()
    )
    query.awaitTermination()
    return sorted(emitted), query
