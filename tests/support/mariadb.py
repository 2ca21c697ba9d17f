"""A MariaDB server for tests, on loopback, with a separate directory."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.ports import free_port
from demo.postgres_server import ENCODED, PASSWORD
from tests.support.patience import PATIENCE_S
from tests.support.server_process import ServerProcess, home_of

# Unpacked by `make servers`.
HOME = Path(__file__).resolve().parents[2] / ".cache" / "mariadb"
needs_mariadb = pytest.mark.skipif(not HOME.exists(), reason="`make servers` has not been run")

_START_S = PATIENCE_S
_DATABASE = "shop"
_SETTINGS = (
    # The defaults of a server whose operator has set neither.
    "--character-set-server=latin1",
    "--sql-mode=",
    "--default-time-zone=+09:00",
    "--innodb-buffer-pool-size=32M",
    # Acknowledged writes outlive the process; no test cuts the power.
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-name-resolve",
)


class MariaDbServer(ServerProcess):
    """A server that can be killed and started again.

    Attributes:
        port: the port on loopback.
        url: the URL for SQLAlchemy, with the password.
    """

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"mysql+pymysql://writer:{ENCODED}@127.0.0.1:{self.port}/{_DATABASE}"
        super().__init__(home)

    def make(self) -> None:
        """Creates its directory, with a user."""
        install = [str(HOME / "scripts/mariadb-install-db"), "--no-defaults", f"--basedir={HOME}"]
        install += [f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        install += ["--skip-test-db", *self._user]
        made = subprocess.run(install, cwd=self.home, capture_output=True, timeout=_START_S)
        assert made.returncode == 0, made.stderr.decode(errors="replace")

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        command = [str(HOME / "bin/mariadbd"), "--no-defaults", f"--basedir={HOME}"]
        command += [f"--datadir={self._data}", f"--port={self.port}", "--bind-address=127.0.0.1"]
        command += [f"--socket={self.home / 'socket'}", f"--pid-file={self.home / 'pid'}"]
        command += [*_SETTINGS, *self._user]
        self.launch(command, lambda: self._admin("DO 1"), Exception, within_s=_START_S, every_s=0.1)

    def grant(self) -> None:
        """Creates the database and the user of the URL."""
        self._admin(f"CREATE DATABASE {_DATABASE}")
        self._admin("CREATE USER writer@'127.0.0.1' IDENTIFIED BY %s", PASSWORD)
        self._admin("GRANT ALL ON *.* TO writer@'127.0.0.1'")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows that a new connection reads; none if the table does not exist."""
        import pymysql

        with contextlib.closing(self.connected()) as connection:
            cursor = connection.cursor()
            try:
                cursor.execute(sql)
            except pymysql.err.ProgrammingError as failure:
                if failure.args[0] != 1146:
                    raise
                return []
            rows = list(cursor.fetchall())
            connection.commit()
            return rows

    def connected(self) -> Any:
        """Opens a new connection."""
        return self._connected("writer", PASSWORD, _DATABASE)

    @property
    def _data(self) -> Path:
        return self.home / "data"

    @property
    def _user(self) -> list[str]:
        # The server requires a user if root starts it.
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
            # As bytes, because the driver would decode them as latin-1.
            password=password.encode(),
            database=database,
            charset="utf8mb4",
        )


@contextlib.contextmanager
def mariadb_server() -> Iterator[MariaDbServer]:
    """Starts a server, and stops it by its process."""
    with home_of("mariadb") as home:
        server = MariaDbServer(home)
        try:
            server.make()
            server.start()
            server.grant()
            yield server
        finally:
            server.stop()
