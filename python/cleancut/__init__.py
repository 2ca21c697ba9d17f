"""Consistent cuts for Spark Structured Streaming.

`configure` sets up a session whose queries keep their state in Cleancut. `Checkpoint` reads the
checkpoint of a query without a JVM. Types of results are in `cleancut.types`.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes
from cleancut._version import __version__

if TYPE_CHECKING:
    from cleancut import dataflow, errors, sinks, testing, types
    from cleancut._checkpoint.checkpoint import Checkpoint
    from cleancut._operations.compatible import check_compatibility
    from cleancut._operations.first_state import bootstrap, migrate
    from cleancut._operations.offline import clone, convert, edit, rescale, rollback
    from cleancut._query.coordinator import coordinator
    from cleancut._query.metrics_server import serve_metrics
    from cleancut._query.sealing import seal
    from cleancut._query.sequence import in_sequence
    from cleancut._query.stopping import stop
    from cleancut._query.successor import successor
    from cleancut._session.jars import jar_paths
    from cleancut._session.session import configure
    from cleancut.dataflow import Channel, Dataflow
    from cleancut.errors import (
        CleancutError,
        CorruptedError,
        ErrorKind,
        FencedError,
        InternalError,
        RequestError,
        RetryableError,
    )
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "": (
                "dataflow",
                "errors",
                "sinks",
                "testing",
                "types",
            ),
            "_checkpoint.checkpoint": ("Checkpoint",),
            "_operations.compatible": ("check_compatibility",),
            "_operations.first_state": (
                "bootstrap",
                "migrate",
            ),
            "_operations.offline": (
                "clone",
                "convert",
                "edit",
                "rescale",
                "rollback",
            ),
            "_query.coordinator": ("coordinator",),
            "_query.metrics_server": ("serve_metrics",),
            "_query.sealing": ("seal",),
            "_query.sequence": ("in_sequence",),
            "_query.stopping": ("stop",),
            "_query.successor": ("successor",),
            "_session.jars": ("jar_paths",),
            "_session.session": ("configure",),
            "dataflow": (
                "Channel",
                "Dataflow",
            ),
            "errors": (
                "CleancutError",
                "CorruptedError",
                "ErrorKind",
                "FencedError",
                "InternalError",
                "RequestError",
                "RetryableError",
            ),
        },
    )

__all__ = [
    "Channel",
    "Checkpoint",
    "CleancutError",
    "CorruptedError",
    "Dataflow",
    "ErrorKind",
    "FencedError",
    "InternalError",
    "RequestError",
    "RetryableError",
    "__version__",
    "bootstrap",
    "check_compatibility",
    "clone",
    "configure",
    "convert",
    "coordinator",
    "dataflow",
    "edit",
    "errors",
    "in_sequence",
    "jar_paths",
    "migrate",
    "rescale",
    "rollback",
    "seal",
    "serve_metrics",
    "sinks",
    "stop",
    "successor",
    "testing",
    "types",
]
