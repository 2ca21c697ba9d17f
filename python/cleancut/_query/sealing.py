"""Seals an epoch before its output becomes visible, for `foreachBatch` functions."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cleancut._session.connect import is_connect
from cleancut._session.driver import driver_of, text_of
from cleancut.errors import error_of, translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def seal(df: "DataFrame", epoch: int) -> "DataFrame":
    """Runs the tasks of an epoch and makes its state durable, before any output becomes visible.

    The rows of the batch are cached, as by `df.persist()`, so that the output equals the sealed
    rows: write the returned DataFrame, and call its `unpersist()` afterwards.
    `cleancut.sinks.sealed` does both.

    If it is called first in a `foreachBatch` function, tasks commit without waiting for the object
    store, and the state of the epoch is written in as few objects as possible. A function that
    makes output visible before it seals loses only that, and cannot leave in-flight rows. If the
    checkpoint has no coordinator, each commit is durable by itself, and only the tasks run.

    Args:
        df: the batch that Spark passes to the function.
        epoch: the epoch that Spark passes to the function.

    Returns:
        The DataFrame to write: `df` itself, or the same rows if Spark could not read a cached `df`
        again, for example a sorted aggregation.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query; write nothing.
        RetryableError: CLEANCUT_EPOCH_INCOMPLETE; write nothing.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query;
            CLEANCUT_CONNECT_UNSUPPORTED.
    """
    return _rows(df, _call(df, epoch, "seal", epoch))


def compute(df: "DataFrame", epoch: int) -> "DataFrame":
    """The first half of `seal`: runs the tasks and caches the rows, but makes nothing durable.

    For sinks that stage rows invisibly, and publish them after `close`. Arguments, result and
    errors are those of `seal`.
    """
    return _rows(df, _call(df, epoch, "compute", epoch))


def hold(df: "DataFrame", epoch: int) -> None:
    """Replaces `compute` for a sink that reads the whole batch in one job, and only once.

    That job runs the tasks of the epoch. Arguments and errors are those of `seal`.
    """
    _call(df, epoch, "hold", epoch)


def close(df: "DataFrame", epoch: int, output: str) -> None:
    """The second half of `seal`: makes the epoch durable, so that its output may become visible.

    Args:
        df: the batch that Spark passes to the function.
        epoch: the epoch that Spark passes to the function.
        output: text by which the sink finds its staged output. If the seal is an object, as in
            every epoch with in-flight rows, it stores the text; `sealed_output` returns it to a
            later run.

    Raises:
        FencedError, RetryableError, RequestError: as for `seal`.
    """
    _call(df, epoch, "close", epoch, output)


def sealed_output(df: "DataFrame", epoch: int) -> str | None:
    """The text that an earlier run passed to `close`; None if no seal has it."""
    return text_of(_call(df, epoch, "sealedOutput", epoch))


def finish(df: "DataFrame", epoch: int) -> bool:
    """Completes an epoch that an earlier run has sealed, for a sink that has the rows of that run.

    State and in-flight rows are those of the seal, even if the same input gives other rows now.
    Call it instead of `seal`.

    Args:
        df: the batch that Spark passes to the function.
        epoch: the epoch that Spark passes to the function.

    Returns:
        False if no earlier run has sealed the epoch, so that it must be sealed.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query.
        CorruptedError: the seal cannot be read.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query.
    """
    return bool(_call(df, epoch, "finish", epoch))


def batch(df: "DataFrame", epoch: int) -> dict[str, Any]:
    """The identity of a batch, and the records of its checkpoint for sinks.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, the batch belongs to no running query.
    """
    described: dict[str, Any] = json.loads(_call(df, epoch, "batch", epoch))
    return described


def published(df: "DataFrame", epoch: int, sinks: Sequence[str]) -> None:
    """Records in the checkpoint that sinks have published an epoch.

    Args:
        df: the batch that Spark passes to the function.
        epoch: the epoch.
        sinks: the keys of their ledgers.

    Raises:
        FencedError: CLEANCUT_FENCED, another driver owns the query.
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, as `batch`.
    """
    _call(df, epoch, "published", epoch, json.dumps(list(sinks)))


def operations(df: "DataFrame", after: int, epoch: int) -> list[dict[str, int]]:
    """The operations on the checkpoint between an epoch and a batch: `epoch` and `source`.

    Raises:
        RequestError: CLEANCUT_SEAL_BATCH_INVALID, as `batch`.
    """
    operations: list[dict[str, int]] = json.loads(_call(df, epoch, "operations", after, epoch))
    return operations


def _call(df: "DataFrame", epoch: int, method: str, *arguments: Any) -> Any:
    """Calls a method of the JVM side for a batch."""
    if not is_connect(df) and getattr(df, "_jdf", None) is None:
        raise error_of("CLEANCUT_SEAL_BATCH_INVALID", epoch=epoch)
    driver = driver_of(df.sparkSession)
    with translating():
        return getattr(driver.side("seal"), method)(driver.given(df), *arguments)


def _rows(df: "DataFrame", rows: Any) -> "DataFrame":
    if is_connect(df):
        return driver_of(df.sparkSession).frame(rows)
    return df if rows.equals(df._jdf) else type(df)(rows, df.sparkSession)
