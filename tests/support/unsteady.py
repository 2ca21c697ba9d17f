"""A query whose rows differ in each run, and a driver that crashes after a seal.

`python -m tests.support.unsteady <master> <input> <root> <step> <checkpoint>` continues from the
last state, and kills driver and JVM by SIGKILL at the given step of an epoch sealed with in-flight
rows; without a step it runs to the end of its input. The environment has the endpoint of a
checkpoint on an object store.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import CleancutError, coordinator
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._format.cut.cut import Cut, read_cut
from cleancut._format.layout import CUTS
from cleancut.sinks import EpochFiles
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import EXPECT_NOTHING
from cleancut.sinks._core.query_side import RunningSide
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._files.publisher import Publisher
from cleancut.testing import SkewedInput
from tests.support.kills import die_with_the_test
from tests.support.sessions import builder, with_cuts

ROWS = 200
KEYS = 20
PARTITIONS = 4
# The steps in order, by the last completed call before the kill.
SEALED = "sealed"
FINISHED = "finished by a later run"
PUBLISHED = "published"
_CUT_EVERY_S = 0.02
MODE = "spark.sql.streaming.stateStore.cleancut.mode"


def all_rows(rows: DataFrame) -> DataFrame:
    """Returns all rows of each key so far, which are its state."""
    met = F.sort_array(F.collect_list(F.struct("number", "x")))
    return rows.groupBy("key").agg(met.alias("rows"))


_SEAL = re.compile(r"\d{20}\.\d+\.sealed")


@dataclass(frozen=True)
class Unsteady:
    """The query, its files below `root`.

    Each row of the input gets a random number `x` before the exchange. With `all_rows`, state and
    output of a key are all of its rows with these numbers: rows of one run with state of another
    run have other numbers.

    Attributes:
        source: the input of the query.
        root: the directory of its checkpoint and its results.
        steady: whether the number is the same in each run.
        settings: the configuration of the session.
        build: builds the query from the input.
        mode: Spark's output mode.
        location: the location of its checkpoint, if that is not below `root`.
    """

    source: SkewedInput
    root: Path
    steady: bool = False
    settings: Mapping[str, str] | None = None
    build: Callable[[DataFrame], DataFrame] = all_rows
    mode: str = "update"
    location: str | None = None

    @property
    def checkpoint(self) -> str:
        """Returns the location of the checkpoint."""
        return self.location or str(self.root / "checkpoint")

    @property
    def sink(self) -> EpochFiles:
        """Returns its sink."""
        return EpochFiles(self.root / "sink")

    def start(self, spark: SparkSession, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Runs to the end of the input, with repeated cuts."""
        session = with_cuts(spark, PARTITIONS)
        session.conf.set(MODE, "unaligned")
        for key, value in (self.settings or {}).items():
            session.conf.set(key, value)
        drawn = F.xxhash64("number") / 7 if self.steady else F.rand()
        rows = self.source.stream(session).withColumn("x", drawn)
        query = (
            self.build(rows)
            .writeStream.outputMode(self.mode)
            .option("checkpointLocation", self.checkpoint)
            .foreachBatch(sink)
            .trigger(availableNow=True)
            .start()
        )
        threading.Thread(target=_cut, args=(query,), daemon=True).start()
        return query

    def seal_file(self, epoch: int) -> Path:
        """Returns the path of the seal that counts of an epoch, on a local disk."""
        return max(self.seal_files(epoch), default=self.root / "no seal")

    def seal_files(self, epoch: int) -> list[Path]:
        """Returns the paths of its seals, one per run."""
        return [*(self.root / "checkpoint/cleancut" / CUTS).glob(f"{epoch:020d}.*.sealed")]

    def seal(self, epoch: int) -> Cut | None:
        """Returns the seal of an epoch with in-flight rows."""
        objects = self._root().objects
        names = [name for name in objects.list(CUTS) if _SEAL.fullmatch(Path(name).name)]
        of_epoch = [name for name in names if int(Path(name).name.split(".")[0]) == epoch]
        if not of_epoch:
            return None
        seal = read_cut(objects.read(max(of_epoch)), max(of_epoch), epoch)
        return seal if seal.mode == "unaligned" else None

    def _root(self) -> Root:
        return open_root(self.checkpoint)

    def sealed(self) -> tuple[int, Cut]:
        """Returns the sealed and uncommitted epoch with in-flight rows."""
        root = self._root()
        names = [Path(name) for name in root.objects.list(CUTS)]
        seals = {int(name.name.split(".")[0]) for name in names if name.suffix == ".sealed"}
        (epoch,) = seals - set(root.epochs())
        seal = self.seal(epoch)
        assert seal is not None, "no row was in flight"
        return epoch, seal

    def check(self, rows: list[Row]) -> int:
        """Whether rows, by ascending `epoch`, are those of one run of the query; how many numbers.

        Of each key every row has all that the rows before had, with the numbers that they had, and
        the last has each row of the input once.
        """
        last: dict[int, dict[int, float]] = {}
        for row in rows:
            met = {entry["number"]: entry["x"] for entry in row["rows"]}
            assert len(met) == len(row["rows"]), f"duplicated in {row}"
            before = last.get(row["key"], {})
            assert before.items() <= met.items(), f"epoch {row['epoch']}, key {row['key']}"
            last[row["key"]] = met
        wanted: dict[int, set[int]] = {}
        for path in sorted(self.source.directory.glob("*.json")):
            for given in self.source.rows_of(int(path.stem)):
                wanted.setdefault(given["key"], set()).add(given["number"])
        assert {key: set(met) for key, met in last.items()} == wanted
        return sum(map(len, last.values()))


def read(query: Unsteady, spark: SparkSession) -> list[Row]:
    """Returns the published rows, by epoch and key."""
    return query.sink.read(spark, epoch_column="epoch").orderBy("epoch", "key").collect()


def _cut(query: StreamingQuery) -> None:
    while query.isActive:
        time.sleep(_CUT_EVERY_S)
        with contextlib.suppress(CleancutError):
            coordinator(query).cut_now()


def install_kill(query: Unsteady, step: str) -> None:
    """Kills this process at a step of the first epoch sealed with in-flight rows."""

    def kill_at(epoch: int, at: str) -> None:
        if at == step and query.seal(epoch) is not None:
            (query.root / "died").write_text(f"{epoch} {step}")
            os.killpg(os.getpgrp(), signal.SIGKILL)

    close, finish = RunningSide.close, RunningSide.finish
    publish = Publisher.publish

    def close_and_kill(side: RunningSide, output: str) -> None:
        close(side, output)
        kill_at(side.batch.epoch, SEALED)

    def finish_and_kill(side: RunningSide) -> bool:
        finished = finish(side)
        if finished:
            kill_at(side.batch.epoch, FINISHED)
        return finished

    def publish_and_kill(
        self: Publisher, staged: Manifest, batch: Batch, expected: Expected = EXPECT_NOTHING
    ) -> Manifest:
        published = publish(self, staged, batch, expected)
        kill_at(batch.epoch, PUBLISHED)
        return published

    RunningSide.close = close_and_kill  # type: ignore[assignment, method-assign]
    RunningSide.finish = finish_and_kill  # type: ignore[assignment, method-assign]
    Publisher.publish = publish_and_kill  # type: ignore[method-assign]


def main(master: str, source: Path, root: Path, step: str, location: str) -> None:
    """Runs the query until it is killed, or ends."""
    query = Unsteady(SkewedInput(source, seed=1, rows=ROWS, keys=KEYS), root, location=location)
    install_kill(query, step)
    spark = builder(master).getOrCreate()
    query.start(spark, query.sink).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    die_with_the_test()
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
