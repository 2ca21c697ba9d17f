"""A process that answers requests for tests, one after the other."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SECONDS = 300


class NoResultError(Exception):
    """A request has no result: it does not end in time, or the process crashes."""


class Server:
    """A process that reads requests as lines, and ends each answer with a line of its result.

    It starts with the first request, and again after a request without a result.

    Args:
        name: the name in the lines of results.
        command: the command and its arguments.
        environment: its environment variables.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._result = re.compile(rf"^{name}: (-?\w+)$")
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def request(self, *fields: str) -> tuple[str, str]:
        """Returns the result and the output of a request.

        Raises:
            NoResultError: there is no result.
            RuntimeError: the process has ended by itself.
        """
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        output: list[str] = []
        timer = threading.Timer(_SECONDS, os.killpg, [process.pid, signal.SIGKILL])
        timer.start()
        try:
            process.stdin.write("\t".join(fields) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if match := self._result.match(line):
                    return match[1], "".join(output)
                output.append(line)
        finally:
            timer.cancel()
        self._process = None
        # Ended by a signal: that of the timer, or of a crash.
        if process.wait() < 0:
            raise NoResultError
        raise RuntimeError(f"{self._command} has ended\n{''.join(output)}")

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            cwd=_ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
