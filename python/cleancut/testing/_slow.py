"""Columns that cost something to compute: what is acted out, row by row, in the task."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def slow(column: "Column | str", *, per_row_ms: int, when: "Column | None" = None) -> "Column":
    """A column with the values of another one, each of which takes its time.

    The task waits, in the JVM and without a Python worker. It is the task that computes the column:
    put it after a stateful operator to slow that operator's tasks, since no exchange lies between,
    and directly after the source to slow the tasks that read.

    Spark leaves out a column that nobody reads, and its time with it.

    Args:
        column: whose values it has.
        per_row_ms: how long each takes, in milliseconds.
        when: rows for which it does; all of them if left out.

    Raises:
        ValueError: the time is negative.
    """
    if per_row_ms < 0:
        raise ValueError(f"A row cannot take {per_row_ms} ms.")
    return after(called("java.lang.Thread", "sleep", per_row_ms), column, when)


def after(act: "Column", column: "Column | str", when: "Column | None") -> "Column":
    """A column whose values are computed after an act, for some rows or for all."""
    from pyspark.sql import functions as f

    value = f.col(column) if isinstance(column, str) else column
    acted = act if when is None else f.when(when, act)
    # Both branches are the value. Spark keeps the condition, since it takes no act for granted.
    return f.when(acted.isNull(), value).otherwise(value)


def called(class_name: str, method: str, *arguments: str | int) -> "Column":
    """What a static method of Java returns, called for each row; a number is a `long` to it."""
    from pyspark.sql import functions as f

    literals = (f.lit(a).cast("long") if isinstance(a, int) else f.lit(a) for a in arguments)
    return f.reflect(f.lit(class_name), f.lit(method), *literals)
