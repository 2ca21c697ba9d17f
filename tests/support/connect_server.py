"""A server of Spark Connect, set up by the lines of `cleancut conf` and by nothing else."""

import shlex
import socket
import sys
import time
from pathlib import Path

import pyspark

from tests.support.patience import PATIENCE_S
from tests.support.server_process import ServerProcess, free_port

_ROOT = Path(__file__).parents[2]
_PYTHON_PATH = f"{_ROOT / 'tests/support/worker_path'}:{_ROOT / 'python'}"
SPARK_HOME = Path(pyspark.__file__).parent
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_WITHIN_S = PATIENCE_S


class ConnectServer(ServerProcess):
    """Spark's own server, in a process that can be killed.

    Attributes:
        remote: what a client gives to `SparkSession.builder.remote`.
        properties: lines for `spark-defaults.conf` that have it listen there.
    """

    def __init__(self, home: Path, lines: str, *, master: str = "local[2]") -> None:
        """Starts nothing yet.

        Args:
            home: its directory, which is there.
            lines: arguments of `spark-submit`, as `cleancut conf` prints them, on one line.
            master: Spark's.
        """
        super().__init__(home)
        self._port = free_port()
        self.remote = f"sc://127.0.0.1:{self._port}"
        settings = {
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "3",
            "spark.ui.enabled": "false",
        }
        self.properties = "\n".join(f"{key} {value}" for key, value in settings.items())
        more = [f"--conf={key}={value}" for key, value in settings.items()]
        self._command = [
            *("/usr/bin/env", f"PYTHONPATH={_PYTHON_PATH}", f"PYSPARK_PYTHON={sys.executable}"),
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--class", _CLASS, "--master", master),
            *(*shlex.split(lines), *more, "spark-internal"),
        ]

    def start(self) -> None:
        """Starts it, also again after it was killed."""
        self.launch(self._command, self._ask, OSError, within_s=_WITHIN_S, every_s=0.2)

    def wait(self) -> None:
        """Waits until one answers that was started by other means."""
        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                return self._ask()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def _ask(self) -> None:
        socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
