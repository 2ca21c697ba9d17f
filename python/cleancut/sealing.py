"""Sealing an epoch before its output is made visible, for functions of `foreachBatch`."""

from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def seal(df: "DataFrame", epoch: int) -> "DataFrame":
    """Runs the tasks of an epoch and makes its state durable, before any output can be seen.

    The rows of the batch are kept, as by `df.persist()`, so that what is written afterwards is what
    was sealed: write what is returned, and call its `unpersist()` then. `cleancut.sinks.sealing`
    does both.

    Called first in a function for `foreachBatch`, it lets tasks commit without waiting for the
    store, and the state of the epoch goes there in as few objects as it fits into. A function that
    makes something visible before it seals loses that, and nothing else. Where the checkpoint
    location has no coordinator, each commit is durable by itself, and only the tasks are run.

    Args:
        df: as Spark hands it to the function.
        epoch: likewise.

    Returns:
        What to write: `df` itself, or the same rows where Spark could not read them again once they
        are kept, as those of an aggregation that it sorts.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query; nothing may be written.
        RetryableError: CLEANCUT_EPOCH_INCOMPLETE; likewise.
        RequestError: CLEANCUT_SEAL_MISPLACED, this is not the batch of a query that runs.
    """
    batch = getattr(df, "_jdf", None)
    if batch is None:
        raise error_of("CLEANCUT_SEAL_MISPLACED", epoch=epoch)
    jvm: Any = df.sparkSession._jvm
    with translating():
        rows = jvm.io.cleancut.CleancutSeal.seal(batch, epoch)
    return df if rows.equals(batch) else type(df)(rows, df.sparkSession)
