"""`errors.find_error` finds the error of a query from any source: object, id, kind, parameters."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import CleancutError, errors
from cleancut.errors import ErrorKind
from cleancut.sinks import EpochFiles, sealed
from tests.support.copies import copied
from tests.support.damages import flip
from tests.support.documented import blocks
from tests.support.sessions import with_cuts

pytestmark = pytest.mark.spark

RUNNING = "docs/deploy/running.md"
Sink = Callable[[DataFrame, int], None]


class Numbers:
    """Distinct numbers from files, one file per epoch, in one or several checkpoints."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.session = with_cuts(spark, 1)
        self.home = home
        self.files = 0

    def add(self) -> None:
        (self.home / "in").mkdir(exist_ok=True)
        (self.home / "in" / f"{self.files}.json").write_text(f'{{"k": {self.files}}}')
        self.files += 1

    def start(self, name: str, sink: Sink | None) -> StreamingQuery:
        source = self.session.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        rows = source.json(str(self.home / "in")).dropDuplicates(["k"]).writeStream
        writer = rows.format("noop") if sink is None else rows.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(self.home / name))
        return writer.trigger(availableNow=True).start()

    def run(self, name: str, sink: Sink | None) -> StreamingQuery:
        query = self.start(name, sink)
        query.awaitTermination()
        return query

    def failed(self, name: str, sink: Sink | None) -> CleancutError:
        """Returns the error of the query, and checks that awaiting the query raises the same."""
        query = self.start(name, sink)
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination()
        error, again = errors.find_error(query), errors.from_java(raised.value)
        assert error is not None, str(raised.value)
        assert again is not None
        assert error.__cause__ is not None
        assert (type(error), error.args) == (type(again), again.args)
        return error


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Numbers:
    made = Numbers(spark, tmp_path)
    made.add()
    return made


def test_a_sink_of_another_query(numbers: Numbers, tmp_path: Path) -> None:
    sink = str(tmp_path / "sink")
    assert errors.find_error(numbers.run("first", EpochFiles(sink))) is None
    error = numbers.failed("second", EpochFiles(sink))
    assert (type(error), error.kind) == (cleancut.RequestError, ErrorKind.FIX_REQUEST)
    assert error.error_id == "CLEANCUT_SINK_OWNER_MISMATCH"
    assert error.params["path"].endswith(sink)
    assert error.params["epoch"] == "0"


def fenced(numbers: Numbers, sink: Sink) -> CleancutError:
    """Returns the error of a driver whose next epoch another driver commits while its sink runs."""
    numbers.run("own", sealed(lambda _rows, _epoch: None))
    copied(numbers.home / "own", numbers.home / "other")
    numbers.add()
    numbers.run("other", sealed(lambda _rows, _epoch: None))

    def overtaken(rows: DataFrame, epoch: int) -> None:
        of_other, of_own = (numbers.home / name / "cleancut" for name in ("other", "own"))
        copied(of_other, of_own, over=True)
        sink(rows, epoch)

    error = numbers.failed("own", overtaken)
    assert (type(error), error.kind) == (cleancut.FencedError, ErrorKind.RESTART)
    assert error.error_id == "CLEANCUT_FENCED"
    assert error.params["location"].endswith("/own/cleancut")
    assert {"epoch", "owner"} <= error.params.keys()
    return error


def test_a_driver_fenced_at_its_seal(numbers: Numbers) -> None:
    reached: list[int] = []
    fenced(numbers, sealed(lambda _rows, epoch: reached.append(epoch)))
    assert not reached


def test_a_driver_fenced_in_its_tasks(numbers: Numbers) -> None:
    reached: list[int] = []

    def unsealed(rows: DataFrame, epoch: int) -> None:
        rows.collect()
        reached.append(epoch)

    fenced(numbers, unsealed)
    assert not reached


def collecting(rows: DataFrame, _epoch: int) -> None:
    rows.collect()


@pytest.mark.parametrize(
    "sink", [None, collecting, sealed(collecting)], ids=["noop", "action", "sealed"]
)
def test_corruption_found_by_a_task(numbers: Numbers, sink: Sink | None) -> None:
    numbers.run("query", sink)
    # A new process reads the objects, and so does a query at another location.
    shutil.move(numbers.home / "query", numbers.home / "moved")
    (segment,) = (numbers.home / "moved").glob("cleancut/segments/*/*.seg")
    flip(segment, position=segment.stat().st_size // 2)
    numbers.add()
    error = numbers.failed("moved", sink)
    assert (type(error), error.kind) == (cleancut.CorruptedError, ErrorKind.RESTORE)
    assert error.error_id.startswith("CLEANCUT_")
    assert "moved" in error.params["path"]


def test_a_refused_start(numbers: Numbers) -> None:
    numbers.run("query", None)
    numbers.session.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "false")
    with pytest.raises(IllegalArgumentException) as raised:
        numbers.start("query", None)
    error = errors.find_error(raised.value)
    assert error is not None
    assert (error.error_id, error.kind) == ("CLEANCUT_CUTS_REQUIRED", ErrorKind.FIX_REQUEST)
    assert error.params["location"].endswith("/query")


def test_an_error_wrapped_by_a_function(numbers: Numbers, tmp_path: Path) -> None:
    sink = str(tmp_path / "sink")
    numbers.run("first", EpochFiles(sink))

    def wrapping(rows: DataFrame, epoch: int) -> None:
        try:
            EpochFiles(sink)(rows, epoch)
        except CleancutError as error:
            raise ValueError("my sink failed") from error

    error = numbers.failed("second", wrapping)
    assert error.error_id == "CLEANCUT_SINK_OWNER_MISMATCH"
    assert error.params["epoch"] == "0"


def restart_or_exit(query: StreamingQuery) -> None:
    """Runs the documented code for a query that has ended."""
    (example,) = blocks(RUNNING, "python")
    exec(example, {"cleancut": cleancut, "query": query})


def test_the_documented_example_decides_between_restart_and_stop(
    numbers: Numbers, tmp_path: Path
) -> None:
    """The code stopped a program whose query had ended without an error."""
    sink = str(tmp_path / "sink")
    restart_or_exit(numbers.run("first", EpochFiles(sink)))

    def passing(_rows: DataFrame, _epoch: int) -> None:
        raise errors.error_of("CLEANCUT_STORE_BUSY", holder="task 7", waitedMs=1)

    def foreign(_rows: DataFrame, _epoch: int) -> None:
        raise ValueError("none of ours")

    sinks: list[Sink] = [passing, foreign, EpochFiles(sink)]
    ended = [numbers.start(f"query-{i}", sink_of) for i, sink_of in enumerate(sinks)]
    for query in ended:
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
    restart_or_exit(ended[0])
    for query, text in ((ended[1], "none of ours"), (ended[2], "CLEANCUT_SINK_OWNER_MISMATCH")):
        with pytest.raises(SystemExit, match=text):
            restart_or_exit(query)


def test_a_foreign_error(numbers: Numbers) -> None:
    def failing(_rows: DataFrame, _epoch: int) -> None:
        raise ValueError("7 is not [CLEANCUT_FENCED] here")

    query = numbers.start("query", failing)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    assert errors.find_error(query) is None
