"""Tasks that fail and run again, and epochs that are computed twice."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from tests.support.events import write_events
from tests.support.queries import OPERATORS, Events, Operator
from tests.support.results import Difference, EpochFiles
from tests.support.seeds import fixed
from tests.support.sessions import ROCKSDB, run
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

SEED = fixed(6)
EPOCHS = 3
COUNTED = ["aggregation-update", "deduplication", "session-windows", "pandas-with-state"]
COUNTED += ["join-full_outer-bounds", "limit"]
USUALLY = {"aggregation-update"}


def first_time(marker: Path) -> bool:
    """Whether this is the first call with this marker, in any process."""
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True


def failing(how: Callable[[], None], *, marker: Path, at: int) -> Callable[[int], int]:
    """Returns a function for a UDF that fails its task at the first row of a key."""

    def function(key: int) -> int:
        if key == at and first_time(marker):
            how()
        return key

    return function


def throw() -> None:
    raise RuntimeError("the first attempt fails here")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counted(events: DataFrame) -> DataFrame:
    return events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("v"))


PLAIN = Operator(lambda events: counted(events()), "update")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    write_events(tmp_path / "events", seed=SEED, files=range(EPOCHS))
    return tmp_path / "events"


@pytest.fixture
def expected(
    request: pytest.FixtureRequest, spark: SparkSession, events: Path, tmp_path: Path
) -> dict[int, list[str]]:
    """The rows that Spark's own provider returns without failures."""
    operator = getattr(request, "param", PLAIN)
    return run(spark, operator, events=events, root=tmp_path / "peer", provider=ROCKSDB)


@pytest.mark.parametrize(
    "how", [pytest.param(throw, id="throws"), pytest.param(die, id="is killed", marks=long)]
)
@pytest.mark.parametrize(
    # In `make test` the sink of the next test fails tasks after their commit.
    "place",
    usually(set(), ["before the state", "after the commit"]),
)
def test_task_that_fails_runs_again_and_counts_once(
    place: str,
    how: Callable[[], None],
    events: Path,
    expected: dict[int, list[str]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    marker = tmp_path / "failed"
    udf = F.udf(failing(how, marker=marker, at=17), "int")

    def build(events: Events) -> DataFrame:
        if place == "before the state":
            return counted(events().withColumn("k", udf("k")))
        return counted(events()).withColumn("k", udf("k"))

    actual = run(spark, Operator(build, "update"), events=events, root=tmp_path / "ours")
    assert marker.exists(), "no attempt failed"
    assert Difference.between(expected, actual).none


class FailingSink:
    """Fails the first attempt of every task after its last row, then computes the epoch again."""

    def __init__(self, root: Path) -> None:
        self._markers = root / "failed"
        self._markers.mkdir(parents=True)
        self._files = EpochFiles(root / "results")

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        markers = self._markers

        def consume(partition: Iterator[Row]) -> None:
            for _ in partition:
                pass
            context = TaskContext.get()
            assert context is not None
            if first_time(markers / f"{epoch}-{context.partitionId()}"):
                throw()

        rows.foreachPartition(consume)
        self._files(rows, epoch)

    @property
    def failures(self) -> int:
        return len(list(self._markers.iterdir()))


@pytest.mark.parametrize(
    ("name", "expected"),
    usually(USUALLY, COUNTED, lambda name: (name, OPERATORS[name])),
    indirect=["expected"],
)
def test_tasks_that_fail_after_their_commit_have_no_effect(
    name: str,
    expected: dict[int, list[str]],
    events: Path,
    spark: SparkSession,
    tmp_path: Path,
    show: Callable[[str], None],
) -> None:
    sink = FailingSink(tmp_path / "ours")
    actual = run(spark, OPERATORS[name], events=events, root=tmp_path / "ours", sink=sink)
    difference = Difference.between(expected, actual)
    show(f"seed {SEED}, {sink.failures} failed attempts, {len(actual)} epochs twice, {difference}")
    assert sink.failures >= len(actual)
    assert difference.none


@long
def test_sink_that_fails_after_the_commit_gets_the_same_rows_again(
    events: Path, expected: dict[int, list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    seen: dict[int, list[list[str]]] = {epoch: [] for epoch in range(EPOCHS)}
    root = tmp_path / "ours"
    sink = EpochFiles(root / "results")

    def fails_once_per_epoch(rows: DataFrame, epoch: int) -> None:
        sink(rows, epoch)
        seen[epoch].append(sink.read()[epoch])
        if len(seen[epoch]) == 1:
            raise RuntimeError("the sink fails after it wrote")

    for _ in range(EPOCHS):
        with pytest.raises(Exception, match="the sink fails after it wrote"):
            run(spark, PLAIN, events=events, root=root, sink=fails_once_per_epoch)
    actual = run(spark, PLAIN, events=events, root=root, sink=fails_once_per_epoch)
    assert all(first == second for first, second in seen.values())
    assert Difference.between(expected, actual).none


@long
def test_two_queries_in_one_session_are_independent(
    events: Path, expected: dict[int, list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [EpochFiles(tmp_path / str(parity)) for parity in (0, 1)]
    queries = [
        counted(Events(spark, events)())
        .where(f"k % 2 = {parity}")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / f"checkpoint-{parity}"))
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
        for parity, sink in enumerate(sinks)
    ]
    for query in queries:
        query.awaitTermination()
    even, odd = (sink.read() for sink in sinks)
    assert Difference.between(expected, {e: sorted(even[e] + odd[e]) for e in even}).none
