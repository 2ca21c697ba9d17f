"""An S3 server on loopback over a directory: s3proxy, which the build downloads.

`python -m demo.s3_server DIRECTORY --port N` runs it until it is interrupted.
"""

import argparse
import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from demo.ports import free_port, listens

BUCKET = "bucket"
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}
REQUEST_LOG = "requests.log"

_CLASS_PATH = Path(__file__).resolve().parents[2] / ".cache" / "s3proxy.classpath"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_READY_WITHIN_S = 60.0
_STOPPED_WITHIN_S = 10.0
_SETTINGS = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={access}
s3proxy.credential={secret}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={data}
jclouds.identity=unused
jclouds.credential=unused
"""
_LOGGING = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger: %msg%n</pattern></encoder>
  </appender>
  <appender name="requests" class="ch.qos.logback.core.FileAppender">
    <file>{requests}</file>
    <encoder><pattern>%d %msg%n</pattern></encoder>
  </appender>
  <logger name="org.gaul.s3proxy.S3ProxyHandler" level="DEBUG" additivity="false">
    <appender-ref ref="requests"/>
  </logger>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


class ServerMissingError(Exception):
    """The server was not downloaded, or it does not start."""


def command(
    directory: Path, port: int, credentials: Sequence[str] = ("access", "secret")
) -> list[str]:
    """Returns the command that starts a server with one empty bucket.

    Args:
        directory: the directory of its objects, settings and request log, which are kept.
        port: its port.
        credentials: access key and secret of the requests.

    Raises:
        ServerMissingError: it was not downloaded.
    """
    if not _CLASS_PATH.exists():
        raise ServerMissingError(
            f"{_CLASS_PATH} does not exist: run 'make .cache/{_CLASS_PATH.name}'."
        )
    data = directory / "data"
    (data / BUCKET).mkdir(parents=True, exist_ok=True)
    settings = directory / "s3proxy.conf"
    access, secret = credentials
    settings.write_text(_SETTINGS.format(port=port, data=data, access=access, secret=secret))
    (directory / "logback.xml").write_text(_LOGGING.format(requests=directory / REQUEST_LOG))
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if _has_java_home() else "java"
    path = os.pathsep.join([str(directory), _CLASS_PATH.read_text().strip()])
    return [java, *_JVM, "-cp", path, "org.gaul.s3proxy.Main", "--properties", str(settings)]


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Runs a server in a separate process while the context lasts; yields its endpoint.

    Raises:
        ServerMissingError: it was not downloaded, or it does not start.
    """
    port, log = free_port(), directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command(directory, port), stdout=output, stderr=output)
    try:
        _await(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(_STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the directory of a run of the demo, until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m demo.s3_server")
    parser.add_argument("directory", type=Path, help="directory of a run of the demo")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args(arguments)
    started = command(options.directory.resolve(), options.port)
    os.execvp(started[0], started)


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while not listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise ServerMissingError(f"The S3 server does not start:\n{log.read_text()}")
        time.sleep(0.05)


def _has_java_home() -> bool:
    return bool(os.environ.get("JAVA_HOME"))


if __name__ == "__main__":
    raise SystemExit(main())
