"""Concurrent drivers of one query on one bucket publish each epoch once."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from demo.processes import ProcessTree
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.rival import END, HANDED_OVER, done_at, input_at, sink_at
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

# The number of epochs that a driver publishes before the next one starts.
LEAD = 2
FILE_EVERY_S = 1.0
# Limit of the files that no driver has processed.
BACKLOG = 20
DEADLINE_S = PATIENCE_S
# The errors of a driver whose successor has started.
FENCED = "CLEANCUT_FENCED"
RESTARTS = int(os.environ.get("CLEANCUT_ROLLING_RESTARTS", "1"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    home = tmp_path / "s3proxy"
    home.mkdir()
    with s3proxy(home) as started:
        yield started


@dataclass
class Rollout:
    """Drivers that each take over from the previous one, while input arrives."""

    server: S3Server
    location: str
    spark: SparkSession
    root: Path
    handover_timeout: str
    files: int = 1
    logs: list[Path] = field(default_factory=list)
    drivers: list[ProcessTree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.input = input_at(self.root / "input")
        self.input.write(0)

    def start(self, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "tests.support.rival", self.server.endpoint]
        command += [self.location, str(self.input.directory), str(self.root)]
        command.append(self.handover_timeout)
        self.logs.append(self.root / f"{len(self.logs)}.log")
        env = environment() | self.server.environment
        self.drivers.append(stack.enter_context(ProcessTree(command, env=env, log=self.logs[-1])))

    def alive(self) -> list[int]:
        return [i for i, driver in enumerate(self.drivers) if driver.exit_code() is None]

    def published(self) -> list[int]:
        return [info.epoch for info in sink_at(self.root).epochs(session=self.spark)]

    def settle(self) -> None:
        """Waits until the last driver is the only one and publishes."""
        last = len(self.drivers) - 1
        deadline = time.monotonic() + DEADLINE_S
        while self.alive() != [last]:
            self._advance(deadline)
        known = len(self.published())
        while len(self.published()) < known + LEAD:
            self._advance(deadline)

    def _advance(self, deadline: float) -> None:
        log = self.logs[-1].read_text()[-4000:]
        assert time.monotonic() < deadline, log
        assert len(self.drivers) - 1 in self.alive(), f"the successor has ended: {log}"
        # A slow host publishes fewer epochs, and the last driver has to process what is left.
        if self.files < len(self.published()) + BACKLOG:
            self.input.write(self.files)
            self.files += 1
        time.sleep(FILE_EVERY_S)

    def ends(self) -> list[str]:
        """Returns the last line of each driver, which has the error that ended it."""
        return [log.read_text().splitlines()[-1] for log in self.logs]


@long
@pytest.mark.parametrize("timeout", ["0ms", "5m"], ids=["takeover", "handover"])
@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_a_rolling_restart_is_no_outage(
    scheme: str,
    timeout: str,
    server: S3Server,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[str], None],
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"s3://{server.BUCKET}/rollout"
    location = bucket if scheme == "s3" else f"file://{tmp_path / 'checkpoint'}"
    rollout = Rollout(server, location, spark, tmp_path, timeout)
    with ExitStack() as stack:
        for _ in range(1 + RESTARTS):
            rollout.start(stack)
            rollout.settle()
        done_at(tmp_path).touch()
        while rollout.alive():
            time.sleep(0.1)
    ends = rollout.ends()
    endpoint = server.endpoint if location.startswith("s3://") else None
    cuts = Checkpoint(location, endpoint=endpoint).cuts()
    generations = [cut.generation for cut in cuts]
    rows = [row["number"] for row in sink_at(tmp_path).read(spark).collect()]
    duplicated = sum(count - 1 for count in Counter(rows).values())
    expected = {
        row["number"] for file in range(rollout.files) for row in rollout.input.rows_of(file)
    }
    lost = len(expected - set(rows))
    show(
        f"{len(ends)} drivers, {len(cuts)} epochs of generations {sorted(set(generations))};"
        f" of {len(expected)} rows {lost} lost, {duplicated} duplicated"
    )
    assert (lost, duplicated, set(rows) - expected) == (0, 0, set())
    assert ends[-1] == END
    if timeout != "0ms":
        assert ends[:-1] == [HANDED_OVER] * RESTARTS
    else:
        for followed, end in enumerate(ends[:-1]):
            assert FENCED in end, end
            assert f"generation {followed + 2}" in end, end
    epochs = [cut.epoch for cut in cuts]
    assert epochs == list(range(epochs[0], epochs[-1] + 1))
    assert rollout.published() == list(range(epochs[-1] + 1))
    assert generations == sorted(generations)
    assert len(set(generations)) > 1
