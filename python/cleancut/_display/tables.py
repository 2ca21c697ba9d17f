"""Tables for terminals, and the display metadata of fields."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import fill
from typing import Any, cast

from cleancut._display import charts

_MAX_CELL = 60
_MIN_CELL = 8
_GAP = 2
# Width of a table in a file or a pipe.
_WIDTH_WITHOUT_TERMINAL = 100


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: heading of the column.
        values: the values, one per row.
        rank: if columns do not fit, the one with the highest rank is omitted first; 0 is never
            omitted.
        drawing: returns a chart next to each value, for notebooks.
        trend: returns a chart below the heading, for notebooks.
        is_text: whether the values have a text form; otherwise they are only drawn.
    """

    name: str
    values: Sequence[object]
    rank: int = 0
    drawing: Callable[[Sequence[Any]], Sequence[str]] | None = None
    trend: Callable[[str, Sequence[object]], str] | None = None
    is_text: bool = True

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)

    @property
    def width(self) -> int:
        return max(len(self.name), *(len(cell(value)) for value in self.values)) + _GAP


# Metadata of a dataclass field: numbers that are compared with each other, and numbers whose trend
# is shown.
BARS = {"drawing": charts.bars}
TREND = {"trend": charts.sparkline}


def rank(number: int) -> dict[str, Any]:
    """Metadata of a column that may be omitted."""
    return {"rank": number}


def drawn(each: Callable[[Any], str]) -> dict[str, Any]:
    """Metadata of values that a notebook draws and a terminal omits."""
    return {"drawing": lambda values: list(map(each, values)), "is_text": False}


def class_name(value: str | None) -> str | None:
    """A JVM class name without its package."""
    return value and value.rpartition(".")[2]


def width() -> int:
    """The width of the terminal, or the default."""
    return shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns


def fitting(columns: Sequence[Column]) -> str:
    """A table as wide as the terminal, followed by the names of omitted columns."""
    limit = width() + _GAP
    shown, left_out = [column for column in columns if column.is_text], list[str]()
    while sum(column.width for column in shown) > limit and any(column.rank for column in shown):
        last = max(shown, key=lambda column: (column.rank > 0 and column.is_empty, column.rank))
        shown.remove(last)
        if not last.is_empty:
            left_out.append(last.name)
    rows = list(zip(*(column.values for column in shown), strict=True))
    table = text_table([column.name for column in shown], rows, _too_wide(shown, limit))
    if not left_out:
        return table
    named = ", ".join(column.name for column in columns if column.name in left_out)
    return f"{table}\n{fill(f'(no room for {named})', limit - _GAP)}"


def fitted(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as wide as the terminal, of columns that are never omitted; "(none)" without rows."""
    columns = zip(names, zip(*rows, strict=True), strict=True) if rows else ()
    return fitting([Column(name, values) for name, values in columns])


def _too_wide(columns: Sequence[Column], limit: int) -> int:
    """The maximum width of a cell, so that the table does not exceed the limit."""
    widths = [column.width - _GAP for column in columns]
    at_most = _MAX_CELL
    while at_most > _MIN_CELL and sum(min(column, at_most) + _GAP for column in widths) > limit:
        at_most -= 1
    return at_most


def text_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], at_most: int = _MAX_CELL
) -> str:
    """A table of aligned columns, numbers to the right; "(none)" without rows."""
    if not rows:
        return "(none)"
    cells = [[cell(value, at_most) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [isinstance(value, int | float) for value in rows[0]]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [list(names), ["-" * width for width in widths], *cells]
    ]
    return "\n".join(lines)


def text_facts(facts: Sequence[tuple[str, object]]) -> str:
    """A line for each fact, without truncation."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(
        f"{name.ljust(width)}  {'' if value is None else value}".rstrip() for name, value in facts
    )


def cell(value: object, at_most: int = _MAX_CELL) -> str:
    """One value, short enough for a line."""
    text = _words(value)
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def _words(value: object) -> str:
    """A value as a user would write it, not as Python does."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return ranges(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(item)}".rstrip() for name, item in value.items())
    # The text of a chain, which is a tuple, is that of its class.
    if type(value) in (tuple, list):
        return ", ".join(map(_words, cast("Sequence[object]", value)))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with consecutive ones combined, such as "1-3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in runs)
