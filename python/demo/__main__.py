"""`python -m demo`: runs the flights job with kills and judges its results."""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cleancut.errors import CleancutError
from demo.expected import expected_results, read_flights
from demo.flights import DATA_SET_ROWS, SLICE_ROWS, DataSetMissingError
from demo.job import ALIGNED, FILES, MODES, QUERIES, SINKS, Job
from demo.kills import most_kills, plan_kills
from demo.processes import SurvivorError
from demo.providers import CLEANCUT, PROVIDERS
from demo.replay import write_input
from demo.report import examples, next_steps, summary, time_needed
from demo.results import results_of
from demo.s3_server import BUCKET, VARIABLES, ServerMissingError, serving
from demo.supervisor import DriverError, Run, Supervisor
from demo.verdict import Verdict, compare

if TYPE_CHECKING:
    from demo.tables import Reader, Seen

_FAILURES = (CleancutError, DataSetMissingError, DriverError, ServerMissingError, SurvivorError)
_FAILED = 1
_BAD_REQUEST = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns its exit code: 0 only if every row is right and every kill hit."""
    options = _parse(arguments)
    # So that `finally` runs, and the driver does not outlive a `kill` of this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_INTERRUPTED))
    try:
        root = _root(options)
        with _store(options, root), _tables(options):
            job = _job(options, root)
            code = _run(job)
    except (*_FAILURES, _RequestError) as problem:
        print(problem, file=sys.stderr)
        return _BAD_REQUEST if isinstance(problem, _RequestError) else _FAILED
    except KeyboardInterrupt:
        print("Interrupted; the driver has been killed.", file=sys.stderr)
        return _INTERRUPTED
    if not options.keep:
        shutil.rmtree(root)
    return code


class _RequestError(Exception):
    """An invalid combination of options."""


def _run(job: Job) -> int:
    print(f"Work directory {job.root}, provider {job.provider}, seed {job.seed}")
    job.prepare()
    write_input(job)
    print(
        f"{job.rows:,} flights in {job.flight_files} files, {job.files_per_trigger} files an epoch"
    )
    print(time_needed(job), flush=True)
    plan = plan_kills(job.kills, job.epochs * len(QUERIES), job.seed)
    reader = _reader() if job.has_tables else None
    with reader or contextlib.nullcontext():
        run = Supervisor(job, plan, lambda line: print(line, flush=True)).run()
    print("Comparing every result row with the answer of pandas ...", flush=True)
    verdicts = judge(job)
    seen = reader.judge() if reader else None
    print(f"\n{summary(job, run, verdicts, seen)}\n\n{next_steps(job, run)}\n")
    return _conclude(job, run, verdicts, seen)


def _reader() -> "Reader":
    from demo.tables import Reader

    return Reader()


def judge(job: Job) -> dict[str, Verdict]:
    """Compares the results of both queries with the right answer."""
    expected = expected_results(read_flights(job))
    return {
        query: compare(query, expected[query], results_of(job, query).read().to_pandas())
        for query in QUERIES
    }


def _conclude(job: Job, run: Run, verdicts: dict[str, Verdict], seen: "Seen | None") -> int:
    differences = sum(verdict.differences for verdict in verdicts.values())
    if differences:
        print(examples(verdicts))
        print(f"FAILED: {differences:,} differences from the right answer.")
        return _FAILED
    if seen is not None and seen.torn:
        print(f"FAILED: all rows are right in the end, but a reader saw {seen.torn} torn epochs.")
        return _FAILED
    if run.executors_killed < job.executor_kills:
        print(
            f"FAILED: all rows are right, but only {run.executors_killed} of {job.executor_kills} "
            "executors were killed. Ask for fewer, or more rows."
        )
        return _FAILED
    if run.hits < job.kills:
        print(
            f"FAILED: all rows are right, but only {run.hits} of {job.kills} kills hit a running "
            "query. Ask for fewer kills or more rows."
        )
        return _FAILED
    if job.has_rows_in_flight and job.kills and not run.replayed_rows:
        print("FAILED: all rows are right, but no kill met in-flight rows. Ask for more rows.")
        return _FAILED
    survived = run.hits + run.executors_killed
    print(f"Every row is right: nothing lost, nothing duplicated, {survived} kills survived.")
    return 0


def _root(options: argparse.Namespace) -> Path:
    root = Path(options.dir or tempfile.mkdtemp(prefix="cleancut-demo-")).resolve()
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise _RequestError(f"--dir {root} is not empty. Name a new or an empty directory.")
    return root


@contextlib.contextmanager
def _store(options: argparse.Namespace, root: Path) -> Iterator[None]:
    """With `--s3`, starts a server for the checkpoints and uses it as `--checkpoint`."""
    if not options.s3:
        yield
        return
    if options.checkpoint:
        raise _RequestError("--s3 starts a server of its own: leave out --checkpoint.")
    directory = root / "s3"
    directory.mkdir(parents=True)
    os.environ.update(VARIABLES)
    with serving(directory) as endpoint:
        options.checkpoint, options.endpoint = f"s3://{BUCKET}/demo", endpoint
        yield


@contextlib.contextmanager
def _tables(options: argparse.Namespace) -> Iterator[None]:
    """With `--sink postgres`, starts a server for the results."""
    if options.sink == FILES:
        yield
        return
    from demo.postgres_server import postgres_server
    from demo.tables import VARIABLE

    with postgres_server() as server:
        os.environ[VARIABLE] = server.dsn
        yield


def _job(options: argparse.Namespace, root: Path) -> Job:
    job = Job(
        root=root,
        rows=DATA_SET_ROWS if options.all else options.rows,
        provider=options.provider,
        master=options.master,
        kills=options.kills,
        seed=options.seed,
        executor_kills=options.executor_kills,
        checkpoints=options.checkpoint,
        endpoint=options.endpoint,
        mode=options.mode,
        sink=options.sink,
        s3_directory=str(root / "s3") if options.s3 else None,
    )
    _check_places(job)
    limit = most_kills(job.epochs * len(QUERIES))
    if job.kills > limit:
        raise _RequestError(
            f"--kills {job.kills} is too many: {job.rows:,} rows make {job.epochs} epochs for each "
            f"query, which leaves room for {limit} kills. Ask for fewer kills or more rows."
        )
    return job


def _check_places(job: Job) -> None:
    """Refuses locations that would only fail later, in a driver's log."""
    if job.has_rows_in_flight and job.provider != CLEANCUT:
        raise _RequestError(f"--mode {job.mode} needs --provider {CLEANCUT}.")
    if job.executor_kills and not job.master.startswith("local-cluster"):
        raise _RequestError(
            f"--executor-kills wants executors in processes of their own, which --master "
            f"{job.master} has not. Ask for --master 'local-cluster[2,1,1024]'."
        )
    if job.checkpoints is None:
        return
    if not job.checkpoints.startswith("s3://"):
        raise _RequestError(f"--checkpoint {job.checkpoints} is not s3://bucket/prefix.")
    if job.provider != CLEANCUT:
        raise _RequestError(
            f"--checkpoint s3:// needs --provider {CLEANCUT}: Spark's own providers would need "
            "hadoop-aws."
        )
    for location in (job.checkpoint(query) for query in QUERIES):
        try:
            if location.names("offsets"):
                raise _RequestError(f"{location.uri} is not empty. Name a new prefix.")
        except CleancutError as problem:
            raise _RequestError(str(problem)) from problem


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Replays flights through two stateful queries, kills the driver at random "
        "moments, restarts it, and compares every result row with the right answer.",
    )
    add = parser.add_argument
    add("--rows", type=_at_least(1), default=SLICE_ROWS, metavar="N", help="flights to replay")
    add("--all", action="store_true", help=f"replay all {DATA_SET_ROWS:,} flights")
    add("--provider", choices=PROVIDERS, default=PROVIDERS[0], help="state store provider")
    add(
        "--mode",
        choices=MODES,
        default=ALIGNED,
        help="of the cuts; in any but aligned, drivers are killed while rows are in flight",
    )
    add(
        "--sink",
        choices=SINKS,
        default=FILES,
        help="target of the results; with postgres a server on loopback that the demo starts, and "
        "a reader polls its tables during the run",
    )
    add("--kills", type=_at_least(0), default=5, metavar="N", help="SIGKILLs of the driver")
    add(
        "--executor-kills",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="SIGKILLs of one executor alone, on a local-cluster",
    )
    add(
        "--checkpoint",
        metavar="s3://BUCKET/PREFIX",
        help="keep the checkpoints in a bucket, the only files that a restart finds; "
        "credentials come from the environment, as for any tool of AWS",
    )
    add(
        "--s3",
        action="store_true",
        help="keep the checkpoints in a bucket of an S3 server that the demo starts on loopback",
    )
    add("--endpoint", metavar="URL", help="where the store of --checkpoint listens, if not AWS")
    add("--seed", type=int, default=random.randrange(10**6), help="of the moments of the kills")
    add("--dir", metavar="PATH", help="work directory, new or empty; default a temporary one")
    add("--master", default="local[2]", help="Spark's master, e.g. local-cluster[2,1,1024]")
    add(
        "--keep",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether to keep the work directory after the run; objects are always kept",
    )
    return parser.parse_args(arguments)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {least} upwards")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
