"""The selection of tests for `make test`; `make chaos` runs all of them.

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
    """Returns the parameters of a test; those that are not chosen are `long`.

    Those on Spark's own provider are skipped if it lacks a feature that operations require.

    Args:
        chosen: the names that `make test` runs.
        names: all names.
        values: returns the arguments of a test for a name; by default the name.
    """
    return [pytest.param(*values(name), id=name, marks=_marks(name, chosen)) for name in names]


def _marks(name: str, chosen: Collection[str]) -> list[pytest.MarkDecorator]:
    marks = [] if name in chosen else [long]
    if "rocksdb" not in name or name.startswith("rocksdb to "):
        return marks
    return [*marks, STATE_FOR_SPARK.needed]
