"""S3 servers on loopback, each in a process of its own that ends with the test."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.ports import free_port, listens

_ROOT = Path(__file__).resolve().parents[2]
_READY_WITHIN_S = 60.0
_STOPPED_WITHIN_S = 20.0
_ACCESS, _SECRET = "access", "secret"
_R2_PATH = "/cdn-cgi/local/r2/s3"

# Where `make stores` has put the simulator; elsewhere it is not asked for.
R2_SIMULATOR = os.environ.get("CLEANCUT_R2_SIMULATOR")
# `make nightly` asks for Ceph, which the machine must have.
HAS_CEPH = "CLEANCUT_CEPH" in os.environ


class S3Server:
    """A server with one bucket.

    Attributes:
        BUCKET: the bucket's name.
        endpoint: where it listens.
        environment: what whoever speaks to it needs in its environment.
        access_log: where it writes a line for each request, in the form of S3's own access logs;
            None where it keeps none.
    """

    BUCKET = "bucket"

    def __init__(
        self,
        command: Sequence[str],
        *,
        port: int,
        log: Path,
        path: str = "",
        region: str = "us-east-1",
        variables: Mapping[str, str] | None = None,
        access_log: Path | None = None,
    ) -> None:
        self.endpoint = f"http://127.0.0.1:{port}{path}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": _ACCESS,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
        }
        self._port, self._log = port, log
        self.access_log = access_log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env={**os.environ, **(variables or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

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


def versitygw(directory: Path) -> S3Server:
    """versitygw over a directory, which keeps through SIGKILL what it has acknowledged.

    Args:
        directory: for its objects and its log; on a file system with extended attributes.
    """
    data, port = directory / "data", free_port()
    (data / S3Server.BUCKET).mkdir(parents=True)
    access_log = directory / "access.log"
    command = [str(_versitygw_program()), "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet"]
    return S3Server(
        [*command, "--access-log", str(access_log), "posix", str(data)],
        port=port,
        log=directory / "log",
        access_log=access_log,
        variables={"ROOT_ACCESS_KEY": _ACCESS, "ROOT_SECRET_KEY": _SECRET},
    )


def r2_simulator(directory: Path) -> S3Server:
    """Cloudflare's simulator of R2, which knows R2's own rules."""
    script = _ROOT / "jvm/src/test/resources/r2-simulator.mjs"
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


def _versitygw_program() -> Path:
    found = re.search(r"^VERSITYGW_VERSION := (\S+)$", (_ROOT / "Makefile").read_text(), re.M)
    assert found is not None
    program = _ROOT / f".cache/versitygw-{found[1]}/versitygw"
    assert program.exists(), "the S3 server of this test is not compiled yet: run 'make versitygw'"
    return program
