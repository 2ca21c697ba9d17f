"""Drivers of one query take over from each other between two epochs.

Topology: a count by key over files, one per epoch, written by `EpochFiles`; each version of the
query is a separate driver. They take over from a running driver, and from one that was killed;
successors are killed while they wait. Checked: the rows of the batch answer, without a lost,
duplicated or older row, and the end of each driver.
"""

import functools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from cleancut import Checkpoint
from cleancut.sinks import EpochFiles
from demo.processes import ProcessTree
from tests.support.counted_files import ROWS, CountedFiles
from tests.support.documented import blocks
from tests.support.handover_driver import (
    END,
    KEYS,
    PREPARED,
    TOOK_OVER,
    done_at,
    go_at,
    sink_at,
)
from tests.support.kills import environment
from tests.support.patience import wait_until
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

PAGE = "docs/use/release.md"
# The number of epochs that a driver publishes before the next one takes over.
LEAD = 2
FILE_EVERY_S = 0.5


class Release:
    """The drivers of a query, the last of which is the newest version."""

    def __init__(self, spark: SparkSession, root: Path, stack: ExitStack) -> None:
        self.spark, self.root, self._stack = spark, root, stack
        self.location = root / "checkpoint"
        self.input = CountedFiles(root, keys=KEYS)
        self.input.add()
        self.drivers: list[ProcessTree] = []
        self.logs: list[Path] = []

    def start(self, kind: str, *settings: str) -> int:
        """Starts a driver; returns its number."""
        command = [sys.executable, "-m", "tests.support.handover_driver", kind]
        command += [str(self.location), str(self.root), *settings]
        self.logs.append(self.root / f"{len(self.logs)}.log")
        tree = ProcessTree(command, env=environment(), log=self.logs[-1])
        self.drivers.append(self._stack.enter_context(tree))
        return len(self.drivers) - 1

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits while input arrives."""
        began = time.monotonic()
        files = self.input.files

        def holds() -> bool:
            if time.monotonic() > began + FILE_EVERY_S * (self.input.files - files):
                self.input.add()
            assert self.drivers[-1].exit_code() in (None, 0, -signal.SIGKILL), self.ends()[-1]
            return condition()

        wait_until(holds, otherwise=lambda: "\n".join(map(str, self.ends())))

    def wait_for_epochs(self) -> None:
        """Waits until the query has published some more epochs."""
        known = len(self.published())
        self.wait(lambda: len(self.published()) >= known + LEAD)

    def has_printed(self, driver: int, text: str) -> bool:
        return text in self.logs[driver].read_text()

    def is_running(self, driver: int) -> bool:
        return self.drivers[driver].exit_code() is None

    def prepare(self, kind: str = "successor") -> int:
        """Starts a successor, which is prepared while the query runs."""
        go_at(self.root).unlink(missing_ok=True)
        driver = self.start(kind)
        self.wait(lambda: self.has_printed(driver, PREPARED))
        return driver

    def take_over(self, driver: int) -> None:
        go_at(self.root).touch()
        self.wait(lambda: self.has_printed(driver, TOOK_OVER))

    def published(self) -> list[int]:
        return [info.epoch for info in sink_at(self.root).epochs(session=self.spark)]

    def end(self) -> None:
        """Lets all drivers end, and compares the published rows with the batch answer."""
        done_at(self.root).touch()
        wait_until(lambda: not any(map(self.is_running, range(len(self.drivers)))))
        epochs = [cut.epoch for cut in Checkpoint(self.location).cuts()]
        assert epochs == list(range(epochs[0], epochs[-1] + 1))
        assert self.published() == list(range(epochs[-1] + 1))
        keys = [(37 * file + i) % KEYS for file in range(self.input.files) for i in range(ROWS)]
        assert newest(sink_at(self.root), self.spark, "k", "count") == dict(Counter(keys))

    def generations(self) -> list[int]:
        return [cut.generation for cut in Checkpoint(self.location).cuts()]

    def ends(self) -> list[str]:
        """Returns the last line of each driver, which has the error that ended it."""
        return [(log.read_text().splitlines() or [""])[-1] for log in self.logs]


def newest(sink: EpochFiles, spark: SparkSession, key: str, value: str) -> dict[Any, int]:
    """Returns the newest value of each key; a value that is not greater than the one before it is
    an error.
    """
    values: dict[Any, list[int]] = {}
    for row in sink.read(spark, epoch_column="epoch").orderBy("epoch").collect():
        values.setdefault(row[key], []).append(row[value])
    for rows in values.values():
        assert rows == sorted(set(rows))
    return {key: rows[-1] for key, rows in values.items()}


@pytest.fixture
def release(spark: SparkSession, tmp_path: Path) -> Iterator[Release]:
    with ExitStack() as stack:
        yield Release(spark, tmp_path, stack)


@long
def test_successors_take_over_while_drivers_are_killed(
    release: Release, show: Callable[[str], None]
) -> None:
    first = release.start("plain")
    release.wait_for_epochs()
    # A successor that dies while it waits does not affect the query.
    died = release.prepare()
    release.drivers[died].kill()
    release.wait_for_epochs()
    second = release.prepare()
    assert release.is_running(first)
    release.take_over(second)
    release.wait(lambda: not release.is_running(first))
    assert release.ends()[first] == END
    release.wait_for_epochs()
    # A successor takes over from a driver that has died, too.
    third = release.prepare()
    release.drivers[second].kill()
    release.take_over(third)
    release.wait_for_epochs()
    release.end()
    assert release.ends()[third] == END
    generations = sorted(set(release.generations()))
    show(f"{len(release.published())} epochs, cuts of generations {generations}")
    # The earliest cuts may have expired.
    assert release.generations()[-1] == 3
    assert set(release.generations()) <= {1, 2, 3}


@long
def test_standbys_take_over_from_drivers_that_are_killed(
    release: Release, show: Callable[[str], None]
) -> None:
    owner = release.start("plain")
    standby = release.prepare("standby")
    release.wait_for_epochs()
    for _ in range(2):
        assert not release.has_printed(standby, TOOK_OVER)
        release.drivers[owner].kill()
        release.wait(functools.partial(release.has_printed, standby, TOOK_OVER))
        owner, standby = standby, release.prepare("standby")
        release.wait_for_epochs()
    assert release.is_running(owner)
    # A standby that dies does not affect the query.
    release.drivers[standby].kill()
    release.wait_for_epochs()
    release.end()
    assert release.ends()[owner] == END
    show(f"{len(release.published())} epochs, cuts of generations {set(release.generations())}")
    assert release.generations()[-1] == 3


@long
def test_the_documented_setting_hands_over(release: Release) -> None:
    (properties,) = blocks(PAGE, "properties")
    setting = "=".join(properties.split())
    first = release.start("plain", setting)
    release.wait_for_epochs()
    release.start("plain", setting)
    release.wait(lambda: not release.is_running(first))
    assert release.ends()[first] == END
    release.wait_for_epochs()
    release.end()
    assert release.ends() == [END, END]
    assert release.generations()[-1] == 2
    assert set(release.generations()) <= {1, 2}


class DocumentedProgram:
    """The drivers of a documented program, which runs a sum for each user."""

    def __init__(self, spark: SparkSession, root: Path, stack: ExitStack) -> None:
        self.root, self._spark, self._stack = root, spark, stack
        self._sink = EpochFiles(root / "totals")
        (root / "conf").mkdir()
        (root / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\n")
        (root / "orders").mkdir()
        self.files = 0

    def start(self, program: str, number: int) -> ProcessTree:
        (self.root / "orders.py").write_text(program)
        command = ["sh", "-c", f"cd {self.root} && exec {sys.executable} orders.py checkpoint"]
        env = environment() | {"SPARK_CONF_DIR": str(self.root / "conf")}
        tree = ProcessTree(command, env=env, log=self.log(number))
        return self._stack.enter_context(tree)

    def log(self, number: int) -> Path:
        return self.root / f"{number}.log"

    def add(self) -> None:
        """Adds a file of orders."""
        rows = [json.dumps({"user": f"u{i % 5}", "amount": 1}) for i in self._orders(self.files)]
        hidden = self.root / "orders" / f".{self.files}.json"
        hidden.write_text("\n".join(rows))
        hidden.rename(self.root / "orders" / f"{self.files}.json")
        self.files += 1

    def wait(self, condition: Callable[[], bool], number: int) -> None:
        """Waits for a driver while orders arrive, which the warm-up requires."""
        due = time.monotonic()

        def holds() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                self.add()
                due = time.monotonic() + FILE_EVERY_S
            return condition()

        wait_until(holds, otherwise=self.log(number).read_text)

    def wait_for_an_epoch(self, number: int) -> None:
        """Waits until a driver has published an epoch."""
        known = self._epochs()
        self.wait(lambda: self._epochs() > known, number)

    def is_warming_up(self) -> bool:
        """Whether the clone of a successor exists."""
        return any(self.root.glob("checkpoint-warm-up-*"))

    def check(self) -> None:
        """Waits until the published sums are the batch answer."""
        totals = Counter(f"u{i % 5}" for file in range(self.files) for i in self._orders(file))
        wait_until(lambda: newest(self._sink, self._spark, "user", "sum(amount)") == dict(totals))

    def generations(self) -> set[int]:
        return {cut.generation for cut in Checkpoint(self.root / "checkpoint").cuts()}

    def _epochs(self) -> int:
        return len(self._sink.epochs(session=self._spark))

    @staticmethod
    def _orders(file: int) -> range:
        return range(file, file + 20)


@pytest.fixture
def documented(spark: SparkSession, tmp_path: Path) -> Iterator[DocumentedProgram]:
    with ExitStack() as stack:
        yield DocumentedProgram(spark, tmp_path, stack)


def test_the_documented_program_takes_over_from_itself(documented: DocumentedProgram) -> None:
    program, _ = blocks(PAGE, "python")
    took_over = documented.root / "took-over"
    drivers: list[ProcessTree] = []
    for version in (1, 2):
        took_over.unlink(missing_ok=True)
        documented.add()
        drivers.append(documented.start(program, version))
        documented.wait(took_over.exists, version)
        documented.wait_for_an_epoch(version)
    # The process of the old version waits for its deletion.
    assert drivers[0].exit_code() is None
    assert "Traceback" not in documented.log(1).read_text()
    documented.check()
    assert documented.generations() == {1, 2}


@long
def test_the_documented_standby_takes_over_from_itself(documented: DocumentedProgram) -> None:
    program, standby = blocks(PAGE, "python")
    # The statement replaces the one of the program above.
    program = program[: program.index("with cleancut.successor")] + standby
    documented.add()
    owner = documented.start(program, 1)
    documented.wait_for_an_epoch(1)
    documented.start(program, 2)
    documented.wait(documented.is_warming_up, 2)
    documented.wait(lambda: not documented.is_warming_up(), 2)
    assert documented.generations() == {1}
    owner.kill()
    documented.wait_for_an_epoch(2)
    documented.check()
    assert documented.generations() == {1, 2}


def test_the_documented_deployment_waits_for_the_program() -> None:
    (text,) = blocks(PAGE, "yaml")
    deployment = yaml.safe_load(text)
    program, _ = blocks(PAGE, "python")
    spec = deployment["spec"]
    # Versions have different names, and a pod is never replaced by a second one.
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert deployment["metadata"]["name"].endswith(labels["version"])
    (container,) = spec["template"]["spec"]["containers"]
    probe = container["readinessProbe"]["exec"]["command"]
    assert f'Path("{probe[-1]}").touch()' in program
    assert len(container["command"]) == 2 + program.count("sys.argv[")
