"""A proxy between an HTTP client and a server that records the requests, and may delay them."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_REQUEST = re.compile(rb"^(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r$", re.MULTILINE)
_CHUNK = 1 << 16


@dataclass
class CountingProxy:
    """Forwards bytes unchanged.

    Attributes:
        endpoint: the URL of the proxy.
        requests: method and path of each request, in order.
        delay_s: seconds by which a request is delayed.
        gate: called with each request, such as `PUT /bucket/name`, before it is forwarded. An
            OSError drops it.
    """

    endpoint: str
    requests: list[tuple[str, str]] = field(default_factory=list)
    delay_s: float = 0.0
    gate: Callable[[str], None] = lambda _: None

    def record(self, sent: bytes) -> None:
        """Records the requests in some bytes, and delays them."""
        matches = [(method.decode(), path.decode()) for method, path in _REQUEST.findall(sent)]
        self.requests += matches
        if matches and self.delay_s:
            time.sleep(self.delay_s)
        for method, path in matches:
            self.gate(f"{method} {path}")


@contextmanager
def counting_proxy(server: str) -> Iterator[CountingProxy]:
    """Runs a proxy for the server at a URL until the block ends."""
    host, port = server.removeprefix("http://").rstrip("/").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = CountingProxy(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            upstream = socket.create_connection((host, int(port)))
            for source, target, recorder in (
                (client, upstream, proxy),
                (upstream, client, None),
            ):
                threading.Thread(
                    target=_forward, args=(source, target, recorder), daemon=True
                ).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()


def _forward(source: socket.socket, target: socket.socket, proxy: CountingProxy | None) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            if proxy is not None:
                proxy.record(chunk)
            target.sendall(chunk)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                end.close()
