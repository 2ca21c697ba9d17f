"""Tables for notebooks: HTML without scripts, accessible to screen readers."""

from collections.abc import Sequence
from html import escape

from cleancut._display.charts import numeral
from cleancut._display.tables import Column, cell

_MOST_ROWS = 200

# Overrides the notebooks' own table rules by specificity; leaves colors to them.
_STYLE = (
    "<style>"
    ".cleancut .scrolled{overflow:auto;max-height:28em;margin:.3em 0}"
    ".cleancut.cleancut table{margin:0;border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".cleancut.cleancut table th,.cleancut.cleancut table td{text-align:left;"
    "padding:.25em .6em;white-space:nowrap;vertical-align:middle}"
    ".cleancut.cleancut table thead th{vertical-align:top}"
    ".cleancut.cleancut table .number{text-align:right}"
    ".cleancut.cleancut table .free{white-space:normal;overflow-wrap:anywhere;min-width:12em}"
    ".cleancut.cleancut svg{display:inline-block;vertical-align:middle;max-width:none}"
    ".cleancut.cleancut td svg{margin-left:.5em}"
    ".cleancut.cleancut th svg{display:block;margin:.2em 0 0 auto}"
    ".cleancut.cleancut figure{margin:.5em 0;max-width:56em}"
    ".cleancut.cleancut figcaption{font-size:90%;margin-top:.4em}"
    "</style>"
)


def table(columns: Sequence[Column], name: str = "table") -> str:
    """A table of columns with their charts; all text is escaped.

    Args:
        columns: all columns. Columns that a terminal omits first come last: a notebook scrolls to
            them.
        name: name of the rows, for screen readers.
    """
    count = len(columns[0].values) if columns else 0
    if not count:
        return text("(none)")
    shown = sorted(columns, key=lambda column: column.rank)
    head = "".join(map(_head, shown))
    cells = [_cells(column) for column in shown]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    more = text(f"… and {count - _MOST_ROWS} more") if count > _MOST_ROWS else ""
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _framed(_scrolled(whole, f"{name}, {count} rows") + more)


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """A row for each fact, without truncation."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f'<td class="free">{"" if value is None else escape(str(value))}</td></tr>'
        for name, value in pairs
    )
    return _framed(f"<table><tbody>{rows}</tbody></table>")


def courses(drawn: Sequence[tuple[str, str, float]]) -> str:
    """A row for each metric: its name, its trend as a chart, and its last value."""
    if not drawn:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{drawing}</td>'
        f'<td class="number">{numeral(last)}</td></tr>'
        for name, drawing, last in drawn
    )
    return _framed(f"<table><tbody>{rows}</tbody></table>")


def figure(drawing: str, caption: str) -> str:
    """A chart with a caption; empty without a chart."""
    if not drawing:
        return ""
    return _framed(f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>")


def wide_figure(drawing: str, caption: str, label: str) -> str:
    """A chart that may be wider than the output, with a caption.

    Args:
        drawing: SVG of a fixed width.
        caption: the caption.
        label: name of the chart, for screen readers.
    """
    if not drawing:
        return ""
    scrolled = _scrolled(drawing, label)
    return _framed(f"<figure>{scrolled}<figcaption>{escape(caption)}</figcaption></figure>")


def text(content: str) -> str:
    """A paragraph."""
    return f"<p>{escape(content)}</p>"


def _head(column: Column) -> str:
    number = ' class="number"' if _is_numeric(column) else ""
    line = column.trend(column.name, column.values) if column.trend else ""
    return f'<th scope="col"{number}>{escape(column.name)}{line}</th>'


def _cells(column: Column) -> list[str]:
    drawings = column.drawing(column.values) if column.drawing else [""] * len(column.values)
    opened = '<td class="number">' if _is_numeric(column) else "<td>"
    return [
        f"{opened}{escape(cell(value)) if column.is_text else ''}{drawing}</td>"
        for value, drawing in zip(column.values[:_MOST_ROWS], drawings, strict=False)
    ]


def _is_numeric(column: Column) -> bool:
    known = [value for value in column.values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _scrolled(inner: str, label: str) -> str:
    """A scrollable region that has a name and is reachable by the keyboard."""
    return (
        f'<div class="scrolled" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"{inner}</div>"
    )


def _framed(inner: str) -> str:
    return f'<div class="cleancut">{_STYLE}{inner}</div>'
