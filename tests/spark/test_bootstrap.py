"""A query starts with state that another program has written, and continues from it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cleancut
from cleancut import Checkpoint, RequestError
from tests.spark.test_compatible import Job
from tests.support.documented import blocks
from tests.support.file_epochs import PLACES, Epochs
from tests.support.processors import OUTPUT, Grown
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

GUIDE = "docs/use/editing.md"
REFUSED = "CLEANCUT_OPERATION_REFUSED"


def counted(events: DataFrame) -> DataFrame:
    """Returns rows with the columns k and count as state."""
    key = f.struct(f.col("k").cast("int").alias("k"))
    return events.select(
        key.alias("key"), f.struct(f.col("count").cast("long").alias("count")).alias("value")
    )


def query_of(it: Epochs, session: SparkSession) -> DataFrame:
    stream = session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
    return stream.json(str(it.home / "in")).groupBy("k").count()


@pytest.mark.parametrize("place", usually((), PLACES))
def test_a_query_continues_from_the_given_state(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    it = Epochs(spark, tmp_path, PLACES[place])
    session = it.session()
    given = {5: 1000, 77: 7} | {1000 + at: at + 1 for at in range(500)}
    rows = counted(session.createDataFrame(list(given.items()), "k long, count long"))
    plan = cleancut.bootstrap(it.checkpoint, query_of(it, session), {0: rows}, "update")
    assert (plan.operation, plan.epoch, plan.source, plan.last) == ("bootstrap", 1, -1, -1)
    assert "the state that is given" in str(plan)
    assert not Path(it.checkpoint).exists()
    done = plan.apply()
    assert [operator.rows for operator in done.operators] == [len(given)]
    assert it.state() == given
    it.add(3)
    assert it.run() == [2, 3, 4]
    assert it.state() == Counter(given) + it.expected(3)
    # A restart and an operation read it like any other checkpoint.
    it.add()
    assert it.run() == [5]
    cleancut.rescale(it.checkpoint, 5).apply()
    it.add()
    assert it.run() == [7]
    assert it.state() == Counter(given) + it.expected(5)
    if "cuts" in place:
        assert Checkpoint(it.checkpoint).verify().ok


@long
def test_each_operator_and_variable_gets_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, "cuts")
    session = job.session()

    def query() -> DataFrame:
        first = job.read(session).dropDuplicates(["k"])
        keyed = first.withColumns({"v": f.col("k"), "s": f.lit("x")}).groupBy("k")
        return keyed.transformWithState(Grown(1), OUTPUT, "update", "none")

    key = f.struct(f.col("id").cast("int").alias("k"))
    known = session.range(2).select(key.alias("key"))
    n = f.struct((f.col("key.k") + 10).cast("long").alias("n"))
    before = known.select("key", n.alias("value"))
    seen = known.select("key", f.struct(f.lit(None).alias("__dummy__")).alias("value"))
    plan = cleancut.bootstrap(job.checkpoint, query(), {(0, "count"): before}, "update")
    assert [operator.name for operator in plan.operators] == [
        "transformWithStateInPySparkExec",
        "dedupe",
    ]
    for rows, reason in (
        ({(0, "all"): before}, "value ARRAY<STRUCT<n: BIGINT>>"),
        ({1: before}, "must have the columns key STRUCT<k: INT>"),
        ({2: before}, "no stateful operator 2"),
        ({(0, "count"): before, (0, "default", "count"): before}, "given twice"),
    ):
        with pytest.raises(RequestError, match=reason) as refused:
            cleancut.bootstrap(job.checkpoint, query(), rows, "update")  # type: ignore[arg-type]
        assert refused.value.error_id == REFUSED
    twice: dict[Any, DataFrame] = {(0, "count"): before.union(before)}
    with pytest.raises(RequestError, match="2 times"):
        cleancut.bootstrap(job.checkpoint, query(), twice, "update").apply()
    assert not Path(job.checkpoint).exists()
    lists = before.withColumn("value", f.array("value", "value"))
    of_both: dict[Any, DataFrame] = {(0, "count"): before, (0, "all"): lists, 1: seen}
    cleancut.bootstrap(job.checkpoint, query(), of_both, "update").apply()
    job.add()  # keys 0 to 4, of which 0 and 1 have been seen
    assert job.start(query(), "update") is None
    counts = Checkpoint(job.checkpoint).state(0, family="count").to_pylist()
    counts_by_key = {row["key"]["k"]: row["value"]["n"] for row in counts}
    assert counts_by_key == {0: 10, 1: 11, 2: 1, 3: 1, 4: 1}
    every = Checkpoint(job.checkpoint).state(0, family="all").to_pylist()
    kept = Counter((row["key"]["k"], row["value"]["n"]) for row in every)
    assert kept == {(0, 10): 2, (1, 11): 2, (2, 1): 1, (3, 1): 1, (4, 1): 1}
    with pytest.raises(RequestError, match="there is a checkpoint"):
        cleancut.bootstrap(job.checkpoint, query(), of_both, "update")


@long
@pytest.mark.parametrize("place", usually({"cuts"}, PLACES))
def test_an_interrupted_bootstrap_does_not_start_and_can_be_repeated(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    it = Epochs(spark, tmp_path, PLACES[place])
    session = it.session()
    good = counted(session.createDataFrame([(5, 1000)], "k long, count long"))

    def broken() -> bool:
        raise RuntimeError("no more")

    bad = good.where(f.udf(broken, "boolean")() | (f.col("key.k") == 5))
    query = query_of(it, session)
    # The check for duplicate keys reads all rows first; the operation then reads them again, and is
    # interrupted while it writes its stores.
    survived = f.udf(fails_from(tmp_path / "asked"), "boolean")
    with pytest.raises(Exception, match="no more"):
        cleancut.bootstrap(it.checkpoint, query, {0: bad}, "update").apply()
    assert not Path(it.checkpoint).exists()
    late = good.where(survived())
    with pytest.raises(Exception, match="no more"):
        cleancut.bootstrap(it.checkpoint, query, {0: late}, "update").apply()
    assert sorted(entry.name for entry in (Path(it.checkpoint) / "offsets").glob("[0-9]*")) == [
        "0",
        "1",
    ]
    it.add()
    with pytest.raises(Exception, match=r"."):
        it.run()
    assert it.given == {}
    cleancut.bootstrap(it.checkpoint, query, {0: good}, "update").apply()
    assert it.run() == [2]
    assert it.state() == Counter({5: 1000}) + it.expected(1)


def fails_from(note: Path) -> Any:
    """Returns a function of rows that succeeds in the check of the rows and fails afterwards."""

    def fails_later() -> bool:
        count = int(note.read_text()) if note.exists() else 0
        note.write_text(str(count + 1))
        if count >= 1:
            raise RuntimeError("no more")
        return True

    return fails_later


def test_the_documented_bootstrap_runs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    session = it.session()
    history = session.createDataFrame([(3, 30), (4, 40)], "k int, count long")
    *_, code = blocks(GUIDE, "python")
    names = {"history": history, "counted": query_of(it, session)}
    exec(code.replace("checkpoints/orders", it.checkpoint), names)
    assert "bootstrap" in capsys.readouterr().out
    it.add()
    it.run()
    assert it.state() == Counter({3: 30, 4: 40}) + it.expected(1)
