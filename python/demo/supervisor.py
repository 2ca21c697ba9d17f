"""Starts the driver, kills it as planned, and starts it again until the input is processed."""

import random
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.checkpoint import Phase, Position, position
from demo.environment import driver_environment
from demo.in_flight import has_rows_in_flight, in_flight_rows
from demo.job import QUERIES, Job
from demo.kills import Kill, plan_executor_kills
from demo.processes import ProcessTree
from demo.results import results_of
from demo.trigger import Trigger, View
from demo.written import WrittenBytes

_POLL_S = 0.05
# A poll of a bucket takes six requests.
_BUCKET_POLL_S = 0.25
_CLOSE_POLL_S = 0.002
_PROGRESS_EVERY_S = 5.0
_STALLED_AFTER_S = 180.0
_TAIL_LINES = 40


class DriverError(Exception):
    """The driver ended by itself with an error, or made no progress."""


@dataclass(frozen=True)
class Strike:
    """A kill that happened.

    Attributes:
        life: the run that it ended, from 1. kill: its plan. positions: the position of each query
        after the kill, by its checkpoint and its sink. running: whether the queries of this run had
        started. in_flight: in-flight rows of the last cut of each query, which the next run
        replays; empty in
            mode "aligned".
    """

    life: int
    kill: Kill
    positions: dict[str, Position]
    running: bool
    in_flight: dict[str, int]

    def hit(self, final: dict[str, Position]) -> bool:
        """Whether it hit a running query."""
        return self.running and any(
            final[query].committed > at.committed for query, at in self.positions.items()
        )


@dataclass(frozen=True)
class Run:
    """The events until the input was processed.

    Attributes:
        strikes: the kills, in order.
        lives: the number of started drivers.
        executors_killed: the number of kills of single executors.
        positions: the position of each query at the end.
        written_bytes: the bytes of each query in files of its state stores, in all runs.
        elapsed_s: the time from the first start to the end.
    """

    strikes: list[Strike]
    lives: int
    executors_killed: int
    positions: dict[str, Position]
    written_bytes: dict[str, int]
    elapsed_s: float

    @property
    def hits(self) -> int:
        """The number of kills that hit a running query."""
        return sum(strike.hit(self.positions) for strike in self.strikes)

    @property
    def replayed_rows(self) -> list[int]:
        """In-flight rows that each restart replayed, if any."""
        in_flight = (sum(strike.in_flight.values()) for strike in self.strikes)
        return [rows for rows in in_flight if rows]


class Supervisor:
    """Runs one job with kills and restarts."""

    def __init__(self, job: Job, plan: list[Kill], say: Callable[[str], None]) -> None:
        """Prepares a run.

        Args:
            job: its input must have been written.
            plan: the kills in order; each run except the last ends with one of them.
            say: prints a line for the user.
        """
        self._job = job
        self._results = {query: results_of(job, query) for query in QUERIES}
        self._plan = plan
        self._say = say
        self._written = WrittenBytes(job)
        self._draw = random.Random(f"which executor {job.seed}")
        self._executor_plan = plan_executor_kills(
            job.executor_kills, job.epochs * len(QUERIES), job.seed
        )
        self._strikes: list[Strike] = []
        self._started_s = time.monotonic()
        self._life_began_s = 0.0

    def run(self) -> Run:
        """Runs to the end of the input.

        Raises:
            DriverError: a driver failed, or made no progress for three minutes.
            SurvivorError: a killed process did not go away.
        """
        self._started_s = time.monotonic()
        life = 0
        ended = False
        while not ended:
            life += 1
            ended = self._live(life)
        shutil.rmtree(self._job.scratch, ignore_errors=True)
        return Run(
            strikes=self._strikes,
            lives=life,
            executors_killed=self._job.executor_kills - len(self._executor_plan),
            positions=self._positions(),
            written_bytes={query: self._written.total(query) for query in QUERIES},
            elapsed_s=time.monotonic() - self._started_s,
        )

    def _live(self, life: int) -> bool:
        """Runs one driver to its end; returns whether it processed all input."""
        # A killed Spark leaves its local files.
        shutil.rmtree(self._job.scratch, ignore_errors=True)
        kill = self._plan[life - 1] if life <= len(self._plan) else None
        epochs = _epochs(self._positions())
        self._life_began_s = time.time()
        command = [sys.executable, "-m", "demo.driver", str(self._job.file), str(life)]
        with ProcessTree(
            command, env=driver_environment(self._job), log=self._job.log(life)
        ) as driver:
            trigger = Trigger(kill, epochs) if kill else None
            if self._watch(driver, life, trigger) and kill and driver.kill():
                self._note(life, kill)
                return False
        self._written.look()
        if driver.exit_code() != 0:
            raise DriverError(
                f"The driver of life {life} ended with exit code {driver.exit_code()}. "
                + self._log_tail(life)
            )
        return True

    def _watch(self, driver: ProcessTree, life: int, trigger: Trigger | None) -> bool:
        """Polls until the driver ends; returns whether it is to be killed first."""
        progressed_s = shown_s = time.monotonic()
        epochs = began_with = _epochs(self._positions())
        while driver.exit_code() is None:
            positions = self._positions()
            now_s = time.monotonic()
            if _epochs(positions) != epochs:
                epochs, progressed_s = _epochs(positions), now_s
            if epochs > began_with:
                self._strike_executor(driver, epochs)
            if trigger and trigger.is_due(self._view(life, positions)):
                return True
            if now_s - progressed_s > _STALLED_AFTER_S:
                raise DriverError(
                    f"The driver of life {life} has committed nothing for {_STALLED_AFTER_S:.0f} "
                    f"seconds. {self._log_tail(life)}"
                )
            if now_s - shown_s > _PROGRESS_EVERY_S:
                shown_s = now_s
                self._written.look()
                self._show(life, positions)
            usual_s = _POLL_S if self._job.checkpoints is None else _BUCKET_POLL_S
            time.sleep(_CLOSE_POLL_S if trigger and trigger.is_close else usual_s)
        return False

    def _strike_executor(self, driver: ProcessTree, epochs: int) -> None:
        """Kills an executor if planned. The driver continues, and retries its tasks."""
        plan = self._executor_plan
        if plan and epochs >= plan[0] and driver.kill_executor(self._draw):
            plan.pop(0)
            done = self._job.executor_kills - len(plan)
            self._say(f"{self._clock()}  SIGKILL of executor {done}/{self._job.executor_kills}")

    def _positions(self) -> dict[str, Position]:
        since_s = self._life_began_s
        return {
            query: position(self._job, query, since_s, at) for query, at in self._results.items()
        }

    def _view(self, life: int, positions: dict[str, Position]) -> View:
        return View(
            now_s=time.monotonic(),
            started=self._job.started(life).exists(),
            epochs=_epochs(positions),
            committing=any(at.phase is Phase.COMMITTING for at in positions.values()),
            in_flight=not self._job.has_rows_in_flight or self._has_rows_in_flight(),
        )

    def _has_rows_in_flight(self) -> bool:
        places = (self._job.checkpoint(query).name for query in QUERIES)
        return any(has_rows_in_flight(place, self._job.endpoint) for place in places)

    def _rows_in_flight(self) -> dict[str, int]:
        endpoint = self._job.endpoint
        return {
            query: in_flight_rows(self._job.checkpoint(query).name, endpoint) for query in QUERIES
        }

    def _note(self, life: int, kill: Kill) -> None:
        self._written.look()
        running = self._job.started(life).exists()
        in_flight = self._rows_in_flight() if self._job.has_rows_in_flight else {}
        strike = Strike(life, kill, self._positions(), running, in_flight)
        self._strikes.append(strike)
        moments = "; ".join(
            f"{query} epoch {max(at.planned, 0)}: {at.phase.value}"
            for query, at in strike.positions.items()
        )
        self._say(f"{self._clock()}  SIGKILL {len(self._strikes)}/{len(self._plan)}  {moments}")
        if in_flight:
            rows = ", ".join(f"{query} {count:,}" for query, count in in_flight.items())
            self._say(f"{self._clock()}  run {life + 1} replays in-flight rows: {rows}")

    def _show(self, life: int, positions: dict[str, Position]) -> None:
        epochs = "  ".join(
            f"{query} {at.committed + 1}/{self._job.epochs}" for query, at in positions.items()
        )
        read = self._job.rows_through(min(at.committed for at in positions.values()))
        self._say(
            f"{self._clock()}  life {life}  kills {len(self._strikes)}/{len(self._plan)}  "
            f"epochs: {epochs}  flights {read:,}/{self._job.rows:,}"
        )

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started_s), 60)
        return f"{minutes:02d}:{seconds:02d}"

    def _log_tail(self, life: int) -> str:
        return f"The end of its log, {self._job.log(life)}:\n{_tail(self._job.log(life))}"


def _epochs(positions: dict[str, Position]) -> int:
    return sum(at.committed + 1 for at in positions.values())


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
