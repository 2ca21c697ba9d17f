"""A Spark Connect server that is configured only by the output of `cleancut conf`."""

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
        remote: the argument of `SparkSession.builder.remote` for clients.
        properties: lines of `spark-defaults.conf` that set its port.
    """

    def __init__(self, home: Path, lines: str, *, master: str = "local[2]") -> None:
        """Prepares the server without a start.

        Args:
            home: its directory, which exists.
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
        """Starts the server; also after a kill."""
        self.launch(self._command, self._ask, OSError, within_s=_WITHIN_S, every_s=0.2)

    def wait(self) -> None:
        """Waits until a server answers that was started by other means."""
        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                return self._ask()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def _ask(self) -> None:
        socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
