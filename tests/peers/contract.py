"""The contract of sinks, run against the documented functions for `foreachBatch`."""

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cleancut.sinks._core.query_side import query_side
from cleancut.testing import SinkContract
from demo.postgres_server import PostgresServer, postgres_server
from tests.peers.idioms import IDIOMS, QUERY_ID, TABLE, Idiom, IdiomSink, OnStep
from tests.peers.stored import Section
from tests.support.contracts import EVENTS
from tests.support.outcomes import outcome
from tests.support.revision import short_commit
from tests.support.sessions import ROCKSDB
from tests.support.sink_targets import target_at

# A test simulates runs without a stream, so the state store makes no difference.
NAMES = [one.name for one in IDIOMS.values() if one.provider == ROCKSDB]
WITHOUT_SERVER = [name for name in NAMES if not IDIOMS[name].target.startswith("PostgreSQL")]
_KEYED = "PostgreSQL keys"
_WORD = "word "


@dataclass(frozen=True)
class Finding:
    """The outcome of one test of the contract.

    Attributes:
        idiom: the name of the idiom.
        event: the event of the test.
        outcome: what happened to the rows.
        reason: the failure of the test; "" if it passed.
        commit: the commit of the run.
    """

    idiom: str
    event: str
    outcome: str
    reason: str
    commit: str


FINDINGS = Section("contract", Finding, ["idiom", "event"])


class IdiomContract(SinkContract):
    """The contract of a function whose target is a directory.

    The columns of its target are the ID of a row, its number, and the number in its word.
    """

    crashes = 3
    pauses = 3
    # The newer run ends before, unless it waits for a lock of the older one.
    pause_s = 60.0

    def __init__(self, idiom: Idiom) -> None:
        self.idiom = idiom
        if idiom.target == _KEYED:
            # An attribute of the class for tests that pytest collects, unlike these.
            self.keys = ("id",)  # type: ignore[misc]

    def make_sink(self, home: Path) -> IdiomSink:
        def write(place: str, rows: DataFrame, epoch: int, reach: OnStep) -> None:
            query = query_side(rows, epoch).batch.query_id
            rows.sparkSession.sparkContext.setLocalProperty(QUERY_ID, query)
            number = f"int(substring(word, {len(_WORD) + 1})) AS v"
            self.idiom.write(place, rows.selectExpr("int(id) AS k", "n", number), epoch, reach)

        idiom = replace(self.idiom, write=write)
        return IdiomSink(idiom, self.place(home), on_step=lambda step, epoch: None)

    def place(self, home: Path) -> str:
        """Returns the address of the target."""
        with contextlib.ExitStack() as stack:
            return target_at(self.idiom.target, home, stack).place

    def rows(self, home: Path) -> Iterable[tuple[int, int, int]]:
        """Returns the rows of the target."""
        with contextlib.ExitStack() as stack:
            return target_at(self.idiom.target, home, stack).rows()

    def read(self, home: Path) -> Iterable[tuple[int, str, int]]:
        return [(k, f"{_WORD}{v}", n) for k, n, v in self.rows(home)]


class PostgresContract(IdiomContract):
    """The contract of a function that writes to a table of a server."""

    def __init__(self, idiom: Idiom, server: PostgresServer) -> None:
        super().__init__(idiom)
        self._server = server

    def place(self, home: Path) -> str:
        return self._server.dsn

    def rows(self, home: Path) -> Iterable[tuple[int, int, int]]:
        return [(k, n, v) for k, n, v in self._server.rows(f"SELECT k, n, v FROM {TABLE}")]

    def save(self, home: Path) -> str:
        saved = f"saved_{uuid.uuid4().hex}"
        self._server.rows(f"CREATE TABLE {saved} AS SELECT * FROM {TABLE}")
        return saved

    def restore(self, home: Path, saved: str) -> None:
        self._server.rows(f"DELETE FROM {TABLE}")
        self._server.rows(f"INSERT INTO {TABLE} SELECT * FROM {saved}")

    def drop(self, home: Path) -> None:
        self._server.rows(f"DROP TABLE IF EXISTS {TABLE}")


@contextlib.contextmanager
def contract_of(name: str) -> Iterator[IdiomContract]:
    """Returns the contract of an idiom, with the server of its target."""
    idiom = IDIOMS[name]
    if name in WITHOUT_SERVER:
        yield IdiomContract(idiom)
        return
    with postgres_server() as server:
        yield PostgresContract(idiom, server)


def find(contract: IdiomContract, test: str, home: Path) -> Finding:
    """Runs one test in an empty directory."""
    contract.drop(home)
    result = outcome(contract, test, home)
    return Finding(contract.idiom.name, EVENTS[test], str(result), result.reason, short_commit())


def run(spark: SparkSession, names: Sequence[str] = NAMES) -> None:
    """Runs all tests against idioms, prints each outcome, and stores them."""
    assert spark is SparkSession.getActiveSession(), "the tests use the active session"
    for name in names:
        with contract_of(name) as contract:
            for test in EVENTS:
                home = Path(tempfile.mkdtemp(prefix="cleancut-contract-"))
                finding = find(contract, test, home)
                shutil.rmtree(home)
                print(f"{name}: {finding.event}: {finding.outcome}; {finding.reason}", flush=True)
                FINDINGS.add([finding])
