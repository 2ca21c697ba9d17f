"""The checkpoints of a query, each of which continues the previous one."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_OF_FILES = re.compile(r"file:/*(?=/)")
_OF_HADOOP = re.compile(r"s3[an]://")


@dataclass(frozen=True)
class Origin:
    """A checkpoint that another one continues.

    Attributes:
        checkpoint: its location.
        generation: generation of its last cut when it was continued; 0 without cuts.
        epoch: the highest epoch that the query had used by then; None if it is not known, for
            example for a replicated checkpoint.
    """

    checkpoint: str
    generation: int = 0
    epoch: int | None = None


class Position(Enum):
    """Position of a run's checkpoint in the lineage of a query, compared with another one."""

    SAME = "same"
    LATER = "later"
    EARLIER = "earlier"
    UNRELATED = "unrelated"


def position(run: Sequence[str], recorded: Sequence[str]) -> Position:
    """Compares the checkpoints of a run with those of the run that a target has recorded.

    Args:
        run: the locations of its checkpoints, oldest first; the last one is its own.
        recorded: the locations of the recorded run's checkpoints.
    """
    one, other = [*map(normal, run)], [*map(normal, recorded)]
    if one == other:
        return Position.SAME
    if other == one[: len(other)]:
        return Position.LATER
    if one == other[: len(one)]:
        return Position.EARLIER
    # One side may not know the oldest checkpoints.
    if _end_alike(one, other):
        return Position.SAME
    if any(_end_alike(one[:end], other) for end in range(1, len(one))):
        return Position.LATER
    if any(_end_alike(one, other[:end]) for end in range(1, len(other))):
        return Position.EARLIER
    return Position.UNRELATED


def _end_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    known = min(len(one), len(other))
    return one[-known:] == other[-known:]


def normal(location: str) -> str:
    """A location in canonical form, independent of Hadoop's spellings."""
    plain = _OF_HADOOP.sub("s3://", _OF_FILES.sub("", location))
    return plain.rstrip("/") or "/"


def encode_checkpoints(locations: Sequence[str]) -> str:
    """The location of a checkpoint as text; a lineage as a JSON array, oldest first."""
    return locations[0] if len(locations) == 1 else json.dumps(list(locations))


def decode_checkpoints(text: str) -> tuple[str, ...]:
    """Parses the result of `encode_checkpoints`."""
    return tuple(map(str, json.loads(text))) if text.startswith("[") else (text,)
