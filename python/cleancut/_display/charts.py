"""Small charts for notebooks: SVG without scripts, each with its values as text.

Lines and text use `currentColor`, which every theme of a notebook sets. A fill that depends on
`prefers-color-scheme` would follow the browser, whose preference may differ from the theme. So the
two fills have a lightness with contrast to white and to black, and what they distinguish also
differs in form.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise
from statistics import median
from typing import TypeVar

Of = TypeVar("Of")

# Both have a contrast of at least 3:1 with white and black backgrounds.
PLAIN = "#3b82f6"
OTHER = "#d97706"

# Above these numbers, adjacent values are combined, which keeps the output small.
_MOST_MARKS = 240
_MOST_POINTS = 120
_MOST_COLUMNS = 48

_BAR_WIDTH, _BAR_HEIGHT = 64, 8
_LINE_WIDTH, _LINE_HEIGHT = 72, 18
_COLUMNS_WIDTH, _COLUMNS_HEIGHT = 96, 24
_NARROWEST, _WIDEST = 5, 16
_TIMELINE_HEIGHT, _BASELINE, _TALLEST = 92, 62, 42
# Minimum distance between two labels, in percent of the width.
_LABEL_GAP = 26


@dataclass(frozen=True)
class Mark:
    """An event with a size, at a time.

    Attributes:
        at: time of the event.
        size: size, shown as the height.
        group: group of consecutive marks; each group has a label at its start.
        is_other: whether the mark is highlighted.
        text: description.
    """

    at: datetime
    size: float
    group: str
    is_other: bool
    text: str


def numeral(number: float) -> str:
    """A number with six significant digits or all integer digits, never in exponent form."""
    return f"{number:.0f}" if abs(number) >= 100_000 else f"{number:g}"


def bars(values: Sequence[object]) -> list[str]:
    """A bar for each number, proportional to the largest; empty for other values.

    A single number has no bar. Screen readers ignore bars: each is next to its number.
    """
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    largest = max(known, default=0)
    return [
        ""
        if number is None or largest <= 0 or len(known) < 2
        else (
            f'<svg width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" aria-hidden="true">'
            f'<rect width="{max(number, 0) / largest * _BAR_WIDTH:.1f}" height="{_BAR_HEIGHT}" '
            f'fill="{PLAIN}"/></svg>'
        )
        for number in numbers
    ]


def sparkline(name: str, values: Sequence[object]) -> str:
    """The trend of a number, with a dot at the last value and gaps for None."""
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < 2:
        return ""
    drawn = [_largest(part) for part in _parts(numbers, _MOST_POINTS)]
    low, high = min(known), max(known)
    step = (_LINE_WIDTH - 4) / max(len(drawn) - 1, 1)
    points = [
        None
        if number is None
        else (2 + step * at, _LINE_HEIGHT - 3 - _share(number, low, high) * (_LINE_HEIGHT - 6))
        for at, number in enumerate(drawn)
    ]
    last = next(point for point in reversed(points) if point is not None)
    label = (
        f"{name}: {len(known)} values from {numeral(low)} to {numeral(high)}, "
        f"the last {numeral(known[-1])}"
    )
    return (
        f"{_opened(label, _LINE_WIDTH, _LINE_HEIGHT)}"
        f'<path d="{_path(points)}" fill="none" stroke="currentColor" stroke-width="1.2"/>'
        f'<circle cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2" fill="{PLAIN}"/></svg>'
    )


def spread(sizes: Sequence[tuple[str, float]]) -> str:
    """A bar for each of some named sizes, the largest highlighted, and a line at the median."""
    if not sizes:
        return ""
    middle = median(size for _, size in sizes)
    name, largest = max(sizes, key=lambda item: item[1])
    drawn = [max(part, key=lambda item: item[1]) for part in _parts(sizes, _MOST_COLUMNS)]
    height = _COLUMNS_HEIGHT - 1
    wide = min(max(_COLUMNS_WIDTH // len(drawn), _NARROWEST), _WIDEST)
    columns = [
        f'<rect x="{at * wide}" y="{height - tall:.1f}" width="{wide - 1}" '
        f'height="{tall:.1f}" fill="{OTHER if label_of_size == name else PLAIN}">'
        f"<title>{escape(label_of_size)}: {numeral(size)}</title></rect>"
        for at, (label_of_size, size) in enumerate(drawn)
        for tall in [max(_share(size, 0, largest) * (height - 1), 1)]
    ]
    width = len(drawn) * wide
    level = height - _share(middle, 0, largest) * (height - 1)
    label = (
        f"{len(sizes)} sizes, the largest {name} with {numeral(largest)}, "
        f"the median {numeral(middle)}"
    )
    return (
        f"{_opened(label, width, _COLUMNS_HEIGHT)}{''.join(columns)}"
        f'<line x1="0" x2="{width}" y1="{level:.1f}" y2="{level:.1f}" stroke="currentColor" '
        f'stroke-dasharray="3 2"/></svg>'
    )


def timeline(marks: Sequence[Mark], label: str) -> str:
    """Marks by time, over the full width; highlighted marks have a dot.

    Args:
        marks: the marks, in order.
        label: description of the chart.
    """
    if not marks:
        return ""
    first, last = marks[0].at, marks[-1].at
    largest = max(mark.size for mark in marks)
    drawn = [_drawn_as_one(part) for part in _parts(marks, _MOST_MARKS)]
    places = [_place(mark.at, first, last) for mark in drawn]
    body = [
        _mark(mark, place, _share(mark.size, 0, largest))
        for mark, place in zip(drawn, places, strict=True)
    ]
    begun = [at for at, mark in enumerate(drawn) if at == 0 or mark.group != drawn[at - 1].group]
    body += _groups((places[at], drawn[at].group) for at in begun)
    body += [
        f'<line x1="0" x2="100%" y1="{_BASELINE}" y2="{_BASELINE}" stroke="currentColor"/>',
        _text("0", "start", _TIMELINE_HEIGHT - 14, f"{first:%Y-%m-%d}"),
        _text("0", "start", _TIMELINE_HEIGHT - 2, f"{first:%H:%M:%S}"),
    ]
    if last > first:
        body += [
            _text("100%", "end", _TIMELINE_HEIGHT - 14, f"{last:%Y-%m-%d}"),
            _text("100%", "end", _TIMELINE_HEIGHT - 2, f"{last:%H:%M:%S}"),
        ]
    return f"{_opened(label, '100%', _TIMELINE_HEIGHT)}{''.join(body)}</svg>"


def _mark(mark: Mark, place: float, share: float) -> str:
    top = _BASELINE - max(share * _TALLEST, 3)
    dot = f'<circle cx="{place:.2f}%" cy="{top - 5:.1f}" r="2.5" fill="{OTHER}"/>'
    return (
        f"<g><title>{escape(mark.text)}</title>"
        f'<line x1="{place:.2f}%" x2="{place:.2f}%" y1="{_BASELINE}" y2="{top:.1f}" '
        f'stroke="{OTHER if mark.is_other else PLAIN}" stroke-width="3"/>'
        f"{dot if mark.is_other else ''}</g>"
    )


def _groups(begun: Iterable[tuple[float, str]]) -> list[str]:
    """A line where each group begins, with its name if there is room."""
    lines, free_from = list[str](), 0.0
    for place, name in begun:
        lines.append(
            f'<line x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="{_BASELINE + 4}" '
            f'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="2 3"/>'
        )
        if place >= free_from:
            is_late = place > 100 - _LABEL_GAP
            anchor, offset = ("end", -4) if is_late else ("start", 4)
            lines.append(_text(f"{place:.2f}%", anchor, 10, name, offset))
            free_from = place + _LABEL_GAP
    return lines


def _drawn_as_one(part: Sequence[Mark]) -> Mark:
    tallest = max(part, key=lambda mark: mark.size)
    text = tallest.text if len(part) == 1 else f"{part[0].text} … {part[-1].text}"
    is_other = any(mark.is_other for mark in part)
    return Mark(part[0].at, tallest.size, part[0].group, is_other, text)


def _place(at: datetime, first: datetime, last: datetime) -> float:
    """The position in percent of the width, with a margin at both ends."""
    span = (last - first).total_seconds()
    return 50.0 if span <= 0 else 1 + 98 * (at - first).total_seconds() / span


def _parts(values: Sequence[Of], at_most: int) -> list[Sequence[Of]]:
    """Groups of adjacent values, up to a number of groups."""
    size = -(-len(values) // at_most)
    return [values[at : at + size] for at in range(0, len(values), max(size, 1))]


def _largest(part: Iterable[float | None]) -> float | None:
    return max((number for number in part if number is not None), default=None)


def _share(number: float, low: float, high: float) -> float:
    return 0.5 if high <= low else (number - low) / (high - low)


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    steps = list[str]()
    for before, point in pairwise([None, *points]):
        if point is not None:
            steps.append(f"{'M' if before is None else 'L'}{point[0]:.1f} {point[1]:.1f}")
    return "".join(steps)


def _opened(label: str, width: int | str, height: int) -> str:
    text = escape(label)
    return (
        f'<svg role="img" aria-label="{text}" width="{width}" height="{height}">'
        f"<title>{text}</title>"
    )


def _text(x: str, anchor: str, y: int, text: str, offset: int = 0) -> str:
    return (
        f'<text x="{x}" dx="{offset}" y="{y}" text-anchor="{anchor}" fill="currentColor" '
        f'font-size="11">{escape(text)}</text>'
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
