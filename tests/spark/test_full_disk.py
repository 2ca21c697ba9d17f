"""A checkpoint on a full file system: a clear error, and afterwards the right result."""

import contextlib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from cleancut import Checkpoint, RetryableError, errors
from tests.support.events import write_events
from tests.support.queries import OPERATORS
from tests.support.results import Difference, EpochFiles, FailureNoted
from tests.support.seeds import fixed
from tests.support.sessions import ROCKSDB, results, run, start
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = fixed(8)
OPERATOR = OPERATORS["aggregation-update"]
DISK = "4m"
PAGE_BYTES = 4096
# An epoch of this query takes about 20 pages: offset log and source log, state, commit log.
FREE_PAGES = range(0, 60, 2)
NO_SPACE = "No space left on device"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts a separate file system for the checkpoint."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command to make a small disk with")
    if mounted.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(ballast: Path, *, free_pages: int) -> None:
    """Fills the file system except a few pages."""
    with ballast.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(PAGE_BYTES)) == PAGE_BYTES:
                pass
        file.truncate(ballast.stat().st_size - free_pages * PAGE_BYTES)


def one_more_epoch(spark: SparkSession, root: Path, events: Path) -> str:
    """Returns the result of the next epoch: done, the ID of our error, or a failure of Spark's
    files.
    """
    sink = FailureNoted(EpochFiles(root / "results"))
    query = start(spark, OPERATOR, events=events, root=root, sink=sink)
    with contextlib.suppress(StreamingQueryException):
        query.awaitTermination()
    failure = query.exception()
    if failure is None:
        return "done"
    if sink.failure is None:
        assert NO_SPACE in str(failure)
        return "Spark's own files"
    error = errors.from_java(sink.failure)
    assert isinstance(error, RetryableError), sink.failure
    assert NO_SPACE in str(error)
    assert str(root.resolve()) in error.params["path"]
    return error.error_id


@long
def test_query_fails_on_a_full_disk_and_continues_with_free_space(
    small_disk: Path, spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    events, root, peer = tmp_path / "events", small_disk / "query", tmp_path / "peer"
    root.mkdir()
    # The results are on another file system, so that only the checkpoint can fail.
    (tmp_path / "results").mkdir()
    (root / "results").symlink_to(tmp_path / "results")
    ballast = small_disk / "ballast"
    outcomes: list[str] = []
    write_events(events, seed=SEED, files=range(1))
    run(spark, OPERATOR, events=events, root=root)
    for epoch, free_pages in enumerate(FREE_PAGES, start=1):
        write_events(events, seed=SEED, files=range(epoch, epoch + 1))
        fill(ballast, free_pages=free_pages)
        outcomes.append(one_more_epoch(spark, root, events))
        ballast.unlink()
        if outcomes[-1] == "done":
            break
        run(spark, OPERATOR, events=events, root=root)
    expected = run(spark, OPERATOR, events=events, root=peer, provider=ROCKSDB)
    difference = Difference.between(expected, results(root))
    show(f"seed {SEED}, {dict(Counter(outcomes))}, {difference}")
    assert set(outcomes) == {"Spark's own files", "CLEANCUT_COMMIT_FAILED", "done"}
    assert difference.none
    assert Checkpoint(root / "checkpoint").verify().ok
