"""Drivers of one query at once, on one bucket: what is published is published once."""

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
from tests.support.rival import END, done_at, input_at, sink_at
from tests.support.s3_servers import S3Server, s3proxy

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

RIVALS = 2
# Of epochs that the last one has published before another is started.
LEAD = 2
FILE_EVERY_S = 1.0
DEADLINE_S = 240
# What a driver may end by beside another: one that has taken over, one that has committed the epoch
# with which this one was to begin, or, in Spark's words, one that has planned the same epoch.
ALLOWED = ("CLEANCUT_FENCED", "another driver has committed", "CONCURRENT_STREAM_LOG_UPDATE")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    home = tmp_path / "s3proxy"
    home.mkdir()
    with s3proxy(home) as started:
        yield started


@dataclass
class Rivalry:
    """Drivers that are started one beside the other, and input that goes on meanwhile."""

    server: S3Server
    spark: SparkSession
    root: Path
    files: int = 1
    logs: list[Path] = field(default_factory=list)
    drivers: list[ProcessTree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.input = input_at(self.root / "input")
        self.input.write(0)
        self.location = f"s3://{self.server.BUCKET}/rivals"
        self.deadline = time.monotonic() + DEADLINE_S

    def start(self, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "tests.support.rival", self.server.endpoint]
        command += [self.location, str(self.input.directory), str(self.root)]
        self.logs.append(self.root / f"{len(self.logs)}.log")
        env = environment() | self.server.environment
        self.drivers.append(stack.enter_context(ProcessTree(command, env=env, log=self.logs[-1])))

    def alive(self) -> int:
        return sum(of.exit_code() is None for of in self.drivers)

    def published(self) -> list[int]:
        return [info.epoch for info in sink_at(self.root).epochs(self.spark)]

    def settle(self, stack: ExitStack) -> None:
        """Goes on until one driver is left and publishes; starts another where none is left."""
        while self.alive() > 1:
            self._go_on()
        known = len(self.published())
        while len(self.published()) < known + LEAD:
            if self.alive() == 0:
                # Each has ended for another's sake; what they did stands.
                self.start(stack)
            self._go_on()

    def _go_on(self) -> None:
        assert time.monotonic() < self.deadline, self.logs[-1].read_text()[-4000:]
        self.input.write(self.files)
        self.files += 1
        time.sleep(FILE_EVERY_S)

    def ends(self) -> list[str]:
        """What each driver ended by: the end, what is allowed, or all of its error."""
        lines = [log.read_text().splitlines()[-1] for log in self.logs]
        return [next((why for why in ALLOWED if why in line), line) for line in lines]


def test_rows_are_published_once_by_whichever_driver(
    server: S3Server,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[str], None],
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    rivalry = Rivalry(server, spark, tmp_path)
    with ExitStack() as stack:
        for _ in range(RIVALS):
            rivalry.start(stack)
            rivalry.settle(stack)
        done_at(tmp_path).touch()
        while rivalry.alive():
            assert time.monotonic() < rivalry.deadline
            time.sleep(0.1)
    ends = rivalry.ends()
    cuts = Checkpoint(rivalry.location, endpoint=server.endpoint).cuts()
    generations = [cut.generation for cut in cuts]
    rows = [row["number"] for row in sink_at(tmp_path).read(spark).collect()]
    doubled = sum(count - 1 for count in Counter(rows).values())
    expected = {
        row["number"] for file in range(rivalry.files) for row in rivalry.input.rows_of(file)
    }
    lost = len(expected - set(rows))
    show(
        f"{len(ends)} drivers ended by {ends}, {len(cuts)} epochs of generations"
        f" {sorted(set(generations))}; of {len(expected)} rows {lost} lost, {doubled} doubled"
    )
    assert (lost, doubled, set(rows) - expected) == (0, 0, set())
    assert ends.count(END) == 1
    assert set(ends) - {END} <= set(ALLOWED)
    assert len(set(ends)) > 1
    assert [cut.epoch for cut in cuts] == list(range(len(cuts))) == rivalry.published()
    assert generations == sorted(generations)
    assert len(set(generations)) > 1
