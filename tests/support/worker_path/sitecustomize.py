"""Connects Python workers of the driver to Spark before their imports.

They are that of `transformWithState`, and those of a Spark Connect server for functions of
`foreachBatch` and for listeners.

Spark waits 10 seconds for the connection, and on a busy machine the imports alone take longer.
Python runs this module at its start, because `tests.support` puts its folder on the path.
"""

import os
import socket
import struct
import sys
from typing import Any

_WORKERS = ("transform_with_state_driver_worker", "foreach_batch_worker", "listener_worker")


def _connect() -> None:
    address = ("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"]))
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    early = socket.create_connection(address)
    early.sendall(struct.pack("!i", len(secret)) + secret)
    (length,) = struct.unpack("!i", early.recv(4, socket.MSG_WAITALL))
    early.recv(length, socket.MSG_WAITALL)
    plain = socket.socket.connect

    def connect(self: socket.socket, to: Any) -> None:
        if to != address:
            plain(self, to)
            return
        socket.socket.connect = plain  # type: ignore[method-assign]
        os.dup2(early.fileno(), self.fileno())
        early.close()
        # Applies the mode of the descriptor that was replaced.
        self.settimeout(self.gettimeout())
        sys.modules["pyspark.util"]._do_server_auth = lambda *_: None  # type: ignore[attr-defined]

    socket.socket.connect = connect  # type: ignore[method-assign, assignment]


if "PYTHON_WORKER_FACTORY_PORT" in os.environ and any(
    worker in argument for worker in _WORKERS for argument in sys.orig_argv
):
    _connect()
