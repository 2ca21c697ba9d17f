"""The sink of results, and their reader: by default files, one directory per epoch."""

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from cleancut.sinks import sealed
from demo.location import spark_uri

_EPOCH = re.compile(r"epoch=(\d+)")


class Results(Protocol):
    """The results of a query."""

    def sink(self, *, is_sealing: bool) -> Callable[[DataFrame, int], None]:
        """The function of `foreachBatch`.

        Args:
            is_sealing: whether rows may be in flight, so that the function has to wait for the
            seal.
        """

    def is_done(self, epoch: int, since_s: float) -> bool:
        """Whether an epoch has been written completely since `since_s` (Unix time)."""

    def is_begun(self, epoch: int, since_s: float) -> bool:
        """Whether rows of an epoch have been staged since `since_s` (Unix time)."""

    def read(self) -> pa.Table:
        """Returns all complete epochs in order, with a column `epoch`."""


class ResultFiles:
    """Implements `Results` by files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def sink(self, *, is_sealing: bool) -> Callable[[DataFrame, int], None]:
        """See `Results`."""
        written = EpochSink(self._root)
        return sealed(written) if is_sealing else written

    def is_done(self, epoch: int, since_s: float) -> bool:
        """See `Results`."""
        return _modified_s(epoch_directory(self._root, epoch)) >= since_s

    def is_begun(self, epoch: int, since_s: float) -> bool:
        """See `Results`."""
        return _modified_s(_staged(self._root, epoch)) >= since_s

    def read(self) -> pa.Table:
        """See `Results`."""
        return read_results(self._root)


class EpochSink:
    """Writes each epoch under its own name; the function of `foreachBatch`.

    An epoch's directory is created by one rename, complete. An epoch that runs again replaces the
    directory of its first run, so that it counts once in any case.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        """Writes the rows of one epoch."""
        staged = _staged(self._root, epoch)
        replaced = self._root / f".epoch={epoch}.replaced"
        final = epoch_directory(self._root, epoch)
        rows.write.mode("overwrite").parquet(spark_uri(staged))
        shutil.rmtree(replaced, ignore_errors=True)
        if final.exists():
            final.rename(replaced)
        staged.rename(final)
        shutil.rmtree(replaced, ignore_errors=True)


def epoch_directory(root: Path, epoch: int) -> Path:
    """Returns the directory of the complete rows of an epoch."""
    return root / f"epoch={epoch}"


def _staged(root: Path, epoch: int) -> Path:
    return root / f".epoch={epoch}.staged"


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return -math.inf


def read_results(root: Path) -> pa.Table:
    """Reads all complete epochs in order, with a column `epoch`; staged ones are ignored."""
    tables = []
    for epoch, directory in sorted(_epochs(root)):
        for file in sorted(directory.glob("*.parquet")):
            rows = pq.ParquetFile(file).read()
            tables.append(rows.append_column("epoch", pa.array([epoch] * len(rows), pa.int64())))
    return pa.concat_tables(tables) if tables else pa.table({})


def _epochs(root: Path) -> list[tuple[int, Path]]:
    matches = ((_EPOCH.fullmatch(path.name), path) for path in root.iterdir())
    return [(int(match[1]), path) for match, path in matches if match]
