"""Drivers that are killed while one of them takes over from the other.

Topology: a count by key in a bucket, written by `EpochFiles`. Each round starts a driver that waits
for the running one, and kills one of the two by SIGKILL when a request of the handover reaches the
bucket. The request is forwarded afterwards, or dropped. Verified: the other driver, or a plain
start, continues; the rows are the batch answer, without a lost, duplicated or older row; every
epoch has a cut; and all kills have happened.
"""

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.counting_proxy import CountingProxy, counting_proxy
from tests.support.handover_driver import END
from tests.support.handovers import Release
from tests.support.s3_servers import s3proxy, settings_at
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.chaos, long]

_KEYS = "spark.sql.streaming.stateStore.cleancut."
OLD, NEW = "old", "new"
OWNER = "owner object"
# The requests of a handover to generation {new}, in order.
STEPS = {
    OWNER: r"PUT \S+/owners/{new}\.json",
    "check of the old run": r"GET \S+/owners/{new}\.json",
    "end marker": r"PUT \S+/owners/{old}\.ended",
    "takeover": r"PUT \S+/owners/{new}\.took",
    "list of cuts": r"GET \S+prefix=\S+cuts",
    "first cut": r"PUT \S+/cuts/\d{{20}}\.cut",
}
ATTEMPTS = 3
# After the end marker the old run has nothing left to do.
ROUNDS = [(step, OLD) for step in list(STEPS)[:3]] + [(step, NEW) for step in STEPS]


@dataclass
class Strike:
    """Kills a driver at a step of the next handover, once.

    Attributes:
        step: the name of the step.
        kill: kills the driver; returns whether it was running.
        is_dropped: whether the request is lost.
        has_killed: whether the driver died of this; None before.
    """

    step: str
    kill: Callable[[], bool]
    is_dropped: bool
    has_killed: bool | None = None
    _reached: int = 0
    _generation: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: str) -> None:
        """Receives each request, before it is forwarded."""
        with self._lock:
            if self.has_killed is not None or not self._is_due(request):
                return
            self.has_killed = self.kill()
        if self.is_dropped:
            raise ConnectionResetError("its sender was killed")

    def _is_due(self, request: str) -> bool:
        """Whether this is the step, after all steps before it."""
        if self._reached == 0 and (owner := re.search(r"PUT \S+/owners/(\d+)\.json", request)):
            self._generation = int(owner[1])
        step, pattern = list(STEPS.items())[self._reached]
        names = {"old": f"{self._generation - 1:020}", "new": f"{self._generation:020}"}
        if not re.match(pattern.format(**names), request):
            return False
        self._reached += 1
        return step == self.step


class Rounds:
    """The rounds of one checkpoint, each of which kills a driver.

    Attributes:
        kills: the driver and the step of each kill, and whether the request was dropped.
    """

    def __init__(self, release: Release, proxy: CountingProxy, options: list[str]) -> None:
        self._release, self._proxy, self._options = release, proxy, options
        self._owner = self._start()
        self.kills: list[str] = []

    def play(self, step: str, side: str) -> None:
        """Kills a driver, in a round that is repeated if the driver ends by itself just before."""
        for _ in range(ATTEMPTS):
            if self._has_killed(step, side):
                return

    def _has_killed(self, step: str, side: str) -> bool:
        """Waits until the driver that is not killed has continued or ended."""
        release = self._release
        if not release.is_running(self._owner):
            self._owner = self._start()
        release.wait_for_epochs()
        victim = self._owner if side == OLD else len(release.drivers)
        strike = Strike(
            step, lambda: release.drivers[victim].kill(), is_dropped=len(self.kills) % 2 == 1
        )
        self._proxy.gate = strike
        new = self._start()
        release.wait(lambda: strike.has_killed is not None)
        if strike.has_killed:
            self.kills.append(f"{side} at {step}{', dropped' * strike.is_dropped}")
        if side == OLD:
            self._owner = new
        elif step == OWNER and strike.is_dropped:
            # The old run has not seen the new one.
            release.wait_for_epochs()
            assert release.is_running(self._owner)
        else:
            release.wait(lambda: not release.is_running(self._owner))
            assert release.ends()[self._owner] == END
        return bool(strike.has_killed)

    def end(self) -> None:
        """Ends the query after a plain start."""
        if not self._release.is_running(self._owner):
            self._start()
        self._release.wait_for_epochs()
        self._release.end()

    def _start(self) -> int:
        return self._release.start("plain", *self._options)


def test_handovers_survive_kills_of_either_driver_at_each_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    show: Callable[[str], None],
) -> None:
    (tmp_path / "server").mkdir()
    with (
        s3proxy(tmp_path / "server") as server,
        counting_proxy(server.endpoint) as proxy,
        ExitStack() as stack,
    ):
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        settings = settings_at(proxy.endpoint)
        settings[f"{_KEYS}handoverTimeout"] = "60s"
        options = [f"{key}={value}" for key, value in settings.items()]
        location = f"s3://{server.BUCKET}/killed"
        release = Release(tmp_path, stack, location, endpoint=server.endpoint)
        rounds = Rounds(release, proxy, options)
        for step, side in ROUNDS:
            rounds.play(step, side)
        rounds.end()
        generations = release.generations()
    show(
        f"{len(rounds.kills)} kills: {'; '.join(rounds.kills)}. {len(release.drivers)} drivers, "
        f"{len(release.published())} epochs, last generation {generations[-1]}"
    )
    assert len(rounds.kills) == len(ROUNDS)
