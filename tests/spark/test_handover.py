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

    def prepare(self) -> int:
        """Starts a successor, which is prepared while the query runs."""
        go_at(self.root).unlink(missing_ok=True)
        driver = self.start("successor")
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


def test_the_documented_program_takes_over_from_itself(spark: SparkSession, tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "python")
    (tmp_path / "orders.py").write_text(program)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\n")
    (tmp_path / "orders").mkdir()
    took_over = tmp_path / "took-over"
    files = 0

    def add() -> None:
        nonlocal files
        rows = [json.dumps({"user": f"u{i % 5}", "amount": 1}) for i in range(files, files + 20)]
        hidden = tmp_path / "orders" / f".{files}.json"
        hidden.write_text("\n".join(rows))
        hidden.rename(tmp_path / "orders" / f"{files}.json")
        files += 1

    def epochs() -> int:
        return len(EpochFiles(tmp_path / "totals").epochs(session=spark))

    def has_published(due: int) -> bool:
        return epochs() >= due

    with ExitStack() as stack:
        drivers: list[ProcessTree] = []
        for version in (1, 2):
            log = tmp_path / f"{version}.log"
            took_over.unlink(missing_ok=True)
            command = ["sh", "-c", f"cd {tmp_path} && exec {sys.executable} orders.py checkpoint"]
            env = environment() | {"SPARK_CONF_DIR": str(tmp_path / "conf")}
            add()
            drivers.append(stack.enter_context(ProcessTree(command, env=env, log=log)))
            wait_until(took_over.exists, otherwise=log.read_text)
            due = epochs() + 1
            add()
            wait_until(functools.partial(has_published, due), otherwise=log.read_text)
        # The process of the old version waits for its deletion.
        assert drivers[0].exit_code() is None
        assert "Traceback" not in (tmp_path / "1.log").read_text()
        totals = {f"u{i}": 0 for i in range(5)}
        for file in range(files):
            for i in range(file, file + 20):
                totals[f"u{i % 5}"] += 1
        wait_until(
            lambda: newest(EpochFiles(tmp_path / "totals"), spark, "user", "sum(amount)") == totals
        )
    assert {cut.generation for cut in Checkpoint(tmp_path / "checkpoint").cuts()} == {1, 2}


def test_the_documented_deployment_waits_for_the_program() -> None:
    (text,) = blocks(PAGE, "yaml")
    deployment = yaml.safe_load(text)
    (program,) = blocks(PAGE, "python")
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
