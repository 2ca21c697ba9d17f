"""Orders the rows of each key by their sequence numbers, for transports without order."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from cleancut._session.driver import driver_of
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_sequence(
    df: "DataFrame",
    key: str | Sequence[str],
    sequence: str,
    *,
    previous: str | None = None,
    first: int | None = None,
    gap_timeout: timedelta | None = None,
    event_time: str | None = None,
    on_gap: Literal["wait", "fail", "skip"] = "wait",
    max_held: int = 100_000,
    gap_column: str | None = None,
    metrics: str | None = "in_sequence",
) -> "DataFrame":
    """Emits the rows of each key once and ordered by their sequence numbers.

    For transports that do not preserve order or deliver duplicates: change feeds, Kafka topics with
    several producers, HTTP. A row whose number was emitted or is held already is dropped and
    counted. A row with a missing predecessor is held in the state of the query, until the
    predecessor arrives or is skipped. In each epoch the rows of a key are in order and in one
    partition.

        changes = cleancut.in_sequence(
            feed, "account", "change", first=1, on_gap="skip", gap_timeout=timedelta(minutes=10)
        )

    The query must use output mode "append". With a `gap_timeout` in processing time Spark runs
    epochs without rows as long as the query runs. So use a trigger with an interval, and not
    `availableNow`, which would not end.

    Args:
        df: a streaming DataFrame.
        key: key columns; each key has its own sequence.
        sequence: column of the sequence numbers, which are integers and never null.
        previous: column with the number of the previous row, if numbers have gaps by design, such
            as log sequence numbers; null in the first row of a key. Without it each number is the
            previous one plus one.
        first: the first number of each key; lower ones are old. Without it, a key begins with the
            lowest number that arrives within `gap_timeout` of its first row; without a timeout,
            within the first epoch that has the key. Cannot be combined with `previous`.
        gap_timeout: maximum time for which a row is held because of a missing one; None is
            unlimited. No gap expires earlier; it may expire later by a sixteenth of the time and
            the duration of an epoch.
        event_time: the column whose watermark measures that time: a timestamp with a watermark.
            Spark drops rows that are later than the watermark. None is processing time.
        on_gap: behavior at the timeout. "wait" continues to wait and counts the gap as overdue,
            "fail" fails the query, "skip" continues with the lowest held row.
        max_held: maximum number of held rows of one key. Above it the query fails; with "skip" the
            first gap expires immediately.
        gap_column: name of an additional column: null, but in a row after a skipped gap a struct of
            `after`, the last number emitted before it, and `since`, the time at which the gap was
            first seen.
        metrics: name in the `observedMetrics` of the query's progress for the number of rows
            `dropped`, newly `held` and `released`, of skipped `gaps`, and of keys with `overdue`
            gaps, per epoch. Each operator of a query needs its own name. None for no metrics.

    Returns:
        A streaming DataFrame with the columns of `df`, all of them nullable. It has no watermark,
        because held rows may be emitted at any later time.

    Raises:
        RequestError: CLEANCUT_SEQUENCE_INVALID, an argument is invalid; CLEANCUT_JAR_NOT_LOADED;
            CLEANCUT_CONNECT_UNSUPPORTED. The query fails with CLEANCUT_SEQUENCE_GAP,
            CLEANCUT_SEQUENCE_FULL, or CLEANCUT_SEQUENCE_BROKEN for a row without a number, or with
            an impossible predecessor.
    """
    options: dict[str, Any] = {
        "key": [key] if isinstance(key, str) else list(key),
        "sequence": sequence,
        "previous": previous,
        "first": first,
        "timeoutMs": None if gap_timeout is None else gap_timeout // timedelta(milliseconds=1),
        "eventTime": event_time,
        "onGap": on_gap,
        "maxHeld": max_held,
        "gapColumn": gap_column,
        "metrics": metrics,
    }
    given = {name: value for name, value in options.items() if value is not None}
    driver = driver_of(df.sparkSession)
    with translating():
        handle = driver.side("sequence").inSequence(driver.given(df), json.dumps(given))
        return driver.frame(handle)
