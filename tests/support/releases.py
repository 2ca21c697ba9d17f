"""Queries whose checkpoints are stored for each release; later releases continue them.

`python -m tests.support.releases` writes those of the release that is installed, on the line of
Spark that is. Their rows are numbers that follow from how many batches there were, so no file goes
along with a checkpoint.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cleancut
from cleancut._session.installation import SPARK, spark_line

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, Row, SparkSession

STORED = Path(__file__).parents[1] / "checkpoints"
BATCHES = 4
ROWS = 60
KEYS = 7
PARTITIONS = 2
MODES = ("level-0", "cuts")
CUTS = "spark.sql.streaming.stateStore.cleancut.cuts"
KINDS = ("aggregation", "join", "python")

# A checkpoint whose cuts have pages and merged frames. It is stored only for its state.
PAGES = "pages"
PAGED_EPOCHS = 33
PAGED_RUNS = (20, 13)


def names() -> list[str]:
    """Returns all stored names, as `0.1.0/4.3/cuts-join.zip`: release, Spark, mode and query."""
    return sorted(path.relative_to(STORED).as_posix() for path in STORED.glob("*/*/*.zip"))


def unpacked(name: str, to: Path) -> Path:
    """Unpacks a copy of a checkpoint from which a query can continue."""
    with zipfile.ZipFile(STORED / name) as archive:
        archive.extractall(to)
    return to


def kind_of(name: str) -> str:
    return next(kind for kind in KINDS if name.endswith(f"{kind}.zip"))


def numbers(spark: "SparkSession") -> "DataFrame":
    """Returns 60 numbers per batch, from 0."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return source.option("numPartitions", PARTITIONS).load().select("value")


def query(spark: "SparkSession", kind: str) -> "DataFrame":
    """Returns one of the queries; its form must not change."""
    rows = numbers(spark)
    if kind == "aggregation":
        keyed = rows.selectExpr(f"value % {KEYS} AS k", "value AS v")
        return keyed.groupBy("k").agg({"v": "sum", "*": "count"}).toDF("k", "total", "n")
    if kind == "join":
        # A number joins a third of itself, which arrived some batches before.
        left = rows.selectExpr("value AS a")
        right = numbers(spark).selectExpr("value * 3 AS b")
        return left.join(right, left.a == right.b)
    keyed = rows.selectExpr(f"value % {KEYS} AS k", "value AS v")
    schema, state = "k long, n long, total long", "n long, total long"
    return keyed.groupBy("k").applyInPandasWithState(
        counted_on, schema, state, "update", "NoTimeout"
    )


def counted_on(
    key: tuple[int], frames: "Iterator[pd.DataFrame]", state: Any
) -> "Iterator[pd.DataFrame]":
    """Computes number and sum of a key's rows, in Python."""
    import pandas as pd

    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def expected(kind: str, batch: int) -> Counter[tuple[int, ...]]:
    """Computes the result of a batch from its number."""
    end = ROWS * (batch + 1)
    if kind == "join":
        begun = ROWS * batch
        return Counter((v, v) for v in range(0, end, 3) if v >= begun)
    values_by_key = {k: [v for v in range(end) if v % KEYS == k] for k in range(KEYS)}
    return Counter((k, len(values), sum(values)) for k, values in values_by_key.items())


def run(spark: "SparkSession", kind: str, checkpoint: Path) -> Counter[tuple[int, ...]]:
    """Runs one more batch; returns its rows."""
    given: list[Row] = []

    def keep(batch: "DataFrame", number: int) -> None:
        given.extend(batch.select(*sorted(batch.columns)).collect())

    mode = "append" if kind == "join" else "update"
    writer = query(spark, kind).writeStream.outputMode(mode).foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    running = writer.start()
    running.awaitTermination()
    return Counter(tuple(row) for row in given)


def write_paged(spark: "SparkSession", home: Path, checkpoint: Path) -> None:
    """Runs a count of the rows of files twice, with file *n* in epoch *n*."""
    from pyspark.sql import functions as f

    state = "spark.sql.streaming.stateStore"
    settings = {f"{state}.minDeltasForSnapshot": "12", CUTS: "true"}
    settings |= {"spark.sql.streaming.minBatchesToRetain": "4", "spark.sql.shuffle.partitions": "3"}
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    files = home / "files"
    files.mkdir()
    for count in PAGED_RUNS:
        begun = len(list(files.iterdir()))
        for number in range(begun, begun + count):
            rows = [{"k": f"k{(7 * v + number) % 23}", "v": v} for v in range(ROWS)]
            path = files / f"{number:02}.json"
            path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
            # The source reads files in the order of their modification times.
            os.utime(path, (1_767_225_479 + number, 1_767_225_479 + number))
        source = session.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1)
        counted = source.json(str(files)).groupBy("k").agg(f.count("*"), f.sum("v"))
        writer = counted.toDF("k", "n", "total").writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()


def keep_paged(checkpoint: Path, place: Path) -> None:
    """Stores Cleancut's files without owners and history."""
    shutil.rmtree(place, ignore_errors=True)
    left_out = shutil.ignore_patterns("owners", "history", ".*")
    shutil.copytree(checkpoint / "cleancut", place / "cleancut", ignore=left_out)


def zipped(files: Iterable[Path], root: Path, to: Path) -> None:
    """Writes an archive in sorted order and without times."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(path.relative_to(root).as_posix()), path.read_bytes())


def main() -> None:
    """Writes the checkpoints of this release, and replaces existing ones."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    place = STORED / cleancut.__version__ / spark_line()
    shutil.rmtree(place, ignore_errors=True)
    builder = SparkSession.Builder().master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", PARTITIONS)
    spark = cleancut.configure(builder).getOrCreate()
    with contextlib.ExitStack() as stack:
        left: dict[str, Path] = {}
        for mode in MODES:
            spark.conf.set(CUTS, str(mode == "cuts").lower())
            for kind in KINDS:
                home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                for batch in range(BATCHES):
                    given = run(spark, kind, home)
                    assert given == expected(kind, batch), (kind, batch, given)
                left[f"{mode}-{kind}.zip"] = home
        paged = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if spark_line() == SPARK[-1]:
            write_paged(spark, paged, paged / "checkpoint")
        # No process writes there afterwards.
        spark.stop()
        if spark_line() == SPARK[-1]:
            keep_paged(paged / "checkpoint", place.parent / PAGES)
        for name, home in left.items():
            zipped((path for path in home.rglob("*") if path.is_file()), home, place / name)
    print(place, file=sys.stderr)


if __name__ == "__main__":
    main()
