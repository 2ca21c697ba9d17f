"""The flights job with a few flights, killed while rows are in flight."""

import shutil
from pathlib import Path

import pytest

from demo.__main__ import judge
from demo.checkpoint import position
from demo.job import HOURLY, QUERIES, ROTATIONS, Job
from demo.sink import epoch_directory
from demo.verdict import Verdict
from tests.support.demo import run_demo
from tests.support.seeds import fixed

pytestmark = pytest.mark.spark

TIMEOUT_S = 600
KILLS = 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A complete run with kills, as the command line starts it."""
    root = tmp_path_factory.mktemp("demo") / "work directory"
    options = ["--rows", "2000", "--kills", str(KILLS), "--mode", "unaligned"]
    options += ["--seed", str(fixed(4711)), "--dir", str(root)]
    ended = run_demo(*options, timeout_s=TIMEOUT_S)
    print(ended.stdout)
    assert ended.returncode == 0
    assert f"{KILLS} kills survived" in ended.stdout
    assert "in-flight rows that restarts replayed: none" not in ended.stdout
    return Job.load(root / "job.json")


def changed(finished: Job, target: Path) -> Job:
    """A copy of a run, for changes."""
    shutil.copytree(finished.root, target, ignore=shutil.ignore_patterns("checkpoint"))
    return Job(**{**vars(finished), "root": target})


def differences(verdict: Verdict) -> dict[str, int]:
    counts = ("lost", "duplicated", "wrong", "unexpected", "out_of_order")
    return {count: getattr(verdict, count) for count in counts if getattr(verdict, count)}


def fullest_part(job: Job, query: str) -> Path:
    return max(job.results(query).glob("epoch=*/*.parquet"), key=lambda path: path.stat().st_size)


def test_every_row_exists_once_after_the_kills(finished: Job) -> None:
    for query, verdict in judge(finished).items():
        assert not differences(verdict), query
        assert verdict.actual > 500


def test_each_run_except_the_last_was_killed(finished: Job) -> None:
    lives = sorted(path.name for path in finished.log(1).parent.glob("*.log"))
    assert lives == [f"{life}.log" for life in range(1, KILLS + 2)]


def test_all_epochs_are_committed_and_retained(finished: Job) -> None:
    for query in QUERIES:
        at = position(finished, query)
        # After a kill Spark's file source may read two files in one epoch.
        assert at.committed == at.planned >= finished.epochs - 1 - KILLS
        for epoch in range(at.committed + 1):
            assert epoch_directory(finished.results(query), epoch).is_dir()


@pytest.mark.parametrize("query", QUERIES)
def test_lost_result_file_is_counted(finished: Job, query: str, tmp_path: Path) -> None:
    job = changed(finished, tmp_path / "lost")
    fullest_part(job, query).unlink()
    verdicts = judge(job)
    assert differences(verdicts.pop(query)).keys() == {"lost"}
    assert not any(map(differences, verdicts.values()))


@pytest.mark.parametrize("query", QUERIES)
def test_duplicated_result_file_is_counted(finished: Job, query: str, tmp_path: Path) -> None:
    job = changed(finished, tmp_path / "duplicated")
    part = fullest_part(job, query)
    shutil.copy(part, part.with_name("again.parquet"))
    verdicts = judge(job)
    assert differences(verdicts.pop(query)).keys() == {"duplicated"}
    assert not any(map(differences, verdicts.values()))


def test_epoch_repeated_under_another_number_is_counted(finished: Job, tmp_path: Path) -> None:
    job = changed(finished, tmp_path / "twice")
    epoch = int(fullest_part(job, ROTATIONS).parent.name.removeprefix("epoch="))
    results = job.results(ROTATIONS)
    shutil.copytree(epoch_directory(results, epoch), epoch_directory(results, 1000))
    assert "duplicated" in differences(judge(job)[ROTATIONS])
    assert not differences(judge(job)[HOURLY])
