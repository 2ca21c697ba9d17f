"""Reproducible input with one hot key."""

import json
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleancut._brief import Brief

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
# Spark reads files in the order of their modification times.
_FIRST_TIME_S = 1_000_000_000


@dataclass(frozen=True, repr=False)
class SkewedInput(Brief):
    """Files of rows in a directory, one per epoch, for one streaming source.

    A row has the columns `key`, 0 for the hot key; `number`, which counts all rows from 0 and so
    ascends within each key; `at`, an event time that ascends too; and `value`, a random number.

    Attributes:
        directory: directory of the files.
        seed: seed of the rows; the same seed gives the same rows in each file.
        rows: number of rows in each file.
        keys: number of keys.
        hot: the part of the rows (0 to 1) that the hot key has in addition to its even share.
        step: increment of the event time from one row to the next.
    """

    directory: Path
    seed: int
    rows: int = 200
    keys: int = 50
    hot: float = 0.5
    step: timedelta = timedelta(milliseconds=100)

    SCHEMA = "key long, number long, at timestamp, value long"

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", Path(self.directory).resolve())
        if self.rows < 1 or self.keys < 1 or not 0 <= self.hot <= 1:
            raise ValueError(f"There is no such input: {self}")

    def rows_of(self, file: int) -> list[dict[str, Any]]:
        """The rows of a file, whether or not it is written."""
        draw = random.Random(f"{self.seed} {file}")
        numbers = range(file * self.rows, (file + 1) * self.rows)
        return [
            {
                "key": 0 if draw.random() < self.hot else draw.randrange(self.keys),
                "number": number,
                "at": _BEGIN + number * self.step,
                "value": draw.randrange(1000),
            }
            for number in numbers
        ]

    def write(self, *files: int) -> None:
        """Writes files by their numbers; a stream sees each file atomically."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for file in files:
            lines = (json.dumps(row, default=datetime.isoformat) for row in self.rows_of(file))
            path = self.directory / f"{file:05d}.json"
            staged = self.directory / f".{path.name}"
            staged.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            os.utime(staged, (_FIRST_TIME_S + file,) * 2)
            staged.replace(path)

    def stream(self, spark: "SparkSession") -> "DataFrame":
        """The files as a stream, one per epoch.

        Raises:
            pyspark.errors.AnalysisException: no file has been written yet.
        """
        reader = spark.readStream.schema(self.SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(self.directory.as_uri())

    def batch(self, spark: "SparkSession") -> "DataFrame":
        """The existing files as a batch, for the batch answer."""
        return spark.read.schema(self.SCHEMA).json(self.directory.as_uri())
