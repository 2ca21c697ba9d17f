# ruff: noqa: N802 - names of PySpark's interface
"""A query whose epochs can be slowed in each of their phases, with Spark's UI.

`python -m tests.support.phased_epochs <work> <checkpoint> [<endpoint>]` runs an epoch for each file
in `<work>/input`, and ends when the file `<work>/stop` exists. While the file `<work>/slow-<phase>`
exists, that phase takes as many seconds as the file contains; the sink deletes it. If the file
`<work>/hold` exists, the sink renames it to `held`, and returns when that does not exist.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.functions import pandas_udf

from tests.support.s3_servers import settings_at
from tests.support.sessions import builder
from tests.support.slow_epochs import run_until_stopped

SOURCE, MAP, STATE, SINK = "source", "map", "state", "sink"
PARTITIONS = 2
KEYS = 20


def delay(work: str | Path, phase: str) -> None:
    """Waits as long as the file of a phase says."""
    with suppress(FileNotFoundError):
        time.sleep(float((Path(work) / f"slow-{phase}").read_text()))


class Files(DataSource):
    """A source whose offset is the number of files."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "counted-files"

    def schema(self) -> str:
        """One key per row."""
        return "key long"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        """A reader of the files in the directory of the option."""
        return FilesReader(str(self.options["path"]))


class FilesReader(DataSourceStreamReader):
    """Reads all keys once for each file."""

    def __init__(self, work: str) -> None:
        self._work = work

    def initialOffset(self) -> dict[str, int]:
        """No file."""
        return {"files": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        """The number of files."""
        delay(self._work, SOURCE)
        return {"files": sum(1 for _ in (Path(self._work) / "input").iterdir())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One partition for each new file."""
        return [InputPartition(number) for number in range(start["files"], end["files"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """The keys."""
        return ((key,) for key in range(KEYS))


def main(work: Path, checkpoint: str, endpoint: str) -> None:
    """Runs the query until the stop file exists."""
    at = str(work)
    keys = "spark.sql.streaming.stateStore.cleancut."
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        f"{keys}cuts": "true",
        "spark.log.level": "WARN",
    }
    if endpoint:
        settings |= settings_at(endpoint)
    build = builder("local[2]")
    for key, value in settings.items():
        build = build.config(key, value)
    spark = build.getOrCreate()
    spark.dataSource.register(Files)

    def prepared(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        delay(at, MAP)
        yield from parts

    def results(values: pd.Series) -> pd.Series:
        delay(at, STATE)
        return values

    counted = pandas_udf(results, "long")  # type: ignore[call-overload]

    def sink(batch: DataFrame, epoch: int) -> None:
        batch.collect()
        delay(at, SINK)
        if (work / "hold").exists():
            (work / "hold").rename(work / "held")
            while (work / "held").exists():
                time.sleep(0.01)
        for phase in (SOURCE, MAP, STATE, SINK):
            (work / f"slow-{phase}").unlink(missing_ok=True)

    query = (
        spark.readStream.format(Files.name())
        .option("path", at)
        .load()
        .mapInPandas(prepared, "key long")
        .groupBy("key")
        .count()
        .select("key", counted("count"))
        .writeStream.outputMode("update")
        .queryName("orders")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(sink)
        .start()
    )
    run_until_stopped(spark, query, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *sys.argv[3:] or [""])
