"""The contract of sinks, fulfilled by each sink of this package and violated by a naive one."""

import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from cleancut.sinks import (
    EpochFiles,
    FanOut,
    LedgerEpoch,
    PostgresSink,
    SqlLedger,
    SqlSink,
    Transaction,
    TwoPhaseSink,
    exactly_once,
    fan_out,
)
from cleancut.testing import SinkContract
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.contracts import (
    BY_HAND,
    DIES,
    FOLLOWED,
    GONE,
    GONE_SEALED,
    HELD_BY_NAIVE,
    LOST,
    LOST_MEANWHILE,
    MOVED,
    NAIVE,
    ONE_BY_ONE,
    RAISED,
    REPLACED,
    ROLLED_BACK,
    SEALED,
    TESTS,
    UNDONE,
    WENT_BACK,
    briefly,
    in_a_block,
)
from tests.support.tiers import long, usually
from tests.support.two_phases import Directories

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

Row = tuple[Any, ...]
COLUMNS = "id, word, n"


def in_sqlite(path: Path, table: str = "rows") -> list[Row]:
    """Returns the rows of a table, or none if it does not exist."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchall():
            return []
        return connection.execute(f"SELECT {COLUMNS} FROM {table}").fetchall()


class FilesContract(SinkContract):
    def make_sink(self, home: Path) -> EpochFiles:
        return EpochFiles(home / "rows")

    def read(self, home: Path) -> Iterable[Row]:
        spark = self.session()
        sink = EpochFiles(home / "rows")
        return sink.read(spark).collect() if sink.epochs(session=spark) else []


@long
class TestEpochFiles(FilesContract):
    pass


@briefly(DIES, WENT_BACK, ROLLED_BACK)
class TestEpochFilesBriefly(FilesContract):
    crashes = 3
    pauses = 2


@long
@in_a_block
class TestEpochFilesInABlock(FilesContract):
    pass


@briefly(DIES)
@in_a_block
class TestEpochFilesInABlockBriefly(FilesContract):
    crashes = 2


@briefly(LOST, LOST_MEANWHILE, GONE, MOVED, BY_HAND, UNDONE)
class TestEpochFilesThatWereLost(FilesContract):
    pass


@long
class TestSqlSink(SinkContract):
    """Appends rows, which a rollback deletes by their epoch."""

    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(f"sqlite:///{home}/db", "rows", epoch_column="epoch", query_column="query")

    def read(self, home: Path) -> Iterable[Row]:
        return in_sqlite(home / "db")


class SqlKeysContract(SinkContract):
    """Replaces rows, and keeps the replaced ones for a rollback."""

    keys = ("id",)

    def make_sink(self, home: Path) -> SqlSink:
        return SqlSink(f"sqlite:///{home}/db", "rows", keys="id", keep_undo=9)

    def read(self, home: Path) -> Iterable[Row]:
        return in_sqlite(home / "db")


@briefly(
    *(LOST, LOST_MEANWHILE, GONE, GONE_SEALED, MOVED),
    *(BY_HAND, UNDONE, ONE_BY_ONE, RAISED, REPLACED),
)
class TestSqlSinkThatWasLost(SqlKeysContract):
    pass


@long
class TestSqlSinkWithKeys(SqlKeysContract):
    pass


@long
@in_a_block
class TestSqlSinkInABlock(SqlKeysContract):
    pass


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


class OnPostgres(SinkContract):
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def given_server(self, server: PostgresServer) -> None:
        self.server = server

    def read(self, home: Path) -> Iterable[Row]:
        return self.server.rows(f'SELECT {COLUMNS} FROM "{home.name}"')

    def parts(self, home: Path) -> Iterator[tuple[str, str]]:
        """Returns the table and those of its ledger, with the predicate of their rows."""
        yield f'"{home.name}"', "true"
        for ledger in ("cleancut_runs", "cleancut_epochs"):
            yield ledger, f"sink = 'table public.{home.name}'"

    def save(self, home: Path) -> str:
        saved = f"saved_{uuid.uuid4().hex}"
        self.server.rows(f"CREATE SCHEMA {saved}")
        for table, predicate in self.parts(home):
            self.server.rows(
                f"CREATE TABLE {saved}.{table} AS SELECT * FROM {table} WHERE {predicate}"
            )
        return saved

    def restore(self, home: Path, saved: str) -> None:
        for table, predicate in self.parts(home):
            self.server.rows(f"DELETE FROM {table} WHERE {predicate}")
            self.server.rows(f"INSERT INTO {table} SELECT * FROM {saved}.{table}")

    def drop(self, home: Path) -> None:
        for table, _ in self.parts(home):
            self.server.rows(f"DROP TABLE {table}")


class ReplacingContract(OnPostgres):
    """Replaces rows, and keeps the replaced ones for a rollback."""

    keys = ("id",)

    def make_sink(self, home: Path) -> PostgresSink:
        return PostgresSink(self.server.dsn, home.name, keys="id", keep_undo=9)


@long
class TestPostgresSink(ReplacingContract):
    pass


@briefly(DIES, SEALED, LOST)
class TestPostgresSinkBriefly(ReplacingContract):
    crashes = 3
    pauses = 1


@long
@in_a_block
@briefly(DIES, FOLLOWED, SEALED)
class TestPostgresSinkInABlock(ReplacingContract):
    pass


@long
class TestPostgresSinkThatAdds(OnPostgres):
    """Appends rows, which a rollback deletes by their epoch."""

    def make_sink(self, home: Path) -> PostgresSink:
        return PostgresSink(self.server.dsn, home.name, epoch_column="epoch", query_column="query")


@long
class TestPostgresSinkThatCannotGoBack(OnPostgres):
    def make_sink(self, home: Path) -> PostgresSink:
        return PostgresSink(self.server.dsn, home.name)


@long
class TestFunction(SinkContract):
    """A user's function in the transaction of a ledger."""

    def make_sink(self, home: Path) -> Callable[[DataFrame, int], None]:
        def undo(transaction: Transaction, epochs: Sequence[LedgerEpoch]) -> None:
            for epoch in epochs:
                transaction.run("DELETE FROM rows WHERE epoch = :epoch", epoch=epoch.epoch)

        @exactly_once(ledger=SqlLedger(f"sqlite:///{home}/db", "rows"), undo=undo)
        def write(rows: DataFrame, epoch: int, transaction: Transaction) -> None:
            transaction.run("CREATE TABLE IF NOT EXISTS rows (id INT, word TEXT, n INT, epoch INT)")
            for row in rows.collect():
                transaction.run(
                    "INSERT INTO rows VALUES (:id, :word, :n, :epoch)",
                    id=row["id"],
                    word=row["word"],
                    n=row["n"],
                    epoch=epoch,
                )

        return write

    def read(self, home: Path) -> Iterable[Row]:
        return in_sqlite(home / "db")


@long
class TestLedgerInABlock(SinkContract):
    """More than a function can do, in the transaction of a ledger; it cannot undo."""

    def make_sink(self, home: Path) -> Callable[[DataFrame, int], None]:
        ledger = self.ledger = SqlLedger(f"sqlite:///{home}/db", "rows")

        def write(rows: DataFrame, epoch: int) -> None:
            with ledger.epoch(rows, epoch) as e:
                if e.fresh:
                    transaction = e.transaction
                    transaction.run("CREATE TABLE IF NOT EXISTS rows (id INT, word TEXT, n INT)")
                    for row in e.rows.collect():
                        transaction.run("INSERT INTO rows VALUES (:id, :word, :n)", **row.asDict())

        return write

    def accept_gap(self, sink: object, first: int, last: int) -> None:
        self.ledger.accept_gap(first, last)

    def accept_move(self, sink: object, checkpoint: str) -> None:
        self.ledger.accept_move(checkpoint)

    def read(self, home: Path) -> Iterable[Row]:
        return in_sqlite(home / "db")


class TwoPhasesContract(SinkContract):
    def make_sink(self, home: Path) -> TwoPhaseSink:
        return TwoPhaseSink(Directories(home / "rows"), decisions=home / "decisions")

    def read(self, home: Path) -> Iterable[Row]:
        # Decisions without a commit are not visible to readers yet.
        return Directories(home / "rows").read()


@long
class TestTwoPhases(TwoPhasesContract):
    pass


@briefly(ROLLED_BACK, LOST, LOST_MEANWHILE, GONE, MOVED)
class TestTwoPhasesBriefly(TwoPhasesContract):
    pauses = 2


@long
@in_a_block
class TestTwoPhasesInABlock(TwoPhasesContract):
    pass


class FanOutContract(SinkContract):
    """Two targets; a reader reads the second one."""

    def make_sink(self, home: Path) -> FanOut:
        database = SqlSink(f"sqlite:///{home}/db", "rows", keys="id", keep_undo=9)
        self.sinks = (EpochFiles(home / "files"), database)
        return fan_out(*self.sinks)

    def accept_gap(self, sink: FanOut, first: int, last: int) -> None:
        for target in self.sinks:
            target.accept_gap(first, last)

    def accept_move(self, sink: FanOut, checkpoint: str) -> None:
        for target in self.sinks:
            target.accept_move(checkpoint)

    def read(self, home: Path) -> Iterable[Row]:
        return in_sqlite(home / "db")


@briefly(LOST, MOVED)
class TestFanOutThatWasLost(FanOutContract):
    pass


@long
class TestFanOut(FanOutContract):
    pass


@long
@in_a_block
class TestFanOutInABlock(FanOutContract):
    pass


class Naive(SinkContract):
    """The simplest function."""

    crashes = 2
    pauses = 1

    def make_sink(self, home: Path) -> Callable[[DataFrame, int], None]:
        def write(rows: DataFrame, epoch: int) -> None:
            rows.write.mode("append").parquet(str(home / "rows"))

        return write

    def read(self, home: Path) -> Iterable[Row]:
        if not list((home / "rows").glob("*.parquet")):
            return []
        return self.session().read.parquet(str(home / "rows")).select("id", "word", "n").collect()


@pytest.mark.parametrize("test", usually({DIES, WENT_BACK}, names=TESTS))
def test_a_naive_sink_fails_the_contract(test: str, tmp_path: Path) -> None:
    if test in HELD_BY_NAIVE:
        getattr(Naive(), test)(tmp_path)
        return
    with pytest.raises(AssertionError, match=NAIVE):
        getattr(Naive(), test)(tmp_path)
