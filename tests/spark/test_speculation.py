"""Tasks with two concurrent attempts on two hosts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut.testing import SkewedInput
from tests.support.in_flight_queries import ROWS, Ended
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.seeds import hunting
from tests.support.speculated import SLOW_HOST, copies
from tests.support.standalone import standalone
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

SEED = hunting(815)
FILES = 6
NAMES = ["unique", "totals", "windows", "applyInPandasWithState"]
HOSTS: dict[str, dict[str, str]] = {"127.0.0.1": {SLOW_HOST: "yes"}, "127.0.0.2": {}}


def test_rows_are_emitted_once_if_a_speculative_task_wins(
    spark: SparkSession, tmp_path: Path, show: Callable[[str], None]
) -> None:
    source = SkewedInput(tmp_path / "input", seed=SEED, rows=ROWS)
    source.write(*range(FILES))
    root, log = tmp_path / "queries", tmp_path / "events"
    with standalone(tmp_path, HOSTS, cores=3) as master:
        command = [sys.executable, "-m", "tests.support.speculated", master, str(SEED)]
        command += [str(source.directory), str(root), str(log), *NAMES]
        ended = subprocess.run(
            command,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-4000:]
    ran = copies(log)
    show(f"seed {SEED}, copies of tasks: {dict(ran)}")
    held = 0
    for name in NAMES:
        query = Ended.of(name, spark, source, root / name)
        held += query.held
        show(f"{name}: {query}")
        assert query.compared.expected > 0
        assert query.compared.is_same
        assert query.changed == []
    assert held > 0
    # The machine decides which attempt is the first; most times some copies win.
    assert ran.total() > 0
