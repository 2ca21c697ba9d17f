"""Seals the epochs of a user's own `foreachBatch` function."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from cleancut._error_messages import safe_for_spark, show_errors_first
from cleancut.sinks._core.query_side import query_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sealed(
    function: Callable[["DataFrame", int], None],
    *,
    written: Callable[[int], bool] | None = None,
) -> Callable[["DataFrame", int], None]:
    """Seals each epoch before the function is called.

    The function receives a batch whose rows are computed and persisted, and whose state is durable.
    It can read the batch repeatedly; the query's tasks run once. The function must be idempotent:
    if the driver fails before the commit, the epoch runs again, and the function is called again
    with the same rows and the same epoch. If the query is not deterministic (random values, sums of
    floating-point numbers), an epoch with in-flight rows then fails with
    CLEANCUT_IN_FLIGHT_INPUT_MISMATCH, unless `written` returns true.

    Without this decorator a query in mode "unaligned" or "auto" is aligned, and
    `coordinator(query).status().aligned` has the reason. Decorate the function that `foreachBatch`
    receives, not one that it calls after another action on the batch: shuffle inputs that the
    action has read are aligned in that epoch.

    Args:
        function: the `foreachBatch` function of the batch and the epoch.
        written: whether the function has completely written an epoch. If it returns true and an
            earlier run has sealed the epoch, the epoch is completed from that seal, and the
            function is not called.

    Returns:
        The function for `foreachBatch`.
    """
    show_errors_first()

    @functools.wraps(function)
    def sealed(df: "DataFrame", epoch: int) -> None:
        with safe_for_spark():
            side = query_side(df, epoch)
            if written is not None and written(epoch) and side.finish():
                return
            rows = side.seal()
            try:
                function(rows, epoch)
            finally:
                rows.unpersist()

    return sealed
