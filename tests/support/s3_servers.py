"""S3 servers on loopback, each in a separate process that ends with the test."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from demo.ports import free_port, listens
from demo.s3_server import BUCKET, REQUEST_LOG, VARIABLES, command
from tests.support.patience import PATIENCE_S

_ROOT = Path(__file__).resolve().parents[2]
_READY_WITHIN_S = PATIENCE_S
_STOPPED_WITHIN_S = 20.0
_ACCESS, _SECRET = VARIABLES["AWS_ACCESS_KEY_ID"], VARIABLES["AWS_SECRET_ACCESS_KEY"]
_R2_PATH = "/cdn-cgi/local/r2/s3"

# Installed by `make stores`; other targets do not use it.
R2_SIMULATOR = os.environ.get("CLEANCUT_R2_SIMULATOR")
# Compiled by `make versitygw`; `make chaos` and `make stores` use it.
VERSITYGW = os.environ.get("CLEANCUT_VERSITYGW")
# `make nightly` uses Ceph, which must be installed.
HAS_CEPH = "CLEANCUT_CEPH" in os.environ


def settings_at(endpoint: str) -> dict[str, str]:
    """Returns the settings of a session whose buckets are at an endpoint."""
    keys = "spark.sql.streaming.stateStore.cleancut.s3."
    return {f"{keys}endpoint": endpoint, f"{keys}region": "us-east-1"}


def set_environment(monkeypatch: pytest.MonkeyPatch, server: "S3Server") -> None:
    """Sets the variables of clients of a server, also for processes that the test starts."""
    for variable, value in server.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)


class S3Server:
    """A server with one bucket.

    Attributes:
        BUCKET: the bucket's name.
        endpoint: its URL.
        environment: the environment variables that clients need.
        request_log: the file with a line per request; None without one.
    """

    BUCKET = BUCKET

    def __init__(
        self,
        command: Sequence[str],
        *,
        port: int,
        log: Path,
        path: str = "",
        region: str = "us-east-1",
        variables: Mapping[str, str] | None = None,
        request_log: Path | None = None,
    ) -> None:
        self.endpoint = f"http://127.0.0.1:{port}{path}"
        self.environment = VARIABLES | {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
        self._port, self._log = port, log
        self.request_log = request_log
        self._command, self._variables = command, variables or {}
        self._launch()

    def _launch(self) -> None:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                env={**os.environ, **self._variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """Kills it like a crash."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Starts it again after `kill`, and waits until it listens."""
        self._launch()
        self.__enter__()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _READY_WITHIN_S
        while not listens(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"The S3 server does not listen:\n{self._log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def s3proxy(directory: Path, credentials: Sequence[str] = (_ACCESS, _SECRET)) -> S3Server:
    """s3proxy over a directory, of whose creators of one object exactly one wins.

    Args:
        directory: of its objects and logs; on a file system with extended attributes.
        credentials: access key and secret, instead of those of the environment.
    """
    port = free_port()
    return S3Server(
        command(directory, port, credentials),
        port=port,
        log=directory / "log",
        request_log=directory / REQUEST_LOG,
    )


def versitygw(directory: Path) -> S3Server:
    """versitygw over a directory, which keeps acknowledged writes after SIGKILL.

    Args:
        directory: of its objects and log; on a file system with extended attributes.
    """
    assert VERSITYGW is not None
    data, port = directory / "data", free_port()
    (data / S3Server.BUCKET).mkdir(parents=True)
    options = ["--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", "posix", str(data)]
    return S3Server(
        [VERSITYGW, *options],
        port=port,
        log=directory / "log",
        variables={"ROOT_ACCESS_KEY": _ACCESS, "ROOT_SECRET_KEY": _SECRET},
    )


def r2_simulator(directory: Path) -> S3Server:
    """Cloudflare's simulator of R2, with R2's own rules."""
    script = _ROOT / "jvm/spark/src/test/resources/r2-simulator.mjs"
    assert R2_SIMULATOR is not None
    port = free_port()
    places = [str(script), R2_SIMULATOR, str(port), str(directory / "data")]
    return S3Server(
        [os.environ["CLEANCUT_NODE"], *places, S3Server.BUCKET, _ACCESS, _SECRET],
        port=port,
        log=directory / "log",
        path=_R2_PATH,
        region="auto",
    )


def rados_gateway(directory: Path) -> S3Server:
    """Ceph's gateway, over objects in memory."""
    port = free_port()
    places = [str(port), str(directory / "ceph"), S3Server.BUCKET, _ACCESS, _SECRET]
    return S3Server(
        [sys.executable, "-m", "tests.support.rados_gateway", *places],
        port=port,
        log=directory / "log",
    )
