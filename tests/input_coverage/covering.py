"""Selections for consecutive seeds, in which each possible pair of values occurs.

A greedy array: each row begins with a new pair, and selects for one dimension after the other the
possible value with the most new pairs.
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

from tests.input_coverage.space import Dimension, InputSpace, Pair, Selection

_MOST_ATTEMPTS = 40


class CoveringSelections:
    """The selections of all seeds.

    A cycle of `size` seeds has each possible pair of values, and each cycle has other selections.
    """

    def __init__(self, space: InputSpace, size: int) -> None:
        self.space = space
        self.size = size
        self._cycle = cache(self._made)

    def __getitem__(self, seed: int) -> Selection:
        cycle, row = divmod(seed, self.size)
        return self._cycle(cycle)[row]

    def _made(self, cycle: int) -> Sequence[Selection]:
        return covering_rows(self.space, self.size, cycle)


def covering_rows(space: InputSpace, size: int, seed: int) -> Sequence[Selection]:
    """Returns this number of selections.

    Raises:
        ValueError: if they are too few for all pairs.
    """
    draw = random.Random(f"{space.generator} {seed}")
    least: list[Pair] | None = None
    # A greedy array may miss a pair, and another one is tried then.
    for _ in range(_MOST_ATTEMPTS):
        rows, uncovered = _rows(space, size, draw)
        if not uncovered:
            return rows
        if least is None or len(uncovered) < len(least):
            least = uncovered
    raise ValueError(f"{space.generator}: {size} selections do not have {least}")


def _rows(
    space: InputSpace, size: int, draw: random.Random
) -> tuple[Sequence[Selection], list[Pair]]:
    """Returns selections, and the pairs that they miss."""
    # In their order, because the order of a set differs between processes.
    uncovered = dict.fromkeys(space.possible_pairs())
    rows = []
    for _ in range(size):
        row = _row(space, uncovered, draw)
        names = [(one.name, one.names[row[one.name]]) for one in space.dimensions]
        for pair in combinations(names, 2):
            uncovered.pop(pair, None)
        rows.append(row)
    return rows, list(uncovered)


def _row(space: InputSpace, uncovered: Mapping[Pair, None], draw: random.Random) -> Selection:
    for _ in range(_MOST_ATTEMPTS):
        order = list(space.dimensions)
        draw.shuffle(order)
        pair = draw.choice(list(uncovered)) if uncovered else ()
        row = _attempt(space, order, pair, uncovered, draw)
        if row is not None:
            return row
    raise ValueError(f"{space.generator}: no selection after {_MOST_ATTEMPTS} attempts")


def _attempt(
    space: InputSpace,
    order: Sequence[Dimension],
    pair: Sequence[tuple[str, str]],
    uncovered: Mapping[Pair, None],
    draw: random.Random,
) -> Selection | None:
    names = list(pair)
    row: dict[str, int] = {}
    for dimension in order:
        if dimension.name in dict(pair):
            row[dimension.name] = dimension.names.index(dict(pair)[dimension.name])
            continue
        gains = {}
        for index, name in enumerate(dimension.names):
            value = (dimension.name, name)
            if not any((other, value) in space.impossible_pairs for other in names):
                gains[index] = sum(
                    (other, value) in uncovered or (value, other) in uncovered for other in names
                )
        if not gains:
            return None
        most = max(gains.values())
        index = draw.choice([at for at in dimension.weighted if gains.get(at) == most])
        row[dimension.name] = index
        names.append((dimension.name, dimension.names[index]))
    return row
