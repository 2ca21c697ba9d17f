"""Rows of a key in sequence, each number once, for transports that keep no order."""

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
    """Hands on the rows of each key once and in the order of their numbers.

    For what comes by a transport that keeps no order, or delivers twice: change feeds, topics of
    Kafka with several producers, HTTP. A row whose number has been handed on, or is held already,
    is dropped and counted. A row before which one is missing is held in the state of the query,
    until that one comes or is given up. The rows of a key come in order in each epoch, and lie in
    one partition.

        changes = cleancut.in_sequence(
            feed, "account", "change", first=1, on_gap="skip", gap_timeout=timedelta(minutes=10)
        )

    The query is written in output mode "append". With a `gap_timeout` by the clock Spark makes
    epochs without rows for as long as the query runs, so give it a trigger with an interval, and
    not `availableNow`, which would not end.

    Args:
        df: a streaming DataFrame.
        key: columns; the numbers of each key are a sequence of their own.
        sequence: the column of the numbers, which are whole and never null.
        previous: the column with the number of the row before, where numbers have gaps by design,
            as log sequence numbers; null in the first row of a key. Without it each number is one
            more than that before it.
        first: the number that each key begins with; lower ones are old. Without it, a key begins
            with the lowest number that has come within `gap_timeout` of its first row; without that
            either, within the first epoch that has the key. Not with `previous`.
        gap_timeout: for how long a row is held because one before it is missing; None for ever. No
            gap is given up earlier; it may be a sixteenth later, and as much as an epoch takes.
        event_time: the column by whose watermark that time passes: a timestamp with a watermark.
            Spark drops rows behind the watermark. None for the clock.
        on_gap: what happens then. "wait" goes on waiting and counts the gap as overdue, "fail" has
            the query fail, "skip" goes on with the lowest row that is held.
        max_held: how many rows of one key are held at most. Past it the query fails; with "skip"
            the first gap is given up at once.
        gap_column: name of a column to add: null, but in a row behind a gap that was given up a
            struct of `after`, the number handed on before it, and `since`, when the gap was first
            seen.
        metrics: name in the `observedMetrics` of the query's progress under which rows `dropped`,
            newly `held` and `released`, `gaps` given up and keys with gaps `overdue` are counted
            for each epoch; another one for each operator of a query. None for none.

    Returns:
        A streaming DataFrame with the columns of `df`, of which all may be null for Spark. What was
        a watermark is none in it, since rows that were held come when they may.

    Raises:
        RequestError: CLEANCUT_SEQUENCE_INVALID, with what is wrong; CLEANCUT_JAR_NOT_LOADED;
            CLEANCUT_CONNECT_UNSUPPORTED. The query fails with CLEANCUT_SEQUENCE_GAP,
            CLEANCUT_SEQUENCE_FULL, or CLEANCUT_SEQUENCE_BROKEN for a row without a number, or whose
            predecessor cannot be right.
    """
    asked: dict[str, Any] = {
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
    given = {name: value for name, value in asked.items() if value is not None}
    driver = driver_of(df.sparkSession)
    with translating():
        told = driver.side("sequence").inSequence(driver.given(df), json.dumps(given))
        return driver.frame(told)
