"""Spark's history server in a separate process."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.server_process import ServerProcess, free_port

_STARTS_WITHIN_S = PATIENCE_S
_POLL_S = 0.3


@contextmanager
def history_server(home: Path, events: Path, class_path: str) -> Iterator[str]:
    """Serves the pages of applications from their event logs.

    Args:
        home: the directory of its log.
        events: the directory of the event logs.
        class_path: in addition to Spark's own.

    Yields:
        The URL, without a trailing slash.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    root = Path(pyspark.__file__).parent
    settings = {
        "spark.history.fs.logDirectory": events.as_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.fs.update.interval": "1s",
    }
    home.mkdir(parents=True, exist_ok=True)
    options = " ".join(f"-D{key}={value}" for key, value in settings.items())
    variables = {
        "SPARK_HOME": str(root),
        "SPARK_DAEMON_CLASSPATH": class_path,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HISTORY_OPTS": options,
    }
    command = [
        "env",
        *(f"{name}={value}" for name, value in (environment() | variables).items()),
        str(root / "bin" / "spark-class"),
        "org.apache.spark.deploy.history.HistoryServer",
    ]
    server = ServerProcess(home)
    try:
        server.launch(
            command,
            lambda: urllib.request.urlopen(f"{url}/api/v1/applications", timeout=5).read(),
            OSError,
            within_s=_STARTS_WITHIN_S,
            every_s=_POLL_S,
        )
        yield url
    finally:
        server.stop()
