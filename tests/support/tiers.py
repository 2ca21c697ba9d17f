"""What `make test` takes of the tests, and what only `make chaos` takes.

`make test` is to end within a quarter of an hour on two cores. It meets each feature once; what
repeats a feature with another operator, place or server, or waits for a cluster of many processes,
is marked `long`.
"""

from collections.abc import Collection, Iterable

import pytest

long = pytest.mark.long


def usually(chosen: Collection[str], of: Iterable[str]) -> list[object]:
    """Parameters of a test, of which those that are not among the chosen are `long`."""
    return [pytest.param(name, id=name, marks=() if name in chosen else long) for name in of]
