"""Ends a query between two of its epochs."""

import time
from typing import TYPE_CHECKING

from cleancut._query.coordinator import Coordinator, coordinator
from cleancut.errors import RequestError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.05
# How long a run may take until it has a coordinator.
_BEGIN_S = 60.0


def stop(
    query: "StreamingQuery", *, savepoint: str | None = None, timeout: float | None = None
) -> int | None:
    """Stops a query when the epoch that runs is committed, and before the next one begins.

    `StreamingQuery.stop` breaks the epoch off that runs, which the next start then runs again: an
    act such as `rescale` must wait for that. After this one the checkpoint is as its last cut.

    Args:
        query: one whose epochs are committed by cuts, as `writeStream.start()` returned it.
        savepoint: a name under which the last cut is kept.
        timeout: in seconds; None waits for as long as the epoch takes.

    Returns:
        The last epoch that is committed; None if there is none.

    Raises:
        TimeoutError: the epoch takes longer; the query goes on.
        RequestError: CLEANCUT_COORDINATOR_MISSING for a query without cuts;
            CLEANCUT_SAVEPOINT_INVALID, and the query is stopped; CLEANCUT_CONNECT_UNSUPPORTED.
    """
    of = _coordinator(query)
    end = None if timeout is None else time.monotonic() + timeout
    with of.held():
        while query.isActive and not of.is_between():
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"an epoch of {of.location} takes longer than {timeout} s")
            time.sleep(_POLL_S)
        query.stop()
    committed = of.status().committed
    if savepoint is not None:
        of.pin(savepoint, committed)
    return committed


def _coordinator(query: "StreamingQuery") -> Coordinator:
    """That of a query which may have been started just now."""
    end = time.monotonic() + _BEGIN_S
    while True:
        try:
            return coordinator(query)
        except RequestError:
            is_new = query.isActive and query.lastProgress is None
            if not is_new or time.monotonic() >= end:
                raise
            time.sleep(_POLL_S)
