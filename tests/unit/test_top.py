"""The terminal's view of a checkpoint."""

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
from cleancut._cli.watching import TopView
from tests.support.patience import PATIENCE_S
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_cli import run
from tests.unit.test_exporter import ARRIVED, OVERTAKEN, commit, cuts
from tests.unit.test_recorded import History, record

__all__ = ["cuts"]
ROOTS = Path(__file__).parents[1] / "checkpoints/0.1.0/pages"


def text_of(view: TopView, height: int | None = None) -> str:
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(view.shown(height))
    return captured.get()


def table(text: str) -> list[dict[str, str]]:
    """The rows that are shown; all columns are right below their names."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if re.match(r" *epoch", line) and "ms" in line)
    ends = [(of.group().rstrip("▲▼"), of.end()) for of in re.finditer(r"\S+", lines[at])]
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
    wanted = sorted(last, key=lambda of: -of.requests.total.requests)  # type: ignore[union-attr]
    rows = table(out)
    assert [row["requests"] for row in rows] == [
        str(of.requests.total.requests) for of in wanted if of.requests
    ]
    by_epoch = {of.epoch: of for of in last}
    for row in rows:
        own = by_epoch[int(row["epoch"])]
        assert row["ms"] == str(own.duration_ms)
        assert row["gate"] == str(own.commit_ms)
        assert row["cut"] == ("" if own.cut_ms is None else str(own.cut_ms))
        assert row["written"] == f"{own.written:%H:%M:%S}"
        assert row["bytes"] == f"{own.segment_bytes:,}"
    assert f"generation {history[-1].generation}" in out
    known = [of.duration_ms for of in history if of.duration_ms is not None]
    assert f"up to {max(known)} ms, the last {known[-1]}" in out
    assert max(map(len, out.splitlines())) <= 100


def test_rows_are_sorted_by_the_column_that_keys_choose(cuts: CutFiles) -> None:
    commit(cuts, channels=[OVERTAKEN, ARRIVED])
    commit(cuts, timings={"epochMs": 900, "gateMs": 5})
    view = TopView(open_root(cuts.location))
    view.look()
    assert [row["epoch"] for row in table(text_of(view))] == ["4", "3", "2", "1", "0"]
    view.press("r")
    assert [row["epoch"] for row in table(text_of(view))] == ["0", "1", "2", "3", "4"]
    view.press("s")
    assert view.sort == "written"
    for _ in range(4):
        view.press("s")
    assert (view.sort, view.is_ascending) == ("align", True)
    rows = table(text_of(view))
    # What only one tells comes first, either way round.
    assert [row["align"] for row in rows] == ["800", "", "", "", ""]
    view.press("r")
    assert table(text_of(view))[0]["align"] == "800"
    assert table(text_of(view))[0]["rows"] == "20"
    view.press("x")
    assert view.sort == "align"


def test_new_epochs_come_and_rows_fit_the_height(cuts: CutFiles) -> None:
    view = TopView(open_root(cuts.location))
    view.look()
    for _ in range(12):
        commit(cuts)
    view.try_to_look()
    shown = text_of(view, height=16)
    assert [row["epoch"] for row in table(shown)] == [str(at) for at in range(14, 8, -1)]
    assert len(shown.splitlines()) <= 16


def test_the_last_slow_epoch_is_told_with_its_reason(
    cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("cleancut._cli.watching.time.monotonic", lambda: now)
    history = History(cuts.root)
    history.write([record(0), record(1)])
    view = TopView(open_root(cuts.location))
    view.look()
    told = " ".join(text_of(view).split())
    assert f"slow was 1 straggler: {record(1)['slow']['detail']}" in told
    gate = record(2)
    gate["slow"] = {"kind": "commit", "typicalMs": 100, "detail": "its commit took 900 ms"}
    history.write([gate])
    # Notes come once a minute, and are not looked for with each look.
    view.look()
    assert "slow was 1" in text_of(view)
    now += 30
    view.look()
    shown = text_of(view, height=18)
    assert "slow was 2" in shown
    assert "commit: its commit took 900 ms" in shown
    assert len(shown.splitlines()) <= 18


def test_a_store_that_fails_is_told_below_what_was_seen(cuts: CutFiles) -> None:
    view = TopView(open_root(cuts.location))
    view.look()
    epoch = commit(cuts)
    path = cuts.root / f"cuts/{epoch:020d}.cut"
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    view.try_to_look()
    shown = text_of(view)
    assert "CLEANCUT_CUT_CORRUPTED" in shown
    assert table(shown)[0]["epoch"] == "2"
    path.write_bytes(sound)
    view.try_to_look()
    assert "CLEANCUT" not in text_of(view)
    assert table(text_of(view))[0]["epoch"] == "3"


def test_before_the_first_cut_it_says_so(
    files: CheckpointFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuts = CutFiles(files)
    status, out, _ = run(capsys, "top", str(cuts.location))
    assert status == _cli.OK
    assert "none has a cut yet" in out
    status, out, err = run(capsys, "top", str(tmp_path / "none"))
    assert (status, out) == (_cli.REFUSED, "")
    assert err.startswith("[CLEANCUT_CHECKPOINT_NOT_FOUND]")


def test_in_a_terminal_it_goes_on_until_a_key_ends_it(files: CheckpointFiles) -> None:
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
        # The terminal is as it was: lines again, with echo.
        assert termios.tcgetattr(slave)[3] == before[3]
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def read_until(master: int, wanted: str) -> str:
    """What a terminal is told, without how; until it has some text."""
    found, until = "", time.monotonic() + PATIENCE_S
    while wanted not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", found):
        assert time.monotonic() < until, found
        if select.select([master], [], [], 1.0)[0]:
            found += os.read(master, 65_536).decode(errors="replace")
    return found
