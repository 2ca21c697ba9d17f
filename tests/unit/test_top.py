"""The terminal view of a checkpoint."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from rich.console import Console

from cleancut import Checkpoint
from cleancut._checkpoint.read.root import open_root
from cleancut._cli import main as _cli
from cleancut._cli.top import TopView
from tests.support.patience import PATIENCE_S
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_cli import run
from tests.unit.test_exporter import ARRIVED, OVERTAKEN, commit, cuts
from tests.unit.test_history_records import History, record

__all__ = ["cuts"]
ROOTS = Path(__file__).parents[1] / "checkpoints/0.1.0/pages"


def text_of(view: TopView, height: int | None = None) -> str:
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(view.shown(height))
    return captured.get()


def table(text: str) -> list[dict[str, str]]:
    """Returns the printed rows, and checks that all columns are right-aligned with their names."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if re.match(r" *epoch", line) and "ms" in line)
    ends = [(word.group().rstrip("▲▼"), word.end()) for word in re.finditer(r"\S+", lines[at])]
    rows = [line for line in lines[at + 1 :] if re.match(r" *\d", line)]
    starts = [0, *(end for _, end in ends)]
    return [
        {name: row[start:end].strip() for (name, end), start in zip(ends, starts, strict=False)}
        for row in rows
    ]


def test_a_stored_checkpoint_is_shown_once_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = run(capsys, "top", str(ROOTS), "--sort", "requests", "--rows", "5")
    assert (status, err) == (_cli.OK, "")
    history = Checkpoint(ROOTS).history()
    last = history[-5:]
    wanted = sorted(last, key=lambda e: -e.requests.total.requests)  # type: ignore[union-attr]
    rows = table(out)
    assert [row["requests"] for row in rows] == [
        str(epoch.requests.total.requests) for epoch in wanted if epoch.requests
    ]
    by_epoch = {epoch.epoch: epoch for epoch in last}
    for row in rows:
        epoch = by_epoch[int(row["epoch"])]
        assert row["ms"] == str(epoch.duration_ms)
        assert row["commit"] == str(epoch.commit_ms)
        assert row["cut"] == ("" if epoch.cut_ms is None else str(epoch.cut_ms))
        assert row["written"] == f"{epoch.written:%H:%M:%S}"
        assert row["bytes"] == f"{epoch.segment_bytes:,}"
    assert f"generation {history[-1].generation}" in out
    known = [epoch.duration_ms for epoch in history if epoch.duration_ms is not None]
    assert f"up to {max(known)} ms, the last {known[-1]}" in out
    assert max(map(len, out.splitlines())) <= 100


def test_rows_are_sorted_by_the_column_that_keys_choose(cuts: CutFiles) -> None:
    commit(cuts, channels=[OVERTAKEN, ARRIVED])
    commit(cuts, timings={"epochMs": 900, "gateMs": 5})
    view = TopView(open_root(cuts.location))
    view.scan()
    assert [row["epoch"] for row in table(text_of(view))] == ["4", "3", "2", "1", "0"]
    view.press("r")
    assert [row["epoch"] for row in table(text_of(view))] == ["0", "1", "2", "3", "4"]
    view.press("s")
    assert view.sort == "written"
    for _ in range(4):
        view.press("s")
    assert (view.sort, view.is_ascending) == ("align", True)
    rows = table(text_of(view))
    # A value that only one row has comes first in both directions.
    assert [row["align"] for row in rows] == ["800", "", "", "", ""]
    view.press("r")
    assert table(text_of(view))[0]["align"] == "800"
    assert table(text_of(view))[0]["rows"] == "20"
    view.press("x")
    assert view.sort == "align"


def test_new_epochs_appear_and_rows_fit_the_height(cuts: CutFiles) -> None:
    view = TopView(open_root(cuts.location))
    view.scan()
    for _ in range(12):
        commit(cuts)
    view.try_scan()
    shown = text_of(view, height=16)
    assert [row["epoch"] for row in table(shown)] == [str(at) for at in range(14, 9, -1)]
    assert len(shown.splitlines()) <= 16


def test_the_last_slow_epoch_is_shown_with_its_reason(
    cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("cleancut._cli.top.time.monotonic", lambda: now)
    history = History(cuts.root)
    history.write([record(0), record(1)])
    view = TopView(open_root(cuts.location))
    view.scan()
    shown = " ".join(text_of(view).split())
    assert f"epoch 1 was slow straggler: {record(1)['slow']['detail']}" in shown
    commit = record(2)
    commit["slow"] = {"kind": "commit", "typicalMs": 100, "detail": "its commit took 900 ms"}
    commit["inFlightGrowth"] = {"epochs": 8, "fromRows": 100, "toRows": 900}
    history.write([commit])
    # History is written once per minute, and is not read in each scan.
    view.scan()
    assert "epoch 1 was slow" in text_of(view)
    now += 30
    view.scan()
    assert "in-flight rows grew from 100 to 900" in " ".join(text_of(view).split())
    shown = text_of(view, height=21)
    assert "epoch 2 was slow" in shown
    assert "commit: its commit took 900 ms" in shown
    assert len(shown.splitlines()) <= 21


def test_a_failing_store_is_reported_below_the_last_values(cuts: CutFiles) -> None:
    view = TopView(open_root(cuts.location))
    view.scan()
    epoch = commit(cuts)
    path = cuts.root / f"cuts/{epoch:020d}.cut"
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    view.try_scan()
    shown = text_of(view)
    assert "CLEANCUT_CUT_CORRUPTED" in shown
    assert table(shown)[0]["epoch"] == "2"
    path.write_bytes(sound)
    view.try_scan()
    assert "CLEANCUT" not in text_of(view)
    assert table(text_of(view))[0]["epoch"] == "3"


def test_a_checkpoint_without_cuts_is_reported(
    files: CheckpointFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuts = CutFiles(files)
    status, out, _ = run(capsys, "top", str(cuts.location))
    assert status == _cli.OK
    assert "there is no cut yet" in out
    status, out, err = run(capsys, "top", str(tmp_path / "none"))
    assert (status, out) == (_cli.REFUSED, "")
    assert err.startswith("[CLEANCUT_CHECKPOINT_NOT_FOUND]")


def test_in_a_terminal_it_runs_until_a_key_is_pressed(files: CheckpointFiles) -> None:
    cuts = CutFiles(files)
    for _ in range(3):
        commit(cuts)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, 120))
    before = termios.tcgetattr(slave)
    command = [sys.executable, "-m", "cleancut", "top", str(cuts.location), "--every", "0.2"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"TERM": "xterm"}
    )
    try:
        seen = read_until(master, "last epoch")
        commit(cuts)
        seen += read_until(master, "  3, ")
        os.write(master, b"s")
        seen += read_until(master, "written▼")
        os.write(master, b"q")
        assert process.wait(PATIENCE_S) == _cli.OK
        # The terminal is restored: line mode with echo.
        assert termios.tcgetattr(slave)[3] == before[3]
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def read_until(master: int, wanted: str) -> str:
    """Reads the output of a terminal, without escape sequences, until it contains some text."""
    screen, until = "", time.monotonic() + PATIENCE_S
    while wanted not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen):
        assert time.monotonic() < until, screen
        if select.select([master], [], [], 1.0)[0]:
            screen += os.read(master, 65_536).decode(errors="replace")
    return screen
