"""Every metric, as the packaged JSON file declares them; the JVM side reads the same file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Teller = Literal["spark", "process", "store", "driver"]


@dataclass(frozen=True)
class Metric:
    """One entry of the file.

    Attributes:
        name: by the rules of Prometheus.
        type: "counter" for what only grows.
        help: what it is.
        labels: beside those of the query.
        tellers: who tells it.
    """

    name: str
    type: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...]
    tellers: frozenset[Teller]


@cache
def metrics() -> Mapping[str, Metric]:
    """Every metric by its name, in the order of the file."""
    text = files("cleancut").joinpath("metrics.json").read_text(encoding="utf-8")
    return {
        name: Metric(
            name, entry["type"], entry["help"], tuple(entry["labels"]), frozenset(entry["from"])
        )
        for name, entry in json.loads(text).items()
    }
