"""Drivers that get SIGTERM, without a call of `stop()`, while a cut is being written.

Topology: a query with pipelined cuts in a bucket. A proxy holds the request for a cut, the driver
gets SIGTERM, and the request is forwarded after some seconds, unless the JVM has ended meanwhile.
Verified: the cut exists, and a restart does not repeat its epoch.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cleancut import Checkpoint
from cleancut.testing import SkewedInput
from demo.processes import ProcessTree
from tests.support.counting_proxy import counting_proxy
from tests.support.in_flight_queries import (
    CHECKPOINTS,
    PIPELINED,
    ROWS,
    SETTINGS,
    OrderedEpochs,
    checkpoint_of,
)
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.s3_servers import s3proxy, settings_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

_KEYS = "spark.sql.streaming.stateStore.cleancut."
QUERY = "totals"
FILES = 6
# The first cut of a run is not pipelined.
HELD = 3
# A JVM without a cut to write ends earlier.
HOLD_S = 4.0


class HeldCut:
    """Holds the request for a cut until it is released, and drops it if its sender has ended."""

    def __init__(self) -> None:
        self.is_asked, self.is_released = threading.Event(), threading.Event()
        self.is_dropped = False

    def __call__(self, request: str) -> None:
        if request.endswith(f"/cuts/{HELD:020d}.cut"):
            self.is_asked.set()
            assert self.is_released.wait(PATIENCE_S)
            if self.is_dropped:
                raise ConnectionResetError("its sender has ended")


def process_of(driver: ProcessTree, command: str) -> int | None:
    """Returns the ID of a process of the driver, by its command, while it runs."""
    for pid in sorted(driver.members()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().startswith(command):
                return pid
    return None


@pytest.mark.parametrize("receiver", ["java", pytest.param("python", marks=long)])
def test_a_driver_with_sigterm_writes_the_cut_of_its_published_epoch(
    receiver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show: Callable[[str], None]
) -> None:
    source, root = SkewedInput(tmp_path / "input", seed=1, rows=ROWS), tmp_path / "queries"
    source.write(*range(FILES))
    command = ["-m", "tests.support.in_flight_queries", "local[2]", "1"]
    command += [str(source.directory), str(root), QUERY]
    held = HeldCut()
    (tmp_path / "server").mkdir()
    with s3proxy(tmp_path / "server") as server, counting_proxy(server.endpoint) as proxy:
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        settings = {PIPELINED: "true", f"{_KEYS}mode": "aligned"}
        settings |= settings_at(proxy.endpoint)
        monkeypatch.setenv(SETTINGS, json.dumps(settings))
        monkeypatch.setenv(CHECKPOINTS, f"s3://{server.BUCKET}/terminated")
        proxy.gate = held

        def run(life: int) -> ProcessTree:
            log = tmp_path / f"life-{life}.log"
            return ProcessTree([sys.executable, *command], env=environment(), log=log)

        def epochs() -> list[int]:
            at = Checkpoint(checkpoint_of(root / QUERY), endpoint=server.endpoint)
            return [cut.epoch for cut in at.cuts()]

        with run(0) as driver:
            assert held.is_asked.wait(PATIENCE_S), (tmp_path / "life-0.log").read_text()
            assert HELD not in epochs()
            begin, receiver_id = time.monotonic(), process_of(driver, receiver)
            assert receiver_id is not None
            os.kill(receiver_id, signal.SIGTERM)
            while process_of(driver, "java") and time.monotonic() - begin < HOLD_S:
                time.sleep(0.05)
            held.is_dropped = process_of(driver, "java") is None
            held.is_released.set()
            wait_until(lambda: process_of(driver, "java") is None)
            show(f"the JVM ended after {time.monotonic() - begin:.1f} s")
        assert epochs()[-1] == HELD
        with run(1) as driver:
            wait_until(lambda: driver.exit_code() is not None)
            assert driver.exit_code() == 0, (tmp_path / "life-1.log").read_text()
        assert len(epochs()) == FILES
    assert HELD not in OrderedEpochs(root / QUERY / "results").repeated()
