"""The command `cleancut exporter`: tells Prometheus, or a collector, of checkpoints."""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._checkpoint.read.root import open_root
from cleancut._cli.arguments import access, add_access, add_location, seconds
from cleancut._cli.statuses import OK
from cleancut._metrics.looks import Looks
from cleancut._metrics.otlp import push
from cleancut._metrics.prometheus import exposition, serve
from cleancut._metrics.span_sender import SpanSender
from cleancut._metrics.store_look import StoreLook
from cleancut._storage.access import S3Access
from cleancut.errors import RetryableError

_PORT = 9464
_EVERY_S = 60.0
_SIZES_EVERY_S = 600.0


def add_exporter(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "exporter",
        help="serve metrics of checkpoints for Prometheus, until it is stopped",
        description="Looks at checkpoints again and again, and serves what it has seen last as "
        "metrics for Prometheus. It needs no driver, and writes nothing.",
    )
    add_location(parser, nargs="+")
    add_access(parser)
    parser.add_argument(
        "--port", type=int, default=_PORT, help=f"default: {_PORT}; 0 is a free one"
    )
    parser.add_argument("--address", default="0.0.0.0", help="default: all interfaces")
    parser.add_argument(
        "--every", type=seconds, default=_EVERY_S, help="seconds between two looks; default: 60"
    )
    parser.add_argument(
        "--sizes-every",
        type=seconds,
        default=_SIZES_EVERY_S,
        help="seconds between two looks at chains and sizes, which take more; default: 600",
    )
    parser.add_argument(
        "--budget", type=float, metavar="USD", help="dollars a day that each query may cost"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--otlp", metavar="URL", help="send to this collector, and serve nothing")
    parser.add_argument(
        "--spans", action="store_true", help="with --otlp: send a trace of each epoch, too"
    )
    where.add_argument("--once", action="store_true", help="print them once, and serve nothing")
    parser.set_defaults(run=_export, refuse=parser.error)


def _export(parsed: argparse.Namespace) -> int:
    if parsed.spans and parsed.otlp is None:
        parsed.refuse("--spans go to a collector, which --otlp names")
    with ExitStack() as ended:
        noted = None
        if parsed.spans:
            sender = SpanSender(parsed.otlp)
            ended.callback(sender.close)
            noted = _telling(sender)
        return _export_with(parsed, noted)


def _telling(sender: SpanSender) -> Callable[[Sequence[EpochInfo], Mapping[str, str]], None]:
    """What sends epochs; one that cannot be sent takes no figures away."""

    def tell(epochs: Sequence[EpochInfo], query: Mapping[str, str]) -> None:
        try:
            sender.send(epochs, query)
        except RetryableError as error:
            _tell(query["location"], error)

    return tell


def _export_with(
    parsed: argparse.Namespace,
    noted: Callable[[Sequence[EpochInfo], Mapping[str, str]], None] | None,
) -> int:
    roots = [open_root(of, S3Access(access(parsed))) for of in dict.fromkeys(parsed.location)]
    all_of_them = [
        StoreLook(root, sizes_every_s=parsed.sizes_every, budget=parsed.budget, noted=noted)
        for root in roots
    ]
    if parsed.once:
        errors: list[Exception] = []
        looks = Looks(all_of_them, failed=lambda _, error: errors.append(error))
        looks.look()
        print(exposition(looks.samples()), end="", flush=True)
        for error in errors:
            raise error
        return OK
    looks = Looks(all_of_them, failed=_tell)
    if parsed.otlp is None:
        with serve(looks.samples, parsed.address, parsed.port) as server:
            print(f"serving http://{parsed.address}:{server.port}/metrics", flush=True)
            _look_on(looks, parsed.every)
    else:
        with push(looks.samples, parsed.otlp, parsed.every):
            print(f"sending to {parsed.otlp}", flush=True)
            _look_on(looks, parsed.every)
    return OK


def _tell(location: str, error: Exception) -> None:
    print(f"{location}: {error}", file=sys.stderr, flush=True)


def _look_on(looks: Looks, every_s: float) -> None:
    """Looks until it is interrupted, or told to end."""
    # The first process of a container has no handler of its own, and would be killed in the end.
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.is_set():
        looks.look()
        ended.wait(every_s)
