"""Stateful queries until the end of their input, with an epoch written in two ways.

`python -m tests.peers.store_victim <master> <seed> <input> <root> <query>...` runs queries of
`tests/support/in_flight_queries.py` from their last state; a campaign kills them. The state store
is among the settings that `SETTINGS` of that module names.
"""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from cleancut.testing import SkewedInput
from tests.support.in_flight_queries import (
    QUERIES,
    ROWS,
    OrderedEpochs,
    configured,
    json_rows,
    write,
)
from tests.support.sessions import builder, take_out_defaults


class TwoWays:
    """A function for `foreachBatch` that appends the rows of an epoch, and that writes its file.

    Args:
        root: the directory of the query.
    """

    def __init__(self, root: Path) -> None:
        self.by_epoch = OrderedEpochs(root / "results")
        self._appended = root / "appended"
        self._appended.mkdir(parents=True, exist_ok=True)

    def __call__(self, df: DataFrame, epoch: int) -> None:
        rows = json_rows(df)
        staged = self._appended / f".{epoch}"
        staged.write_text(json.dumps(rows), encoding="utf-8")
        staged.replace(self._appended / f"{epoch:05d}-{uuid.uuid4()}.json")
        self.by_epoch.write(rows, epoch)

    def appended(self) -> list[dict[str, Any]]:
        """Returns all rows that a plain append has written."""
        files = sorted(self._appended.glob("*.json"))
        return [row for path in files for row in json.loads(path.read_text(encoding="utf-8"))]


def main(master: str, source: SkewedInput, root: Path, names: list[str]) -> None:
    """Runs queries to the end of their input."""
    spark = builder(master).config("spark.scheduler.mode", "FAIR").getOrCreate()
    take_out_defaults(spark)
    queries = []
    for name in names:
        rows = QUERIES[name].build(source.stream(configured(spark, "aligned")))
        queries.append(write(rows, name, root / name, TwoWays(root / name)))
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    master, seed, directory, root = sys.argv[1:5]
    given = SkewedInput(Path(directory), seed=int(seed), rows=ROWS)
    main(master, given, Path(root), sys.argv[5:])
