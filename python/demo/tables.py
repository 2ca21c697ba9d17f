"""Results in tables of PostgreSQL, and a reader that polls them."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from cleancut.sinks import PostgresSink
from demo.job import HOURLY, QUERIES, ROTATIONS
from demo.polling import Poller

# Not in the file of the job, because it contains a password.
VARIABLE = "CLEANCUT_DEMO_POSTGRES"
_NO_TABLE = "42P01"
# The column that distinguishes the staging tables of the two queries.
_COLUMNS = {HOURLY: "hour_ms", ROTATIONS: "tailnum"}

# The rows of each epoch: their number, and a sum that changes with any of them.
Epochs = dict[int, tuple[int, int]]


class Database:
    """A separate read-only connection."""

    def __init__(self) -> None:
        from adbc_driver_postgresql import dbapi

        self._missing = dbapi.ProgrammingError
        self._connection: Any = dbapi.connect(os.environ[VARIABLE], autocommit=True)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def table(self, sql: str) -> pa.Table | None:
        """Returns the result of a query; None if the table does not exist yet."""
        with closing(self._connection.cursor()) as cursor:
            try:
                cursor.execute(sql)
            except self._missing as failure:
                if failure.sqlstate != _NO_TABLE:
                    raise
                return None
            return cursor.fetch_arrow_table()


@contextmanager
def connected() -> Iterator[Database]:
    """Opens a connection while the context lasts."""
    with closing(Database()) as database:
        yield database


class ResultTable:
    """Implements `Results` by a table with the name of the query."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._database: Database | None = None

    def sink(self, *, is_sealing: bool) -> Callable[[DataFrame, int], None]:
        """See `Results`."""
        # It always waits for the seal.
        return PostgresSink(os.environ[VARIABLE], self._query, epoch_column="epoch")

    def is_done(self, epoch: int, since_s: float) -> bool:
        """See `Results`."""
        return self._is_there(
            f"SELECT 1 FROM cleancut_epochs WHERE sink = 'PostgresSink {self._query}'"
            f" AND epoch = {epoch} AND published_ms >= {since_s * 1000:.0f}"
        )

    def is_begun(self, epoch: int, since_s: float) -> bool:
        """See `Results`."""
        return self._is_there(
            "SELECT 1 FROM information_schema.columns"
            f" WHERE table_name LIKE 'cleancut_staged_%_{epoch:016d}_%'"
            f" AND column_name = '{_COLUMNS[self._query]}'"
        )

    def read(self) -> pa.Table:
        """See `Results`."""
        with connected() as database:
            table = database.table(f"SELECT * FROM {self._query} ORDER BY epoch")
        return pa.table({}) if table is None else table

    def _is_there(self, sql: str) -> bool:
        # Called frequently, to find the moment of a kill.
        if self._database is None:
            self._database = Database()
        table = self._database.table(sql)
        return table is not None and len(table) > 0


@dataclass(frozen=True)
class Seen:
    """The tables as a reader saw them during kills.

    Attributes:
        polls: the number of polls.
        states: the number of distinct contents.
        torn: the number of contents with incomplete epochs.
    """

    polls: int
    states: int
    torn: int


class Reader(Poller):
    """Polls the tables of all queries in a separate thread."""

    def __init__(self) -> None:
        super().__init__(self._take)
        self._states: dict[str, set[frozenset[tuple[int, tuple[int, int]]]]] = {
            query: set() for query in QUERIES
        }
        self._database: Database | None = None

    def __exit__(self, *raised: object) -> None:
        try:
            super().__exit__(*raised)
        finally:
            if self._database is not None:
                self._database.close()

    def _take(self) -> None:
        if self._database is None:
            self._database = Database()
        for query in QUERIES:
            self._states[query].add(frozenset(_epochs(self._database, query).items()))

    def judge(self) -> Seen:
        """Compares the observed contents with the final tables."""
        torn = 0
        with connected() as database:
            for query, states in self._states.items():
                final = _epochs(database, query)
                for state in map(dict, states):
                    last = max(state, default=-1)
                    torn += state != {epoch: rows for epoch, rows in final.items() if epoch <= last}
        return Seen(self.polls, sum(map(len, self._states.values())), torn)


def _epochs(database: Database, query: str) -> Epochs:
    """Reads the content of a table by one statement."""
    table = database.table(
        "SELECT epoch, count(*) AS rows,"
        " sum(('x' || left(md5(t::text), 8))::bit(32)::bigint)::bigint AS sums"
        f" FROM {query} t GROUP BY epoch"
    )
    if table is None:
        return {}
    epochs, rows, sums = (table[name].to_pylist() for name in ("epoch", "rows", "sums"))
    return dict(zip(epochs, zip(rows, sums, strict=True), strict=True))
