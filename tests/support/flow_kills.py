"""The order in which the processes of a dataflow are killed: each of them follows each."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

from tests.input_coverage.space import Dimension, InputSpace
from tests.support.flow_member import COORDINATOR, MEMBERS

PLACES = ("disk", "s3proxy", "versitygw")
PROCESSES = (*MEMBERS, COORDINATOR)

SPACE = InputSpace(
    "killed processes of a dataflow",
    [
        Dimension("place", PLACES),
        Dimension("killed process", PROCESSES),
        Dimension("killed before", PROCESSES),
    ],
)


def order_of_kills(seed: int, count: int) -> list[str]:
    """Returns the names of the processes to kill."""
    return list(islice(each_after_each(PROCESSES, random.Random(seed)), count))


def each_after_each(names: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Returns names without an end. Of the first `len(names) ** 2 + 1`, each follows each.

    A random closed walk through all pairs of names, and then another one from its end.
    """
    start = draw.choice(names)
    while True:
        following = {name: draw.sample(names, len(names)) for name in names}
        walk: list[str] = []
        stack = [start]
        while stack:
            if following[stack[-1]]:
                stack.append(following[stack[-1]].pop())
            else:
                walk.append(stack.pop())
        # The last name is the first one of the next walk.
        yield from walk[:0:-1]


def covered_by(place: str, kills: Sequence[str]) -> list[dict[str, list[Any]]]:
    """Returns the values of the dimensions of `SPACE` for each kill after another one."""
    return [
        {"place": [place], "killed process": [name], "killed before": [before]}
        for before, name in pairwise(kills)
    ]
