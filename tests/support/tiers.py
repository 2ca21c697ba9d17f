"""What `make test` takes of the tests, and what only `make chaos` takes.

`make test` is to end within a quarter of an hour on two cores. It meets each feature once; what
repeats a feature with another operator, place or server, or takes a cluster of many processes,
is marked `long`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from tests.support.lines import STATE_FOR_SPARK

long = pytest.mark.long


def usually(
    chosen: Collection[str],
    names: Iterable[str],
    values: Callable[[str], tuple[Any, ...]] = lambda name: (name,),
) -> list[object]:
    """Parameters of a test, of which those that are not among the chosen are `long`.

    Those on Spark's own provider are left out where it does not make what acts ask of it.

    Args:
        chosen: names of those that `make test` takes.
        of: names of all.
        values: what a test gets for a name; by default the name.
    """
    return [pytest.param(*values(name), id=name, marks=_marks(name, chosen)) for name in names]


def _marks(name: str, chosen: Collection[str]) -> list[pytest.MarkDecorator]:
    marks = [] if name in chosen else [long]
    if "rocksdb" not in name or name.startswith("rocksdb to "):
        return marks
    return [*marks, STATE_FOR_SPARK.needed]
