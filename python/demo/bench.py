"""`python -m demo.bench`: the two queries on each provider, in turn, without kills.

Each turn is a driver of its own that reads all of the same input into a new checkpoint, and every
result row is compared with the right answer. The time of an epoch is that of Spark's progress.
"""

import argparse
import dataclasses
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from demo.events import read_epochs
from demo.expected import expected_results, read_flights
from demo.flights import DATA_SET_ROWS
from demo.job import QUERIES, Job
from demo.providers import CLEANCUT, PROVIDERS
from demo.replay import write_input
from demo.sink import read_results
from demo.supervisor import Supervisor
from demo.verdict import compare

# Of each run: the first epochs compile the plan and start the Python workers.
_WARM_UP_EPOCHS = 3


@dataclasses.dataclass(frozen=True)
class Turn:
    """The mean time of an epoch in one run, in milliseconds, of each query by name."""

    provider: str
    epoch_ms: Mapping[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all turns and prints the table; returns 1 if a row of any run is not right."""
    options = _parse(arguments)
    root = Path(tempfile.mkdtemp(prefix="cleancut-demo-bench-"))
    try:
        job = Job(root, options.rows, CLEANCUT, "local[2]", kills=0, seed=0)
        job.prepare()
        write_input(job)
        expected = expected_results(read_flights(job))
        turns = []
        for number in range(options.turns):
            # Who begins changes, since what the machine does beside it may follow a rhythm too.
            shift = number % len(PROVIDERS)
            for provider in PROVIDERS[shift:] + PROVIDERS[:shift]:
                turns.append(_run(job, provider, number, expected))
    except _WrongRowsError as problem:
        print(problem, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(turns))
    return 0


class _WrongRowsError(Exception):
    """A provider's rows are not those of the right answer."""


def _run(shared: Job, provider: str, number: int, expected: Mapping[str, pd.DataFrame]) -> Turn:
    root = shared.root / f"{number}-{provider}"
    job = dataclasses.replace(shared, root=root, provider=provider)
    job.prepare()
    job.input.symlink_to(shared.input)
    Supervisor(job, [], lambda _: None).run()
    for query in QUERIES:
        found = read_results(job.results(query)).to_pandas()
        differences = compare(query, expected[query], found).differences
        if differences:
            raise _WrongRowsError(f"{provider}, {query}: {differences} rows are not right.")
    epochs = sorted(read_epochs(job.events(1)), key=lambda epoch: epoch.epoch)
    turn = Turn(
        provider,
        {
            query: statistics.fmean(
                [e.duration_ms for e in epochs if e.query == query][_WARM_UP_EPOCHS:]
            )
            for query in QUERIES
        },
    )
    shutil.rmtree(root)
    times = ", ".join(f"{query} {ms:.0f} ms" for query, ms in turn.epoch_ms.items())
    print(f"# turn {number + 1}, {provider}: {times}", file=sys.stderr, flush=True)
    return turn


def table(turns: Sequence[Turn]) -> str:
    """Renders the medians over the turns, and Cleancut's ratio to the better of the others.

    The ratio is the median of those within each turn, because neighbours in time share the machine.
    """
    others = [provider for provider in PROVIDERS if provider != CLEANCUT]
    heads = ["query", CLEANCUT, *others, "over the better"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for query in QUERIES:
        of = {
            provider: [turn.epoch_ms[query] for turn in turns if turn.provider == provider]
            for provider in PROVIDERS
        }
        better = min(others, key=lambda provider: statistics.median(of[provider]))
        ratio = statistics.median(
            peer / own for peer, own in zip(of[better], of[CLEANCUT], strict=True)
        )
        cells = [f"{statistics.median(of[provider]):.0f} ms" for provider in (CLEANCUT, *others)]
        lines.append("| " + " | ".join([query, *cells, f"{ratio:.2f}"]) + " |")
    return "\n".join(lines)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=DATA_SET_ROWS, help="flights to replay")
    parser.add_argument("--turns", type=int, default=5, help="runs of each provider")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
