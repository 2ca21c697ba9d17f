"""Every metric, as the packaged JSON file declares them; the JVM side reads the same file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Source = Literal["spark", "process", "exporter", "driver"]


@dataclass(frozen=True)
class Metric:
    """One entry of the file.

    Attributes:
        name: by the rules of Prometheus.
        type: "counter" if it only grows.
        help: its meaning, readable without the other entries.
        labels: labels in addition to those of the query.
        sources: what reports it.
    """

    name: str
    type: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...]
    sources: frozenset[Source]


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
