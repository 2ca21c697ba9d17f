"""A count by key that is rescaled repeatedly while it runs; the kill test kills the process.

`python -m tests.support.rescaled_counts <master> <home> <seed>` continues from the last state of
the checkpoint, and ends when all files are processed.
"""

import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import cleancut
from cleancut import Checkpoint, RequestError, coordinator
from cleancut.sinks import EpochFiles
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sessions import builder, with_cuts

KEYS = 50
_FIRST = 2
_MOST = 12
# Before the first epoch is committed.
_NOT_COMMITTED = {"CLEANCUT_CHECKPOINT_NOT_FOUND", "CLEANCUT_STATE_NOT_FOUND"}


class RescaledCounts(CountedFiles):
    """The query, whose sink publishes its epochs as files.

    Attributes:
        epochs: the epochs that the sink has received.
        takes_s: seconds that the sink takes for an epoch.
        may_end: an epoch ends while it is set.
        is_waiting: whether an epoch waits for `may_end`.
    """

    def __init__(self, session: SparkSession, home: Path, *, files: int = 0) -> None:
        if not home.exists():
            home.mkdir()
        self.session = session
        self.location = str(home / "checkpoint")
        self.sink = EpochFiles(home / "published")
        self.epochs: list[int] = []
        self.takes_s = 0.05
        self.may_end = threading.Event()
        self.may_end.set()
        self.is_waiting = False
        super().__init__(home, keys=KEYS)
        self.files = files

    def start(self, *, ends: bool = False) -> StreamingQuery:
        """Starts the query, which ends after the existing files, or never."""

        def publish(batch: DataFrame, epoch: int) -> None:
            self.sink(batch, epoch)
            time.sleep(self.takes_s)
            self.is_waiting = not self.may_end.is_set()
            self.may_end.wait(PATIENCE_S)
            self.is_waiting = False
            self.epochs.append(epoch)

        writer = self.counted(self.session).writeStream.outputMode("update").foreachBatch(publish)
        writer = writer.option("checkpointLocation", self.location)
        return (writer.trigger(availableNow=True) if ends else writer).start()

    def expected(self) -> dict[int, int]:
        """The batch answer."""
        rows = [(37 * file + i) % KEYS for file in range(self.files) for i in range(ROWS)]
        return dict(Counter(rows))

    def stored(self) -> dict[int, int]:
        """The counts in the state after the last epoch."""
        rows = Checkpoint(self.location).state(0).to_pylist()
        counts = {row["key"]["k"]: row["value"]["count"] for row in rows}
        assert len(rows) == len(counts), "a key is in two partitions"
        return counts

    def published(self) -> dict[int, int]:
        """The last count of each key. A row that was published twice is an error."""
        rows = self.sink.read(self.session).select("k", "count")
        assert rows.count() == rows.distinct().count(), "rows were published twice"
        last = rows.groupBy("k").agg(f.max("count").alias("n")).collect()
        return {row.k: row.n for row in last}

    def partitions(self) -> set[int]:
        """The partitions of the stores after the last epoch."""
        return {store.partition for store in Checkpoint(self.location).cut().stores}

    def _wait_for_epochs(self, query: StreamingQuery, count: int) -> None:
        due = len(self.epochs) + count
        wait_until(
            lambda: not query.isActive or len(self.epochs) >= due or self._is_done(), every_s=0.2
        )

    def _is_done(self) -> bool:
        try:
            return sum(self.stored().values()) == self.files * ROWS
        except RequestError as missing:
            if missing.error_id not in _NOT_COMMITTED:
                raise
            return False

    def rescale_until_end(self, query: StreamingQuery, draw: random.Random) -> None:
        """Rescales the query after random epochs until it has no input left."""
        while query.isActive and not self._is_done():
            self._wait_for_epochs(query, draw.randrange(1, 4))
            try:
                # The sink receives the first epoch before it is committed.
                now = len(self.partitions())
                choices = [n for n in range(1, _MOST + 1) if n != now and 0 in (n % now, now % n)]
                plan = coordinator(query).rescale(draw.choice(choices), timeout=PATIENCE_S)
                print(f"RESCALED to {plan.partitions} in epoch {plan.epoch}", flush=True)
            except RequestError as refused:
                print(f"REFUSED {refused.error_id}: {refused}", flush=True)
        query.processAllAvailable()


def main(master: str, home: Path, seed: int) -> None:
    """Runs the query until all files are processed."""
    spark = builder(master).getOrCreate()
    files = len(list((home / "source").iterdir()))
    counts = RescaledCounts(with_cuts(spark, _FIRST), home, files=files)
    counts.takes_s = 0.3
    draw = random.Random(f"{seed} {len(counts.sink.epochs())}")
    while True:
        query = counts.start()
        try:
            counts.rescale_until_end(query, draw)
            break
        except StreamingQueryException as failure:
            if "CLEANCUT_OPERATION_INCOMPLETE" not in str(failure):
                raise
            print("REPEATED", flush=True)
            now = len(counts.partitions())
            cleancut.rescale(counts.location, 2 * now, session=counts.session).apply()
        finally:
            query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
