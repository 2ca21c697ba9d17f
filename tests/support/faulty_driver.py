"""A driver with queries for some sinks; a campaign kills or pauses it, or kills its servers.

`python -m tests.support.faulty_driver <specification> <home>` starts Spark, waits for the file `go`
in its home, and runs the queries of the specification until the file `done` is next to it, and then
to the end of their input. A query with a retryable failure is restarted, unless the file
`followed` is in the home. For each query the file `ends.json` has the error that ended it with its
kind, or "the end", and the errors after which it was restarted.
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark uses
from pyspark.sql.streaming.query import StreamingQuery

from cleancut import RetryableError
from cleancut.errors import from_java
from tests.peers.idioms import IDIOMS, IdiomSink
from tests.support.faults import Faults, FaultySink
from tests.support.kills import die_with_the_test
from tests.support.queries import Operator
from tests.support.s3_servers import settings_at
from tests.support.sessions import (
    CLEANCUT,
    SPARK_CHECKPOINT_FILES,
    builder,
    start,
    take_out_defaults,
)
from tests.support.sink_targets import sink_at

END = "the end"
# An epoch emits the totals of its keys, so that no two epochs emit equal rows.
TOTALS = Operator(
    lambda events: (
        events()
        .groupBy("k")
        .agg(F.count("*").cast("int").alias("n"), F.sum("v").cast("int").alias("v"))
    ),
    "update",
)
_KEYS = "spark.sql.streaming.stateStore.cleancut."
_COMMON_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # The expected rows are computed from all offset entries.
    "spark.sql.streaming.minBatchesToRetain": "10000",
}
_SETTINGS = _COMMON_SETTINGS | {f"{_KEYS}cuts": "true"}
_SETTINGS_OF_SPARK = _COMMON_SETTINGS | SPARK_CHECKPOINT_FILES
_POLL_S = 0.02


@dataclass
class _Query:
    """One query of the driver.

    Attributes:
        name: the name of its sink.
        place: the address of its target.
        root: the directory of its files.
        retried: the errors after which it was started again.
        end: the error that ended it, or "the end"; None while it runs.
    """

    name: str
    place: str
    root: Path
    retried: list[str] = field(default_factory=list)
    end: str | None = None
    _running: StreamingQuery | None = None

    def start(self, spark: SparkSession, faults: Faults) -> None:
        idiom = IDIOMS.get(self.name)
        on_step = faults.steps_of(self.name)
        self._running = start(
            spark,
            TOTALS,
            events=self.root / "events",
            root=self.root,
            provider=idiom.provider if idiom else CLEANCUT,
            sink=IdiomSink(idiom, self.place, on_step)
            if idiom
            else FaultySink(sink_at(self.name, self.place), on_step),
            settings=_SETTINGS_OF_SPARK if idiom else settings(),
            ends=False,
        )

    def look(self, spark: SparkSession, faults: Faults, *, is_followed: bool) -> None:
        """Records whether it has ended, and starts it again if its failure is retryable.

        Args:
            spark: any session.
            faults: the faults of its sink.
            is_followed: whether another driver runs the query now.
        """
        assert self._running is not None, "it was never started"
        if self.end is not None or self._running.isActive:
            return
        failure = self._running.exception()
        assert failure is not None, "nothing but a failure ends it"
        error = from_java(failure)
        said = f"{type(error or failure).__name__}: {' '.join(str(error or failure).split())}"
        # A scheduler restarts a driver with an idiom after any failure.
        is_retryable = isinstance(error, RetryableError) or self.name in IDIOMS
        if is_retryable and not is_followed:
            self.retried.append(said)
            self.start(spark, faults)
        else:
            self.end = said

    def has_processed_all(self, files: int) -> bool:
        """Whether it has ended, or has processed all files and is idle."""
        assert self._running is not None, "it was never started"
        if self.end is not None:
            return True
        log = self.root / "checkpoint" / "sources" / "0"
        text = "".join(
            entry.read_text() for entry in log.iterdir() if not entry.name.startswith(".")
        )
        status = self._running.status
        is_idle = not status["isDataAvailable"] and not status["isTriggerActive"]
        return is_idle and all(f"/{number:05d}.json" in text for number in range(files))

    def stop(self) -> None:
        assert self._running is not None, "it was never started"
        if self.end is None:
            self._running.stop()
            self.end = END


def settings() -> dict[str, str]:
    """Returns the settings of the session, with the endpoint of a bucket if there is one."""
    endpoint = os.environ.get("CLEANCUT_TEST_ENDPOINT")
    bucket = settings_at(endpoint) if endpoint else {}
    return _SETTINGS | bucket


def main(specification: Path, home: Path) -> None:
    """Runs the queries."""
    spark = builder("local[2]").getOrCreate()
    take_out_defaults(spark)
    (home / "ready").touch()
    while not (home / "go").exists():
        time.sleep(_POLL_S)
    queries = [
        _Query(name, place, Path(root))
        for name, (place, root) in json.loads(specification.read_text()).items()
    ]
    faults = Faults(home, [query.name for query in queries])
    for query in queries:
        query.start(spark, faults)
    done = specification.with_name("done")
    while any(query.end is None for query in queries):
        for query in queries:
            query.look(spark, faults, is_followed=(home / "followed").exists())
        if done.exists():
            files = json.loads(done.read_text())
            if all(query.has_processed_all(files[query.name]) for query in queries):
                for query in queries:
                    query.stop()
        time.sleep(_POLL_S)
    ends = {query.name: [*query.retried, query.end] for query in queries}
    (home / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    die_with_the_test()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
