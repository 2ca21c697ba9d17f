"""What `make test` takes of the tests, and what only `make chaos` takes.

`make test` is to end within a quarter of an hour on two cores. It meets each feature once; what
repeats a feature with another operator, place or server, or takes a cluster of many processes,
is marked `long`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

long = pytest.mark.long


def usually(
    chosen: Collection[str],
    of: Iterable[str],
    values: Callable[[str], tuple[Any, ...]] = lambda name: (name,),
) -> list[object]:
    """Parameters of a test, of which those that are not among the chosen are `long`.

    Args:
        chosen: names of those that `make test` takes.
        of: names of all.
        values: what a test gets for a name; by default the name.
    """
    return [
        pytest.param(*values(name), id=name, marks=() if name in chosen else long) for name in of
    ]
