"""The tab "Cuts" of Spark's UI, of a running driver and on a history server."""

import json
import random
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cleancut import Checkpoint
from demo.processes import ProcessTree
from tests.support.documented import blocks, commands, run_as_typed
from tests.support.history_server import history_server
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.slow_epochs import PAUSE, SLOW_VALUE
from tests.support.tiers import long

pytestmark = pytest.mark.spark

PAGE = "docs/operate/watching.md"
KEYS = 40


class Pages:
    """The pages of one query."""

    def __init__(self, base: str, location: str) -> None:
        self._base, self._location = f"{base}/cuts", location

    def text(self, path: str, **parameters: object) -> str:
        """Returns a page of the query, or of the query in the parameters."""
        query = urllib.parse.urlencode({"location": self._location} | parameters)
        with urllib.request.urlopen(f"{self._base}/{path}?{query}", timeout=PATIENCE_S) as answer:
            body: bytes = answer.read()
        return body.decode()

    def epochs(self) -> list[dict[str, Any]]:
        """Returns the costs of all epochs."""
        epochs: list[dict[str, Any]] = self._json("query/json")
        return epochs

    def epoch(self, epoch: int) -> dict[str, Any]:
        """Returns the record of an epoch."""
        record: dict[str, Any] = self._json("epoch/json", epoch=epoch)
        return record

    def query(self) -> dict[str, Any]:
        """Returns the entry of the query on the first page."""
        (query,) = self._json("json")
        assert isinstance(query, dict)
        return query

    def _json(self, path: str, **parameters: object) -> Any:
        return json.loads(self.text(path, **parameters) or "null")


class Driver:
    """A driver whose query reads one file per epoch."""

    def __init__(self, work: Path, tree: ProcessTree) -> None:
        self.work, self.tree, self._files = work, tree, 0
        self.until((work / "pages").exists)
        self.pages = Pages((work / "pages").read_text(), f"file:{work / 'checkpoint'}")

    def feed(self, *, hot: int = 0, slow_each: int = 0) -> None:
        """Writes a file with each key once, and slow rows of key 0 or of every key."""
        rows = [{"key": key, "value": 1} for key in range(KEYS)]
        rows += [{"key": 0, "value": SLOW_VALUE}] * hot
        rows += [{"key": key, "value": SLOW_VALUE} for key in range(KEYS)] * slow_each
        file = self.work / f"{self._files}.tmp"
        file.write_text("\n".join(map(json.dumps, rows)))
        file.rename(self.work / "input" / f"{self._files:04}.json")
        self._files += 1

    def committed(self) -> int:
        """Waits for the epoch of the last file, and returns it."""
        self.until(lambda: len(self.known()) >= self._files)
        return self._files - 1

    def known(self) -> list[dict[str, Any]]:
        """Returns the epochs that its pages show."""
        try:
            return self.pages.epochs()
        except urllib.error.HTTPError:
            return []

    def until(self, is_there: Callable[[], bool]) -> None:
        """Waits for a condition while the driver runs."""
        until = time.monotonic() + PATIENCE_S
        while not is_there():
            assert self.tree.exit_code() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.2)

    def log(self) -> str:
        """Returns the end of its log."""
        return "\n".join((self.work / "log").read_text(errors="replace").splitlines()[-60:])

    def stop(self) -> None:
        """Stops it, and waits for its end."""
        (self.work / "stop").touch()
        until = time.monotonic() + PATIENCE_S
        while self.tree.exit_code() is None:
            assert time.monotonic() < until, self.log()
            time.sleep(0.2)
        assert self.tree.exit_code() == 0, self.log()


@contextmanager
def running(work: Path) -> Iterator[Driver]:
    """Starts a driver in a separate process, with two executors."""
    command = [sys.executable, "-m", "tests.support.slow_epochs", str(work)]
    with ProcessTree(command, env=environment(), log=work / "log") as tree:
        yield Driver(work, tree)


@long
def test_each_epoch_is_shown_live_and_afterwards(tmp_path: Path) -> None:
    with running(tmp_path) as driver:
        for _ in range(3):
            driver.feed()
            last = driver.committed()
        live = driver.pages
        epochs = live.epochs()
        assert [epoch["epoch"] for epoch in epochs] == list(range(last + 1))
        proof = Checkpoint(tmp_path / "checkpoint").test_restore()
        # A view of the page requests an update, and the next epoch has it.
        driver.until(lambda: str(live.query()["proven"]).startswith(f"epoch {proof.epoch}, "))
        assert f"epoch {proof.epoch}, {proof.tested:%Y-%m-%d %H:%M:%S} UTC" in live.text("")
        driver.feed()
        last = driver.committed()
        epochs = live.epochs()
        page = live.epoch(last)
        assert page["proven"]["epoch"] == proof.epoch
        # What the run has written, because no garbage collection has listed the rest.
        written = [
            *tmp_path.glob("checkpoint/cleancut/segments/*/*"),
            *tmp_path.glob("checkpoint/cleancut/cuts/*"),
        ]
        assert 0 < page["storedBytes"] <= sum(file.stat().st_size for file in written)
        (operator,) = page["operators"]
        assert sum(operator["rows"]) == KEYS
        assert len(operator["ms"]) == operator["partitions"] == 4
        assert_pages(live, last)
        live_query = live.query()
        driver.stop()
    location = str(tmp_path / "checkpoint")
    kept = {epoch.epoch: epoch for epoch in Checkpoint(location).history()}
    assert [kept[epoch["epoch"]].duration_ms for epoch in epochs] == [
        epoch["durationMs"] for epoch in epochs
    ]
    assert [kept[epoch["epoch"]].cut_lag_ms for epoch in epochs] == [
        epoch["cutLagMs"] for epoch in epochs
    ]
    class_path = as_documented(tmp_path)
    with history_server(tmp_path / "server", tmp_path / "events", class_path) as server:
        (application,) = json.loads(fetched(f"{server}/api/v1/applications"))
        past = Pages(f"{server}/history/{application['id']}", live._location)
        assert past.epochs() == epochs
        assert past.epoch(last) == page
        assert past.query() == live_query
        assert_pages(past, last)


def as_documented(work: Path) -> str:
    """Runs the commands of the page; returns the class path that it sets for a history server."""
    home = work / "home"
    (home / "checkpoints").mkdir(parents=True)
    (home / "checkpoints" / "delays").symlink_to(work / "checkpoint")
    code = blocks(PAGE, "python")[0]
    run_as_typed([sys.executable, "-c", code + "assert len(epochs) == 4\n"], home)
    server, history = blocks(PAGE, "sh")
    (command,) = commands(history)
    printed = run_as_typed([sys.executable, "-m", *command, "--json"], home)
    assert len(json.loads(printed)) == 4
    export, start = server.splitlines()
    # PySpark has no such script, so the test starts the same class.
    assert start == '"$SPARK_HOME/sbin/start-history-server.sh"'
    script = (
        f'PATH="{Path(sys.executable).parent}:$PATH"; {export}; printf %s "$SPARK_DAEMON_CLASSPATH"'
    )
    return run_as_typed(["sh", "-c", script], home)


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
    return body


def assert_pages(pages: Pages, last: int) -> None:
    """Checks that each page exists, links to the others, and reports missing epochs."""
    queries = pages.text("")
    assert "orders" in queries
    history = pages.text("query/", sort="duration", order="asc")
    assert history.count("<circle") == 0
    assert re.search(rf'aria-label="epoch {last}: [0-9,]+ ms, [a-z ]+ \d+%"', history)
    assert 'aria-sort="ascending"' in history
    epoch = pages.text("epoch/", epoch=last, by="rows")
    assert "partition 3" in epoch
    assert "Slowest stores" in epoch
    assert "cut lag" in epoch
    settings = pages.text("settings/")
    assert "<strong>true</strong>" in settings
    for page in (queries, history, epoch, settings):
        # Spark's own pages contain only Spark's scripts; ours link to the documentation.
        assert not re.findall(r'(?:src|href)="https?://(?!spark\.apache|cleancut\.io/)', page)
        assert 'href="https://cleancut.io/operate/watching.html"' in page
    assert "Epoch 999 of" in pages.text("epoch/", epoch=999)
    assert "Epoch without a number of" in pages.text("epoch/", epoch="x")
    assert "The query at" in pages.text("query/", location="file:/nowhere")
    hurt = pages.text("query/", location="<script>alert(1)</script>")
    assert "<script>alert" not in hurt


@long
def test_a_slow_epoch_shows_its_cause(tmp_path: Path, show: Callable[[str], None]) -> None:
    """Causes each kind of delay in turn, and compares the cause on the page."""
    seed = random.randrange(2**32)
    with running(tmp_path) as driver:

        def usual(count: int) -> None:
            for _ in range(count):
                driver.feed()
                driver.committed()

        causes = {}
        usual(10)
        driver.feed(hot=500)
        causes[driver.committed()] = "straggler"
        usual(2)
        (tmp_path / PAUSE).touch()
        driver.feed()
        causes[driver.committed()] = "driver-pause"
        usual(2)
        driver.feed(slow_each=30)
        time.sleep(3)
        assert driver.tree.kill_executor(random.Random(seed))
        causes[driver.committed()] = "executor-lost"
        usual(2)
        shown = {
            epoch["epoch"]: epoch["slow"] for epoch in driver.pages.epochs() if "slow" in epoch
        }
        details = {epoch: driver.pages.epoch(epoch)["slow"]["detail"] for epoch in shown}
        show(f"seed {seed}, made {causes}, shown {shown}: {details}")
        assert {epoch: shown.get(epoch) for epoch in causes} == causes
        # Other delays on an overloaded machine have none of these causes.
        others = {kind for epoch, kind in shown.items() if epoch not in causes}
        assert not others & {"driver-pause", "executor-lost"}
        skewed = next(epoch for epoch, cause in causes.items() if cause == "straggler")
        assert re.search(r"read 5\d\d rows, but the median is \d+", details[skewed])
        driver.stop()
    past = Checkpoint(tmp_path / "checkpoint").history(since=0)
    assert {epoch.epoch: epoch.slow.kind for epoch in past if epoch.slow} == shown
    assert {epoch.epoch: epoch.slow.detail for epoch in past if epoch.slow} == details
