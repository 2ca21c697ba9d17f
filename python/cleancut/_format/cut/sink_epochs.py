"""Reads the epochs that sinks have published; docs/FORMAT.md, "Published epochs"."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from cleancut._format.fields import typed


def sinks_of(entries: list[Any], until: int) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """The ranges of epochs, by the key of the sink's ledger.

    Args:
        entries: the field `sinks`.
        until: the epoch of the record; no sink has published a later one.

    Raises:
        ValueError: the field is invalid.
    """
    by_sink: dict[str, tuple[tuple[int, int], ...]] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("the epochs of a sink are not a JSON object")
        name = typed(entry, "name", str)
        ranges = tuple(_range(pair, name) for pair in typed(entry, "epochs", list))
        if name in by_sink or not ranges:
            raise ValueError(f"the epochs of {name} are there twice, or there are none")
        if any(one[1] >= other[0] for one, other in pairwise(ranges)) or ranges[-1][1] > until:
            raise ValueError(f"the epochs of {name} do not ascend to epoch {until}")
        by_sink[name] = ranges
    return by_sink


def _range(pair: Any, name: str) -> tuple[int, int]:
    is_pair = (
        isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)
    )
    if not is_pair or not 0 <= pair[0] <= pair[1]:
        raise ValueError(f"{pair} are no epochs of {name}")
    return pair[0], pair[1]
