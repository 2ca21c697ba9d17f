"""A server in a separate process, with a separate directory."""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_STOP_S = 60


class ServerProcess:
    """A server that can be killed and started again.

    Attributes:
        home: its directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """Returns its log."""
        return (self.home / "log").read_text(errors="replace")

    def launch(
        self,
        command: Sequence[str],
        ask: Callable[[], object],
        failures: type[Exception],
        *,
        within_s: float,
        every_s: float,
    ) -> None:
        """Starts the server, and waits until it answers.

        Args:
            command: the command that starts it.
            ask: sends it a request.
            failures: the errors of `ask` while it does not answer.
            within_s: the maximum wait in seconds.
            every_s: the seconds between requests.
        """
        with (self.home / "log").open("ab") as out:
            self._process = subprocess.Popen(command, cwd=self.home, stdout=out, stderr=out)
        deadline = time.monotonic() + within_s
        while True:
            try:
                ask()
                return
            except failures:
                assert self._process.poll() is None, self.log
                assert time.monotonic() < deadline, self.log
                time.sleep(every_s)

    def kill(self) -> None:
        """Kills it like a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_STOP_S)

    def stop(self) -> None:
        """Stops it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def home_of(kind: str) -> Iterator[Path]:
    """Creates a directory for a server, which is deleted afterwards."""
    home = Path(tempfile.mkdtemp(prefix=f"cleancut-{kind}-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def free_port() -> int:
    """Returns an unused port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
