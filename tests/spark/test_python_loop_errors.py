"""Errors of Python functions with state, in Cleancut's loop over groups and in PySpark's."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support.failing_functions import (
    DEFERRED,
    GROUPED_POINTS,
    OUTPUT,
    POINTS,
    Failing,
    grouped,
)
from tests.support.lines import ROWS_OF_PROCESSORS
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

ACCELERATE = "spark.sql.streaming.stateStore.cleancut.acceleratePython"
CASES = {
    f"{form}-{point}": (form, point)
    for form in (("rows",) if ROWS_OF_PROCESSORS.is_here else ()) + ("frames", "groups")
    for point in (GROUPED_POINTS if form == "groups" else POINTS)
}
USUALLY = {"rows-result", "rows-wrong value", "frames-wrong columns", "groups-rows"}


@pytest.mark.parametrize(("form", "point"), usually(USUALLY, CASES, CASES.__getitem__))
def test_errors_are_those_of_pysparks_loop(
    form: str, point: str, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    source = tmp_path / "source"
    rows = [(f"k{i % 6}", i) for i in range(60)]
    frame = spark.createDataFrame(rows, "k string, n long")
    frame.selectExpr("*", "timestamp_seconds(n) as ts").coalesce(1).write.parquet(str(source))
    errors = {}
    for is_accelerated in (False, True):
        session = spark.newSession()
        session.conf.set(ACCELERATE, str(is_accelerated).lower())
        session.conf.set("spark.sql.shuffle.partitions", "1")
        errors[is_accelerated] = _error(
            session, form, point, source, tmp_path / f"{is_accelerated}"
        )
    expected, actual = errors[False], errors[True]
    show(f"{form}, {point}: {actual}")
    if point in DEFERRED:
        assert (expected is None) == (actual is None)
    else:
        assert actual == expected


def _collect(batch: DataFrame, epoch: int) -> None:
    batch.collect()


def _error(
    session: SparkSession, form: str, point: str, source: Path, location: Path
) -> tuple[str, list[str]] | None:
    """The last line of the worker's error, and the lines of the function in its traceback."""
    rows = session.readStream.schema("k string, n long, ts timestamp").parquet(str(source))
    groups = rows.withWatermark("ts", "1 second").groupBy("k")
    mode = "EventTime" if point == "timer" else "None"
    result: DataFrame
    if form == "groups":
        result = groups.applyInPandasWithState(
            partial(grouped, point=point), OUTPUT, "n long", "update", "NoTimeout"
        )
    elif form == "frames":
        failing = Failing(point, is_pandas=True)
        result = groups.transformWithStateInPandas(failing, OUTPUT, "Update", mode)
    else:
        failing = Failing(point, is_pandas=False)
        result = groups.transformWithState(failing, OUTPUT, "Update", mode)
    query = (
        result.writeStream.outputMode("update")
        .option("checkpointLocation", str(location))
        .trigger(availableNow=True)
        .foreachBatch(_collect)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        text = str(error)
        raised = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|Iteration)\b.*$", text, re.M)
        python = [line for line in raised if not line.startswith(("org.", "java.", "py4j."))]
        frames = re.findall(r"failing_functions\.py\", line (\d+), in (\w+)", text)
        # The number of a Java object.
        last = re.sub(r"\bo\d+\b", "o", (python or raised)[-1])
        return last, [f"{name}:{line}" for line, name in frames]
    return None
