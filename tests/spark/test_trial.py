"""The steps of docs/get-started/try-it.md, each with its way back."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut._cli import main as _cli
from cleancut._provider import PROVIDER_KEY
from cleancut._session.options import PREFIX
from tests.support.documented import blocks, commands, run_as_typed
from tests.support.lines import STATE_FOR_SPARK
from tests.support.sessions import HDFS, ROCKSDB
from tests.support.tiers import long
from tests.support.trial_query import last_output, process, totals, write_orders

pytestmark = [pytest.mark.spark, STATE_FOR_SPARK.needed]

PAGE = "docs/get-started/try-it.md"
STOCK = f"""
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("{PROVIDER_KEY}", "{ROCKSDB}").getOrCreate()
assert not spark.sparkContext.getConf().get("spark.jars", "")
"""
CONFIGURED, COMPARISON, WITH_CUTS = blocks(PAGE, "python")
PLANNED, COPIED, VERIFIED, RETURNED, CONVERTED, CONVERTED_BACK = (
    command for block in blocks(PAGE, "sh") for command in commands(block)
)


class InProcess:
    """Runs commands and queries in the session of the tests.

    A checkpoint keeps the provider that it has; `provider` is that of the first run.
    """

    def __init__(
        self, spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch, provider: str
    ) -> None:
        self._spark = spark
        self._home = home
        self._provider = provider
        unstopped = SimpleNamespace(
            _jvm=spark._jvm, _jsparkSession=spark._jsparkSession, stop=lambda: None
        )
        monkeypatch.setattr(_cli, "_session", lambda _: unstopped)

    def command(self, typed: list[str]) -> None:
        """Runs a command of the page."""
        assert _cli.main([self._absolute(part) for part in typed[1:]]) == _cli.OK

    def query(self, code: str, checkpoint: str, output: str) -> None:
        """Runs the query once."""
        if code == STOCK:
            session = self._spark.newSession()
            session.conf.set(PROVIDER_KEY, self._provider)
        else:
            # Each run of a user has a new session.
            self._spark.conf.unset(f"{PREFIX}cuts")
            names: dict[str, Any] = {}
            exec(code, names)
            session = names["spark"]
        process(session, self._absolute(checkpoint), self._absolute("orders"), output)

    def _absolute(self, path: str) -> str:
        """The JVM has another working directory."""
        return str(self._home / path) if re.match(r"(checkpoints/|orders$)", path) else path


class InProcesses:
    """Runs each command and each query in a separate process, like a user."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def command(self, typed: list[str]) -> None:
        """Runs a command of the page."""
        run_as_typed([sys.executable, "-m", *typed], self._home)

    def query(self, code: str, checkpoint: str, output: str) -> None:
        """Runs the query once."""
        module = [sys.executable, "-m", "tests.support.trial_query"]
        run_as_typed([*module, checkpoint, "orders", output, code], self._home)


class Trial:
    """A query with RocksDB, and its copies.

    Attributes:
        spark: the session that reads states.
        run: runs commands and queries.
    """

    def __init__(
        self, spark: SparkSession, home: Path, run: InProcess | InProcesses, keys: int
    ) -> None:
        self.spark = spark
        self._home = home
        self._keys = keys
        self.run = run

    def add(self, keys: int | None = None) -> None:
        """Adds a file of input."""
        files = len(list((self._home / "orders").glob("*")))
        write_orders(self._home / "orders", keys or self._keys, files + 1)

    def continues(self, code: str, name: str) -> None:
        """Lets the query at a checkpoint process its input, and checks its state and output."""
        output = str(self._home / f"output-of-{name}")
        self.run.query(code, f"checkpoints/{name}", output)
        expected = totals(self._home / "orders")
        assert self.state(name) == expected
        assert last_output(output).items() <= expected.items()

    def state(self, name: str) -> dict[int, tuple[int, int]]:
        """The state of each key, as Spark reads it."""
        rows = self.spark.read.format("statestore").load(str(self._home / "checkpoints" / name))
        # The columns of the value are the functions in the order of the plan.
        table = rows.select("key.shop", "value.*").toArrow()
        shops, totals_, counts = (column.to_pylist() for column in table.columns)
        return {
            shop: (count, total) for shop, total, count in zip(shops, totals_, counts, strict=True)
        }

    def bytes(self, name: str) -> dict[Path, bytes]:
        """The files of a checkpoint."""
        files = (path for path in (self._home / "checkpoints" / name).rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, without the settings of the page after a test."""
    name = spark.conf.get("spark.app.name")
    yield spark
    spark.conf.unset(f"{PREFIX}cuts")
    assert name is not None
    spark.conf.set("spark.app.name", name)


@pytest.mark.parametrize("provider", [ROCKSDB, pytest.param(HDFS, marks=long)])
def test_each_step_and_its_way_back(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    run = InProcess(session, tmp_path, monkeypatch, provider)
    take_all_steps(Trial(session, tmp_path, run, keys=50), tmp_path)


@long
def test_each_step_and_its_way_back_with_200000_keys_on_stock_spark(
    session: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    trial = Trial(session, tmp_path, InProcesses(tmp_path), keys=200_000)
    take_all_steps(trial, tmp_path)
    return_from_cuts(trial, tmp_path)
    sizes = {
        path.name: sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        for path in (tmp_path / "checkpoints").iterdir()
    }
    show(f"bytes of the checkpoints: {sizes}")


def take_all_steps(trial: Trial, home: Path) -> None:
    """Takes the steps of the page in order, and the way back at each."""
    trial.add()
    trial.continues(STOCK, "orders")
    before = trial.bytes("orders")
    trial.run.command(PLANNED)
    assert not (home / "checkpoints" / "orders-trial").exists()
    trial.run.command(COPIED)
    assert trial.bytes("orders") == before
    trial.add(keys=20)
    # The way back of steps 2 to 4: the original continues.
    trial.continues(STOCK, "orders")
    trial.continues(CONFIGURED, "orders-trial")
    trial.run.command(VERIFIED)
    names: dict[str, Any] = {"spark": trial.spark}
    exec(COMPARISON.replace("checkpoints/", f"{home}/checkpoints/").replace("print", "_ = "), names)
    assert names["_"] == (0, "differences")
    trial.add(keys=30)
    trial.continues(CONFIGURED + WITH_CUTS, "orders-trial")
    assert len(cleancut.Checkpoint(home / "checkpoints" / "orders-trial").cuts()) == 1
    trial.run.command(RETURNED)
    trial.add(keys=10)
    trial.continues(STOCK, "orders-back")
    trial.run.command(CONVERTED)
    trial.continues(CONFIGURED, "orders")
    trial.run.command(CONVERTED_BACK)
    trial.add(keys=5)
    trial.continues(STOCK, "orders")


def return_from_cuts(trial: Trial, home: Path) -> None:
    """Converts the query again, and returns from cuts by a clone that keeps its ID."""
    trial.run.command(CONVERTED)
    trial.add(keys=15)
    trial.continues(CONFIGURED + WITH_CUTS, "orders")
    locations = ["checkpoints/orders", "checkpoints/orders-returned"]
    trial.run.command(["cleancut", "clone", *locations, *RETURNED[4:], "--same-query"])
    trial.add(keys=25)
    trial.continues(STOCK, "orders-returned")
    before, after = ((home / location / "metadata").read_bytes() for location in locations)
    assert before == after
