"""Commands that run a query as the successor or the standby of the running one."""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleancut._cli.arguments import add_location, add_spark, configured, seconds
from cleancut._cli.parsers import add_command
from cleancut._cli.statuses import INTERRUPTED, OK, QUERY_FAILED
from cleancut._query.named_query import named_writer
from cleancut._query.stopping import stop
from cleancut._query.successor import HANDOVER_S, WARM_UP_EPOCHS, Successor
from cleancut._session.session import configure
from cleancut.errors import find_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Calls of the JVM cannot be interrupted.
_POLL_S = 1
_MORE = (
    "Starts Spark in this process and calls your function to build the query. {} Ends when the"
    " query does: with 0 when the next version has taken over. SIGTERM stops the query after its"
    " epoch."
)


def add_successors(commands: Any) -> None:
    """Adds the commands."""
    taking = _add(
        commands,
        "take-over",
        "run a query, which takes over from the running one between two epochs",
        _MORE.format("The running query finishes its epoch."),
    )
    taking.set_defaults(begin=lambda successor, _: successor.take_over())
    standing = _add(
        commands,
        "stand-by",
        "run a query as soon as no other driver runs it",
        _MORE.format("The query waits until the other driver has died or stopped it."),
    )
    standing.add_argument(
        "--silence",
        type=seconds,
        metavar="SECONDS",
        help="time without a new cut after which the other driver counts as dead",
    )
    standing.set_defaults(
        begin=lambda successor, parsed: successor.stand_by(silence=parsed.silence)
    )


def _add(commands: Any, name: str, text: str, more: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, text, more)
    add_location(parser)
    parser.add_argument(
        "--query",
        required=True,
        metavar="MODULE:FUNCTION",
        help="function from SparkSession to the DataStreamWriter of the query, not started",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=WARM_UP_EPOCHS,
        metavar="N",
        help=f"epochs that run on a clone for a warm-up, 0 for none; default: {WARM_UP_EPOCHS}",
    )
    parser.add_argument(
        "--handover-timeout",
        type=seconds,
        default=HANDOVER_S,
        metavar="SECONDS",
        help=f"time in which the running query must end its epoch; default: {HANDOVER_S:g}",
    )
    parser.add_argument(
        "--ready-file", type=Path, metavar="PATH", help="created when the query has taken over"
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="when the next version has taken over, wait for SIGTERM; for a platform that restarts"
        " ended processes",
    )
    add_spark(parser, None)
    parser.set_defaults(run=_run)
    return parser


def _run(parsed: argparse.Namespace) -> int:
    from pyspark.errors import StreamingQueryException

    if parsed.ready_file is not None:
        parsed.ready_file.unlink(missing_ok=True)
    # An interrupted call of the JVM would leave its response to the next call.
    _on_signals(lambda: os._exit(INTERRUPTED))
    session = _session(parsed)
    try:
        query = _begin(parsed, session)
        _await_end(query, is_staying=parsed.stay)
    except StreamingQueryException as failure:
        error = find_error(failure)
        if error is not None:
            raise error from failure
        print(failure, file=sys.stderr)
        return QUERY_FAILED
    finally:
        session.stop()
    return OK


def _begin(parsed: argparse.Namespace, session: "SparkSession") -> "StreamingQuery":
    """Returns the query when it has taken over."""

    def build() -> "DataStreamWriter":
        return named_writer(parsed.query, session, parsed.location)

    with Successor(build, parsed.location, parsed.handover_timeout) as successor:
        began = time.monotonic()
        epochs = successor.prepare(parsed.epochs)
        seconds = time.monotonic() - began
        print(f"Prepared {parsed.location} in {seconds:.1f} s ({epochs} epochs)", flush=True)
        query: StreamingQuery = parsed.begin(successor, parsed)
    print(f"Run {query.runId} took over {parsed.location}", flush=True)
    if parsed.ready_file is not None:
        parsed.ready_file.touch()
    return query


def _await_end(query: "StreamingQuery", *, is_staying: bool) -> None:
    """Waits for the end of the query, which a signal stops."""
    signaled = threading.Event()
    _on_signals(signaled.set)
    while not signaled.is_set() and not query.awaitTermination(_POLL_S):
        pass
    if query.isActive:
        stop(query)
    elif is_staying:
        signaled.wait()


def _on_signals(react: Callable[[], None]) -> None:
    # Process 1 of a container has no default handler for SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: react())


def _session(parsed: argparse.Namespace) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(parsed.location)
    return configure(configured(builder, parsed)).getOrCreate()
