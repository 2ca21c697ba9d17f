"""`cleancut dataflow LOCATION page`: an HTML page, printed, written to a file, or served."""

import argparse
import signal
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from cleancut._cli.statuses import OK
from cleancut.errors import CleancutError


class Paged(Protocol):
    """The dataflow on a page."""

    @property
    def location(self) -> str:
        """The location of the dataflow."""

    def page(self) -> str:
        """Its current state as an HTML document."""


def add_page_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help="write to FILE; default: print")
    where.add_argument(
        "--port",
        type=int,
        help="serve the current page at this port until stopped; 0 is a free port",
    )
    parser.add_argument(
        "--address", default="127.0.0.1", help="with --port: interface; default: 127.0.0.1"
    )


def show_page(flow: Paged, parsed: argparse.Namespace) -> int:
    """Prints, writes or serves the page."""
    if parsed.port is not None:
        _serve(flow, parsed.address, parsed.port)
    elif parsed.out is not None:
        parsed.out.write_text(flow.page(), encoding="utf-8")
    else:
        print(flow.page(), end="")
    return OK


def _serve(flow: Paged, address: str, port: int) -> None:
    server = PageServer(flow, address, port)
    # In its own thread, because shutdown() waits for the loop of serve_forever().
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    with server:
        host, bound = server.server_address[:2]
        print(f"serving {flow.location} at http://{host!s}:{bound}/", flush=True)
        server.serve_forever()


class PageServer(ThreadingHTTPServer):
    """Serves a dataflow's current page, one request after the other."""

    daemon_threads = True

    def __init__(self, flow: Paged, address: str, port: int) -> None:
        """Binds the port; 0 is a free one."""
        super().__init__((address, port), _Handler)
        self._flow = flow
        self._one_at_a_time = threading.Lock()

    def page(self) -> str:
        """The current page."""
        with self._one_at_a_time:
            return self._flow.page()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        """Responds with the page, or with the reason why it is not available."""
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            status, kind, text = HTTPStatus.OK, "html", self.server.page()
        except CleancutError as error:
            status, kind, text = HTTPStatus.SERVICE_UNAVAILABLE, "plain", f"{error}\n"
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        """Logs nothing."""
