"""Tests that Spark's own sinks treat epochs as the page that compares them states.

`CLEANCUT_DELTA_JARS`, which `make spark42` sets, adds Delta's connector.
"""

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import cleancut
from cleancut.testing import SinkContract
from demo.processes import ProcessTree
from tests.support.compared_query import ROWS, ComparedQuery
from tests.support.contracts import DIES, EVENTS, FOLLOWED, WENT_BACK
from tests.support.documented import ROOT
from tests.support.kills import environment
from tests.support.outcomes import DUPLICATED, LOST, REFUSED, WHOLE, outcome
from tests.support.patience import PATIENCE_S
from tests.support.spark_sinks import (
    APPEND,
    DELTA,
    FILES,
    KINDS,
    OURS,
    Row,
    epoch_by_epoch,
    needs_delta,
    read,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

PAGE = ROOT / "docs/use/sinks/compared.md"
STOPS, UNREADABLE = "the query stops", "unreadable"
NOT_ITS_OWN = "n/a"
COLUMNS = [APPEND, FILES, DELTA, OURS]

# The test of the contract for each row of the page.
CONTRACT = {
    EVENTS[test]: test
    for test in (
        *("test_retried_epoch_is_written_once", DIES, FOLLOWED),
        *("test_gaps_and_empty_epochs_are_accepted", "test_epoch_with_other_input_is_refused"),
        *("test_two_queries_write_independently", WENT_BACK),
    )
}
# Rows that the tests of real queries below verify.
REPLAYED = "the last batch runs again"
FOLLOWED_IN_WRITE = "a driver continues its write after another one has written the epoch"
LEFT_BEHIND = "this write, for a reader of all files in the directory"
SET_BACK = "entries of Spark's logs are removed, and new files arrive"
RESTORED = "entries are removed, and the table is restored by Delta's `RESTORE`"
ROLLED_BACK = "`cleancut.rollback`"
ROLLED_BACK_TOLD = "`cleancut.rollback` with `file_sink`"
BEGUN_ANEW = "a new checkpoint, with input that has not been read"
QUERIES = [
    *(REPLAYED, FOLLOWED_IN_WRITE, LEFT_BEHIND, SET_BACK),
    *(RESTORED, ROLLED_BACK, ROLLED_BACK_TOLD, BEGUN_ANEW),
]


def stated(line: str, kind: str) -> str:
    """Returns the result that the page states, without its explanation."""
    cells = findings()[line]
    return cells[COLUMNS.index(kind)].split(",")[0]


def findings() -> dict[str, list[str]]:
    """Returns the cells of the table by the first cell of their row."""
    lines = re.findall(r"^\| (.+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = [line.split(" | ") for line in lines]
    return {row[0]: row[1:] for row in rows if len(row) == 1 + len(COLUMNS)}


def test_the_page_has_each_tested_event() -> None:
    assert {*findings()} == {*CONTRACT, *QUERIES, "event"}


class OfSpark(SinkContract):
    crashes = 3
    pauses = 2

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def make_sink(self, home: Path) -> Callable[[DataFrame, int], None]:
        return epoch_by_epoch(self.kind, home / "rows")

    def read(self, home: Path) -> Iterable[Row]:
        return read(self.kind, home / "rows", self.session(), "id", "word", "n")


def of_contract(contract: OfSpark, line: str, home: Path) -> str:
    """Returns the result of a test of the contract."""
    try:
        return outcome(contract, CONTRACT[line], home).kind
    except Py4JJavaError as failure:
        return _stopped(str(failure))


def _stopped(failure: str) -> str:
    assert re.search(r"FileNotFoundException: .*/_spark_metadata/\d+ doesn't exist", failure), (
        failure
    )
    return UNREADABLE


@pytest.mark.parametrize("line", CONTRACT)
@pytest.mark.parametrize("kind", KINDS)
def test_the_contract(kind: str, line: str, spark: SparkSession, tmp_path: Path) -> None:
    assert of_contract(OfSpark(kind), line, tmp_path) == stated(line, kind)


def compared(seen: "Counter[int]", wanted: "Counter[int]") -> str:
    """Returns what happened to the rows of a query."""
    assert not seen.keys() - wanted.keys()
    if wanted - seen:
        return LOST
    return DUPLICATED if seen - wanted else WHOLE


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def query(kind: str, spark: SparkSession, tmp_path: Path) -> ComparedQuery:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # Spark's default, which the session of all tests lacks, as those of Hadoop.
    session.conf.set("mapreduce.fileoutputcommitter.algorithm.version", "1")
    return ComparedQuery(kind, session, tmp_path)


def ended(query: ComparedQuery) -> str:
    """Runs a query to its end, and returns what happened to its rows."""
    try:
        query.run()
    except StreamingQueryException as failure:
        return REFUSED if "CLEANCUT_SINK" in str(failure) else STOPS
    return compared(query.seen(), query.wanted())


def test_a_batch_runs_again(query: ComparedQuery, kind: str) -> None:
    """The driver has died before the entry of the commit log."""
    query.add(3)
    assert ended(query) == WHOLE
    query.delete_log_entries(1, "commits")
    assert ended(query) == stated(REPLAYED, kind)


def test_a_driver_is_followed_in_the_middle_of_its_write(
    query: ComparedQuery, kind: str, tmp_path: Path
) -> None:
    query.add(1)
    query.run()
    query.add(1)
    command = [sys.executable, "-m", "tests.support.compared_query", kind, str(tmp_path)]
    log = tmp_path / "older.log"
    with ProcessTree(command, env=environment(), log=log) as older:
        deadline = time.monotonic() + PATIENCE_S
        # By then its other task has ended.
        while not (query.block.is_reached and query.is_partly_written(1)):
            assert older.exit_code() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        query.add(1)
        query.run()
        if kind != APPEND:
            # A plain append also commits the files that a task of the older write has left.
            assert compared(query.seen(), query.wanted()) == WHOLE
        query.block.release()
        while older.exit_code() is None:
            assert time.monotonic() < deadline + 120, log.read_text()[-4000:]
            time.sleep(0.05)
    assert compared(query.seen(), query.wanted()) == stated(FOLLOWED_IN_WRITE, kind)
    if kind in (APPEND, FILES):
        assert compared(query.seen_by_others(), query.wanted()) == stated(LEFT_BEHIND, kind)


def test_a_query_is_set_back_by_hand(query: ComparedQuery, kind: str) -> None:
    query.add(3)
    query.run()
    query.delete_log_entries(0, "commits", "offsets")
    query.add(3)
    assert ended(query) == stated(SET_BACK, kind)


@needs_delta
@pytest.mark.parametrize("kind", [DELTA])
def test_a_table_is_set_back_with_its_query_by_hand(
    query: ComparedQuery, kind: str, spark: SparkSession
) -> None:
    query.add(3)
    query.run()
    query.delete_log_entries(0, "commits", "offsets")
    spark.sql(f"RESTORE delta.`{query.output}` TO VERSION AS OF 0")
    assert sum(query.seen().values()) == ROWS
    query.add(3)
    assert ended(query) == stated(RESTORED, kind)


@pytest.mark.parametrize("line", [ROLLED_BACK, ROLLED_BACK_TOLD])
def test_a_query_is_rolled_back(
    query: ComparedQuery, kind: str, line: str, spark: SparkSession
) -> None:
    if stated(line, kind) == NOT_ITS_OWN:
        return
    query.add(4)
    query.run()
    sink = str(query.output) if line == ROLLED_BACK_TOLD else None
    cleancut.rollback(str(query.checkpoint), 1, session=spark, file_sink=sink).apply()
    query.add(9)
    assert ended(query) == stated(line, kind)


def test_a_query_restarts_with_a_new_checkpoint_and_new_input(
    query: ComparedQuery, kind: str
) -> None:
    """With a new checkpoint, as after a loss, and without the input that the query has read."""
    query.add(3)
    query.run()
    shutil.rmtree(query.checkpoint)
    query.delete_input()
    query.add(2)
    assert ended(query) == stated(BEGUN_ANEW, kind)
