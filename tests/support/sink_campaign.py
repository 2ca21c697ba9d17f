"""Kills drivers and servers of sinks next to polling readers, and compares what these saw.

A driver runs a query for each of some sinks, which writes totals of its keys. A fault happens
at a step of one sink, while the others are at any step: SIGKILL of the driver; or a pause of all
its processes, during which another driver publishes epochs; or SIGKILL and restart of the targets'
servers. Each counted fault has happened: the exit code is that of SIGKILL, the paused processes are
in state T until they continue, the servers have ended, and the run of the sink had begun.
"""

import contextlib
import json
import logging
import math
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from demo.polling import Poller
from demo.processes import ProcessTree
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support.events import write_events
from tests.support.faults import ENTERED, KILLED, PAUSED, SERVER_KILLED, STEPS, Fault
from tests.support.faulty_driver import END
from tests.support.file_offsets import files_by_epoch
from tests.support.kills import environment
from tests.support.patience import wait_until
from tests.support.sink_targets import LOCAL, SERVERS, Row, Target

FENCED = "CLEANCUT_FENCED"
# The message of a file source about another driver, before a commit.
FENCED_BY_SPARK = "Concurrent update to the log"
RETRYABLE = "RetryableError"
_LOG = logging.getLogger("tests.chaos")
_EVENTS = 30
# The maximum number of files that wait for an epoch.
_AHEAD = 2
_DELAY_S = 0.06
_AWAY_S = 2.0
# A paused driver may hold locks in the target, for which its successor waits.
_OVERTAKEN_WITHIN_S = 90.0
_RESTLESS_S = 300.0
# A driver that continues without a fence is killed after this time.
_UNFENCED_S = 20.0
_POLL_S = 0.01


FAULT_SPACE = InputSpace(
    "faults of sinks",
    [
        Dimension("sink", [*LOCAL, *SERVERS]),
        Dimension("fault", [KILLED, PAUSED, SERVER_KILLED]),
        Dimension("step", [ENTERED, *STEPS]),
        Dimension("earlier times of the step", [0, 1]),
        Dimension("delay", ["none", "random"]),
        Dimension("fault before", ["none", KILLED, PAUSED, SERVER_KILLED]),
    ],
    [
        Impossible(("sink", LOCAL), ("fault", [SERVER_KILLED]), "the target has no server"),
        Impossible(("sink", LOCAL), ("fault before", [SERVER_KILLED]), "the target has no server"),
        Impossible(
            ("step", [ENTERED]),
            ("fault before", [PAUSED, SERVER_KILLED]),
            "only the start of a driver begins a run",
        ),
        Impossible(("step", [ENTERED]), ("earlier times of the step", ["1"]), "a run begins once"),
    ],
)


def covered_by(faults: Sequence[Fault]) -> list[dict[str, list[Any]]]:
    """Returns the values of the dimensions of `FAULT_SPACE` for each fault of a campaign."""
    before = ["none", *(fault.kind for fault in faults)]
    return [
        {
            "sink": [fault.sink],
            "fault": [fault.kind],
            "step": [fault.step],
            "earlier times of the step": [fault.skips],
            "delay": ["random" if fault.delay_s else "none"],
            "fault before": [kind],
        }
        for fault, kind in zip(faults, before, strict=False)
    ]


def plan(seed: int, count: int, sinks: Iterable[str], *, has_servers: bool) -> list[Fault]:
    """Plans the faults of a campaign: about equally many of each kind, at each sink in turn."""
    draw = random.Random(seed)
    kinds = (KILLED, PAUSED, *[SERVER_KILLED] * has_servers)
    drawn = [kinds[number % len(kinds)] for number in range(count)]
    draw.shuffle(drawn)
    names = sorted(sinks)
    draw.shuffle(names)
    faults: list[Fault] = []
    for number, kind in enumerate(drawn):
        # Only the start of a driver begins a run.
        is_start = number == 0 or drawn[number - 1] == KILLED
        step = draw.choice([*[ENTERED] * 3, *STEPS] if is_start else STEPS)
        skips = 0 if step == ENTERED else draw.randrange(2)
        delay_s = draw.choice([0.0, draw.random() * _DELAY_S])
        faults.append(Fault(number, kind, names[number % len(names)], step, skips, delay_s))
    return faults


class Driver:
    """A process that runs the query once it is released."""

    def __init__(self, command: list[str], home: Path, variables: dict[str, str]) -> None:
        home.mkdir(parents=True)
        self.home = home
        self._log = home / "log"
        command = [sys.executable, "-m", "tests.support.faulty_driver", *command, str(home)]
        self.tree = ProcessTree(command, env=environment() | variables, log=self._log)

    def go(self) -> None:
        """Lets the query start."""
        (self.home / "go").touch()

    def is_ready(self) -> bool:
        """Whether it waits for its release."""
        return (self.home / "ready").exists()

    def exit_code(self) -> int | None:
        """Returns the exit code of the process; None while it runs."""
        return self.tree.exit_code()

    def has_begun(self, sink: str) -> bool:
        """Whether the run of a sink had begun."""
        return (self.home / f"begun-{sink}").exists()

    def ends(self) -> dict[str, list[str]]:
        """Returns the errors after which each query was restarted, and the one that ended it."""
        ends: dict[str, list[str]] = json.loads((self.home / "ends.json").read_text())
        return ends

    def log(self) -> str:
        """Returns the end of the log."""
        return self._log.read_text(errors="replace")[-6000:]

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to all processes."""
        for pid in self.tree.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def is_paused(self) -> bool:
        """Whether all processes are stopped by a signal."""
        states = [_state(pid) for pid in self.tree.members()]
        return bool(states) and set(states) <= {"T", ""}


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


class Watcher(Poller):
    """Polls a target, and writes the next input when it has the rows of the last one.

    Attributes:
        answers: the rows of the target at each poll, without repetitions.
        shown: the number of files with rows in the target.
        written: the number of written files.
        away: the number of polls that failed while the server was down.
    """

    def __init__(self, target: Target, events: Path, seed: int) -> None:
        super().__init__(self._take)
        self.answers: list[list[Row]] = [[]]
        self.shown = 0
        self.away = 0
        self._target, self._events, self._seed = target, events, seed
        self.written = 0
        self._restless_until = 0.0
        self._is_fed = True

    def expect_failures(self) -> None:
        """Accepts failed polls for a while, because the server is killed."""
        self._restless_until = time.monotonic() + _RESTLESS_S

    def check(self) -> None:
        """Raises the error that has ended the polls."""
        if self._failure is not None:
            raise self._failure

    def end_input(self) -> None:
        """Ends the input."""
        self._is_fed = False

    def _take(self) -> None:
        try:
            rows = self._target.rows()
        except Exception:
            if time.monotonic() > self._restless_until:
                raise
            self.away += 1
            return
        if rows != self.answers[-1]:
            self.answers.append(rows)
        last: dict[int, int] = {}
        for k, n, _ in rows:
            last[k] = max(last.get(k, 0), n)
        self.shown = sum(last.values()) // _EVENTS
        while self._is_fed and self.written < self.shown + _AHEAD:
            self._write(self.written)
            self.written += 1

    def _write(self, number: int) -> None:
        # Spark may list the directory at any moment.
        staged = self._events.with_name("staged")
        write_events(staged, seed=self._seed, files=range(number, number + 1), rows=_EVENTS)
        name = f"{number:05d}.json"
        (staged / name).rename(self._events / name)


@dataclass
class FaultCounts:
    """The faults of one sink.

    Attributes:
        kinds: faults by kind, each during a begun run of the sink.
        overtaken: paused drivers whose successor published epochs.
        fenced: paused drivers that were fenced when they continued.
        retried: errors after which the query was restarted.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    overtaken: int = 0
    fenced: int = 0
    retried: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{kinds}; {self.overtaken} overtaken, {self.fenced} fenced;"
            f" {self.retried} started again"
        )


class Campaign:
    """Consecutive drivers with planned faults, each with a query for each sink.

    `are_fenced` states whether a paused driver must be fenced when it continues.

    Attributes:
        fault_counts: the faults, by the name of the sink.
        watchers: the readers, by the name of the sink.
        drivers: the number of started drivers.
        executed: the faults that have happened; all of them, unless the limit was reached.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        home: Path,
        seed: int,
        faults: Sequence[Fault],
        *,
        limit_s: float = math.inf,
        are_fenced: bool = True,
    ) -> None:
        self.executed: list[Fault] = []
        self._limit_s = limit_s
        self._are_fenced = are_fenced
        self.fault_counts = {name: FaultCounts() for name in targets}
        self.drivers = 0
        self._targets, self._home, self._seed, self._faults = targets, home, seed, faults
        self._roots = {name: home / f"query-{at}" for at, name in enumerate(targets)}
        self.watchers = {
            name: Watcher(target, self._roots[name] / "events", seed)
            for name, target in targets.items()
        }

    def checkpoint(self, name: str) -> Path:
        """Returns the checkpoint of the query of a sink."""
        return self._roots[name] / "checkpoint"

    def run(self) -> None:
        """Executes all faults, and then runs the queries to the end of their input."""
        for root in self._roots.values():
            (root / "events").mkdir(parents=True)
        specification = {
            name: (target.place, str(self._roots[name])) for name, target in self._named()
        }
        (self._home / "queries.json").write_text(json.dumps(specification))
        with ExitStack() as self._stack:
            for watcher in self.watchers.values():
                self._stack.enter_context(watcher)
            self._spare = self._made()
            self._active = self._started()
            until = time.monotonic() + self._limit_s
            for fault in self._faults:
                if time.monotonic() > until:
                    break
                self._execute(fault)
                self.executed.append(fault)
            self._finish()

    def _named(self) -> Iterable[tuple[str, Target]]:
        return self._targets.items()

    def _finish(self) -> None:
        if self._active.exit_code() is not None:
            self._active = self._started()
        for watcher in self.watchers.values():
            watcher.end_input()
        written = {name: watcher.written for name, watcher in self.watchers.items()}
        staged = self._home / ".done"
        staged.write_text(json.dumps(written))
        staged.rename(self._home / "done")
        self._await_end(self._active)
        assert self._note_ends(self._active) == [END] * len(self._targets), self._active.log()
        for watcher in self.watchers.values():
            watcher.look()

    def _await_end(self, driver: Driver) -> None:
        wait_until(lambda: driver.exit_code() is not None, otherwise=driver.log)
        assert driver.exit_code() == 0, driver.log()

    def _note_ends(self, driver: Driver) -> list[str]:
        """Records the errors that ended the queries of a driver."""
        ends = driver.ends()
        for name, (*retried, end) in ends.items():
            self.fault_counts[name].retried += len(retried)
            self.fault_counts[name].fenced += _is_fenced(end)
        return [lines[-1] for lines in ends.values()]

    def _made(self) -> Driver:
        home = self._home / "drivers" / str(self.drivers)
        variables = {
            key: environment[key]
            for _, t in self._named()
            if (environment := t.environment)
            for key in environment
        }
        made = Driver([str(self._home / "queries.json")], home, variables)
        self._stack.enter_context(made.tree)
        self.drivers += 1
        return made

    def _started(self, fault: Fault | None = None) -> Driver:
        """Starts the prepared driver with its fault, and prepares its successor."""
        started = self._spare
        wait_until(started.is_ready, otherwise=started.log)
        self._spare = self._made()
        if fault is not None:
            fault.write(started.home)
        started.go()
        return started

    def _execute(self, fault: Fault) -> None:
        if self._active.exit_code() is None:
            fault.write(self._active.home)
        else:
            self._active = self._started(fault)
        driver, mark = self._active, fault.mark(self._active.home)
        self._wait(lambda: mark.exists() or driver.exit_code() is not None, driver)
        assert mark.exists(), driver.log()
        match fault.kind:
            case "driver killed":
                self._bury(driver)
            case "driver paused":
                self._overtake(driver)
            case _:
                self._restart_servers(fault, driver)
        for name, target in self._named():
            is_met = driver.has_begun(name) or name == fault.sink
            if is_met and (fault.kind != SERVER_KILLED or target.server is not None):
                self.fault_counts[name].kinds[fault.kind] += 1
        _LOG.info("%s of %s at %s: %s", fault.kind, fault.sink, mark.read_text(), self._shown())

    def _wait(self, condition: Callable[[], bool], driver: Driver) -> None:
        def holds() -> bool:
            for watcher in self.watchers.values():
                watcher.check()
            return condition()

        wait_until(holds, otherwise=driver.log)

    def _bury(self, driver: Driver) -> None:
        wait_until(lambda: driver.exit_code() is not None, otherwise=driver.log)
        assert driver.exit_code() == -signal.SIGKILL, driver.log()
        driver.tree.kill()

    def _overtake(self, paused: Driver) -> None:
        wait_until(lambda: "T" in map(_state, paused.tree.members()), otherwise=paused.log)
        # Python workers are not in the process group of the driver.
        paused.send(signal.SIGSTOP)
        wait_until(paused.is_paused, otherwise=paused.log)
        before = self._shown()
        self._active = self._started()
        within_s = _OVERTAKEN_WITHIN_S if self._are_fenced else _UNFENCED_S
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and len(self._grown(before)) < len(before):
            time.sleep(_POLL_S)
        assert paused.is_paused(), "it was to be paused all the time"
        for name in self._grown(before):
            self.fault_counts[name].overtaken += 1
        (paused.home / "followed").touch()
        paused.send(signal.SIGCONT)
        if not self._are_fenced and not self._has_ended(paused):
            paused.tree.kill()
            return
        self._await_end(paused)
        ends = self._note_ends(paused)
        # Its server may have been down for longer than its retries.
        wrong = [end for end in ends if not _is_fenced(end) and not end.startswith(RETRYABLE)]
        assert not self._are_fenced or not wrong, wrong

    def _has_ended(self, paused: Driver) -> bool:
        """Waits for the end of a driver that continues after a newer one."""
        deadline = time.monotonic() + _UNFENCED_S
        while time.monotonic() < deadline and paused.exit_code() is None:
            time.sleep(_POLL_S)
        return paused.exit_code() is not None

    def _shown(self) -> dict[str, int]:
        return {name: watcher.shown for name, watcher in self.watchers.items()}

    def _grown(self, before: Mapping[str, int]) -> list[str]:
        """Returns the sinks of which readers have seen a new epoch."""
        return [name for name, shown in self._shown().items() if shown > before[name]]

    def _restart_servers(self, fault: Fault, driver: Driver) -> None:
        servers = {
            name: target.server for name, target in self._named() if target.server is not None
        }
        before = self._shown()
        for name in servers:
            self.watchers[name].expect_failures()
        for server in servers.values():
            server.kill()
        fault.answer(driver.home).touch()
        time.sleep(random.Random(self._seed + fault.number).random() * _AWAY_S)
        for server in servers.values():
            server.start()
        for name in servers:
            self.watchers[name].expect_failures()

        def is_over() -> bool:
            assert driver.exit_code() is None, driver.log()
            return len(self._grown(before)) == len(before)

        self._wait(is_over, driver)


def _is_fenced(end: str) -> bool:
    return FENCED in end or FENCED_BY_SPARK in end


@dataclass(frozen=True)
class Verdict:
    """The answers of a reader, compared with the batch answers of the epochs.

    Attributes:
        rows: the number of expected rows at the end.
        lost: the number of missing rows at the end.
        duplicated: the number of surplus copies of rows at the end.
        foreign: rows that no epoch has emitted, or that a later epoch has replaced.
        out_of_order: rows that follow a later one of their key, in a target with an order.
        torn: answers with incomplete epochs.
        reverted: answers with fewer epochs than the previous answer.
    """

    rows: int
    lost: int
    duplicated: int
    foreign: int
    out_of_order: int
    torn: int
    reverted: int

    @property
    def is_right(self) -> bool:
        """Whether the reader always saw complete epochs, and all of them at the end."""
        wrong = (self.lost, self.duplicated, self.foreign)
        return self.rows > 0 and not any((*wrong, self.out_of_order, self.torn, self.reverted))

    def __str__(self) -> str:
        return (
            f"of {self.rows} rows {self.lost} lost, {self.duplicated} duplicated,"
            f" {self.foreign} foreign, {self.out_of_order} out of order;"
            f" {self.torn} answers torn, {self.reverted} reverted"
        )

    @classmethod
    def of(cls, answers: list[list[Row]], expected: list[Counter[Row]], target: Target) -> Self:
        """Compares the answers of a target with those of the batches of each prefix of epochs."""
        epochs = {_size(rows, target.is_keyed): number for number, rows in enumerate(expected)}
        seen, torn, reverted = 0, 0, 0
        for answer in answers:
            rows = Counter(answer)
            number = epochs.get(_size(rows, target.is_keyed))
            if number is None or rows != expected[number]:
                torn += 1
            else:
                reverted += number < seen
                seen = max(seen, number)
        got, wanted = Counter(answers[-1]), expected[-1]
        return cls(
            rows=wanted.total(),
            lost=(wanted - got).total(),
            duplicated=sum(count - 1 for count in got.values()),
            foreign=len(set(got) - set(wanted)),
            out_of_order=_out_of_order(answers[-1]) if target.keeps_order else 0,
            torn=torn,
            reverted=reverted,
        )


def _size(rows: Counter[Row], is_keyed: bool) -> int:
    """Returns a number that grows with each epoch."""
    return sum(n for _, n, _ in rows.elements()) if is_keyed else rows.total()


def _out_of_order(rows: list[Row]) -> int:
    last: dict[int, int] = {}
    later = 0
    for k, n, _ in rows:
        later += n <= last.get(k, 0)
        last[k] = n
    return later


def expected_answers(checkpoint: Path, target: Target) -> list[Counter[Row]]:
    """Returns the answer of a batch for each prefix of the epochs, including the empty one."""
    totals: dict[int, tuple[int, int]] = {}
    rows: Counter[Row] = Counter()
    answers = [Counter[Row]()]
    for [files] in files_by_epoch(checkpoint):
        met = set()
        for k, v in _events(files):
            n, total = totals.get(k, (0, 0))
            totals[k] = (n + 1, total + v)
            met.add(k)
        rows = rows + Counter((k, *totals[k]) for k in met)
        every = Counter((k, *total) for k, total in totals.items())
        answers.append(every if target.is_keyed else rows)
    return answers


def _events(files: list[Path]) -> Iterator[tuple[int, int]]:
    for event in (json.loads(line) for file in files for line in file.read_text().splitlines()):
        yield event["k"], event["v"]
