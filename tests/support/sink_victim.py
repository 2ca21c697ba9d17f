"""A query with `EpochFiles` that kills its own process at a step of the sink.

`python -m tests.support.sink_victim <events> <root> <endpoint> <epoch> <step>` continues from the
last state and kills driver and JVM by SIGKILL at the given step of the epoch. The endpoint is
that of the sink's bucket, or empty for a directory.
"""

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

from cleancut.sinks import EpochFiles
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import EXPECT_NOTHING
from cleancut.sinks._core.query_side import RunningSide
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._files import epoch_files
from cleancut.sinks._files.publisher import Publisher
from tests.support.kills import die_with_the_test
from tests.support.queries import Operator
from tests.support.sessions import builder, start
from tests.support.sink_places import Bucket, Disk, Place

OPERATOR = Operator(
    lambda events: events().groupBy("k").agg(F.count("*"), F.sum("v"), F.max("v")), "update"
)
SETTINGS = {"spark.sql.streaming.stateStore.cleancut.cuts": "true"}
# The steps of an epoch, in order, by the last completed call before the kill.
BEFORE = "not computed"
STAGING = "partly staged"
STAGED = "staged"
SEALED = "sealed"
PUBLISHED = "published"
RETURNED = "given back to Spark"
_POLL_S = 0.001


def sink_place(root: Path, endpoint: str) -> Place:
    """Returns the location of the victim's sink."""
    if not endpoint:
        return Disk(root / "sink")
    return Bucket(endpoint, f"{root.parent.name}/sink")


def kill_record(root: Path) -> Path:
    """Returns the file in which a victim records its step before the kill."""
    return root / "died"


@dataclass(frozen=True)
class PlannedKill:
    """Kills this process and its JVM at one step of one epoch.

    Attributes:
        root: the directory of the query's files.
        place: the location of its sink.
        epoch: the epoch of the kill.
        step: the step of the kill.
    """

    root: Path
    place: Place
    epoch: int
    step: str

    def execute_at(self, epoch: int, step: str) -> None:
        """Kills the process if this is the planned moment."""
        if (epoch, step) == (self.epoch, self.step):
            kill_record(self.root).write_text(f"{epoch} {step}")
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def watch(self) -> None:
        """Kills the process as soon as some of the epoch's files exist."""
        while not any(f"={self.epoch:020d}-" in name for name in self.place.sizes()):
            time.sleep(_POLL_S)
        self.execute_at(self.epoch, STAGING)


def install_kill(kill: PlannedKill) -> None:
    """Adds the kill to the steps of the sink, which otherwise runs unchanged."""

    class KillingPublishing(Publisher):
        def stage(self, df: DataFrame, batch: Batch) -> Manifest:
            if (batch.epoch, STAGING) == (kill.epoch, kill.step):
                threading.Thread(target=kill.watch, daemon=True).start()
            return super().stage(df, batch)

        def publish(
            self, staged: Manifest, batch: Batch, expected: Expected = EXPECT_NOTHING
        ) -> Manifest:
            published = super().publish(staged, batch, expected)
            kill.execute_at(batch.epoch, PUBLISHED)
            return published

    hold, close = RunningSide.hold, RunningSide.close

    def hold_and_kill(side: RunningSide) -> DataFrame:
        kill.execute_at(side.batch.epoch, BEFORE)
        return hold(side)

    def close_and_kill(side: RunningSide, output: str) -> None:
        kill.execute_at(side.batch.epoch, STAGED)
        close(side, output)
        kill.execute_at(side.batch.epoch, SEALED)

    epoch_files.Publisher = KillingPublishing  # type: ignore[attr-defined]
    RunningSide.hold = hold_and_kill  # type: ignore[assignment, method-assign]
    RunningSide.close = close_and_kill  # type: ignore[assignment, method-assign]


def start_victim(
    spark: SparkSession, events: Path, root: Path, place: Place, kill: PlannedKill | None = None
) -> StreamingQuery:
    """Starts the query from its last state; it ends after all files."""
    sink = EpochFiles(place.location)
    settings = {**SETTINGS, **place.settings}

    def mortal(df: DataFrame, epoch: int) -> None:
        sink(df, epoch)
        if kill is not None:
            kill.execute_at(epoch, RETURNED)

    return start(spark, OPERATOR, events=events, root=root, sink=mortal, settings=settings)


def main(events: Path, root: Path, kill: PlannedKill) -> None:
    """Runs the query until it is killed."""
    install_kill(kill)
    spark = builder("local[2]").getOrCreate()
    start_victim(spark, events, root, kill.place, kill).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    die_with_the_test()
    home = Path(sys.argv[2])
    sink = sink_place(home, sys.argv[3])
    main(Path(sys.argv[1]), home, PlannedKill(home, sink, int(sys.argv[4]), sys.argv[5]))
