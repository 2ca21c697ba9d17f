"""The record of the checkpoints that a checkpoint continues; docs/FORMAT.md, "Lineage"."""

import json
from collections.abc import Sequence
from typing import Any

from cleancut._format.fields import typed

_VERSION = 1


def lineage_of(data: bytes) -> list[dict[str, Any]]:
    """The checkpoints, oldest first.

    Raises:
        ValueError: it is no such record.
    """
    fields = json.loads(data)
    if typed(fields, "formatVersion", int) != _VERSION:
        raise ValueError(f"it has version {fields['formatVersion']}, not {_VERSION}")
    origins: list[dict[str, Any]] = typed(fields, "lineage", list)
    return origins


def encoded_lineage(origins: Sequence[dict[str, Any]]) -> bytes:
    """The record that `lineage_of` parses."""
    fields = {"formatVersion": _VERSION, "lineage": list(origins)}
    return json.dumps(fields, separators=(",", ":")).encode()
