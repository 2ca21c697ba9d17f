"""versitygw over a directory: an S3 server that keeps through SIGKILL what it has acknowledged."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

_ROOT = Path(__file__).resolve().parents[2]
_READY_WITHIN_S = 30.0


class Versitygw:
    """The server in a process of its own on loopback, with one bucket.

    Attributes:
        BUCKET: the bucket's name.
    """

    BUCKET = "bucket"

    def __init__(self, directory: Path) -> None:
        """Starts it.

        Args:
            directory: for its objects and its log; on a file system with extended attributes.
        """
        self._data = directory / "data"
        (self._data / self.BUCKET).mkdir(parents=True)
        self._log = directory / "log"
        self._port = _free_port()
        command = [str(_program()), "--port", f"127.0.0.1:{self._port}", "--keep-alive", "--quiet"]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "posix", str(self._data)],
                env={**os.environ, "ROOT_ACCESS_KEY": "access", "ROOT_SECRET_KEY": "secret"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def credentials(self) -> dict[str, str]:
        """Variables for the environment of whoever speaks to it."""
        return {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}

    def objects(self) -> set[str]:
        """The names of all objects in the bucket."""
        root = self._data / self.BUCKET
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _READY_WITHIN_S
        while not _listens(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"versitygw does not listen:\n{self._log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _program() -> Path:
    found = re.search(r"^VERSITYGW_VERSION := (\S+)$", (_ROOT / "Makefile").read_text(), re.M)
    assert found is not None
    program = _ROOT / f".cache/versitygw-{found[1]}/versitygw"
    assert program.exists(), "the S3 server of this test is not compiled yet: run 'make versitygw'"
    return program


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(0.5)
        return connection.connect_ex(("127.0.0.1", port)) == 0
