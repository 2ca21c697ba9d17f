"""The driver's processes, started and killed as one.

A driver is several processes: Python, the JVM, the daemon of the Python workers and the workers;
on `local-cluster` also the executors. The workers leave the process group, but none leaves the
session, so the session is what is killed.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_GONE_WITHIN_S = 60.0
_POLL_S = 0.02


class SurvivorError(Exception):
    """A killed process did not go away."""


class ProcessTree:
    """One command with all of its child processes, in a separate session.

    As a context manager it leaves nothing running, whatever happens.

    The child's standard input is a pipe that ends with this process, however that ends.
    """

    def __init__(self, command: Sequence[str], *, env: dict[str, str], log: Path) -> None:
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def exit_code(self) -> int | None:
        """The exit code of the command, negative for a signal; None while it runs."""
        return self._child.poll()

    def members(self) -> set[int]:
        """The living processes of this session, the command's own among them."""
        return _session_members(self._child.pid)

    def terminate(self) -> None:
        """Sends SIGTERM to the command, without its child processes."""
        self._child.terminate()

    def kill(self) -> bool:
        """Kills every process with SIGKILL and waits until none is left.

        Returns:
            Whether the command itself was still running and died of this.

        Raises:
            SurvivorError: a process is still there after a minute.
        """
        # The group first, in one call: driver, JVM and executors die at the same instant.
        # Not after its exit code is known: then its number may belong to another process.
        was_running = self._child.poll() is None
        if was_running:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._sweep()
        died_of_it = was_running and self._child.wait(_GONE_WITHIN_S) == -signal.SIGKILL
        if self._child.stdin is not None:
            self._child.stdin.close()
        return died_of_it

    def kill_executor(self, draw: random.Random) -> bool:
        """Kills one executor with SIGKILL, if this command has any in separate processes.

        Args:
            draw: chooses which one.

        Returns:
            Whether one was killed.
        """
        executors = sorted(pid for pid in self.members() if _EXECUTOR in _command_line(pid))
        if not executors:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(executors), signal.SIGKILL)
            return True
        return False

    def _sweep(self) -> None:
        """Kills what is left of the session, also what its members started meanwhile."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        while members := self.members():
            if time.monotonic() > deadline:
                raise SurvivorError(f"Killed processes did not go away: {sorted(members)}.")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)


def _command_line(pid: int) -> bytes:
    """Returns the command line, empty for a process that has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes()
    return b""


def _session_members(session: int) -> set[int]:
    """Living processes of a session.

    Where there is no /proc the answer is empty. Python workers then end by themselves, because
    their pipe to the JVM is closed.
    """
    members = set()
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command, in brackets, may contain any text; the state follows it.
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(sid) == session and state not in "ZX":
                    members.add(int(entry.name))
    return members
