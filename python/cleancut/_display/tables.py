"""Tables for terminals and notebooks."""

from collections.abc import Sequence
from html import escape

_MAX_CELL = 60


def text_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns, numbers to the right; "(none)" where there are no rows."""
    if not rows:
        return "(none)"
    cells = [[cell(value) for value in row] for row in rows]
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


def html_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The same as HTML; all text is escaped."""
    if not rows:
        return html_text("(none)")
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def cell(value: object) -> str:
    """One value, short enough for a line."""
    if value is None:
        return ""
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return ranges(value)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with runs drawn together, such as "1-3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in runs)
