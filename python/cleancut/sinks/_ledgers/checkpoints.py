"""The checkpoints of a query as one text, which the records of a target have."""

import json
from collections.abc import Sequence


def encode_checkpoints(locations: Sequence[str]) -> str:
    """The location of a checkpoint; those of a lineage as a JSON array, oldest first."""
    return locations[0] if len(locations) == 1 else json.dumps(list(locations))


def decode_checkpoints(text: str) -> tuple[str, ...]:
    """What `encode_checkpoints` gave."""
    return tuple(map(str, json.loads(text))) if text.startswith("[") else (text,)
