"""Kills a driver or one of its executors at random moments, and counts the kills."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.processes import ProcessTree

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT_S = 300

_POLL_S = 0.05
_LIFE_LIMIT_S = 600.0
_DELAY_S = 1.5


@dataclass
class Campaign:
    """A victim that is restarted after each kill, until it ends by itself.

    Attributes:
        command: the victim's command line after the interpreter.
        work: the directory of its logs, and its working directory.
        seed: the seed of the moments.
        driver_kills: the number of kills of the driver with its executors and workers.
        executor_kills: the number of kills of single executors.
        is_worth_it: the condition that each kill waits for at its moment.
        struck: called after each kill with "driver" or "executor".
    """

    command: list[str]
    work: Path
    seed: int
    driver_kills: int
    executor_kills: int
    is_worth_it: Callable[[], bool] = lambda: True
    struck: Callable[[str], None] = lambda _: None
    drivers_killed: int = 0
    executors_killed: int = 0
    lives: int = 0

    def run(self, progress: Callable[[], int]) -> None:
        """Runs the victim to its end.

        Args:
            progress: a number that grows with the victim's work. A kill happens at a random moment
                after it has grown, so that each run makes progress and none is killed idle.

        Raises:
            AssertionError: a run failed by itself, or took too long; the end of its log is shown.
        """
        draw = random.Random(self.seed)
        plan = ["driver"] * self.driver_kills + ["executor"] * self.executor_kills
        draw.shuffle(plan)
        while True:
            log = self.work / f"life-{self.lives}.log"
            with ProcessTree([sys.executable, *self.command], env=environment(), log=log) as life:
                self.lives += 1
                if not self._strike(life, plan, draw, progress):
                    assert life.exit_code() == 0, _tail(log)
                    return

    def _strike(
        self, life: ProcessTree, plan: list[str], draw: random.Random, progress: Callable[[], int]
    ) -> bool:
        """Watches one run to its end; returns whether a kill ended it."""
        deadline = time.monotonic() + _LIFE_LIMIT_S
        seen = progress()
        while life.exit_code() is None:
            assert time.monotonic() < deadline, "a life of the victim takes too long"
            time.sleep(_POLL_S)
            if plan and progress() > seen:
                time.sleep(draw.random() * _DELAY_S)
                while not self.is_worth_it() and life.exit_code() is None:
                    time.sleep(_POLL_S)
                seen = progress()
                if plan[0] == "driver":
                    plan.pop(0)
                    died_of_it = life.kill()
                    self.drivers_killed += died_of_it
                    self.struck("driver")
                    return died_of_it
                if life.kill_executor(draw):
                    plan.pop(0)
                    self.executors_killed += 1
                    self.struck("executor")
        return False


def environment() -> dict[str, str]:
    """Returns the environment of a Python process with this project and interpreter."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "python")])
    return kept | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}


def run_script(
    script: str, *arguments: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs Python code to its end in a separate process; the caller checks its exit code."""
    return _run("-c", script, *arguments, variables=variables)


def run_module(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a module to its end in a separate process."""
    return _run("-m", module, *arguments, variables={})


def _run(*command: str, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        env=environment() | variables,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_SCRIPT_S,
        check=False,
    )


def die_with_the_test() -> None:
    """Ends this process after the other end of its standard input is closed."""

    def wait() -> None:
        sys.stdin.read()
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-40:])
