"""A stopped query with a base and deltas, for corrupted copies."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import CleancutError, errors
from tests.support.copies import copied
from tests.support.events import write_events
from tests.support.patience import PATIENCE_S
from tests.support.queries import OPERATORS
from tests.support.sessions import start

OPERATOR = OPERATORS["aggregation-update"]
PARTITIONS = 3
PARTITION = 1
BASE = 3
LAST = 5
_WAIT_S = PATIENCE_S


@dataclass(frozen=True)
class Stopped:
    """A query that stopped at version `LAST`, with a base at version `BASE`.

    Attributes:
        events: the directory of its input, with one more file than it has read.
        root: the directory of its checkpoint and its results.
    """

    events: Path
    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def format_note(self) -> Path:
        return self.checkpoint / "cleancut" / "format.json"

    def frame(self, version: int, kind: str, *, partition: int = PARTITION) -> Path:
        """Returns the only frame of this version and kind."""
        store = self.checkpoint / "cleancut" / "stores" / "0" / str(partition) / "default"
        (path,) = store.glob(f"{version:020d}-*.{kind}")
        return path

    def copy(self, root: Path) -> "Stopped":
        """Copies the query. The input is shared: Spark identifies its files by their paths."""
        copied(self.root, root)
        return Stopped(self.events, root)

    def forget_epochs(self, *epochs: int) -> None:
        """Deletes Spark's log entries of the last epochs, so that they run again."""
        for log in ("offsets", "commits", "sources/0"):
            for epoch in epochs:
                for name in (f"{epoch}", f".{epoch}.crc"):
                    (self.checkpoint / log / name).unlink(missing_ok=True)


def stop_with_base_and_deltas(spark: SparkSession, home: Path, *, seed: int) -> Stopped:
    """Runs the query up to `LAST`, with a base at version `BASE`."""
    stopped = Stopped(home / "events", home / "query")
    write_events(stopped.events, seed=seed, files=range(BASE))
    # Maintenance requires a running query.
    query = _start(spark, stopped, deltas=BASE, ends=False)
    deadline = time.monotonic() + _WAIT_S
    stores = stopped.checkpoint / "cleancut" / "stores" / "0"

    def is_there() -> bool:
        bases = list(stores.glob(f"*/default/{BASE:020d}-*.base"))
        # A base may be written before the commit of its epoch, which would then run again.
        is_committed = (stopped.checkpoint / "commits" / f"{BASE - 1}").exists()
        return is_committed and len(bases) == PARTITIONS

    while not is_there():
        assert time.monotonic() < deadline, "maintenance wrote no base"
        time.sleep(0.05)
    query.stop()
    write_events(stopped.events, seed=seed, files=range(BASE, LAST))
    _start(spark, stopped, deltas=1000, ends=True).awaitTermination()
    write_events(stopped.events, seed=seed, files=range(LAST, LAST + 1))
    return stopped


def restart(spark: SparkSession, stopped: Stopped) -> CleancutError | None:
    """Returns the error of Cleancut that ends a restart; None if it succeeds."""
    again = start(spark, OPERATOR, events=stopped.events, root=stopped.root)
    with contextlib.suppress(StreamingQueryException):
        again.awaitTermination()
    if again.exception() is None:
        return None
    error = errors.find_error(again)
    assert error is not None, again.exception()
    return error


def _start(spark: SparkSession, stopped: Stopped, *, deltas: int, ends: bool) -> StreamingQuery:
    settings = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": str(deltas)}
    return start(
        spark, OPERATOR, events=stopped.events, root=stopped.root, settings=settings, ends=ends
    )
