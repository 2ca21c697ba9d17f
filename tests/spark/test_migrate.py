"""A query continues in another form with its former state, compared with the answer of a batch."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from cleancut.types import Plan
from tests.spark import test_compatible as forms
from tests.spark.test_compatible import Job, Query
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/use/changing.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"
Change = Callable[[DataFrame], DataFrame]


class Moved:
    """A job in an old and a new form, each on a separate checkpoint."""

    def __init__(self, spark: SparkSession, home: Path, place: str, old: Query, new: Query) -> None:
        self.job = Job(spark, home, place)
        self.old, self.new = old, new
        self.before, self.into = self.job.checkpoint, str(home / "into")

    def run(self, *, is_new: bool, files: int = 1) -> None:
        for _ in range(files):
            self.job.add()
        self.job.checkpoint = self.into if is_new else self.before
        form = self.new if is_new else self.old
        assert self.job.start(form(self.job, self.job.session()), "update") is None

    def plan(self, state: dict[Any, Any] | None = None, into: str | None = None) -> Plan:
        query = self.new(self.job, self.job.session())
        return cleancut.migrate(self.before, into or self.into, query, state, "update")

    def state(self, operator: int = 0, family: str = "default") -> list[dict[str, Any]]:
        rows = self.job.session().read.format("statestore").option("operatorId", operator)
        if family != "default":
            table = Checkpoint(self.into).state(operator, family=family)
            return [dict(row) for row in table.to_pylist()]
        loaded = rows.load(self.into).select("key", "value").collect()
        return [row.asDict(recursive=True) for row in loaded]

    def epochs(self) -> list[int]:
        return sorted(int(entry.name) for entry in (Path(self.into) / "commits").glob("[0-9]*"))


def with_sum(state: DataFrame) -> DataFrame:
    """Adds the sum of the keys so far: each row adds its key."""
    total = (f.col("value.count") * f.col("key.k")).alias("sum")
    return state.withColumn("value", f.struct(f.col("value.count").alias("count"), total))


@pytest.mark.parametrize("place", usually({"cuts"}, PLACES))
def test_an_added_aggregate_is_computed_from_the_keys(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    it = Moved(spark, tmp_path, place, forms.counted, forms.counted_and_summed)
    it.run(is_new=False, files=2)
    with pytest.raises(RequestError, match="its columns were k INT -> count") as refused:
        it.plan()
    assert refused.value.error_id == REFUSED
    plan = it.plan({0: with_sum})
    assert (plan.operation, plan.epoch, plan.source) == ("migrate", 3, 1)
    assert not Path(it.into).exists()
    assert [operator.rows for operator in plan.apply().operators] == [5]
    before = {entry.name for entry in (Path(it.before) / "commits").glob("[0-9]*")}
    it.run(is_new=True)
    assert it.epochs()[-1] == 4
    session = it.job.session()
    batch = session.read.schema("k int, t timestamp").json(str(tmp_path / "a"))
    answer = batch.groupBy("k").agg(f.count("*").alias("count"), f.sum("k").alias("s")).collect()
    expected = {row.k: (row["count"], row.s) for row in answer}
    state = {row["key"]["k"]: tuple(row["value"].values()) for row in it.state()}
    assert state == expected
    # The old checkpoint is unchanged, and its query may continue.
    assert before == {entry.name for entry in (Path(it.before) / "commits").glob("[0-9]*")}
    it.run(is_new=False, files=0)
    if "cuts" in place:
        assert Checkpoint(it.into).verify().ok


def test_keys_get_another_type(spark: SparkSession, tmp_path: Path) -> None:
    it = Moved(spark, tmp_path, "cuts", forms.counted, forms.counted_by_text)
    it.run(is_new=False, files=2)
    key = f.struct(f.col("key.k").cast("string").alias("_groupingexpression"))
    it.plan({0: lambda state: state.withColumn("key", key)}).apply()
    it.run(is_new=True)
    rows = Counter(str(at % 5) for at in range(9))
    assert {row["key"]["_groupingexpression"]: row["value"]["count"] for row in it.state()} == {
        key: 3 * count for key, count in rows.items()
    }


def test_operators_are_added_removed_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    it = Moved(spark, tmp_path, "cuts", forms.counted, forms.distinct_and_counted)
    it.run(is_new=False, files=2)
    plan = it.plan()
    assert plan.notes == ("Operator 1 (dedupe) begins without state.",)
    assert [operator.rows for operator in plan.apply().operators] == [5, 0]
    it.run(is_new=True)
    # All rows of a file have new event times, so that none is dropped.
    rows = Counter(at % 5 for at in range(9))
    assert {row["key"]["k"]: row["value"]["count"] for row in it.state()} == {
        key: 3 * count for key, count in rows.items()
    }
    back = Moved.__new__(Moved)
    back.__dict__ = it.__dict__ | {
        "before": it.into,
        "into": str(tmp_path / "back"),
        "new": forms.counted,
    }
    without = back.plan()
    assert without.notes == ("The state of operator 1 (dedupe) is not carried over.",)
    without.apply()
    back.run(is_new=True)
    assert {row["key"]["k"]: row["value"]["count"] for row in back.state()} == {
        key: 4 * count for key, count in rows.items()
    }


@long
def test_a_variable_gets_a_column_and_others_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    def form(release: int) -> Query:
        return lambda job, session: forms.remembering(job, session, release)

    it = Moved(spark, tmp_path, "cuts", form(1), form(2))
    it.run(is_new=False, files=2)
    text = f.lit("old").alias("s")
    value = f.struct(f.col("value.n").alias("n"), text)
    values = f.transform("value", lambda entry: f.struct(entry["n"].alias("n"), text))
    with pytest.raises(RequestError, match="family 'all' have to be given"):
        it.plan({(0, "count"): lambda state: state.withColumn("value", value)})
    both: dict[Any, Change] = {
        (0, "count"): lambda state: state.withColumn("value", value),
        (0, "all"): lambda state: state.withColumn("value", values),
    }
    it.plan(both).apply()
    it.run(is_new=True)
    by_key: dict[int, list[tuple[Any, ...]]] = {}
    for row in it.state(family="all"):
        by_key.setdefault(row["key"]["k"], []).append(tuple(row["value"].values()))
    assert {tuple(value[:2] for value in rows) for rows in by_key.values()} == {
        ((2, "old"), (4, "old"), (6, "x")),
        ((1, "old"), (2, "old"), (3, "x")),
    }


@long
def test_sparks_file_sink_continues(spark: SparkSession, tmp_path: Path) -> None:
    it = Moved(spark, tmp_path, "cuts", forms.distinct, forms.distinct)
    # It compacts its log in every second epoch, and stops if an entry is missing.
    it.job.settings |= {"spark.sql.streaming.fileSink.log.compactInterval": "2"}
    output = str(tmp_path / "out")

    def run(checkpoint: str, files: int) -> None:
        for _ in range(files):
            it.job.add()
        writer = forms.distinct(it.job, it.job.session()).select("k").writeStream.format("json")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start(output).awaitTermination()

    def written() -> list[int]:
        return sorted(row.k for row in spark.read.schema("k int").json(output).collect())

    run(it.before, files=2)
    query = forms.distinct(it.job, it.job.session())
    cleancut.migrate(it.before, it.into, query, file_sink=output).apply()
    assert written() == [0, 1, 2, 3, 4]
    run(it.into, files=4)
    assert written() == [0, 1, 2, 3, 4]
    key = f.struct(f.lit(3).alias("k"))
    value = f.struct(f.lit(None).alias("__dummy__"))
    rows = spark.range(1).select(key.alias("key"), value.alias("value"))
    other = str(tmp_path / "other")
    with pytest.raises(RequestError, match="out was written to"):
        cleancut.bootstrap(other, query, {0: rows}, file_sink=output)
    output = str(tmp_path / "out-2")
    cleancut.bootstrap(other, query, {0: rows}, file_sink=output).apply()
    run(other, files=1)
    assert written() == [0, 1, 2, 4]


def test_an_impossible_migration_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Moved(spark, tmp_path, "cuts", forms.counted, forms.of_both)
    it.run(is_new=False)
    with pytest.raises(RequestError, match="offsets of 1 sources, and the query has 2"):
        it.plan()
    it.new = forms.counted
    with pytest.raises(RequestError, match="the target must be another location"):
        it.plan(into=it.before)
    it.plan().apply()
    with pytest.raises(RequestError, match="there is a checkpoint"):
        it.plan()


def test_the_documented_migration_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it = Moved(spark, tmp_path, "cuts", forms.counted, forms.counted_and_summed)
    it.run(is_new=False, files=2)
    _, code = blocks(GUIDE, "python")
    code = code.replace("checkpoints/orders-2", it.into).replace("checkpoints/orders", it.before)
    exec(code, {"summed": it.new(it.job, it.job.session())})
    assert "from the state after epoch 1" in capsys.readouterr().out
    it.run(is_new=True)
    assert {len(row["value"]) for row in it.state()} == {2}
