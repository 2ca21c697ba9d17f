"""Random corruption of one file of a checkpoint, with each pair of its inputs in few trials."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.input_coverage.covering import CoveringSelections
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support.damages import append, cut, flip, remove, replace_by, without_checksum_file

_NONE = "none"
_KINDS = ("base", "delta")
_PARTS = ("first quarter", "middle", "last quarter")
_HOW, _FILE, _PART, _OTHER, _CHECKSUM = (
    "corruption",
    "file",
    "corrupted part",
    "replaced by",
    "checksum file of the file system",
)

SPACE = InputSpace(
    "corrupted files of a checkpoint",
    [
        Dimension(_HOW, ("flip", "cut", "append", "remove", "replace")),
        Dimension(_FILE, _KINDS),
        Dimension(_PART, (*_PARTS, _NONE)),
        Dimension(_OTHER, (*_KINDS, _NONE)),
        # A checksum file that is kept may find the corruption first.
        Dimension(_CHECKSUM, ("deleted", "deleted", "kept")),
    ],
    [
        Impossible((_HOW, ["flip", "cut"]), (_PART, [_NONE]), "each has a position"),
        Impossible(
            (_HOW, ["append", "remove", "replace"]), (_PART, _PARTS), "they change the whole file"
        ),
        Impossible((_HOW, ["replace"]), (_OTHER, [_NONE]), "another file replaces it"),
        Impossible(
            (_HOW, ["flip", "cut", "append", "remove"]), (_OTHER, _KINDS), "no file replaces it"
        ),
        Impossible((_PART, _PARTS), (_OTHER, _KINDS), "a replaced file is another file"),
    ],
)

# `make chaos` runs more trials than two cycles.
SELECTIONS = CoveringSelections(SPACE, 20)


@dataclass(frozen=True)
class RandomDamage:
    """A corruption.

    Attributes:
        seed: the seed of all trials.
        trial: the number of the trial.
    """

    seed: int
    trial: int

    @cached_property
    def selected(self) -> dict[str, Any]:
        """The values of the dimensions of `SPACE`."""
        # From a random cycle of arrays, of which consecutive trials have all pairs.
        return SPACE.selected(SELECTIONS[self.seed * SELECTIONS.size + self.trial])

    def covered(self) -> dict[str, list[Any]]:
        """Returns the names of the values of the dimensions of `SPACE`."""
        return {name: [value] for name, value in self.selected.items()}

    def apply(self, files: Sequence[Path]) -> Path:
        """Corrupts one of the files, and returns it.

        Args:
            files: the bases and deltas of a checkpoint.
        """
        draw = random.Random(f"{self.seed} {self.trial}")
        victim = draw.choice(_of_kind(files, self.selected[_FILE]))
        if self.selected[_CHECKSUM] == "deleted":
            without_checksum_file(victim)
        match self.selected[_HOW]:
            case "flip":
                flip(victim, position=self._position(victim, draw), bit=draw.randrange(8))
            case "cut":
                cut(victim, keep=self._position(victim, draw))
            case "append":
                append(victim)
            case "remove":
                remove(victim)
            case _:
                others = _of_kind(files, self.selected[_OTHER])
                replace_by(draw.choice([path for path in others if path != victim]))(victim)
        return victim

    def _position(self, victim: Path, draw: random.Random) -> int:
        size = victim.stat().st_size
        quarter = size // 4
        match self.selected[_PART]:
            case "first quarter":
                return draw.randrange(quarter)
            case "middle":
                return draw.randrange(quarter, size - quarter)
            case _:
                return draw.randrange(size - quarter, size)


def _of_kind(files: Sequence[Path], kind: str) -> list[Path]:
    return [path for path in files if path.suffix == f".{kind}"]
