"""The table at the end, and the next steps."""

import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from demo.events import Epoch, read_epochs
from demo.job import QUERIES, Job
from demo.providers import CLEANCUT
from demo.s3_server import VARIABLES
from demo.supervisor import Run
from demo.verdict import Verdict

if TYPE_CHECKING:
    from demo.tables import Seen

_WIDTH = (30, 16)
# The start of a driver, an epoch of one query, and flights beyond that, all rounded up.
_LIFE_S = 12.0
_EPOCH_S = 0.7
_ROWS_PER_S = 3000.0


def summary(job: Job, run: Run, verdicts: dict[str, Verdict], seen: "Seen | None" = None) -> str:
    """Renders the outcome of a run as a table with a column for each query."""
    figures = {query: list[Epoch]() for query in QUERIES}
    for life in range(1, run.lives + 1):
        for epoch in read_epochs(job.events(life)):
            figures[epoch.query].append(epoch)
    judged = [verdicts[query] for query in QUERIES]
    measured = [figures[query] for query in QUERIES]
    lines = [
        _line("", QUERIES),
        _line("rows in", [f"{job.rows:,}"] * len(QUERIES)),
        _line("result rows", (f"{v.actual:,}" for v in judged)),
        _line("  of expected", (f"{v.expected:,}" for v in judged)),
        _line("lost", (f"{v.lost:,}" for v in judged)),
        _line("duplicated", (f"{v.duplicated:,}" for v in judged)),
        _line("wrong", (f"{v.wrong:,}" for v in judged)),
        _line("unexpected", (f"{v.unexpected:,}" for v in judged)),
        _line("out of order", (f"{v.out_of_order:,}" for v in judged)),
        _line("epochs", (f"{run.positions[q].committed + 1:,}" for q in QUERIES)),
        _line("  interrupted and run again", (f"{_interrupted(run, q):,}" for q in QUERIES)),
        _line("state at most, rows", (f"{_most(e.state_rows for e in m):,}" for m in measured)),
        _line(
            "state at most, bytes",
            (_bytes(_most(e.state_memory_bytes for e in m)) for m in measured),
        ),
        _line("state files written, bytes", (_bytes(run.written_bytes[q]) for q in QUERIES)),
        _line("time per commit, p50 / p95", (_ms([e.commit_ms for e in m]) for m in measured)),
        _line("time per epoch, p50 / p95", (_ms([e.duration_ms for e in m]) for m in measured)),
        *(_in_flight(measured) if job.has_rows_in_flight else []),
        "",
        _kills(job, run),
        *([_reader(seen)] if seen else []),
        f"provider {job.provider}, mode {job.mode}, master {job.master}, {run.lives} lives in "
        f"{run.elapsed_s:.0f} s",
        *([f"checkpoints in {job.checkpoints}"] if job.checkpoints else []),
    ]
    return "\n".join(lines)


def examples(verdicts: dict[str, Verdict]) -> str:
    """Renders the first wrong rows; empty if all are right."""
    shown = (
        f"{query}, first differences (one column each):\n{verdict.examples}"
        for query, verdict in verdicts.items()
        if verdict.examples
    )
    return "\n".join(shown)


def time_needed(job: Job) -> str:
    """Estimates the duration of a run, by the durations of runs on two cores."""
    lives, epochs = job.kills + 1, job.epochs * len(QUERIES)
    seconds = lives * _LIFE_S + epochs * _EPOCH_S + job.rows / _ROWS_PER_S
    return f"This takes about {max(round(seconds / 60), 1)} minutes on two cores."


def next_steps(job: Job, run: Run) -> str:
    """Prints commands that inspect the checkpoint of the run, and the next runs."""
    query = QUERIES[-1]
    location = job.checkpoint(query).name
    # At the end the closing files have emptied the state: a version from the middle shows more.
    version = max(run.positions[query].committed // 2, 1)
    if job.provider == CLEANCUT:
        commands = _commands(job, location, version)
    else:
        reader = f"spark.read.format('statestore').option('batchId', {version - 1})"
        commands = [f"{reader}.load('{location}').show()"]
    lines = ["To inspect the checkpoint:", *(f"  {command}" for command in commands)]
    if job.provider == CLEANCUT and job.checkpoints is None:
        lines += ["The same on S3, with in-flight rows while drivers are killed:", "  make demo-s3"]
    return "\n".join(lines)


def _commands(job: Job, location: str, version: int) -> list[str]:
    program = "cleancut" if shutil.which("cleancut") else f"{sys.executable} -m cleancut"
    endpoint = f" --endpoint {job.endpoint}" if job.endpoint else ""
    histories = [f"{program} history {location}{endpoint}"] if job.checkpoints else []
    return [
        *_server(job),
        f"{program} ls {location}{endpoint}",
        *histories,
        f"{program} state {location} --operator 0 --version {version}{endpoint}",
        f"{program} verify {location}{endpoint}",
    ]


def _server(job: Job) -> list[str]:
    """Returns the command that starts the demo's own S3 server again."""
    if job.s3_directory is None or job.endpoint is None:
        return []
    port = job.endpoint.rsplit(":", 1)[1]
    packages = Path(__file__).resolve().parents[1]
    return [
        "export " + " ".join(f"{name}={value}" for name, value in VARIABLES.items()),
        f"PYTHONPATH={packages} {sys.executable} -m demo.s3_server {job.s3_directory} "
        f"--port {port} &",
    ]


def _line(name: str, values: Iterable[object]) -> str:
    first, other = _WIDTH
    return f"{name:<{first}}" + "".join(f"{value:>{other}}" for value in values)


def _interrupted(run: Run, query: str) -> int:
    return sum(strike.positions[query].is_open for strike in run.strikes)


def _kills(job: Job, run: Run) -> str:
    moments = Counter(
        strike.positions[query].phase.value for strike in run.strikes for query in QUERIES
    )
    counts = ", ".join(f"{count} x {moment}" for moment, count in moments.most_common())
    hits = f"kills: {run.hits} of {job.kills} hit a running query (seed {job.seed})"
    lines = [hits, *([f"  each query then was: {counts}"] if counts else [])]
    if job.has_rows_in_flight:
        rows = ", ".join(f"{count:,}" for count in run.replayed_rows) or "none"
        lines.append(f"in-flight rows that restarts replayed: {rows}")
    if job.executor_kills:
        lines.append(f"kills of an executor alone: {run.executors_killed} of {job.executor_kills}")
    return "\n".join(lines)


def _reader(seen: "Seen") -> str:
    return (
        f"a reader polled {seen.polls:,} times and saw {seen.states:,} states of the tables, "
        f"{seen.torn:,} of them with incomplete epochs"
    )


def _in_flight(measured: list[list[Epoch]]) -> list[str]:
    rows = [[epoch.in_flight_rows for epoch in epochs] for epochs in measured]
    return [
        _line("epochs with in-flight rows", (f"{sum(map(bool, life)):,}" for life in rows)),
        _line("in-flight rows, maximum", (f"{_most(life):,}" for life in rows)),
    ]


def _most(values: Iterable[int]) -> int:
    return max(values, default=0)


def _bytes(count: int) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 10_000 or unit == "GB":
            return f"{count:,.0f} {unit}"
        count //= 1000
    raise AssertionError("the last unit takes any count")


def _ms(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return f"{_percentile(values, 50):.0f} / {_percentile(values, 95):.0f} ms"


def _percentile(values: Sequence[float], percent: int) -> float:
    """Returns the nearest rank: a measured value."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
