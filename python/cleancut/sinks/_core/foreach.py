"""What makes people's own functions for `foreachBatch` exactly-once."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from cleancut.sinks._core.query_side import query_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sealed(
    function: Callable[["DataFrame", int], None],
    *,
    written: Callable[[int], bool] | None = None,
) -> Callable[["DataFrame", int], None]:
    """Seals each epoch before the function sees it.

    The function gets a batch whose rows are computed and kept, and whose state is durable. However
    often it reads the batch, the query's tasks have run once. It must still be able to write an
    epoch a second time: a driver that dies before the epoch is committed runs it again, and calls
    the function again with the same rows and the same epoch. Where the query gives other rows each
    time (random values, sums of floating-point numbers), that fails with
    CLEANCUT_IN_FLIGHT_INPUT_MISMATCH if rows were in flight, unless `written` says that the rows
    are not needed again.

    Epochs are sealed from the first one on, before any of their tasks run. So a query in mode
    "unaligned" or "auto" may leave rows in flight; with a function that is not wrapped it is
    aligned, and `coordinator(query).status().aligned` says so. Wrap what is given to
    `foreachBatch`, not a function within it that is called after another action on the batch:
    the channels that the action has read are aligned in that epoch.

    Args:
        function: as `foreachBatch` takes it, called with the batch and the epoch.
        written: told the epoch, says whether the function has written all of it, so that it would
            skip it. Such an epoch, if an earlier run has sealed it, is finished as that run has
            sealed it, and the function is not called.

    Returns:
        What to give to `foreachBatch`.
    """

    @functools.wraps(function)
    def sealed(df: "DataFrame", epoch: int) -> None:
        side = query_side(df, epoch)
        if written is not None and written(epoch) and side.finish():
            return
        rows = side.seal()
        try:
            function(rows, epoch)
        finally:
            rows.unpersist()

    return sealed
