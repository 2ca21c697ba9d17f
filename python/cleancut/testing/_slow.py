"""Columns that are slow to compute, row by row, in the task."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def slow(column: "Column | str", *, per_row_ms: int, when: "Column | None" = None) -> "Column":
    """A column with the values of another one, each computed with a delay.

    The task waits in the JVM, without a Python worker. The task that computes the column is slowed:
    put it after a stateful operator to slow that operator's tasks, because no exchange is in
    between, or directly after the source to slow the tasks that read.

    Spark removes unused columns, and with them the delay.

    Args:
        column: the column with the values.
        per_row_ms: delay of each value in milliseconds.
        when: rows with the delay; None is all.

    Raises:
        ValueError: the time is negative.
    """
    if per_row_ms < 0:
        raise ValueError(f"A row cannot take {per_row_ms} ms.")
    return after(called("java.lang.Thread", "sleep", per_row_ms), column, when)


def after(action: "Column", column: "Column | str", when: "Column | None") -> "Column":
    """A column whose values are computed after a call, for some rows or for all."""
    from pyspark.sql import functions as f

    value = f.col(column) if isinstance(column, str) else column
    acted = action if when is None else f.when(when, action)
    # Both branches are the value. Spark keeps the condition, because the call is opaque to it.
    return f.when(acted.isNull(), value).otherwise(value)


def called(class_name: str, method: str, *arguments: str | int) -> "Column":
    """The result of a static Java method, called for each row; a number is passed as `long`."""
    from pyspark.sql import functions as f

    literals = (f.lit(a).cast("long") if isinstance(a, int) else f.lit(a) for a in arguments)
    return f.reflect(f.lit(class_name), f.lit(method), *literals)
