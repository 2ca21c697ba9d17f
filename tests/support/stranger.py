"""A machine of a new user, on which the commands of the pages run unchanged.

It has Spark, and Python with or without the package, and no path to the source tree.
"""

import json
import os
import random
import shlex
import shutil
import signal
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

import cleancut
from cleancut.sinks import EpochFiles
from demo.processes import ProcessTree
from tests.support.documented import blocks
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S

SPARK_HOME = Path(pyspark.__file__).parent
INDEX = "docs/get-started/starting-spark.md"
WHEEL = f"cleancut-{cleancut.__version__}-py3-none-any.whl"
FILES = 12
_PATIENCE_S = PATIENCE_S
_POLL_S = 0.1
_MOMENT_S = 1.5
_ROWS = 40


def pythons(home: Path) -> tuple[Path, Path]:
    """Creates two Python environments with Spark: with and without this package."""
    return _environment(home / "with", True), _environment(home / "without", False)


def _environment(home: Path, has_package: bool) -> Path:
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python3*/site-packages")
    # The packages of the tests, without those that a file of the same kind excludes.
    (packages / "shared.pth").write_text(f"{SPARK_HOME.parent}\n")
    if has_package:
        shutil.copytree(Path(cleancut.__file__).parent, packages / "cleancut")
    return home / "bin" / "python"


def wheel(directory: Path) -> Path:
    """Builds the wheel of the package, with the jars for this Spark only."""
    package, path = Path(cleancut.__file__).parent, directory / WHEEL
    directory.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        for file in package.rglob("*"):
            if file.suffix in (".py", ".json") or str(file) in cleancut.jar_paths():
                made.write(file, file.relative_to(package.parent))
    return path


class Orders:
    """The input of the query of the pages, and its results.

    Attributes:
        place: the directory with input, checkpoint and results.
    """

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self._draw = random.Random(seed)
        self._total: Counter[str] = Counter()
        (place / "orders").mkdir(parents=True)

    def write(self, numbers: Iterable[int]) -> None:
        """Adds files of orders, one per epoch."""
        for number in numbers:
            shops = [f"shop {self._draw.randrange(7)}" for _ in range(_ROWS)]
            rows = [(shop, self._draw.randint(1, 99)) for shop in shops]
            for shop, amount in rows:
                self._total[shop] += amount
            lines = (json.dumps({"shop": shop, "amount": amount}) for shop, amount in rows)
            made = self.place / f"{number:03d}.json"
            made.write_text("\n".join(lines))
            made.rename(self.place / "orders" / made.name)

    def epochs(self) -> int:
        """Returns the number of committed epochs."""
        try:
            return len(cleancut.Checkpoint(self.place / "checkpoint").cuts())
        except cleancut.CleancutError:
            return 0

    def check(self) -> None:
        """Compares the published rows with the totals of all orders."""
        files = EpochFiles(self.place / "totals").paths()
        rows = pa.concat_tables(pq.read_table(file) for file in files).to_pylist()
        self.compare((row["shop"], row["total"]) for row in rows)

    def compare(self, rows: Iterable[tuple[str, int]]) -> None:
        """Compares the rows of a sink in update mode with the totals of all orders."""
        emitted = list(rows)
        # A total grows with each epoch: an equal row was published twice.
        assert max(Counter(emitted).values()) == 1
        last = {shop: max(total for key, total in emitted if key == shop) for shop, _ in emitted}
        assert last == dict(self._total)
        assert cleancut.Checkpoint(self.place / "checkpoint").verify().ok


class Stranger:
    """A user at a shell, in a directory with the program of the pages.

    Attributes:
        home: the directory.
        variables: the variables of the shell.
    """

    def __init__(self, home: Path, python: Path, executors: Path, **variables: str) -> None:
        """Creates the directory.

        Args:
            home: the directory, which does not exist yet.
            python: the Python of drivers; the one that `python` starts.
            executors: the Python of executors.
            variables: additional variables of the shell.
        """
        self.home = home
        home.mkdir(parents=True)
        (program,) = (code for code in blocks(INDEX, "python") if "sys.argv" in code)
        (home / "counts.py").write_text(program)
        (home / "conf").mkdir()
        settings = ("spark.ui.enabled false", "spark.log.level WARN", "spark.executor.cores 2")
        (home / "conf" / "spark-defaults.conf").write_text("\n".join(settings))
        path = [str(python.parent), str(SPARK_HOME / "bin"), os.environ["PATH"]]
        of_shell = environment()
        del of_shell["PYTHONPATH"]
        self.variables = of_shell | {
            "PATH": os.pathsep.join(path),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "PYSPARK_PYTHON": str(executors),
            "SPARK_CONF_DIR": str(home / "conf"),
            **variables,
        }

    def types(self, command: str, log: str, keys: str = "") -> ProcessTree:
        """Starts the command of a block with the given input; see `ProcessTree`."""
        typed = f"cd {shlex.quote(str(self.home))} || exit\n{command}"
        if keys:
            (self.home / "keys").write_text(keys)
            typed = f"{typed.rstrip()} < keys"
        return ProcessTree(["bash", "-c", typed], env=self.variables, log=self.home / log)

    def runs(self, command: str, keys: str = "") -> tuple[int, str]:
        """Runs a block to its end; returns its status and its output."""
        with self.types(command, "log", keys) as process:
            await_(lambda: process.exit_code() is not None, self.home / "log")
            return process.exit_code() or 0, (self.home / "log").read_text(errors="replace")


def filled(command: str, places: Mapping[str, object]) -> str:
    """Replaces the names in angle brackets of a block."""
    for name, value in places.items():
        assert f"<{name}>" in command, f"{command} has no <{name}>"
        command = command.replace(f"<{name}>", str(value))
    assert "<" not in command.replace("<<", "").replace("< keys", ""), command
    return command


def killed_and_typed_again(
    stranger: Stranger, command: str, orders: Orders, *, kills: int = 2, keys: str = ""
) -> None:
    """Kills a running driver, and repeats its command until it ends by itself.

    Half of the input is written while no driver runs.
    """
    draw, first = random.Random(repr(orders.place)), FILES // 2
    orders.write(range(first))
    for life in range(kills):
        seen = orders.epochs()
        log = f"life-{life}.log"
        with stranger.types(command, log, keys) as driver:
            await_(
                lambda: orders.epochs() > seen or driver.exit_code() is not None,  # noqa: B023
                stranger.home / log,
            )
            time.sleep(draw.random() * _MOMENT_S)
            assert driver.kill(), (stranger.home / log).read_text()[-4000:]
        if life == 0:
            orders.write(range(first, FILES))
    status, printed = stranger.runs(command, keys)
    assert status == 0, printed[-6000:]
    orders.check()


def await_(is_there: Callable[[], bool], log: Path) -> None:
    """Waits for a condition, and prints the end of a log if it does not hold in time."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_there():
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-6000:]
        time.sleep(_POLL_S)


def pids(*words: str) -> Iterator[int]:
    """Returns the processes whose command lines contain all of these."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words):
                yield int(entry.name)


def kill(pid: int) -> None:
    """Kills one process like a crash."""
    os.kill(pid, signal.SIGKILL)
