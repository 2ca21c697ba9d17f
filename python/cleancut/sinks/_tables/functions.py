"""A user's own `foreachBatch` functions in the transaction of a ledger."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.database import Transaction
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import LedgerEpoch
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._ledgers.ledger import Ledger
from cleancut.sinks._tables.postgres import PostgresDatabase
from cleancut.sinks._tables.sql import sql_database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Writes the rows of an epoch in an open transaction.
Writing = Callable[["DataFrame", int, Transaction], None]
Undoing = Callable[[Transaction, Sequence[LedgerEpoch]], None]


class PostgresLedger(Ledger):
    """A ledger in PostgreSQL, in the tables `cleancut_runs` and `cleancut_epochs`."""

    def __init__(self, dsn: str, name: str, *, retry_for_s: float = 60.0) -> None:
        """Creates the ledger; it connects at the first epoch.

        Args:
            dsn: as for `PostgresSink`.
            name: name of the output, unique in the database.
            retry_for_s: seconds for which a lost connection is retried.
        """
        super().__init__(PostgresDatabase(dsn), name, retry_for_s)


class SqlLedger(Ledger):
    """A ledger in SQLite, MariaDB or MySQL through SQLAlchemy, in the same tables."""

    def __init__(self, url: str, name: str, *, retry_for_s: float = 60.0) -> None:
        """Creates the ledger; it connects at the first epoch.

        Args:
            url: as for `SqlSink`.
            name: name of the output, unique in the database.
            retry_for_s: seconds for which a lost connection is retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the database is not supported.
        """
        super().__init__(sql_database(url, name), name, retry_for_s)


class FunctionSink(EpochSink):
    """A function that writes in the transaction of a ledger; `exactly_once` creates it."""

    def __init__(self, function: Writing, ledger: Ledger, undo: Undoing | None) -> None:
        self._function = function
        self._ledger = ledger
        self._undo = undo
        self._rows: DataFrame | None = None
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"exactly_once({self._ledger!r})"

    @property
    def name(self) -> str:
        """The name of the ledger."""
        return self._ledger.sink

    @property
    def ledger_key(self) -> str:
        """The name of the ledger; see `EpochSink`."""
        return self._ledger.sink

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts a loss of epochs; see `EpochSink`."""
        self._ledger.accept_gap(first, last)

    def accept_move(self, checkpoint: str) -> None:
        """Accepts a former location of the checkpoint; see `EpochSink`."""
        self._ledger.accept_move(checkpoint)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the ledger; see `EpochSink`."""
        self._ledger.begin(side, self._undo)

    def published(self, batch: Batch) -> str | None:
        """The handle of the epoch in the ledger; see `EpochSink`."""
        return self._ledger.handle_of(batch)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the epoch is published: a function has no staged rows."""
        return published is not None

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Caches the rows until they are published."""
        self._rows = rows
        return ""

    def publish(self, handle: str, batch: Batch) -> None:
        """Calls the function, in the transaction that records the epoch; see `EpochSink`."""
        rows, self._rows = self._rows, None
        if rows is None:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self.name,
                epoch=batch.epoch,
                detail="the rows of a function exist only on the run that computed them",
            )

        def write(transaction: Transaction) -> None:
            if self._ledger.lock(transaction, batch) is None:
                self._function(rows, batch.epoch, transaction)
                self._ledger.publish(transaction, batch, handle, -1)

        self._ledger._in_run(batch, write)


def exactly_once(
    *, ledger: Ledger, undo: Undoing | None = None
) -> Callable[[Writing], FunctionSink]:
    """Makes a sink from a function that writes to the database of a ledger.

        @exactly_once(ledger=PostgresLedger("postgresql://writer@db/shop", "totals"))
        def write(rows, epoch, transaction):
            for row in rows.groupBy("shop").count().toLocalIterator():
                transaction.run("INSERT INTO totals VALUES (:s, :n)", s=row.shop, n=row["count"])

        counts.writeStream.foreachBatch(write).start()

    The function is called after the seal, with the rows of the epoch, the epoch and an open
    transaction. Its writes and the record of the epoch are committed atomically. If a connection is
    lost or two transactions conflict, it is called again in a new transaction, so its other effects
    must be idempotent.

    Args:
        ledger: a ledger in the database that the function writes to.
        undo: function that undoes epochs in an open transaction after a rollback of the query; it
            is called with the epochs, ascending. With None a rolled back query is refused.

    Returns:
        A decorator for functions of a batch, an epoch and a transaction. Its result is a function
        for `foreachBatch`, also for `fan_out`.
    """

    def made(function: Writing) -> FunctionSink:
        return FunctionSink(function, ledger, undo)

    return made
