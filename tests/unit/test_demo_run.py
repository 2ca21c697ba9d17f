"""Kills in the demo: their plan, their execution, and the files that a killed driver leaves."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo import s3_server
from demo.__main__ import main
from demo.checkpoint import Phase, position
from demo.events import Epoch, read_epochs
from demo.in_flight import has_rows_in_flight, in_flight_rows
from demo.job import HOURLY, Job
from demo.kills import Aim, Kill, most_kills, plan_executor_kills, plan_kills
from demo.processes import ProcessTree
from demo.report import time_needed
from demo.sink import read_results
from demo.trigger import Trigger, View
from tests.support.draws import draws

EPOCHS = 100


@pytest.mark.parametrize("seed", range(draws(20)))
def test_plan_spreads_all_aims_over_the_run(seed: int) -> None:
    plan = plan_kills(5, EPOCHS, seed)
    assert plan == plan_kills(5, EPOCHS, seed)
    assert {kill.aim for kill in plan} == set(Aim)
    assert plan[0].aim is not Aim.RECOVERY
    after = [kill.after_epochs for kill in plan]
    assert after == sorted(after)
    assert after[-1] < 0.9 * EPOCHS


def test_zero_kills_make_an_empty_plan() -> None:
    assert plan_kills(0, EPOCHS, seed=1) == []
    assert most_kills(1) == 0


def index_of_kill(kill: Kill, views: list[View]) -> int | None:
    """Returns the index of the view at which the kill happens."""
    trigger = Trigger(kill, epochs_before=10)
    return next((at for at, view in enumerate(views) if trigger.is_due(view)), None)


def test_a_kill_happens_at_its_planned_moment() -> None:
    start = View(now_s=0.0, started=False, epochs=10, committing=False)
    views = [
        start,
        replace(start, now_s=1.0, started=True, committing=True),
        replace(start, now_s=2.0, started=True, epochs=11),
        replace(start, now_s=3.0, started=True, epochs=12),
        replace(start, now_s=3.5, started=True, epochs=12, committing=True),
    ]
    assert index_of_kill(Kill(0, Aim.RECOVERY, 0.0), views) == 1
    assert index_of_kill(Kill(0, Aim.RECOVERY, 0.3), views) == 3
    assert index_of_kill(Kill(0, Aim.ANYWHERE, 0.0), views) == 2
    assert index_of_kill(Kill(12, Aim.ANYWHERE, 0.0), views) == 3
    assert index_of_kill(Kill(0, Aim.COMMIT, 0.0), views) == 4
    assert index_of_kill(Kill(13, Aim.COMMIT, 0.0), views) is None


def test_a_kill_without_a_commit_in_four_epochs_happens_anyway() -> None:
    """A commit may begin and end between two polls of a bucket."""
    views = [View(now_s=0.0, started=True, epochs=10 + n, committing=False) for n in range(10)]
    assert index_of_kill(Kill(13, Aim.COMMIT, 0.0), views) == 7
    assert index_of_kill(Kill(16, Aim.COMMIT, 0.0), views) is None


def test_a_kill_waits_for_in_flight_rows_until_near_the_end() -> None:
    none = View(now_s=1.0, started=True, epochs=11, committing=False, in_flight=False)
    views = [none, replace(none, epochs=13), replace(none, epochs=13, in_flight=True)]
    assert index_of_kill(Kill(0, Aim.ANYWHERE, 0.0), views) == 2
    views = [none, replace(none, epochs=14), replace(none, epochs=15), replace(none, epochs=16)]
    assert index_of_kill(Kill(0, Aim.ANYWHERE, 0.0), views) == 2


def test_a_query_without_a_cut_has_no_in_flight_rows(job: Job) -> None:
    assert not has_rows_in_flight(job.checkpoint(HOURLY).name)
    assert in_flight_rows(job.checkpoint(HOURLY).name) == 0


ORPHAN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_kill_reaches_processes_that_left_the_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ProcessTree([sys.executable, "-c", ORPHAN], env={}, log=log) as tree:
        while not (printed := log.read_text()).endswith("\n"):
            assert tree.exit_code() is None, printed
            time.sleep(0.01)
        assert Path("/proc", printed.strip()).exists()
        assert tree.kill()
        assert tree.exit_code() == -9
    state = Path("/proc", printed.strip(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_late_kill_is_reported(tmp_path: Path) -> None:
    with ProcessTree([sys.executable, "-c", ""], env={}, log=tmp_path / "log") as tree:
        while tree.exit_code() is None:
            time.sleep(0.01)
        assert not tree.kill()


def directory(job: Job) -> Path:
    return Path(job.checkpoint(HOURLY).name)


@pytest.mark.parametrize(
    ("left", "phase"),
    [
        ([], Phase.BETWEEN),
        (["offsets/3"], Phase.PLANNED),
        (["offsets/3", "results/.epoch=3.staged"], Phase.RUNNING),
        (["offsets/3", "results/epoch=3"], Phase.COMMITTING),
        (["offsets/3", "results/epoch=3", "commits/3"], Phase.BETWEEN),
        (["offsets/3", "results/epoch=3", f"cleancut/cuts/{3:020}.cut"], Phase.BETWEEN),
        (["offsets/3", "results/epoch=3", f"cleancut/cuts/{2:020}.cut"], Phase.COMMITTING),
    ],
)
def test_the_phase_is_read_from_the_files_of_the_driver(
    job: Job, left: list[str], phase: Phase
) -> None:
    checkpoint = directory(job)
    for name in ["offsets/2", "commits/2", "commits/.3.crc", *left]:
        inside = name.removeprefix("results/")
        path = (checkpoint if inside == name else job.results(HOURLY)) / inside
        path.mkdir(parents=True)
    assert position(job, HOURLY).phase is phase


def test_files_of_an_earlier_run_are_no_phase(job: Job) -> None:
    (directory(job) / "offsets/3").mkdir(parents=True)
    for name in ("epoch=3", ".epoch=3.staged"):
        (job.results(HOURLY) / name).mkdir(parents=True)
        os.utime(job.results(HOURLY) / name, (1000, 1000))
    assert position(job, HOURLY, since_s=999).phase is Phase.COMMITTING
    assert position(job, HOURLY, since_s=1001).phase is Phase.PLANNED


def test_results_are_those_of_complete_epochs(tmp_path: Path) -> None:
    for number, name in enumerate(["epoch=10", "epoch=9", ".epoch=11.staged", ".epoch=9.replaced"]):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [number]}), tmp_path / name / "part.parquet")
    assert read_results(tmp_path).to_pydict() == {"x": [1, 0], "epoch": [9, 10]}


def test_an_incomplete_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    line = (
        '{"query": "hourly", "epoch": 3, "duration_ms": 5, "commit_ms": 1.5, "state_rows": 7, '
        '"state_memory_bytes": 9, "in_flight_rows": 4}'
    )
    path.write_text(f"{line}\n{line[:40]}")
    assert list(read_epochs(path)) == [Epoch("hourly", 3, 5, 1.5, 7, 9, 4)]
    assert list(read_epochs(tmp_path / "2.jsonl")) == []


def test_directory_with_content_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert main(["--dir", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_more_kills_than_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dir", str(tmp_path), "--rows", "100", "--kills", "9"]) == 2
    assert "leaves room for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--checkpoint", "s3:///q"], "not the name of a bucket"),
        (["--checkpoint", "s3a://bucket/q"], "is not s3://bucket/prefix"),
        (["--checkpoint", "s3://bucket/q", "--provider", "rocksdb"], "hadoop-aws"),
        (["--executor-kills", "1"], "local-cluster[2,1,1024]"),
        (["--mode", "unaligned", "--provider", "rocksdb"], "needs --provider cleancut"),
    ],
)
def test_invalid_locations_are_refused(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dir", str(tmp_path / "demo"), *options]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_unreachable_store_is_refused_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    # No process listens on port 1.
    places = ["--checkpoint", "s3://bucket/q", "--endpoint", "http://127.0.0.1:1"]
    assert main(["--dir", str(tmp_path / "demo"), *places]) == 2
    assert "CLEANCUT_OBJECT_STORE_UNAVAILABLE" in capsys.readouterr().err


def test_a_driver_reads_the_checkpoint_locations(job: Job) -> None:
    in_bucket = replace(job, checkpoints="s3://bucket/a/b/", endpoint="http://127.0.0.1:1")
    in_bucket.prepare()
    assert Job.load(in_bucket.file) == in_bucket
    assert in_bucket.checkpoint(HOURLY).uri == f"s3://bucket/a/b/{HOURLY}"


def test_kills_of_executors_are_spread_over_the_run() -> None:
    plan = plan_executor_kills(5, EPOCHS, seed=1)
    assert plan == sorted(plan) == plan_executor_kills(5, EPOCHS, seed=1)
    assert 0 <= plan[0] < 20
    assert 70 <= plan[-1] < 90
    assert plan_executor_kills(0, EPOCHS, seed=1) == []


@pytest.mark.parametrize("rows", ["0", "-5", "many"])
def test_an_invalid_row_count_is_refused(rows: str) -> None:
    command = [sys.executable, "-m", "demo", "--rows", rows]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "is not a number from 1 upwards" in ended.stderr


def test_two_object_stores_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--s3", "--checkpoint", "s3://bucket/prefix"]
    assert main(["--dir", str(tmp_path / "demo"), *places]) == 2
    assert "leave out --checkpoint" in capsys.readouterr().err


def test_a_missing_server_is_reported_with_its_make_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_server, "_CLASS_PATH", tmp_path / "s3proxy.classpath")
    assert main(["--dir", str(tmp_path / "demo"), "--s3"]) == 1
    assert "make .cache/s3proxy.classpath" in capsys.readouterr().err


def test_the_estimated_duration_depends_on_epochs_and_restarts(tmp_path: Path) -> None:
    job = Job(tmp_path, rows=12_000, provider="cleancut", master="local[2]", kills=5, seed=1)
    assert time_needed(job) == "This takes about 2 minutes on two cores."
    assert time_needed(replace(job, kills=20)) == "This takes about 5 minutes on two cores."
