"""Tables for terminals, and what fields say of their columns."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import fill
from typing import Any

from cleancut._display import charts

_MAX_CELL = 60
_MIN_CELL = 8
_GAP = 2
# For a table that goes into a file or a pipe.
_WIDTH_WITHOUT_TERMINAL = 100


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: what stands above it.
        values: one for each row.
        rank: of the columns that do not fit, that of the highest rank is left out first; 0 stays.
        beside: what a notebook draws beside each value.
        trend: what it draws below the name.
        is_text: whether the values can be written; else they are only drawn.
    """

    name: str
    values: Sequence[object]
    rank: int = 0
    beside: Callable[[Sequence[Any]], Sequence[str]] | None = None
    trend: Callable[[str, Sequence[object]], str] | None = None
    is_text: bool = True

    @property
    def width(self) -> int:
        return max(len(self.name), *(len(cell(value)) for value in self.values)) + _GAP


# What the fields of a dataclass say of their columns: that numbers are compared with each other,
# and that their course is of interest.
BARS = {"beside": charts.bars}
TREND = {"trend": charts.sparkline}


def rank(number: int) -> dict[str, Any]:
    """Likewise, of a column that may be left out."""
    return {"rank": number}


def drawn(each: Callable[[Any], str]) -> dict[str, Any]:
    """Likewise, of values that a notebook draws, and a terminal leaves out."""
    return {"beside": lambda values: list(map(each, values)), "is_text": False}


def class_name(value: str | None) -> str | None:
    """A class of the JVM without its package."""
    return value and value.rpartition(".")[2]


def width() -> int:
    """Of the terminal, or of what there is in its place."""
    return shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns


def fitting(columns: Sequence[Column]) -> str:
    """A table as wide as the terminal; below it, which columns found no room."""
    limit = width() + _GAP
    shown, left_out = [of for of in columns if of.is_text], list[str]()
    while sum(of.width for of in shown) > limit and any(of.rank for of in shown):
        last = max(shown, key=lambda of: of.rank)
        shown.remove(last)
        left_out.append(last.name)
    rows = list(zip(*(of.values for of in shown), strict=True))
    table = text_table([of.name for of in shown], rows, _too_wide(shown, limit))
    if not left_out:
        return table
    named = ", ".join(of.name for of in columns if of.name in left_out)
    return f"{table}\n{fill(f'(no room for {named})', limit - _GAP)}"


def _too_wide(columns: Sequence[Column], limit: int) -> int:
    """How wide a cell may be, so that the table is not wider than a limit."""
    widths = [of.width - _GAP for of in columns]
    at_most = _MAX_CELL
    while at_most > _MIN_CELL and sum(min(of, at_most) + _GAP for of in widths) > limit:
        at_most -= 1
    return at_most


def text_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], at_most: int = _MAX_CELL
) -> str:
    """A table of aligned columns, numbers to the right; "(none)" where there are no rows."""
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
    """A line for each fact, none of them shortened."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(
        f"{name.ljust(width)}  {'' if value is None else value}".rstrip() for name, value in facts
    )


def cell(value: object, at_most: int = _MAX_CELL) -> str:
    """One value, short enough for a line."""
    if value is None:
        return ""
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return ranges(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with runs drawn together, such as "1-3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in runs)
