"""`python -m tests.soak --minutes 120`: runs a query on S3, and prints slopes of what it uses.

Returns 1 if a quantity grows: if the low limit of its slope makes more than a share of its mean
over the measured time. The samples of the first fifth are not used, because caches fill then, and
a run of few epochs is not judged.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from demo.processes import ProcessTree
from tests.soak.slopes import Slope, slope
from tests.support.counting_proxy import CountingProxy, counting_proxy
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.revision import short_commit
from tests.support.s3_servers import VERSITYGW, s3proxy, versitygw

_WARM_UP = 0.2
_RESTARTS_AN_HOUR = 12
_SCRAPE_S = 5.0
# The accepted growth over the measured time, as a share of the mean.
_ACCEPTED = 0.05
# With fewer epochs caches, pools and the retained cuts still fill, and growth means nothing.
_LEAST_EPOCHS = 600
_QUANTITIES = {
    "heap_mb": "heap after a garbage collection, MB",
    "jvm_rss_mb": "resident memory of the JVM, MB",
    "python_rss_mb": "resident memory of Python, MB",
    "jvm_threads": "threads of the JVM",
    "python_threads": "threads of Python, without one for each start",
    "jvm_files": "open files of the JVM, without one for each start",
    "python_files": "open files of Python, without one for each start",
    "objects": "objects of the checkpoint, without those of owners",
    "object_mb": "size of the checkpoint, MB",
    "requests_an_hour": "requests an hour",
}


# PySpark keeps the connection of each query that has called a Python function, and its thread.
_ONE_PER_START = {"python_threads", "python_files", "jvm_files"}
# Each start leaves an owner object and an end marker, which are never deleted.
_KEPT = "owners"


class Observer:
    """Samples the bucket and its requests, and reads metrics, next to a driver."""

    def __init__(self, home: Path, data: Path, proxy: CountingProxy) -> None:
        self.scrapes = 0
        self._home, self._data, self._proxy = home, data, proxy
        self._samples: list[dict[str, float]] = []
        self._last = (time.time(), 0)

    def await_metrics(self, driver: ProcessTree) -> None:
        """Waits for the start of the driver.

        Raises:
            RuntimeError: the driver has ended, or has not started.
        """
        until = time.monotonic() + PATIENCE_S
        while not (self._home / "metrics").exists():
            _require_running(driver)
            if time.monotonic() > until:
                raise RuntimeError("the driver has not started")
            time.sleep(1)
        self._last = (time.time(), len(self._proxy.requests))

    def watch(self, driver: ProcessTree, seconds: float) -> None:
        """Observes for a time.

        Raises:
            RuntimeError: the driver has ended.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(_SCRAPE_S)
            _require_running(driver)
            self._scrape()
            self._sample()

    def samples(self) -> list[dict[str, float]]:
        """Returns the samples of the bucket."""
        return self._samples

    def _scrape(self) -> None:
        url = f"http://127.0.0.1:{(self._home / 'metrics').read_text()}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            if b"cleancut" in response.read():
                self.scrapes += 1

    def _sample(self) -> None:
        sizes = list(_sizes(self._data))
        now, requests = time.time(), len(self._proxy.requests)
        before, earlier = self._last
        self._last = (now, requests)
        self._samples.append(
            {
                "at_s": now,
                "objects": len(sizes),
                "object_mb": sum(sizes) / (1 << 20),
                "requests_an_hour": 3600 * (requests - earlier) / (now - before),
            }
        )


def _require_running(driver: ProcessTree) -> None:
    if driver.exit_code() is not None:
        raise RuntimeError(f"the driver ended with {driver.exit_code()}")


def _sizes(data: Path) -> Iterator[int]:
    """Yields the sizes of files that may be deleted, except those that are so meanwhile."""
    for home, directories, names in os.walk(data):
        directories[:] = [name for name in directories if name != _KEPT]
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                yield (Path(home) / name).stat().st_size


def run(minutes: float, home: Path) -> tuple[dict[str, Slope], dict[str, float]]:
    """Runs the query; returns slopes by quantity, and totals."""
    with ExitStack() as stack:
        server = stack.enter_context(versitygw(home) if VERSITYGW else s3proxy(home))
        proxy = stack.enter_context(counting_proxy(server.endpoint))
        restart_s = min(3600 / _RESTARTS_AN_HOUR, 60 * minutes / 5)
        command = [sys.executable, "-m", "tests.soak.driver", str(home), proxy.endpoint]
        driver = ProcessTree(
            [*command, str(restart_s)],
            env=environment() | server.environment,
            log=home / "driver.log",
        )
        stack.enter_context(driver)
        observer = Observer(home, home / "data", proxy)
        try:
            observer.await_metrics(driver)
            observer.watch(driver, 60 * minutes)
            (home / "done").touch()
            until = time.monotonic() + PATIENCE_S
            while driver.exit_code() is None and time.monotonic() < until:
                time.sleep(1)
            if driver.exit_code() != 0:
                raise RuntimeError(f"the driver ended with {driver.exit_code()}")
        except RuntimeError as failure:
            log = (home / "driver.log").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{failure}\n{log}") from failure
    samples = [json.loads(line) for line in (home / "samples.jsonl").read_text().splitlines()]
    slopes = _slopes(samples) | _slopes(observer.samples())
    totals = {
        "epochs": samples[-1]["epoch"] + 1,
        "starts": samples[-1]["starts"],
        "reads of metrics": observer.scrapes,
        "requests": len(proxy.requests),
        "rows": int((home / "rows").read_text()),
    }
    return slopes, totals


def _slopes(samples: Sequence[dict[str, float]]) -> dict[str, Slope]:
    measured = samples[round(_WARM_UP * len(samples)) :]
    hours = [(sample["at_s"] - samples[0]["at_s"]) / 3600 for sample in measured]
    return {
        name: slope(hours, [_without_starts(name, sample) for sample in measured])
        for name in _QUANTITIES
        if name in samples[0]
    }


def _without_starts(name: str, sample: dict[str, float]) -> float:
    return sample[name] - (sample["starts"] if name in _ONE_PER_START else 0)


def table(slopes: dict[str, Slope], *, is_judged: bool) -> str:
    """Renders the slopes, and whether quantities grow if the run was long enough."""
    rows = ["| quantity | mean | slope an hour | 95 % confidence interval | grows |"]
    rows.append("|---|---|---|---|---|")
    for name, described in _QUANTITIES.items():
        one = slopes[name]
        grows = ("**yes**" if one.grows(_ACCEPTED) else "no") if is_judged else "too early"
        limits = f"{one.low:+.2f} to {one.high:+.2f}"
        rows.append(f"| {described} | {one.mean:.1f} | {one.per_hour:+.2f} | {limits} | {grows} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the totals and the slopes; returns 1 if a quantity grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    options = parser.parse_args(arguments)
    commit = short_commit()
    with tempfile.TemporaryDirectory(prefix="cleancut-soak-") as home:
        slopes, totals = run(options.minutes, Path(home))
    shown = ", ".join(f"{value} {name}" for name, value in totals.items())
    print(f"{options.minutes:g} minutes, commit {commit}: {shown}")
    is_judged = totals["epochs"] >= _LEAST_EPOCHS
    print(table(slopes, is_judged=is_judged))
    if not is_judged:
        print(f"{totals['epochs']:g} epochs are fewer than {_LEAST_EPOCHS}: growth is not judged.")
    return int(is_judged and any(one.grows(_ACCEPTED) for one in slopes.values()))


if __name__ == "__main__":
    sys.exit(main())
