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
    """What is shown."""

    @property
    def location(self) -> str:
        """Which dataflow it is."""

    def page(self) -> str:
        """It as a document of HTML, as it is now."""


def add_page_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help="write it there; default: print it")
    where.add_argument(
        "--port",
        type=int,
        help="serve it until it is stopped, as it is whenever it is loaded; 0 is a free one",
    )
    parser.add_argument(
        "--address", default="127.0.0.1", help="with --port: of the interface; default: 127.0.0.1"
    )


def show_page(flow: Paged, parsed: argparse.Namespace) -> int:
    """Does what the options say."""
    if parsed.port is not None:
        _serve(flow, parsed.address, parsed.port)
    elif parsed.out is not None:
        parsed.out.write_text(flow.page(), encoding="utf-8")
    else:
        print(flow.page(), end="")
    return OK


def _serve(flow: Paged, address: str, port: int) -> None:
    server = PageServer(flow, address, port)
    # From a thread of its own: what ends a server waits for the loop that this thread is in.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    with server:
        host, bound = server.server_address[:2]
        print(f"serving {flow.location} at http://{host!s}:{bound}/", flush=True)
        server.serve_forever()


class PageServer(ThreadingHTTPServer):
    """Serves a dataflow's page, made anew for each request, one after the other."""

    daemon_threads = True

    def __init__(self, flow: Paged, address: str, port: int) -> None:
        """Binds the port; 0 is a free one."""
        super().__init__((address, port), _Handler)
        self._flow = flow
        self._one_at_a_time = threading.Lock()

    def page(self) -> str:
        """The page now."""
        with self._one_at_a_time:
            return self._flow.page()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        """Answers with the page, or why there is none."""
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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as it is called
        """Nothing: what is asked for is the page."""
