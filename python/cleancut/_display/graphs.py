"""A directed graph as a drawing: boxes in columns, arrows from left to right, loops below.

Columns are layers as defined by Sugiyama, Tagawa and Toda (*Methods for Visual Understanding of
Hierarchical System Structures*, 1981). Arrows that close a loop are drawn separately. Each box is
one column after the last of its senders, an arrow over several columns has a point in each, and the
boxes of a column are ordered by the positions of their senders.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import fmean

from cleancut._display.charts import OTHER, PLAIN

_WIDTH, _HEIGHT = 176, 58
_BETWEEN, _BELOW = 132, 26
_MARGIN = 8
# Height of a loop below all boxes.
_LOOP = 26
_FONT = 12
# Maximum width of a letter, so that texts fit into boxes.
_LETTER = 7.6
_SWEEPS = 4


@dataclass(frozen=True)
class Node:
    """A box.

    Attributes:
        name: name of the box, which is its first line.
        text: its second line.
        is_other: whether the box is highlighted.
        title: full description.
    """

    name: str
    text: str
    is_other: bool = False
    title: str = ""


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another, or to itself.

    Attributes:
        tail: name of the box at its start.
        head: name of the box at its end.
        text: label of the arrow.
    """

    tail: str
    head: str
    text: str


def graph(nodes: Sequence[Node], arrows: Sequence[Arrow], label: str) -> str:
    """Draws boxes and arrows; empty without boxes.

    Args:
        nodes: the boxes, with unique names.
        arrows: the arrows between them.
        label: description of the graph.
    """
    if not nodes:
        return ""
    layout = _Layout(nodes, arrows)
    text = escape(label)
    drawn = "".join([*layout.arrows(), *map(layout.box, nodes)])
    return (
        f'<svg role="img" aria-label="{text}" width="{layout.width}" height="{layout.height}" '
        f'viewBox="0 0 {layout.width} {layout.height}"><title>{text}</title>{_HEAD}{drawn}</svg>'
    )


_HEAD = (
    '<defs><marker id="cleancut-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>'
)

# A box by its name, or the point of an arrow in a column between its ends.
_Place = str | tuple[int, int]


class _Layout:
    """The positions of boxes and arrows."""

    def __init__(self, nodes: Sequence[Node], arrows: Sequence[Arrow]) -> None:
        names = [node.name for node in nodes]
        closing = _closing_loops(names, arrows)
        self._loops = [arrow for at, arrow in enumerate(arrows) if at in closing]
        onward = [arrow for at, arrow in enumerate(arrows) if at not in closing]
        columns = _columns(names, onward)
        # The points of each arrow.
        self._ways: list[tuple[Arrow, list[_Place]]] = [
            (
                arrow,
                [
                    arrow.tail,
                    *((at, c) for c in range(columns[arrow.tail] + 1, columns[arrow.head])),
                    arrow.head,
                ],
            )
            for at, arrow in enumerate(onward)
        ]
        by_column: list[list[_Place]] = [[] for _ in range(max(columns.values()) + 1)]
        for name in names:
            by_column[columns[name]].append(name)
        for arrow, way in self._ways:
            for column, place in enumerate(way[1:-1], columns[arrow.tail] + 1):
                by_column[column].append(place)
        self._order(by_column)
        tallest = max(map(len, by_column))
        self._middle: dict[_Place, tuple[float, float]] = {}
        for column, places in enumerate(by_column):
            above = (tallest - len(places)) / 2
            for row, place in enumerate(places):
                x = _MARGIN + column * (_WIDTH + _BETWEEN) + _WIDTH / 2
                self._middle[place] = x, _MARGIN + (above + row) * (_HEIGHT + _BELOW) + _HEIGHT / 2
        self._lowest = _MARGIN + tallest * (_HEIGHT + _BELOW) - _BELOW
        self.width = 2 * _MARGIN + len(by_column) * (_WIDTH + _BETWEEN) - _BETWEEN
        self.height = self._lowest + _MARGIN + _LOOP * len(self._loops)

    def _order(self, by_column: list[list[_Place]]) -> None:
        """Orders each column by the mean position of adjacent boxes."""
        near: Mapping[_Place, list[_Place]] = defaultdict(list)
        for _, way in self._ways:
            for before, after in pairwise(way):
                near[after].append(before)
                near[before].append(after)
        for sweep in range(_SWEEPS):
            for places in by_column if sweep % 2 == 0 else reversed(by_column):
                at = {
                    place: row / len(column)
                    for column in by_column
                    for row, place in enumerate(column)
                }
                places.sort(
                    key=lambda place: fmean([at[one] for one in near[place]] or [at[place]])
                )

    def arrows(self) -> list[str]:
        """All arrows with their labels."""
        onward = [self._onward(arrow, way) for arrow, way in self._ways]
        return [*onward, *(self._loop(arrow, at) for at, arrow in enumerate(self._loops))]

    def _onward(self, arrow: Arrow, way: Sequence[_Place]) -> str:
        points = [self._middle[place] for place in way]
        points[0] = points[0][0] + _WIDTH / 2, points[0][1]
        points[-1] = points[-1][0] - _WIDTH / 2, points[-1][1]
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            middle = (x + to_x) / 2
            path += f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
        return _arrow(path, self._label(arrow, points))

    def _label(self, arrow: Arrow, points: Sequence[tuple[float, float]]) -> str:
        """The label of an arrow where it does not overlap: in the middle, or near a free end."""
        if len(points) > 2:
            x, y = points[len(points) // 2]
            return _text(x, y - 10, arrow.text)
        if sum(other.head == arrow.head for other, _ in self._ways) == 1:
            x, y = points[-1]
            return _text(x - 14, y - 6, arrow.text, anchor="end")
        x, y = points[0]
        return _text(x + 6, y - 6, arrow.text, anchor="start")

    def _loop(self, arrow: Arrow, at: int) -> str:
        (x, y), (to_x, to_y) = self._middle[arrow.tail], self._middle[arrow.head]
        level = self._lowest + _LOOP * (at + 1) - 6
        # Offset, so that several loops at one box do not overlap.
        aside = 12 + 10 * (at % 6)
        x, to_x, low, round_ = x + aside, to_x - aside, _HEIGHT / 2, 8
        path = (
            f"M{x:.0f} {y + low:.0f}V{level - round_}Q{x:.0f} {level} {x - round_:.0f} {level}"
            f"H{to_x + round_:.0f}Q{to_x:.0f} {level} {to_x:.0f} {level - round_}"
            f"V{to_y + low:.0f}"
        )
        if arrow.tail == arrow.head:
            return _arrow(path, _text(x + 6, level - 4, arrow.text, anchor="start"))
        return _arrow(path, _text((x + to_x) / 2, level - 4, arrow.text))

    def box(self, node: Node) -> str:
        """A box with its two lines of text."""
        x, y = self._middle[node.name]
        left, top = x - _WIDTH / 2, y - _HEIGHT / 2
        colour = OTHER if node.is_other else PLAIN
        rule = ' stroke-dasharray="6 3"' if node.is_other else ""
        return (
            f"<g><title>{escape(node.title or f'{node.name}: {node.text}')}</title>"
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
            f'fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="2"{rule}/>'
            f"{_text(x, y - 5, _short(node.name), weight='bold')}"
            f"{_text(x, y + 15, _short(node.text))}</g>"
        )


def _arrow(path: str, text: str) -> str:
    return (
        f'<g><path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.75" '
        f'stroke-width="1.5" marker-end="url(#cleancut-head)"/>{text}</g>'
    )


def _text(x: float, y: float, text: str, *, weight: str = "normal", anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{_FONT}" '
        f'font-weight="{weight}" fill="currentColor">{escape(text)}</text>'
    )


def _short(text: str) -> str:
    most = int((_WIDTH - 12) / _LETTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _closing_loops(names: Sequence[str], arrows: Sequence[Arrow]) -> set[int]:
    """The indexes of the arrows that close loops, as found by a depth-first search."""
    leaving: Mapping[str, list[tuple[int, str]]] = defaultdict(list)
    for at, arrow in enumerate(arrows):
        leaving[arrow.tail].append((at, arrow.head))
    fed = {arrow.head for arrow in arrows if arrow.tail != arrow.head}
    closing, done, open_now = set[int](), set[str](), set[str]()

    def walk(name: str) -> None:
        open_now.add(name)
        for at, head in leaving[name]:
            if head in open_now:
                closing.add(at)
            elif head not in done:
                walk(head)
        open_now.remove(name)
        done.add(name)

    # Boxes without senders first: loops are then closed by the arrows that lead back.
    for name in sorted(names, key=lambda name: name in fed):
        if name not in done:
            walk(name)
    return closing


def _columns(names: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Each box is one column after the last of its senders; there are no loops."""
    columns = dict.fromkeys(names, 0)
    for _ in names:
        for arrow in arrows:
            columns[arrow.head] = max(columns[arrow.head], columns[arrow.tail] + 1)
    return columns
