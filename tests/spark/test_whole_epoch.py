"""The whole epoch in the tab "Cuts", the history, `top` and the metrics, slowed in each phase."""

import re
import sys
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cleancut import Checkpoint
from cleancut._checkpoint.read.root import open_root
from cleancut._cli.top import TopView
from cleancut._metrics.samples import of_epoch
from cleancut._storage.access import S3Access, S3Options
from demo.processes import ProcessTree
from tests.spark.test_cuts_pages import Pages
from tests.support.counting_proxy import CountingProxy, counting_proxy
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.phased_epochs import MAP, SINK, SOURCE, STATE
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SLOW_S = 4.0
SLOW_MS = int(1000 * SLOW_S)
# The ends of tasks and of the function in foreachBatch overlap by some milliseconds.
PHASE_MS = int(0.9 * SLOW_MS)
ROUNDING_MS = 10
# Requests of a commit follow each other.
DELAY_S = 1.5
USUAL = 7
# The reason on the page for each slowed phase, and the name of the phase.
CAUSES = {
    SOURCE: ("source", "source"),
    MAP: ("map-side", "map side"),
    STATE: ("state-operators", "state operators"),
    SINK: ("sink", "sink"),
}


class Driver:
    """A driver that runs an epoch for each file."""

    def __init__(self, work: Path, tree: ProcessTree, location: str) -> None:
        self.work, self._tree, self._files = work, tree, 0
        self.until((work / "pages").exists)
        self.pages = Pages((work / "pages").read_text(), location)

    def feed(self) -> int:
        """Runs an epoch, and returns its number when the page has it."""
        (self.work / "input" / f"{self._files:04}").touch()
        self._files += 1
        self.until(lambda: len(self.known()) >= self._files)
        return int(self.known()[-1]["epoch"])

    def slow(self, phase: str) -> int:
        """Runs an epoch whose phase is slow."""
        staged = self.work / "staged"
        staged.write_text(str(SLOW_S))
        staged.rename(self.work / f"slow-{phase}")
        return self.feed()

    def commit_slowly(self, proxy: CountingProxy) -> int:
        """Runs an epoch whose commit has slow requests."""
        (self.work / "hold").touch()
        (self.work / "input" / f"{self._files:04}").touch()
        self._files += 1
        self.until((self.work / "held").exists)
        proxy.delay_s = DELAY_S
        (self.work / "held").unlink()
        self.until(lambda: len(self.known()) >= self._files)
        proxy.delay_s = 0.0
        return int(self.known()[-1]["epoch"])

    def known(self) -> list[dict[str, Any]]:
        """Returns the epochs that its pages show."""
        try:
            return self.pages.epochs()
        except urllib.error.HTTPError:
            return []

    def until(self, is_there: Any) -> None:
        """Waits for a condition while the driver runs."""
        until = time.monotonic() + PATIENCE_S
        while not is_there():
            assert self._tree.exit_code() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.1)

    def log(self) -> str:
        """Returns the end of its log."""
        return (self.work / "log").read_text(errors="replace")[-5000:]

    def stop(self) -> None:
        """Stops it, and waits for its end."""
        (self.work / "stop").touch()
        until = time.monotonic() + PATIENCE_S
        while self._tree.exit_code() is None:
            assert time.monotonic() < until, self.log()
            time.sleep(0.1)


@contextmanager
def running(work: Path, server: S3Server, endpoint: str, location: str) -> Iterator[Driver]:
    """Starts a driver in a separate process."""
    (work / "input").mkdir()
    command = [sys.executable, "-m", "tests.support.phased_epochs", str(work), location, endpoint]
    with ProcessTree(command, env=environment() | server.environment, log=work / "log") as tree:
        yield Driver(work, tree, location)


@long
def test_a_slow_phase_is_shown_with_the_whole_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, an epoch was measured from its first open store: a slow map side was not shown."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "s3").mkdir()
    with s3proxy(tmp_path / "s3") as server, counting_proxy(server.endpoint) as proxy:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        location = f"s3://{server.BUCKET}/orders"
        access: S3Options = {"endpoint": server.endpoint, "region": "us-east-1"}
        with running(work, server, proxy.endpoint, location) as driver:
            for _ in range(USUAL):
                driver.feed()
            slowed = {}
            for phase in CAUSES:
                slowed[driver.slow(phase)] = phase
                driver.feed()
            assert_top(location, access)
            late = driver.commit_slowly(proxy)
            driver.feed()
            assert_pages(driver.pages, slowed, late)
            driver.stop()
        assert_history(Checkpoint(location, **access), slowed, late)


def assert_pages(pages: Pages, slowed: dict[int, str], late: int) -> None:
    """Compares the pages of each slow epoch with its cause."""
    shown = {epoch["epoch"]: epoch for epoch in pages.epochs()}
    for epoch, slow in slowed.items():
        kind, phase = CAUSES[slow]
        record = pages.epoch(epoch)
        assert record["timings"]["epochMs"] >= SLOW_MS, record
        assert shown[epoch]["tookMs"] >= SLOW_MS
        assert shown[epoch]["phases"][phase] >= PHASE_MS, shown[epoch]
        assert abs(sum(shown[epoch]["phases"].values()) - shown[epoch]["tookMs"]) <= ROUNDING_MS
        assert shown[epoch]["slow"] == kind, record["slow"]
        text = pages.text("epoch/", epoch=epoch)
        assert f"Slow: {kind}." in text
        assert "Operator 0 (stateStoreSave)" in text
    stage = next(pages.epoch(epoch) for epoch, slow in slowed.items() if slow == MAP)
    (long_one,) = [s for s in stage["stages"] if s["ms"] >= SLOW_MS]
    assert long_one["phase"] == "map side"
    assert "MapInPandas" in long_one["operators"]
    detail = stage["slow"]["detail"]
    assert f"stage {long_one['stage']} (" in detail
    assert "MapInPandas" in detail
    assert shown[late]["slow"] == "commit"
    assert shown[late]["phases"]["commit"] >= 1000 * DELAY_S
    for text in (pages.text("query/"), pages.text("epoch/", epoch=late)):
        assert "https://cleancut.io/operate/watching.html" in text
        assert '<abbr title="' in text
    # Dollars, and an axis with its unit.
    assert "$0.0000" in pages.text("query/")
    assert re.search(r">\d+ s</text>", pages.text("query/"))


def assert_top(location: str, access: S3Options) -> None:
    """The last epochs in a terminal have the whole duration and the longest phase."""
    root = open_root(location, S3Access(access))
    view = TopView(root)
    view.scan()
    epochs = list(view._seen.epochs)
    long_ones = [epoch for epoch in epochs[1:] if (epoch.duration_ms or 0) >= SLOW_MS]
    assert len(long_ones) >= len(CAUSES)
    facts = dict(view._facts())
    assert "% of" in facts["longest phase"]


def assert_history(checkpoint: Checkpoint, slowed: dict[int, str], late: int) -> None:
    """The history of the stopped query has the same, and prints it."""
    history = checkpoint.history(since=0)
    by_epoch = {epoch.epoch: epoch for epoch in history}
    for number, slow in slowed.items():
        kind, phase = CAUSES[slow]
        epoch = by_epoch[number]
        assert (epoch.duration_ms or 0) >= SLOW_MS
        assert epoch.phases[phase] >= PHASE_MS
        assert epoch.slow is not None
        assert epoch.slow.kind == kind
        assert epoch.operator_names == {"0": "stateStoreSave"}
        samples = {sample.metric: sample.value for sample in of_epoch(epoch) if not sample.labels}
        assert samples["epoch_duration_seconds"] >= SLOW_S
    slow_stages = [stage for stage in by_epoch[min(slowed)].stages if stage.ms >= SLOW_MS]
    assert not slow_stages, "the source is no stage"
    reason = by_epoch[late].slow
    assert reason is not None
    assert reason.kind == "commit"
    printed = str(history)
    assert f"Epoch {late} was slow (commit)" in printed
    assert "https://cleancut.io/operate/watching.html" in printed
