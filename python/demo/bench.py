"""`python -m demo.bench`: the two queries on each provider, which take turns epoch by epoch.

All queries run in one driver, each with separate input, checkpoint and results. One query at a time
gets the files of one epoch, and the next one follows after its end: so other load of the machine,
which changes within seconds, affects all providers equally. Every result row is compared with the
right answer. The time of an epoch is that of Spark's progress.
"""

import argparse
import dataclasses
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

from demo.environment import driver_environment
from demo.expected import expected_results, read_flights
from demo.flights import DATA_SET_ROWS
from demo.job import QUERIES, Job
from demo.providers import CLEANCUT, PROVIDERS, open_session, session_of
from demo.queries import build
from demo.replay import write_input
from demo.sink import EpochSink, read_results
from demo.verdict import compare

# The first epochs of each query compile the plan and start the Python workers.
_WARM_UP_EPOCHS = 3
_PROGRESS_EVERY = 5
_SETTINGS = {
    # An epoch for each step, as in the demo, where input never pauses.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Waiting queries must not take processor time from the others.
    "spark.sql.streaming.pollingDelay": "200ms",
}

Times = Mapping[str, Sequence[float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all queries and prints the table; returns 1 if a row of any is not right."""
    options = _parse(arguments)
    root = Path(tempfile.mkdtemp(prefix="cleancut-demo-bench-"))
    job = Job(root, options.rows, CLEANCUT, "local[2]", kills=0, seed=0)
    try:
        job.prepare()
        write_input(job)
        expected = expected_results(read_flights(job))
        # This process is the driver.
        environment = driver_environment(job)
        os.environ.clear()
        os.environ.update(environment)
        spark = open_session(job)
        try:
            lanes = {
                query: [Lane(spark, job, provider, query) for provider in PROVIDERS]
                for query in QUERIES
            }
            _take_turns(job, lanes)
        finally:
            spark.stop()
        wrong = [
            text for runs in lanes.values() for lane in runs for text in lane.problems(expected)
        ]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("\n".join(wrong) if wrong else table({q: _times(runs) for q, runs in lanes.items()}))
    return 1 if wrong else 0


class Lane:
    """One query on one provider.

    Attributes:
        provider: its name.
        epochs_ms: the duration of each epoch, in milliseconds.
    """

    def __init__(self, spark: SparkSession, shared: Job, provider: str, query: str) -> None:
        self.provider = provider
        self.epochs_ms: list[float] = []
        self._name = query
        root = shared.root / "lanes" / provider / query
        self._job = dataclasses.replace(shared, root=root, provider=provider)
        self._job.prepare()
        self._job.input.mkdir()
        session = session_of(spark, provider)
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
        self._query = (
            build(session, self._job, query)
            .writeStream.outputMode("append")
            .option("checkpointLocation", self._job.checkpoint(query).uri)
            .foreachBatch(EpochSink(self._job.results(query)))
            .start()
        )

    def take(self, files: Iterable[Path]) -> None:
        """Lets the query read these files, and waits for it.

        Raises:
            StreamingQueryException: the query failed.
        """
        before = max(self._progress(), default=-1)
        for file in files:
            os.link(file, self._job.input / file.name)
        self._query.processAllAvailable()
        # Two epochs, if the query listed the directory while files were written.
        taken = [ms for epoch, ms in self._progress().items() if epoch > before]
        self.epochs_ms.append(float(sum(taken)))

    def problems(self, expected: Mapping[str, pd.DataFrame]) -> list[str]:
        """Describes the differences of the query's rows from the right answer."""
        results = read_results(self._job.results(self._name)).to_pandas()
        rows = compare(self._name, expected[self._name], results).differences
        return [f"{self.provider}, {self._name}: {rows} rows are not right."] if rows else []

    def _progress(self) -> dict[int, int]:
        """Returns milliseconds of the latest epochs by number, without empty triggers."""
        return {
            progress.batchId: progress.durationMs["triggerExecution"]
            for progress in self._query.recentProgress
            if "addBatch" in progress.durationMs
        }


def _take_turns(job: Job, lanes: Mapping[str, Sequence[Lane]]) -> None:
    files = sorted(job.input.iterdir())
    for epoch in range(job.epochs):
        first = epoch * job.files_per_trigger
        # The order rotates, because one epoch may leave work to the time of the next one.
        shift = epoch % len(PROVIDERS)
        for runs in lanes.values():
            for lane in [*runs[shift:], *runs[:shift]]:
                lane.take(files[first : first + job.files_per_trigger])
        if (epoch + 1) % _PROGRESS_EVERY == 0:
            print(f"# epoch {epoch + 1} of {job.epochs}", file=sys.stderr, flush=True)


def _times(lanes: Sequence[Lane]) -> Times:
    """Returns milliseconds of the measured epochs by provider; the last one has few rows."""
    return {lane.provider: lane.epochs_ms[_WARM_UP_EPOCHS:-1] for lane in lanes}


def table(times: Mapping[str, Times]) -> str:
    """Renders the medians over the epochs, and Cleancut's ratio to the better of the others.

    Args:
        times: of each query, milliseconds of the same epochs on each provider. The ratio is the
            median of those of each epoch, because neighbours in time share the machine.
    """
    others = [provider for provider in PROVIDERS if provider != CLEANCUT]
    heads = ["query", "epochs", CLEANCUT, *others, "over the better"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for query, by_provider in times.items():
        ratio = min(
            statistics.median(
                peer / cleancut
                for peer, cleancut in zip(by_provider[other], by_provider[CLEANCUT], strict=True)
            )
            for other in others
        )
        medians = [
            f"{statistics.median(by_provider[provider]):.0f} ms" for provider in (CLEANCUT, *others)
        ]
        cells = [query, str(len(by_provider[CLEANCUT])), *medians, f"{ratio:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=DATA_SET_ROWS, help="flights to replay")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
