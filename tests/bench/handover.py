"""`python -m tests.bench.handover`: the pause of a query whose next version takes over.

A count and a sum for each key, in a bucket whose requests are delayed. Drivers take over from each
other in turn: prepared by `cleancut.successor`, as a standby when the other one is killed, started
while the other one runs, and started after the other one has stopped. The pause is the time between
the last epoch that one driver has published and the first one of the next; after a kill, it begins
with the kill. Fails if an epoch is missing, or published twice without a kill or a stop.
"""

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from demo.processes import ProcessTree
from tests.bench.handover_query import PREPARED
from tests.support.counting_proxy import counting_proxy
from tests.support.kills import environment
from tests.support.patience import wait_until
from tests.support.s3_servers import VERSITYGW, S3Server, s3proxy, versitygw

# Epochs that a driver publishes before the next one takes over.
_LEAD = 5
_WAYS = {
    "prepared": "prepared successor",
    "standby": "standby after SIGKILL",
    "running": "start while the query runs",
    "stopped": "stop, then start",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """How much of it is run.

    Attributes:
        keys: of the state.
        rows: of an epoch.
        delay_ms: of a request.
        handovers: of a prepared successor.
        kills: of a driver that has a standby.
        others: of each other way.
        cores: of a driver.
    """

    keys: int
    rows: int
    delay_ms: int
    handovers: int
    kills: int
    others: int
    cores: int


class Drivers:
    """The drivers of the query, each of which takes over from the one before."""

    def __init__(self, options: Options, server: S3Server, endpoint: str, home: Path) -> None:
        self._options, self._server, self._endpoint, self._home = options, server, endpoint, home
        self._logs: list[Path] = []
        # The logs of drivers that did not hand over: their last epoch may be repeated.
        self._broken: set[Path] = set()
        self._drivers: list[ProcessTree] = []

    def start(self, kind: str) -> None:
        log = self._home / f"{len(self._logs)}.log"
        command = [sys.executable, "-m", "tests.bench.handover_query", kind]
        command += [f"s3://{S3Server.BUCKET}/counts", self._endpoint, str(log)]
        command += [str(self._options.keys), str(self._options.rows), str(self._options.cores)]
        env = environment() | self._server.environment
        self._logs.append(log)
        self._drivers.append(ProcessTree(command, env=env, log=log.with_suffix(".out")))

    def fill(self) -> None:
        """Runs epochs until the state has all keys."""
        self.start("fill")
        self._wait(lambda: self._drivers[-1].exit_code() == 0)
        self._broken.add(self._logs[-1])

    def take_over(self, way: str) -> float:
        """Starts the next driver; returns the pause in milliseconds."""
        before = self._logs[-1]
        killed_ns = None
        if way in {"standby", "stopped"}:
            self._broken.add(before)
        if way == "stopped":
            before.with_suffix(".stop").touch()
            self._wait(lambda: self._drivers[-1].exit_code() is not None)
        self.start({"prepared": "successor", "standby": "standby"}.get(way, "plain"))
        if way in {"prepared", "standby"}:
            self._wait(lambda: PREPARED in self._logs[-1].with_suffix(".out").read_text())
            known = len(published(before))
            self._wait(lambda: len(published(before)) > known)
        if way == "prepared":
            self._logs[-1].with_suffix(".go").touch()
        elif way == "standby":
            killed_ns = time.time_ns()
            self._drivers[-2].kill()
        self.settle()
        began_ns = published(before)[-1][1] if killed_ns is None else killed_ns
        return (published(self._logs[-1])[0][1] - began_ns) / 1e6

    def settle(self) -> None:
        """Waits until the last driver has published some epochs."""
        self._wait(lambda: len(published(self._logs[-1])) >= _LEAD)

    def check(self) -> None:
        """Compares the epochs of all drivers: in order, and each published once by handovers."""
        epochs: list[int] = []
        may_repeat = False
        for log in self._logs:
            of_driver = [epoch for epoch, _ in published(log)]
            epochs += of_driver[1:] if may_repeat and of_driver[:1] == epochs[-1:] else of_driver
            may_repeat = log in self._broken
        assert epochs == list(range(len(epochs))), epochs

    def stop(self) -> None:
        self._logs[-1].with_suffix(".stop").touch()
        for driver in self._drivers:
            driver.kill()

    def _wait(self, condition: Callable[[], bool]) -> None:
        def has_ended() -> str:
            return self._logs[-1].with_suffix(".out").read_text()[-4000:]

        def holds() -> bool:
            if condition():
                return True
            assert self._drivers[-1].exit_code() in (None, 0), has_ended()
            return False

        wait_until(holds, otherwise=has_ended)


def published(log: Path) -> list[tuple[int, int]]:
    """Returns each epoch of a driver with the time of its publication, in nanoseconds."""
    if not log.exists():
        return []
    lines = (line.split() for line in log.read_text().splitlines())
    return [(int(epoch), int(at)) for epoch, at in lines]


def table(options: Options, pauses: dict[str, list[float]]) -> str:
    """Formats the pauses as a Markdown table."""
    lines = ["| way | keys | request | cores | times | min | p50 | p99 | max |", "|---" * 9 + "|"]
    for way, ms in pauses.items():
        p99 = sorted(ms)[max(0, -(-99 * len(ms) // 100) - 1)]
        figures = (min(ms), statistics.median(ms), p99, max(ms))
        cells = " | ".join(f"{figure:,.0f} ms" for figure in figures)
        lines.append(
            f"| {_WAYS[way]} | {options.keys:,} | {options.delay_ms} ms | {options.cores} "
            f"| {len(ms)} | {cells} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table."""
    options = _parse(arguments)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cleancut-bench-")))
        (home / "s3").mkdir()
        start = s3proxy if VERSITYGW is None else versitygw
        server = stack.enter_context(start(home / "s3"))
        proxy = stack.enter_context(counting_proxy(server.endpoint))
        proxy.delay_s = options.delay_ms / 1000
        drivers = Drivers(options, server, proxy.endpoint, home)
        stack.callback(drivers.stop)
        print(table(options, _run(drivers, options)))
    return 0


def _run(drivers: Drivers, options: Options) -> dict[str, list[float]]:
    drivers.fill()
    drivers.start("plain")
    drivers.settle()
    ways = ["prepared"] * options.handovers + ["standby"] * options.kills
    ways += ["running", "stopped"] * options.others
    pauses: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways:
        pauses[way].append(drivers.take_over(way))
        print(f"{_WAYS[way]}: {pauses[way][-1]:,.0f} ms", file=sys.stderr, flush=True)
    drivers.check()
    return pauses


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.handover")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the state")
    parser.add_argument("--rows", type=int, default=5_000, help="of an epoch")
    parser.add_argument("--delay-ms", type=int, default=50, help="of a request")
    parser.add_argument("--handovers", type=int, default=20, help="of a prepared successor")
    parser.add_argument("--kills", type=int, default=20, help="of a driver that has a standby")
    parser.add_argument("--cores", type=int, default=1, help="of a driver")
    parser.add_argument("--others", type=int, default=3, help="of each other way")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
