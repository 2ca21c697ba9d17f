"""Queries with in-flight rows, and the answer of a batch for each.

`python -m tests.support.in_flight_queries <master> <seed> <input> <root> <query>...` runs some of
them to the end of the input, with random cuts, from their last state; the kill tests kill them.
`SETTINGS` names a variable with further settings of their sessions, and `CHECKPOINTS` one with the
location of their checkpoints.
"""

import contextlib
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import Checkpoint, CleancutError, coordinator
from cleancut.sinks import sealed
from cleancut.testing import RowComparison, SkewedInput, compare_rows, last_rows, slow
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support.sessions import builder, take_out_defaults
from tests.support.slow_keys import FORMS, Pace

ROWS = 300
PARTITIONS = 4
_CUT_EVERY_S = (0.05, 0.6)
# So that the worker has rows at most moments, and longer than the other queries.
_SECONDS_PER_SLOW_ROW = 0.005
_DELAY_S = 5
_WINDOW_S = 10
_CHAINED_WINDOW_S = 40
_KEYS = "spark.sql.streaming.stateStore.cleancut."
PIPELINED = f"{_KEYS}pipelinedCuts"
# Environment variables of a victim.
SETTINGS = "CLEANCUT_VICTIM_SETTINGS"
CHECKPOINTS = "CLEANCUT_VICTIM_CHECKPOINTS"


@dataclass(frozen=True)
class InFlightQuery:
    """A query over `SkewedInput`.

    Attributes:
        build: builds the query from the input.
        mode: Spark's output mode; in update mode the last row of each key counts.
        key: the columns that group rows.
        order: the column that ascends within a group.
        answer: the batch query, if it is not the same query.
    """

    build: Callable[[DataFrame], DataFrame]
    mode: str
    key: Sequence[str]
    order: str
    answer: Callable[[DataFrame], DataFrame] | None = None

    def compare(self, rows: list[dict[str, Any]], batch: DataFrame) -> RowComparison:
        """Compares the rows of the stream, in order, with the answer of the batch."""
        answer = json_rows((self.answer or self.build)(batch))
        if self.mode == "append":
            return compare_rows(rows, answer, key=self.key, order=self.order)
        disorder = compare_rows(rows, rows, key=self.key, order=self.order).out_of_order
        last = compare_rows(last_rows(rows, key=self.key), answer)
        return RowComparison(**{**vars(last), "out_of_order": disorder})


def _unique(rows: DataFrame) -> DataFrame:
    """Returns each row through a slow partition; rows of a file keep their order in each."""
    partition = F.pmod(F.hash("key", "number"), F.lit(PARTITIONS))
    is_late = F.spark_partition_id() == 0
    return rows.dropDuplicates(["key", "number"]).select(
        "number",
        F.expr(f"number div {ROWS}").alias("file"),
        partition.alias("partition"),
        slow("value", per_row_ms=4, when=is_late).alias("value"),
    )


def _totals(rows: DataFrame) -> DataFrame:
    """Each emitted row of a key has more rows than the previous one."""
    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value"), F.max("number"))


def _pairs(rows: DataFrame) -> DataFrame:
    left = rows.where("value % 2 = 0").select("key", F.col("number").alias("left"))
    right = rows.where("value % 3 = 0").select(F.col("key").alias("k"), "number")
    near = F.expr("key = k and `left` between number - 40 and number")
    return left.join(right, near).select("key", "left", "number")


def _windows(rows: DataFrame) -> DataFrame:
    timed = rows.withWatermark("at", f"{_DELAY_S} seconds")
    return timed.groupBy(F.window("at", f"{_WINDOW_S} seconds"), "key").agg(
        F.count("*").alias("n"), F.sum("value").alias("value")
    )


def _sums_of_windows(rows: DataFrame) -> DataFrame:
    """The content of each window of each key."""
    return _windows(rows).select(_seconds("window.end").alias("end"), "key", "n", "value")


def _sums_of_sums(rows: DataFrame) -> DataFrame:
    """A chain of two stateful operators: windows of each key, and larger windows of all keys."""
    larger = F.window(F.window_time("window"), f"{_CHAINED_WINDOW_S} seconds")
    of_keys = _windows(rows).groupBy(larger.alias("larger"))
    sums = of_keys.agg(F.count("*").alias("keys"), F.sum("n").alias("n"), F.sum("value"))
    return sums.select(_seconds("larger.end").alias("end"), *sums.columns[1:])


def _seconds(timestamp: str) -> Column:
    return F.col(timestamp).cast("long")


def _closed(build: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """The windows of the batch that the last watermark of a stream has closed."""

    def answer(rows: DataFrame) -> DataFrame:
        last = rows.agg(F.max(F.unix_millis("at")).alias("at")).head()
        assert last is not None
        return build(rows).where(F.col("end") * 1000 <= last["at"] - _DELAY_S * 1000)

    return answer


def _counted(form: str) -> Callable[[DataFrame], DataFrame]:
    """Each row with the number of rows of its key so far, by a function in Python."""

    def build(rows: DataFrame) -> DataFrame:
        named = rows.select(F.col("key").alias("k"), F.col("number").alias("n"))
        return FORMS[form](named, Pace(_SECONDS_PER_SLOW_ROW), output="append").drop("at")

    return build


def _numbered(rows: DataFrame) -> DataFrame:
    until = Window.partitionBy("k").orderBy("n")
    named = rows.select(F.col("key").alias("k"), F.col("number").alias("n"))
    return named.withColumn("c", F.row_number().over(until))


_IN_JVM = {
    "unique": InFlightQuery(_unique, "append", ["partition", "file"], "number"),
    "totals": InFlightQuery(_totals, "update", ["key"], "n"),
    # A pair is emitted when the later of its rows arrives, so only pairs of one row have an order.
    "pairs": InFlightQuery(_pairs, "append", ["key", "left", "number"], "number"),
    # Windows of one epoch are unordered.
    "windows": InFlightQuery(
        _sums_of_windows, "append", ["key", "end"], "end", answer=_closed(_sums_of_windows)
    ),
    "chain": InFlightQuery(_sums_of_sums, "append", ["end"], "end", answer=_closed(_sums_of_sums)),
}
IN_PYTHON = {
    form: InFlightQuery(_counted(form), "append", ["k"], "n", answer=_numbered) for form in FORMS
}
QUERIES = _IN_JVM | IN_PYTHON


# Files of the input, kills of drivers, of executors. A kill of a driver costs the start of another.
_SIZES = [(6, 1, 1), (6, 1, 1), (10, 2, 1), (16, 3, 3)]
KILL_SPACE = InputSpace(
    "killed queries with cuts",
    [
        Dimension("query", list(QUERIES)),
        Dimension("files", [files for files, _, _ in _SIZES]),
        Dimension("killed drivers", [drivers for _, drivers, _ in _SIZES]),
        Dimension("killed executors", [executors for _, _, executors in _SIZES]),
    ],
    [
        Impossible((name, [value]), (other, others), "longer inputs have more kills")
        for name, value, other, others in (
            ("files", "6", "killed drivers", ["2", "3"]),
            ("files", "10", "killed drivers", ["1", "3"]),
            ("files", "16", "killed drivers", ["1", "2"]),
            ("files", "6", "killed executors", ["3"]),
            ("files", "10", "killed executors", ["3"]),
            ("files", "16", "killed executors", ["1"]),
            ("killed drivers", "1", "killed executors", ["3"]),
            ("killed drivers", "2", "killed executors", ["3"]),
            ("killed drivers", "3", "killed executors", ["1"]),
        )
    ],
)


def draw_queries(seed: int) -> list[str]:
    """Returns the names of five random queries, the last of which has a function in Python."""
    draw = random.Random(seed)
    return [*draw.sample(sorted(_IN_JVM), 4), draw.choice(sorted(IN_PYTHON))]


def epochs_of_files(offsets: Mapping[int, str | None]) -> dict[int, int]:
    """Returns the epoch that read each file; an entry of the source log has one file.

    Args:
        offsets: the offset of the source after each epoch.
    """
    epochs: dict[int, int] = {}
    for epoch, offset in sorted(offsets.items()):
        last = json.loads(offset or "")["logOffset"]
        epochs |= dict.fromkeys(range(len(epochs), last + 1), epoch)
    return epochs


def in_file_order(
    rows: list[dict[str, Any]], epoch_of_file: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Sorts rows of a counting query by file, where one epoch has read several files.

    Spark reads the files of an epoch in the order of their sizes, so only the order of rows within
    a file and between epochs is defined. An epoch has several files if a driver dies between
    entries of the source log and of the offset log.

    Args:
        rows: in order of arrival; the counts of a key stay in this order.
        epoch_of_file: the epoch that read each file.
    """
    of_keys: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        of_keys.setdefault(row["k"], []).append(row)
    ordered = []
    for of_key in of_keys.values():
        for _, run in itertools.groupby(of_key, lambda row: epoch_of_file[row["n"] // ROWS]):
            arrived = list(run)
            by_file = sorted(arrived, key=lambda row: row["n"] // ROWS)
            ordered += [row | {"c": at["c"]} for row, at in zip(by_file, arrived, strict=True)]
    return ordered


def draw_size(seed: int) -> tuple[int, int, int]:
    """Returns a random number of files, kills of drivers, and kills of executors."""
    return random.Random(seed).choice(_SIZES)


def covered_by(seed: int) -> dict[str, list[Any]]:
    """Returns the values of the dimensions of `KILL_SPACE`."""
    files, drivers, executors = draw_size(seed)
    kills = {"killed drivers": [drivers], "killed executors": [executors]}
    return {"query": draw_queries(seed), "files": [files], **kills}


class OrderedEpochs:
    """A sealing sink: one file per epoch, with its rows in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def __call__(self, df: DataFrame, epoch: int) -> None:
        self.write(json_rows(df), epoch)

    def write(self, rows: list[dict[str, Any]], epoch: int) -> None:
        """Writes the rows of an epoch instead of those of an earlier attempt."""
        path = self._root / f"{epoch:05d}.json"
        # A run that finds the file runs after the seal of the run that wrote it.
        if path.exists():
            with (self._root / "repeated").open("a") as repeated:
                print(epoch, file=repeated)
            if _multiset(json.loads(path.read_text())) != _multiset(rows):
                (self._root / f"{epoch:05d}.changed").touch()
        staged = self._root / f".{epoch}"
        staged.write_text(json.dumps(rows), encoding="utf-8")
        staged.replace(path)

    def read(self) -> list[dict[str, Any]]:
        """Returns all rows: by epoch, and within an epoch in order of arrival."""
        return [row for path in sorted(self._root.glob("*.json")) for row in _read(path)]

    def repeated(self) -> list[int]:
        """Returns an epoch for each time that it was written again."""
        path = self._root / "repeated"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def changed(self) -> list[str]:
        """Returns the epochs that ran again after their seal with other rows."""
        return sorted(path.stem for path in self._root.glob("*.changed"))


@dataclass(frozen=True)
class Ended:
    """The result of a query.

    Attributes:
        compared: its rows compared with the answer of the batch.
        changed: epochs that ran again after their seal with other rows.
        modes: the modes of its cuts, in order.
    """

    compared: RowComparison
    changed: Sequence[str]
    modes: Sequence[str]

    @classmethod
    def of(
        cls,
        name: str,
        spark: SparkSession,
        source: SkewedInput,
        root: Path,
        discarded: Collection[int] = (),
    ) -> "Ended":
        """Reads the result from the files below `root`.

        Args:
            name: the name of the query.
            spark: a session for the batch.
            source: the input of the query.
            root: the directory of its files.
            discarded: epochs that a rollback has discarded.
        """
        sink = OrderedEpochs(root / "results")
        checkpoint = Checkpoint(checkpoint_of(root))
        rows = sink.read()
        cuts = [cut for cut in checkpoint.cuts() if cut.epoch not in discarded]
        if name in IN_PYTHON:
            last = {cut.epoch: checkpoint.cut(cut.epoch).offsets["0"] for cut in cuts}
            rows = in_file_order(rows, epochs_of_files(last))
        compared = QUERIES[name].compare(rows, source.batch(spark))
        return cls(compared, sink.changed(), [cut.mode for cut in cuts])

    @property
    def held(self) -> int:
        """Returns the number of epochs with in-flight rows."""
        return self.modes.count("unaligned")

    @property
    def is_right(self) -> bool:
        """Returns whether no row differs, and no epoch returned other rows when it ran again."""
        return self.compared.is_same and not self.changed

    @property
    def counts(self) -> dict[str, int]:
        """Returns the numbers of epochs and of faults, by the columns of campaign records."""
        return {
            "epochs": len(self.modes),
            "held": self.held,
            "lost": self.compared.lost,
            "duplicated": self.compared.duplicated,
            "disordered": self.compared.out_of_order,
            "wrong": not self.is_right,
        }

    def __str__(self) -> str:
        return f"{len(self.modes)} epochs, {self.held} with in-flight rows, {self.compared}"


def json_rows(df: DataFrame) -> list[dict[str, Any]]:
    """Converts the rows of a batch to JSON."""
    return [row.asDict(recursive=True) for row in df.collect()]


def checkpoint_of(root: Path) -> str:
    """Returns the location of the checkpoint of a query with these files."""
    return f"{os.environ.get(CHECKPOINTS, root.parent)}/{root.name}/checkpoint"


def start(
    spark: SparkSession,
    name: str,
    source: SkewedInput,
    root: Path,
    mode: str = "unaligned",
    before_sink: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> StreamingQuery:
    """Starts a query that ends with its input; its files are below `root`.

    Args:
        spark: the parent of its session.
        name: the name of the query.
        source: the input of the query.
        root: an empty directory, or that of an earlier run.
        mode: the mode of cuts.
        before_sink: a transformation of the rows before the sink.
    """
    rows = before_sink(QUERIES[name].build(source.stream(configured(spark, mode))))
    return write(rows, name, root, sealed(OrderedEpochs(root / "results")))


def configured(spark: SparkSession, mode: str) -> SparkSession:
    """Returns a separate session with cuts in a mode, and with the further settings of a victim."""
    session = spark.newSession()
    session.conf.set(f"{_KEYS}cuts", "true")
    session.conf.set(f"{_KEYS}mode", mode)
    session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    for key, value in json.loads(os.environ.get(SETTINGS, "{}")).items():
        session.conf.set(key, value)
    return session


def write(
    rows: DataFrame, name: str, root: Path, sink: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Starts the query of a name, which ends with its input, with a function for `foreachBatch`."""
    return (
        rows.writeStream.outputMode(QUERIES[name].mode)
        .option("checkpointLocation", checkpoint_of(root))
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
    )


def main(
    session: SparkSession.Builder,
    seed: int,
    source: SkewedInput,
    root: Path,
    names: list[str],
    before_sink: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> None:
    """Runs queries to the end of their input, and cuts them at moments drawn from the seed."""
    spark = session.config("spark.scheduler.mode", "FAIR").getOrCreate()
    take_out_defaults(spark)
    queries = [start(spark, name, source, root / name, before_sink=before_sink) for name in names]
    draw = random.Random(seed)
    threading.Thread(target=cut_at_random, args=(queries, draw), daemon=True).start()
    for query in queries:
        query.awaitTermination()
    spark.stop()


def cut_at_random(queries: list[StreamingQuery], draw: random.Random) -> None:
    """Cuts one query after the other, for ever."""
    while True:
        time.sleep(draw.uniform(*_CUT_EVERY_S))
        # A query has a coordinator only between its start and its end.
        with contextlib.suppress(CleancutError):
            coordinator(draw.choice(queries)).cut_now()


def _read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _multiset(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


if __name__ == "__main__":
    master, seed, source, root = sys.argv[1:5]
    given = SkewedInput(Path(source), seed=int(seed), rows=ROWS)
    main(builder(master), int(seed), given, Path(root), sys.argv[5:])
