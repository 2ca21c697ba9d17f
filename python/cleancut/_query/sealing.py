"""Sealing an epoch before its output is made visible, for functions of `foreachBatch`."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cleancut._session.connect import is_connect
from cleancut._session.driver import driver_of, text_of
from cleancut.errors import error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def seal(df: "DataFrame", epoch: int) -> "DataFrame":
    """Runs the tasks of an epoch and makes its state durable, before any output can be seen.

    The rows of the batch are kept, as by `df.persist()`, so that what is written afterwards is what
    was sealed: write what is returned, and call its `unpersist()` then. `cleancut.sinks.sealed`
    does both.

    Called first in a function for `foreachBatch`, it lets tasks commit without waiting for the
    store, and the state of the epoch goes there in as few objects as it fits into. A function that
    makes something visible before it seals loses that, and leaves no rows in flight, and nothing
    else. Where the checkpoint location has no coordinator, each commit is durable by itself, and
    only the tasks are run.

    Args:
        df: as Spark hands it to the function.
        epoch: likewise.

    Returns:
        What to write: `df` itself, or the same rows where Spark could not read them again once they
        are kept, as those of an aggregation that it sorts.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query; nothing may be written.
        RetryableError: CLEANCUT_EPOCH_INCOMPLETE; likewise.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, this is not the batch of a query that runs;
            CLEANCUT_CONNECT_UNSUPPORTED.
    """
    return _rows(df, _asked(df, epoch, "seal", epoch))


def compute(df: "DataFrame", epoch: int) -> "DataFrame":
    """The first half of `seal`: runs the tasks and keeps the rows, and makes nothing durable.

    For sinks that write the rows where nobody sees them, and show them after `close`. Arguments,
    result and errors are those of `seal`.
    """
    return _rows(df, _asked(df, epoch, "compute", epoch))


def hold(df: "DataFrame", epoch: int) -> None:
    """In the place of `compute`, for a sink that reads the batch in one job, whole, and only once.

    The tasks of the epoch run in that job. Arguments and errors are those of `seal`.
    """
    _asked(df, epoch, "hold", epoch)


def close(df: "DataFrame", epoch: int, output: str) -> None:
    """The other half: makes the epoch durable; what is written of it may be shown then.

    Args:
        df: as Spark hands it to the function.
        epoch: likewise.
        output: by what the sink finds what it has written. The seal keeps it where it is an object,
            as in every epoch that has rows in flight; `sealed_output` gives it to a later run.

    Raises:
        FencedError, RetryableError, RequestError: as `seal`.
    """
    _asked(df, epoch, "close", epoch, output)


def sealed_output(df: "DataFrame", epoch: int) -> str | None:
    """What an earlier run gave to `close`; None if the epoch has no seal that says so."""
    return text_of(_asked(df, epoch, "sealedOutput", epoch))


def finish(df: "DataFrame", epoch: int) -> bool:
    """Finishes an epoch that an earlier run has sealed, for a sink that has the rows of that run.

    Its state, and the rows that it left in flight, are taken as they were sealed, also where the
    same input gives other rows now. Call it in place of `seal`.

    Args:
        df: as Spark hands it to the function.
        epoch: likewise.

    Returns:
        False if no earlier run has sealed the epoch: it is to be sealed, as any other.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query.
        CorruptedError: what is sealed cannot be read.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, this is not the batch of a query that runs.
    """
    return bool(_asked(df, epoch, "finish", epoch))


def batch(df: "DataFrame", epoch: int) -> dict[str, Any]:
    """Which epoch of which run a batch is, with what its checkpoint records for sinks.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, this is not the batch of a query that runs.
    """
    found: dict[str, Any] = json.loads(_asked(df, epoch, "batch", epoch))
    return found


def published(df: "DataFrame", epoch: int, sinks: Sequence[str]) -> None:
    """Has the checkpoint record that sinks have published an epoch.

    Args:
        df: as Spark hands it to the function.
        epoch: number of the epoch.
        sinks: the keys of their ledgers.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, as `batch`.
    """
    _asked(df, epoch, "published", epoch, json.dumps(list(sinks)))


def acts(df: "DataFrame", after: int, epoch: int) -> list[dict[str, int]]:
    """The acts on the checkpoint between an epoch and that of a batch: `epoch` and `source`.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, as `batch`.
    """
    found: list[dict[str, int]] = json.loads(_asked(df, epoch, "operations", after, epoch))
    return found


def _asked(df: "DataFrame", epoch: int, method: str, *arguments: Any) -> Any:
    """What a method of the JVM side says of a batch."""
    if not is_connect(df) and getattr(df, "_jdf", None) is None:
        raise error_of("CLEANCUT_SEAL_BATCH_INVALID", epoch=epoch)
    driver = driver_of(df.sparkSession)
    with translating():
        return getattr(driver.side("seal"), method)(driver.given(df), *arguments)


def _rows(df: "DataFrame", rows: Any) -> "DataFrame":
    if is_connect(df):
        return driver_of(df.sparkSession).frame(rows)
    return df if rows.equals(df._jdf) else type(df)(rows, df.sparkSession)
