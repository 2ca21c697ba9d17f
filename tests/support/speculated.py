"""Queries with in-flight rows on a cluster with speculative execution.

`python -m tests.support.speculated <master> <seed> <input> <root> <log> <query>...` runs some to
the end of the input, with random cuts. After their operators each row is slow on hosts whose
executors have the variable `SLOW_HOST`.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses

from cleancut.testing import SkewedInput, slow
from cleancut.testing._slow import called
from tests.support.in_flight_queries import ROWS, main
from tests.support.sessions import builder

SLOW_HOST = "CLEANCUT_TEST_SLOW_HOST"
_MS_PER_SLOW_ROW = 12
_SETTINGS = {
    "spark.speculation": "true",
    # Tasks slower than half of a stage soon get a copy, so that both attempts run.
    "spark.speculation.quantile": "0.4",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


def slow_on_slow_hosts(rows: DataFrame) -> DataFrame:
    """Returns the rows; each of them is slow on a slow host."""
    first = rows.columns[0]
    is_slow = called("java.lang.System", "getenv", SLOW_HOST).isNotNull()
    return rows.withColumn(
        first, slow(F.col(f"`{first}`"), per_row_ms=_MS_PER_SLOW_ROW, when=is_slow)
    )


def session(master: str, log: Path) -> SparkSession.Builder:
    """Returns the session of the queries; Spark's event log is below `log`."""
    log.mkdir(exist_ok=True)
    made = builder(master).config("spark.eventLog.dir", log.as_uri())
    for key, value in _SETTINGS.items():
        made = made.config(key, value)
    return made


def copies(log: Path) -> Counter[str]:
    """Returns the results of speculative tasks, by Spark's names, from the event log."""
    return Counter(
        event["Task End Reason"]["Reason"]
        for event in _events(log)
        if event["Event"] == "SparkListenerTaskEnd" and event["Task Info"]["Speculative"]
    )


def _events(log: Path) -> Iterator[dict[str, Any]]:
    for path in log.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    master, seed, source, root, log = sys.argv[1:6]
    given = SkewedInput(Path(source), seed=int(seed), rows=ROWS)
    made = session(master, Path(log))
    main(made, int(seed), given, Path(root), sys.argv[6:], before_sink=slow_on_slow_hosts)
