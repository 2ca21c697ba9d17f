"""Reads the state of a stopped query as a DataFrame, changes it, and writes it back."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import cleancut
from cleancut import Checkpoint, RequestError
from tests.spark.test_compatible import Job
from tests.support.documented import blocks
from tests.support.file_epochs import KEYS, PLACES, Epochs
from tests.support.processors import OUTPUT, Grown
from tests.support.sessions import START_REFUSED
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/use/editing.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"


def count(number: int) -> Column:
    return f.struct(f.lit(number).cast("long").alias("count"))


def bump(state: DataFrame) -> DataFrame:
    """Deletes a key, changes one, and adds one."""
    value = f.when(f.col("key.k") == 5, count(1000)).otherwise(f.col("value"))
    changed = state.where("key.k <> 3").withColumn("value", value)
    key = f.struct(f.lit(77).alias("k"))
    return changed.union(state.limit(1).select(key.alias("key"), count(7).alias("value")))


@pytest.mark.parametrize("place", usually({"cuts"}, PLACES))
def test_a_query_continues_with_the_edited_state(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    it = Epochs(spark, tmp_path, PLACES[place])
    it.add(3)
    it.run()
    plan = cleancut.edit(it.checkpoint, 0, bump)
    assert (plan.operation, plan.epoch, plan.source) == ("edit", 4, 2)
    assert it.state() == it.expected(3)
    assert plan.apply().operators[0].rows == KEYS
    expected = Counter({**it.expected(3), 5: 1000, 77: 7})
    del expected[3]
    assert it.state() == expected
    it.add()
    assert it.run() == [5]
    new = it.expected(4) - it.expected(3)
    assert it.state() == expected + new
    # It is an ordinary epoch.
    cleancut.rollback(it.checkpoint, 2).apply()
    assert it.state() == it.expected(3)


@long
def test_an_edit_whose_epoch_is_taken_names_that_epoch(spark: SparkSession, tmp_path: Path) -> None:
    """The edit skips number 3, which a query plans concurrently, and is epoch 4 itself."""
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(3)
    it.run()
    log = tmp_path / "checkpoint" / "offsets"

    @f.udf("long")
    def planning(number: int) -> int:
        (log / "3").write_bytes((log / "2").read_bytes())
        return number

    def change(state: DataFrame) -> DataFrame:
        return state.withColumn("value", f.struct(planning("value.count").alias("count")))

    plan = cleancut.edit(it.checkpoint, 0, change)
    with pytest.raises(RequestError, match="another writer has added epoch 3"):
        plan.apply()
    # The query that wrote epoch 3 continues.
    assert not (log / "4").exists()
    it.add()
    assert it.run() == [3, 4]


@pytest.mark.parametrize("entries", [pytest.param(1, marks=long), 2])
@pytest.mark.parametrize("place", usually({"cuts"}, PLACES))
def test_no_query_starts_after_an_interrupted_edit(
    spark: SparkSession, tmp_path: Path, place: str, entries: int
) -> None:
    it = Epochs(spark, tmp_path, PLACES[place])
    it.add(3)
    it.run()
    cleancut.edit(it.checkpoint, 0, bump).apply()
    edited = it.state()
    # After the edit wrote one or both of its log entries, and nothing else.
    last = list((tmp_path / "checkpoint").glob("commits/4"))
    last += (tmp_path / "checkpoint").glob("cleancut/cuts/*4.cut")
    assert len(last) == (2 if place.startswith("cuts") else 1)
    for file in [*last, *([tmp_path / "checkpoint/offsets/3"] if entries == 1 else [])]:
        file.unlink()
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    it.add()
    with pytest.raises(START_REFUSED) as broken:
        it.run()
    assert max(it.given) == 2
    assert "CLEANCUT_OPERATION_INCOMPLETE" in str(broken.value)
    cleancut.edit(it.checkpoint, 0, bump).apply()
    assert it.state() == edited
    it.run()
    assert it.state() == edited + (it.expected(4) - it.expected(3))


def test_invalid_rows_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(2)
    it.run()

    def plan(change: Callable[[DataFrame], DataFrame], operator: int = 0, **named: Any) -> object:
        return cleancut.edit(it.checkpoint, operator, change, **named)

    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: plan(bump, 7), r"no stateful operator 7; there are 0 \(stateStoreSave\)"),
        (lambda: plan(bump, store="left"), "no store 'left'; there are default"),
        (lambda: plan(bump, family="f"), "no column family 'f'; there are default"),
        (lambda: plan(lambda state: state.select("key")), "must have the columns"),
        (lambda: plan(lambda state: state.withColumn("more", f.lit(1))), "must have the columns"),
        (
            lambda: plan(lambda s: s.withColumn("value", f.struct(f.lit("a").alias("count")))),
            "must have the columns",
        ),
    ]
    for call, reason in refusals:
        with pytest.raises(RequestError, match=reason) as raised:
            call()
        assert raised.value.error_id == REFUSED
    twice = cleancut.edit(it.checkpoint, 0, lambda state: state.union(state.where("key.k = 4")))
    with pytest.raises(RequestError, match=r"have the key \[4\] 2 times"):
        twice.apply()
    none = f.when(f.col("key.k") != 4, f.col("value"))
    without = cleancut.edit(it.checkpoint, 0, lambda state: state.withColumn("value", none))
    with pytest.raises(RequestError, match="a row has no key, or no value"):
        without.apply()
    late = cleancut.edit(it.checkpoint, 0, bump)
    it.add()
    it.run()
    with pytest.raises(RequestError, match=r"was 1 when it was made, and is 2 now") as raised:
        late.apply()
    assert raised.value.error_id == "CLEANCUT_PLAN_OUTDATED"
    assert f"cleancut.edit('file:{it.checkpoint}', …)" in str(raised.value)
    assert it.state() == it.expected(3)
    assert Checkpoint(it.checkpoint).verify().ok


@long
def test_state_of_other_operators_is_edited(spark: SparkSession, tmp_path: Path) -> None:
    """Edits the keys of a deduplication and the state of a function, each under its own operator
    ID.
    """
    source = tmp_path / "in"
    source.mkdir()
    given: list[tuple[int, int]] = []

    def counting(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((seen,))
        yield pd.DataFrame({"k": [key[0]], "seen": [seen]})

    def run() -> None:
        given.clear()

        def take(batch: DataFrame, _: int) -> None:
            given.extend((row.k, row.seen) for row in batch.collect())

        rows = spark.readStream.schema("k int, n int").json(str(source))
        counted = (
            rows.dropDuplicates(["k", "n"])
            .groupBy("k")
            .applyInPandasWithState(
                counting, "k int, seen int", "seen int", "update", GroupStateTimeout.NoTimeout
            )
        )
        writer = counted.writeStream.outputMode("update").foreachBatch(take)
        writer = writer.option("checkpointLocation", location)
        writer.trigger(availableNow=True).start().awaitTermination()

    location = str(tmp_path / "q")
    (source / "0.json").write_text("".join(f'{{"k": {n % 3}, "n": {n}}}\n' for n in range(9)))
    run()
    assert sorted(given) == [(0, 3), (1, 3), (2, 3)]
    operators = {
        operator.name: operator.operator for operator in cleancut.rescale(location, 2).operators
    }
    # Rows 0, 3 and 6 may be emitted once more.
    cleancut.edit(location, operators["dedupe"], lambda state: state.where("key.k <> 0")).apply()

    def hundred(state: DataFrame) -> DataFrame:
        (key,), (group, *others) = (
            state.select(f"{field}.*").columns for field in ("key", "value")
        )
        seen = f.struct(f.lit(100).alias("seen")).alias(group)
        value = f.struct(seen, *[f.col(f"value.{name}") for name in others])
        changed = f.when(f.col(f"key.{key}") == 2, value).otherwise(f.col("value"))
        return state.withColumn("value", changed)

    cleancut.edit(location, operators["applyInPandasWithState"], hundred).apply()
    text = "".join(f'{{"k": {n % 3}, "n": {n}}}\n' for n in (0, 3, 1, 11))
    (source / "1.json").write_text(text)
    run()
    assert sorted(given) == [(0, 5), (2, 101)]


def test_the_documented_edit_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it = Epochs(spark, tmp_path, PLACES["level-0"])
    it.add(2)
    it.run()
    code, *_ = blocks(GUIDE, "python")
    exec(code.replace("checkpoints/orders", it.checkpoint), {})
    assert "Nothing has changed yet." in capsys.readouterr().out
    state = it.state()
    assert 3 not in state
    assert state[5] == 0


@long
def test_lists_of_a_state_variable_are_edited_as_arrays(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, "cuts")

    def query() -> DataFrame:
        stream = job.read(job.session()).withColumns({"v": f.col("k"), "s": f.lit("x")})
        return stream.groupBy("k").transformWithState(Grown(1), OUTPUT, "update", "none")

    def lists() -> dict[int, list[int]]:
        values: dict[int, list[int]] = {}
        for row in Checkpoint(job.checkpoint).state(0, family="all").to_pylist():
            values.setdefault(row["key"]["k"], []).append(row["value"]["n"])
        return values

    for _ in range(2):
        job.add()
    assert job.start(query(), "update") is None
    before = lists()
    assert {len(values) for values in before.values()} == {2}
    more = f.array(f.struct(f.lit(77).cast("long").alias("n")))

    def change(state: DataFrame) -> DataFrame:
        value = f.when(f.col("key.k") == 1, f.concat(f.reverse("value"), more))
        return state.where("key.k <> 2").withColumn("value", value.otherwise(f.col("value")))

    plan = cleancut.edit(job.checkpoint, 0, change, family="all")
    assert plan.apply().operators[0].rows is not None
    expected = {**before, 1: [*reversed(before[1]), 77]}
    del expected[2]
    assert lists() == expected

    def emptied(state: DataFrame) -> DataFrame:
        return state.withColumn("value", f.expr("filter(value, x -> false)"))

    with pytest.raises(RequestError, match="no key, or no value"):
        cleancut.edit(job.checkpoint, 0, emptied, family="all").apply()
    job.add()
    assert job.start(query(), "update") is None
    # The previous values are followed by new ones, in order.
    assert {key: values[: len(expected.get(key, []))] for key, values in lists().items()} == {
        key: expected.get(key, []) for key in before
    }
