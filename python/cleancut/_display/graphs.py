"""A directed graph as a drawing: boxes in columns, arrows from left to right, loops below.

Columns are made as Sugiyama, Tagawa and Toda make layers (*Methods for Visual Understanding of
Hierarchical System Structures*, 1981): an arrow that closes a loop is set aside, each box stands
one column after the last that sends to it, an arrow over several columns gets a place in each, and
the boxes of a column are ordered by where those stand that send to them.
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
# A loop takes so much room below all boxes.
_LOOP = 26
_FONT = 12
# What a letter takes at most, so that a text stays in its box.
_LETTER = 7.6
_SWEEPS = 4


@dataclass(frozen=True)
class Node:
    """A box.

    Attributes:
        name: what arrows call it, and its first line.
        text: its second line.
        is_other: whether it is to stand out.
        title: all there is to say of it, in words.
    """

    name: str
    text: str
    is_other: bool = False
    title: str = ""


@dataclass(frozen=True)
class Arrow:
    """From one box to another, or to itself.

    Attributes:
        tail: the name of the box that it leaves.
        head: the name of the box that it ends at.
        text: what stands beside it.
    """

    tail: str
    head: str
    text: str


def graph(nodes: Sequence[Node], arrows: Sequence[Arrow], label: str) -> str:
    """Draws boxes and arrows; nothing without a box.

    Args:
        nodes: by names that are unique.
        arrows: between these.
        label: what all of it shows, in words.
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

# A box by its name, or the place that an arrow has in a column between its ends.
_Place = str | tuple[int, int]


class _Layout:
    """Where everything stands."""

    def __init__(self, nodes: Sequence[Node], arrows: Sequence[Arrow]) -> None:
        names = [of.name for of in nodes]
        closing = _closing_loops(names, arrows)
        self._loops = [of for at, of in enumerate(arrows) if at in closing]
        onward = [of for at, of in enumerate(arrows) if at not in closing]
        columns = _columns(names, onward)
        # What each arrow goes through.
        self._ways: list[tuple[Arrow, list[_Place]]] = [
            (
                of,
                [
                    of.tail,
                    *((at, c) for c in range(columns[of.tail] + 1, columns[of.head])),
                    of.head,
                ],
            )
            for at, of in enumerate(onward)
        ]
        by_column: list[list[_Place]] = [[] for _ in range(max(columns.values()) + 1)]
        for name in names:
            by_column[columns[name]].append(name)
        for of, way in self._ways:
            for column, place in enumerate(way[1:-1], columns[of.tail] + 1):
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
        """Each column by the mean of where those stand that its places come from, or go to."""
        near: Mapping[_Place, list[_Place]] = defaultdict(list)
        for _, way in self._ways:
            for before, after in pairwise(way):
                near[after].append(before)
                near[before].append(after)
        for sweep in range(_SWEEPS):
            for places in by_column if sweep % 2 == 0 else reversed(by_column):
                at = {place: row / len(of) for of in by_column for row, place in enumerate(of)}
                places.sort(key=lambda of: fmean([at[one] for one in near[of]] or [at[of]]))

    def arrows(self) -> list[str]:
        """All arrows, with what stands beside them."""
        onward = [self._onward(arrow, way) for arrow, way in self._ways]
        return [*onward, *(self._loop(arrow, at) for at, arrow in enumerate(self._loops))]

    def _onward(self, arrow: Arrow, way: Sequence[_Place]) -> str:
        points = [self._middle[of] for of in way]
        points[0] = points[0][0] + _WIDTH / 2, points[0][1]
        points[-1] = points[-1][0] - _WIDTH / 2, points[-1][1]
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            middle = (x + to_x) / 2
            path += f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
        return _arrow(path, self._beside(arrow, points))

    def _beside(self, arrow: Arrow, points: Sequence[tuple[float, float]]) -> str:
        """Its text where no other arrow is: in between, or near the end that is its alone."""
        if len(points) > 2:
            x, y = points[len(points) // 2]
            return _text(x, y - 10, arrow.text)
        if sum(of.head == arrow.head for of, _ in self._ways) == 1:
            x, y = points[-1]
            return _text(x - 14, y - 6, arrow.text, anchor="end")
        x, y = points[0]
        return _text(x + 6, y - 6, arrow.text, anchor="start")

    def _loop(self, arrow: Arrow, at: int) -> str:
        (x, y), (to_x, to_y) = self._middle[arrow.tail], self._middle[arrow.head]
        level = self._lowest + _LOOP * (at + 1) - 6
        # So that several at one box stay apart.
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
        """A box with its two lines."""
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
    """The places of arrows without which there is no loop, as few as a walk in depth finds."""
    leaving: Mapping[str, list[tuple[int, str]]] = defaultdict(list)
    for at, of in enumerate(arrows):
        leaving[of.tail].append((at, of.head))
    fed = {of.head for of in arrows if of.tail != of.head}
    found, done, open_now = set[int](), set[str](), set[str]()

    def walk(name: str) -> None:
        open_now.add(name)
        for at, head in leaving[name]:
            if head in open_now:
                found.add(at)
            elif head not in done:
                walk(head)
        open_now.remove(name)
        done.add(name)

    # First what nothing sends to: a loop is then closed by what goes back.
    for name in sorted(names, key=lambda of: of in fed):
        if name not in done:
            walk(name)
    return found


def _columns(names: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """One after the last of those that send to it; there is no loop."""
    found = dict.fromkeys(names, 0)
    for _ in names:
        for of in arrows:
            found[of.head] = max(found[of.head], found[of.tail] + 1)
    return found
