"""Cleancut's loop over groups in the Python worker, compared with PySpark's."""

import datetime
import decimal
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.documented import blocks
from tests.support.lines import ROWS_OF_PROCESSORS, TIMERS_OF_STRUCTS
from tests.support.patience import wait_until
from tests.support.state_functions import (
    INPUT,
    OUTPUT,
    Everything,
    grouped,
)
from tests.support.tiers import usually

pytestmark = pytest.mark.spark

KEYS = "spark.sql.streaming.stateStore.cleancut."
EPOCHS = 3
# Keys with NaN and nulls, and for rows with structs.
KEY_COLUMNS = {
    "rows": ("k", "d", "st") if TIMERS_OF_STRUCTS.is_here else ("k", "d"),
    "frames": ("k", "d", "t"),
    "groups": ("k", "d"),
}
FORMS = ("rows", "frames", "groups") if ROWS_OF_PROCESSORS.is_here else ("frames", "groups")
# Form, time mode, rows in an Arrow batch.
CASES = {
    f"{form}-{mode}-{rows}": (form, mode, rows)
    for form, mode, rows in [
        *(
            (form, mode, rows)
            for form in FORMS[:-1]
            for mode in ("None", "EventTime", "ProcessingTime")
            for rows in (10_000, 7)
        ),
        *(("groups", "EventTime", rows) for rows in (10_000, 7)),
    ]
}
USUALLY = {"rows-EventTime-10000", "frames-EventTime-7", "groups-EventTime-10000"}


@pytest.mark.parametrize(("form", "mode", "batch_rows"), usually(USUALLY, CASES, CASES.__getitem__))
def test_functions_see_and_return_the_same_as_in_pysparks_loop(
    form: str,
    mode: str,
    batch_rows: int,
    spark: SparkSession,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    seed = random.randrange(1 << 30)
    show(f"seed {seed}")
    source = tmp_path / "source"
    for epoch in range(EPOCHS):
        rows = _rows(random.Random(seed + epoch), epoch)
        spark.createDataFrame(rows, INPUT).coalesce(1).write.mode("append").parquet(str(source))
    results = {}
    for accelerated in (False, True):
        session = spark.newSession()
        session.conf.set(f"{KEYS}acceleratePython", str(accelerated).lower())
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch_rows))
        results[accelerated] = _run(session, form, mode, source, tmp_path / str(accelerated))
    assert [path.name for path in tmp_path.glob("False.loops/*")] == ["pyspark"]
    assert [path.name for path in tmp_path.glob("True.loops/*")] == ["cleancut"]
    expected, actual = results[False], results[True]
    assert set(expected) == set(actual)
    wrong = {key for key in expected if expected[key] != actual[key]}
    for key in list(wrong)[:2]:
        show(f"{key}: {expected[key]}\n-> {actual[key]}")
    assert not wrong
    show(f"{form}, {mode}: {len(expected)} keys, {sum(map(len, expected.values()))} rows are equal")


@ROWS_OF_PROCESSORS.needed
def test_the_function_of_the_page_keeps_totals(spark: SparkSession, tmp_path: Path) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    (block,) = blocks("docs/use/python-state.md", "python")
    exec(block, scope)
    source = tmp_path / "orders"
    spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "shop string, amount long").write.json(
        str(source)
    )
    rows = spark.readStream.schema("shop string, amount long").json(str(source))
    emitted: list[tuple[str, int]] = []
    query = (
        rows.groupBy("shop")
        .transformWithState(scope["Total"](), "shop string, amount long", "Update", "None")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: emitted.extend(map(tuple, batch.collect())))
        .start()
    )
    query.awaitTermination()
    assert sorted(emitted) == [("a", 4), ("b", 2)]


def _run(
    session: SparkSession, form: str, mode: str, source: Path, location: Path
) -> dict[str, list[tuple[int, str]]]:
    """The results of each key, in their order, each with its epoch."""
    emitted: dict[str, list[tuple[int, str]]] = defaultdict(list)
    loops = location.with_suffix(".loops")
    loops.mkdir()

    collected: set[int] = set()

    def collect(batch: DataFrame, epoch: int) -> None:
        rows = batch.collect()
        if epoch < EPOCHS:
            for row in rows:
                emitted[row.k].append((epoch, row.seen))
            collected.add(epoch)

    reader = session.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
    rows = reader.parquet(str(source)).withWatermark("ts", "5 seconds")
    groups = rows.groupBy(*KEY_COLUMNS[form])
    everything = Everything(
        is_pandas=form == "frames",
        has_timers=mode == "EventTime",
        ttl_ms=3_600_000 if mode == "ProcessingTime" else None,
        loops=str(loops),
    )
    if form == "groups":
        result = groups.applyInPandasWithState(
            partial(grouped, loops=str(loops)),
            OUTPUT,
            "text string, count long",
            "update",
            "EventTimeTimeout",
        )
    elif form == "frames":
        result = groups.transformWithStateInPandas(everything, OUTPUT, "Update", mode)
    else:
        result = groups.transformWithState(everything, OUTPUT, "Update", mode)
    query = (
        result.writeStream.outputMode("update")
        .option("checkpointLocation", str(location))
        .foreachBatch(collect)
        .start()
    )
    # With processing time there is always another epoch.
    wait_until(lambda: len(collected) >= EPOCHS or not query.isActive)
    query.stop()
    assert query.exception() is None
    return emitted


def _rows(chosen: random.Random, epoch: int) -> list[tuple[Any, ...]]:
    """Rows of groups of different sizes; some keys and columns have nulls."""
    rows = []
    start = datetime.datetime(2026, 1, 1)
    for key in chosen.sample(range(300), 150):
        has_nulls = chosen.random() < 0.3
        name = None if key == 7 else f"key{key}"
        for _ in range(chosen.choice((1, 1, 1, 2, 5, 30))):

            def maybe(value: Any, has_nulls: bool = has_nulls) -> Any:
                return None if has_nulls and chosen.random() < 0.4 else value

            seconds = chosen.uniform(0, 40) + 30 * epoch
            rows.append(
                (
                    name,
                    maybe(chosen.choice((0, -1, 1 << 60, chosen.randrange(1000)))),
                    maybe(chosen.randrange(1000)),
                    maybe(chosen.randrange(1000)),
                    maybe(chosen.randrange(100)),
                    maybe(chosen.choice((0.5, float("nan"), -0.0))),
                    maybe(chosen.choice((chosen.random(), float("nan"), float("inf")))),
                    maybe(chosen.random() < 0.5),
                    maybe(chosen.choice(("", "a", "ü", "2026-01-01"))),
                    maybe(datetime.date(2026, 1, 1 + chosen.randrange(28))),
                    maybe(start + datetime.timedelta(seconds=chosen.uniform(0, 1e7))),
                    maybe(decimal.Decimal(chosen.randrange(10**6)) / 1000),
                    maybe(bytes(chosen.randrange(3))),
                    maybe([chosen.randrange(9) for _ in range(chosen.randrange(3))]),
                    maybe((chosen.randrange(9), "y")),
                    maybe({"u": chosen.randrange(9)}),
                    maybe(chosen.randrange(9)),
                    start + datetime.timedelta(seconds=seconds),
                )
            )
    return rows
