"""Drivers of one query take over from each other between two epochs.

Topology: a count by key over files, one per epoch, written by `EpochFiles`; each version of the
query is a separate driver. They take over from a running driver, and from one that was killed;
successors are killed while they wait. Checked: the rows of the batch answer, without a lost,
duplicated or older row, and the end of each driver.
"""

import functools
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from cleancut import Checkpoint
from cleancut._cli.statuses import QUERY_FAILED
from cleancut.sinks import EpochFiles
from demo.processes import ProcessTree
from tests.support.documented import blocks, commands
from tests.support.handover_driver import END, TOOK_OVER
from tests.support.handovers import FILE_EVERY_S, Release, newest
from tests.support.kills import environment
from tests.support.patience import wait_until
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

PAGE = "docs/use/release.md"


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    with ExitStack() as stack:
        yield Release(tmp_path, stack)


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
    # A standby that is faster would find no driver.
    release.wait_for_epochs()
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


# The documented program gets a session and a location.
PRELUDE = """
import sys

from pyspark.sql import SparkSession

import cleancut
from orders import build

spark = cleancut.configure(SparkSession.builder).getOrCreate()
location = sys.argv[1]
"""
FAILING = """

def failing(spark):
    rows = build(spark)
    return rows.foreachBatch(lambda df, epoch: df.selectExpr("raise_error(user)").collect())
"""


class DocumentedQuery:
    """The drivers of the documented query, a sum for each user, and its directory."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root, self._stack = root, stack
        self._sink = EpochFiles(root / "totals")
        (root / "conf").mkdir()
        properties = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
        # In a bucket this is the default.
        properties["spark.sql.streaming.stateStore.cleancut.cuts"] = "true"
        lines = "".join(f"{key} {value}\n" for key, value in properties.items())
        (root / "conf" / "spark-defaults.conf").write_text(lines)
        (root / "orders").mkdir()
        query, program = blocks(PAGE, "python")
        (root / "orders.py").write_text(query + FAILING)
        (root / "program.py").write_text(PRELUDE + program)
        self.files = 0
        self._logs: dict[ProcessTree, Path] = {}

    def start(self, command: list[str]) -> ProcessTree:
        """Starts a documented command, with a checkpoint in a directory."""
        assert command[0] == "cleancut"
        typed = (word.replace("s3://bucket/orders", "checkpoint") for word in command)
        return self._start([sys.executable, "-m", *typed])

    def start_program(self) -> ProcessTree:
        """Starts the documented program."""
        return self._start([sys.executable, "program.py", "checkpoint"])

    def _start(self, command: list[str]) -> ProcessTree:
        env = environment() | {"SPARK_CONF_DIR": str(self.root / "conf")}
        log = self.root / f"{len(self._logs)}.log"
        shell = ["sh", "-c", f"cd {self.root} && exec {shlex.join(command)}"]
        tree = self._stack.enter_context(ProcessTree(shell, env=env, log=log))
        self._logs[tree] = log
        return tree

    def log(self, driver: ProcessTree) -> str:
        return self._logs[driver].read_text()

    def add(self) -> None:
        """Adds a file of orders."""
        rows = [json.dumps({"user": f"u{i % 5}", "amount": 1}) for i in self._orders(self.files)]
        hidden = self.root / "orders" / f".{self.files}.json"
        hidden.write_text("\n".join(rows))
        hidden.rename(self.root / "orders" / f"{self.files}.json")
        self.files += 1

    def wait(self, condition: Callable[[], bool], driver: ProcessTree) -> None:
        """Waits for a driver while orders arrive, which the warm-up requires."""
        due = time.monotonic()

        def holds() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                self.add()
                due = time.monotonic() + FILE_EVERY_S
            return condition()

        wait_until(holds, otherwise=lambda: self.log(driver))

    def wait_for_text(self, text: str, driver: ProcessTree) -> None:
        """Waits until a driver has printed a text."""
        self.wait(lambda: text in self.log(driver), driver)

    def wait_for_an_epoch(self, driver: ProcessTree) -> None:
        """Waits until a driver has published an epoch."""
        known = self._epochs()
        self.wait(lambda: self._epochs() > known, driver)

    def exit_code(self, driver: ProcessTree) -> int | None:
        """Returns the exit code of a driver when it has ended."""
        self.wait(lambda: driver.exit_code() is not None, driver)
        return driver.exit_code()

    def check(self) -> None:
        """Waits until the published sums are the batch answer."""
        totals = Counter(f"u{i % 5}" for file in range(self.files) for i in self._orders(file))
        wait_until(lambda: newest(self._sink, "user", "sum(amount)") == dict(totals))

    def generations(self) -> set[int]:
        return {cut.generation for cut in Checkpoint(self.root / "checkpoint").cuts()}

    def epochs(self) -> list[int]:
        """Returns the committed epochs."""
        return [cut.epoch for cut in Checkpoint(self.root / "checkpoint").cuts()]

    def _epochs(self) -> int:
        return len(self._sink.epochs())

    @staticmethod
    def _orders(file: int) -> range:
        return range(file, file + 20)


@pytest.fixture
def documented(tmp_path: Path) -> Iterator[DocumentedQuery]:
    with ExitStack() as stack:
        yield DocumentedQuery(tmp_path, stack)


def commands_of_page() -> tuple[list[str], list[str]]:
    """Returns the documented commands `take-over` and `stand-by`."""
    taking, _, standing = (
        command for block in blocks(PAGE, "sh") for command in commands(block)[:1]
    )
    return taking, standing


def documented_container() -> dict[str, Any]:
    (text,) = blocks(PAGE, "yaml")
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    return container  # type: ignore[no-any-return]


def test_the_documented_command_takes_over_from_the_deployment(documented: DocumentedQuery) -> None:
    container = documented_container()
    old = documented.start(container["command"] + container["args"])
    documented.wait((documented.root / "took-over").exists, old)
    documented.wait_for_an_epoch(old)
    taking, _ = commands_of_page()
    new = documented.start(taking)
    documented.wait_for_text("took over", new)
    documented.wait_for_an_epoch(new)
    # The process of the old version waits for its deletion.
    assert old.exit_code() is None
    old.terminate()
    assert documented.exit_code(old) == 0
    assert "Traceback" not in documented.log(old)
    assert documented.generations() == {1, 2}
    documented.check()
    # The query is stopped after its epoch.
    new.terminate()
    assert documented.exit_code(new) == 0
    planned = (documented.root / "checkpoint" / "offsets").glob("[0-9]*")
    assert max(int(entry.name) for entry in planned) == documented.epochs()[-1]


def test_a_command_whose_query_fails_exits_with_its_error(documented: DocumentedQuery) -> None:
    documented.add()
    options = ["--query", "orders:failing", "--epochs", "0"]
    failing = documented.start(["cleancut", "take-over", "checkpoint", *options])
    assert documented.exit_code(failing) == QUERY_FAILED
    assert "[STREAM_FAILED]" in documented.log(failing)
    assert "CLEANCUT_COMMAND_FAILED" not in documented.log(failing)


@long
def test_the_documented_standby_takes_over_from_the_documented_program(
    documented: DocumentedQuery,
) -> None:
    owner = documented.start_program()
    documented.wait_for_an_epoch(owner)
    _, standing = commands_of_page()
    standby = documented.start(standing)
    documented.wait_for_text("Prepared", standby)
    assert documented.generations() == {1}
    owner.kill()
    documented.wait_for_an_epoch(standby)
    documented.check()
    assert documented.generations() == {1, 2}


def test_the_documented_deployment_waits_for_the_command() -> None:
    (text,) = blocks(PAGE, "yaml")
    deployment = yaml.safe_load(text)
    spec = deployment["spec"]
    # Versions have different names, and a pod is never replaced by a second one.
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert deployment["metadata"]["name"].endswith(labels["version"])
    container = documented_container()
    probe = container["readinessProbe"]["exec"]["command"]
    assert container["args"][:2] == ["--ready-file", probe[-1]]
