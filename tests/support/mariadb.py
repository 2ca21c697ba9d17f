"""A server of MariaDB for tests, on loopback, with a directory of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.ports import free_port

# What `make servers` unpacks.
HOME = Path(__file__).resolve().parents[2] / ".cache" / "mariadb"
needs_mariadb = pytest.mark.skipif(not HOME.exists(), reason="`make servers` has not been run")

PASSWORD = "t0p:s€cret"
_ENCODED = "t0p%3As%E2%82%ACcret"
_START_S = 60
_DATABASE = "shop"
_SETTINGS = (
    # As on a server of somebody's who has thought of neither.
    "--character-set-server=latin1",
    "--sql-mode=",
    "--default-time-zone=+09:00",
    "--innodb-buffer-pool-size=32M",
    # What is acknowledged is to outlive the process; nobody pulls the plug here.
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-name-resolve",
)


class MariaDbServer:
    """A server, which can be killed and started again.

    Attributes:
        port: on loopback.
        url: SQLAlchemy's, with the password.
    """

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"mysql+pymysql://writer:{_ENCODED}@127.0.0.1:{self.port}/{_DATABASE}"
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Makes its directory, with a user."""
        install = [str(HOME / "scripts/mariadb-install-db"), "--no-defaults", f"--basedir={HOME}"]
        install += [f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        install += ["--skip-test-db", *self._user]
        made = subprocess.run(install, cwd=self._home, capture_output=True, timeout=_START_S)
        assert made.returncode == 0, made.stderr.decode(errors="replace")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = [str(HOME / "bin/mariadbd"), "--no-defaults", f"--basedir={HOME}"]
        command += [f"--datadir={self._data}", f"--port={self.port}", "--bind-address=127.0.0.1"]
        command += [f"--socket={self._home / 'socket'}", f"--pid-file={self._home / 'pid'}"]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [*command, *_SETTINGS, *self._user], cwd=self._home, stdout=out, stderr=out
            )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self._admin("DO 1")
                return
            except Exception:
                assert self._process.poll() is None, self._log.read_text(errors="replace")
                assert time.monotonic() < deadline, self._log.read_text(errors="replace")
                time.sleep(0.1)

    def grant(self) -> None:
        """Makes the database and the user of the URL."""
        self._admin(f"CREATE DATABASE {_DATABASE}")
        self._admin("CREATE USER writer@'127.0.0.1' IDENTIFIED BY %s", PASSWORD)
        self._admin("GRANT ALL ON *.* TO writer@'127.0.0.1'")

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

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a reader of its own sees; none where there is no such table."""
        import pymysql

        with contextlib.closing(self.connected()) as connection:
            cursor = connection.cursor()
            try:
                cursor.execute(sql)
            except pymysql.err.ProgrammingError as failure:
                if failure.args[0] != 1146:
                    raise
                return []
            found = list(cursor.fetchall())
            connection.commit()
            return found

    def connected(self) -> Any:
        """A connection of a reader's own."""
        return self._connected("writer", PASSWORD, _DATABASE)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def _log(self) -> Path:
        return self._home / "log"

    @property
    def _user(self) -> list[str]:
        # It wants to be told that root is meant.
        return ["--user=root"] if os.geteuid() == 0 else []

    def _admin(self, sql: str, *values: str) -> None:
        with contextlib.closing(self._connected("root", "", None)) as connection:
            connection.cursor().execute(sql, values or None)

    def _connected(self, user: str, password: str, database: str | None) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            # As bytes, since the driver would take them for latin-1.
            password=password.encode(),
            database=database,
            charset="utf8mb4",
        )


@contextlib.contextmanager
def mariadb_server() -> Iterator[MariaDbServer]:
    """Starts a server, and ends it by its process."""
    home = Path(tempfile.mkdtemp(prefix="cleancut-mariadb-"))
    server = MariaDbServer(home)
    try:
        server.make()
        server.start()
        server.grant()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
