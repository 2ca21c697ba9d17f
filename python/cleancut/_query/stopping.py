"""Stops a query between two epochs."""

import time
from typing import TYPE_CHECKING

from cleancut._query.coordinator import Coordinator, coordinator
from cleancut.errors import RequestError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.05
# Limit for the time until a run has a coordinator.
_BEGIN_S = 60.0


def stop(
    query: "StreamingQuery", *, savepoint: str | None = None, timeout: float | None = None
) -> int | None:
    """Stops a query after the commit of the current epoch, before the next one starts.

    `StreamingQuery.stop` aborts the current epoch, and the next start runs it again; operations
    such as `rescale` are refused until then. After this function the checkpoint has no such epoch.

    Args:
        query: a query with cuts, as `writeStream.start()` returned it.
        savepoint: name of a savepoint to create of the last cut.
        timeout: in seconds; None is no limit.

    Returns:
        The last committed epoch; None if there is none.

    Raises:
        TimeoutError: the epoch takes longer; the query continues.
        RequestError: CLEANCUT_COORDINATOR_MISSING for a query without cuts;
            CLEANCUT_SAVEPOINT_INVALID, and the query is stopped; CLEANCUT_CONNECT_UNSUPPORTED.
    """
    running = _coordinator(query)
    end = None if timeout is None else time.monotonic() + timeout
    with running._held():
        while query.isActive and not running._is_between():
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"an epoch of {running.location} takes longer than {timeout} s")
            time.sleep(_POLL_S)
        query.stop()
    committed = running.status().committed
    if savepoint is not None:
        running.create_savepoint(savepoint, committed)
    return committed


def _coordinator(query: "StreamingQuery") -> Coordinator:
    """The coordinator of a query, which may have started just now."""
    end = time.monotonic() + _BEGIN_S
    while True:
        try:
            return coordinator(query)
        except RequestError:
            is_new = query.isActive and query.lastProgress is None
            if not is_new or time.monotonic() >= end:
                raise
            time.sleep(_POLL_S)
