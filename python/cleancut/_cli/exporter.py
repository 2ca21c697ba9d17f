"""The command `cleancut exporter`: metrics of checkpoints for Prometheus or a collector."""

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
from cleancut._cli.parsers import add_command, unavailable
from cleancut._cli.statuses import OK
from cleancut._metrics.checkpoint_scan import CheckpointScan
from cleancut._metrics.otlp import push
from cleancut._metrics.prometheus import exposition, serve
from cleancut._metrics.scans import Scans
from cleancut._metrics.span_sender import SpanSender
from cleancut._storage.access import S3Access
from cleancut.errors import RetryableError

_PORT = 9464
_EVERY_S = 60.0
_SIZES_EVERY_S = 600.0


def add_exporter(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "exporter",
        "serve metrics of checkpoints for Prometheus until it is stopped",
        "Scans the checkpoints periodically. Needs no driver and writes nothing.",
    )
    add_location(parser, nargs="+")
    add_access(parser)
    parser.add_argument(
        "--port", type=int, default=_PORT, help=f"default: {_PORT}; 0 is a free one"
    )
    parser.add_argument("--address", default="0.0.0.0", help="default: all interfaces")
    parser.add_argument(
        "--every", type=seconds, default=_EVERY_S, help="seconds between two scans; default: 60"
    )
    parser.add_argument(
        "--sizes-every",
        type=seconds,
        default=_SIZES_EVERY_S,
        help="seconds between two scans of chains and sizes, which take more; default: 600",
    )
    parser.add_argument(
        "--budget", type=float, metavar="USD", help="budget of each query in US dollars per day"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--otlp", metavar="URL", help="push to this collector; serve nothing")
    parser.add_argument(
        "--spans", action="store_true", help="with --otlp: also send a trace of each epoch"
    )
    where.add_argument(
        "--once", action="store_true", help="scan once and print the metrics; serve nothing"
    )
    parser.set_defaults(run=_export, refuse=parser.error)


def _export(parsed: argparse.Namespace) -> int:
    if parsed.spans and parsed.otlp is None:
        parsed.refuse("--spans needs --otlp, the collector that receives them")
    with ExitStack() as ended:
        noted = None
        if parsed.spans:
            sender = SpanSender(parsed.otlp)
            ended.callback(sender.close)
            noted = _sending(sender)
        return _export_with(parsed, noted)


def _sending(sender: SpanSender) -> Callable[[Sequence[EpochInfo], Mapping[str, str]], None]:
    """Sends epochs; an epoch that cannot be sent leaves the metrics as they are."""

    def send(epochs: Sequence[EpochInfo], query: Mapping[str, str]) -> None:
        try:
            sender.send(epochs, query)
        except RetryableError as error:
            _warn(query["location"], error)

    return send


def _export_with(
    parsed: argparse.Namespace,
    noted: Callable[[Sequence[EpochInfo], Mapping[str, str]], None] | None,
) -> int:
    locations = dict.fromkeys(parsed.location)
    roots = [open_root(location, S3Access(access(parsed))) for location in locations]
    checkpoints = [
        CheckpointScan(root, sizes_every_s=parsed.sizes_every, budget=parsed.budget, noted=noted)
        for root in roots
    ]
    if parsed.once:
        errors: list[Exception] = []
        scans = Scans(checkpoints, failed=lambda _, error: errors.append(error))
        scans.run()
        print(exposition(scans.samples()), end="", flush=True)
        for error in errors:
            raise error
        return OK
    scans = Scans(checkpoints, failed=_warn)
    if parsed.otlp is None:
        with serve(scans.samples, parsed.address, parsed.port) as server:
            print(f"serving http://{parsed.address}:{server.port}/metrics", flush=True)
            _run_periodically(scans, parsed.every)
    else:
        with push(scans.samples, parsed.otlp, parsed.every):
            print(f"sending to {parsed.otlp}", flush=True)
            _run_periodically(scans, parsed.every)
    return OK


def _warn(location: str, error: Exception) -> None:
    shown = unavailable("cleancut exporter", error) if isinstance(error, OSError) else error
    print(f"{location}: {shown}", file=sys.stderr, flush=True)


def _run_periodically(scans: Scans, every_s: float) -> None:
    """Scans until it is interrupted or gets SIGTERM."""
    # Process 1 of a container has no default handler for SIGTERM; it would be killed later.
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.is_set():
        scans.run()
        ended.wait(every_s)
