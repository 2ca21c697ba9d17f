"""Random corruption of one file of a checkpoint, with each pair of its inputs in few trials."""

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.input_coverage.covering import CoveringSelections
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support.damages import append, cut, flip, remove, replace_by, without_checksum_file

_NONE = "none"
_PARTS = ("first quarter", "middle", "last quarter")
_SAME, _ANOTHER = _OTHERS = ("one of its kind", "one of another kind")
_HOW, _KIND, _PART, _OTHER, _CHECKSUM = (
    "corruption",
    "kind",
    "corrupted part",
    "replaced by",
    "checksum file of the file system",
)


class RandomDamages:
    """The corruptions in one kind of storage.

    Attributes:
        space: their inputs.
        selections: values for consecutive trials; a cycle of them has all pairs.
    """

    def __init__(
        self,
        generator: str,
        *more: Dimension,
        kinds: Sequence[str],
        single: Sequence[str] = (),
        cycle: int,
    ) -> None:
        """Describes the corruptions.

        Args:
            generator: the name of the generator.
            more: further dimensions.
            kinds: kinds of files.
            single: those that have one file.
            cycle: the length of a cycle.
        """
        impossible = [
            Impossible((_HOW, ["flip", "cut"]), (_PART, [_NONE]), "each has a position"),
            Impossible(
                (_HOW, ["append", "remove", "replace"]),
                (_PART, _PARTS),
                "they change the whole file",
            ),
            Impossible((_HOW, ["replace"]), (_OTHER, [_NONE]), "another file replaces it"),
            Impossible(
                (_HOW, ["flip", "cut", "append", "remove"]),
                (_OTHER, _OTHERS),
                "no file replaces it",
            ),
            Impossible((_PART, _PARTS), (_OTHER, _OTHERS), "a replaced file is another file"),
        ]
        if single:
            impossible.append(Impossible((_KIND, single), (_OTHER, [_SAME]), "there is only one"))
        dimensions = [
            Dimension(_HOW, ("flip", "cut", "append", "remove", "replace")),
            Dimension(_KIND, kinds),
            Dimension(_PART, (*_PARTS, _NONE)),
            Dimension(_OTHER, (*_OTHERS, _NONE)),
        ]
        self.space = InputSpace(generator, [*dimensions, *more], impossible)
        self.selections = CoveringSelections(self.space, cycle)


# `make chaos` runs more trials than two cycles of each.
FILES = RandomDamages(
    "corrupted files of a checkpoint",
    # One that is kept may find the corruption first.
    Dimension(_CHECKSUM, ("deleted", "deleted", "kept")),
    kinds=("base", "delta"),
    cycle=20,
)
OBJECTS = RandomDamages(
    "corrupted objects of a bucket",
    kinds=(
        "metadata",
        "offsets",
        "sources",
        "state",
        "cleancut/cuts",
        "cleancut/format.json",
        "cleancut/history",
        "cleancut/owners",
        "cleancut/pages",
        "cleancut/segments",
    ),
    single=("metadata", "cleancut/format.json", "cleancut/history", "cleancut/pages"),
    cycle=80,
)


class RandomDamage:
    """A corruption.

    Attributes:
        selected: the values of its dimensions.
    """

    def __init__(self, damages: RandomDamages, seed: int, trial: int) -> None:
        """Draws a corruption from the seed of all trials and the number of the trial."""
        self._damages, self._seed, self._trial = damages, seed, trial

    @cached_property
    def selected(self) -> dict[str, Any]:
        """The values of its dimensions."""
        # From a random cycle of arrays, of which consecutive trials have all pairs.
        selections = self._damages.selections
        at = self._seed * selections.size + self._trial
        return self._damages.space.selected(selections[at])

    def covered(self) -> dict[str, list[Any]]:
        """Returns the names of the values of its dimensions."""
        return {name: [value] for name, value in self.selected.items()}

    def victim(self, files: Mapping[str, Sequence[Path]]) -> Path:
        """Returns the file that it corrupts.

        Args:
            files: the files of a checkpoint by kind.
        """
        return self._draw("victim").choice(files[self.selected[_KIND]])

    def apply(self, victim: Path, files: Mapping[str, Sequence[Path]]) -> None:
        """Corrupts a file.

        Args:
            victim: the file.
            files: the files of a checkpoint by kind.
        """
        draw = self._draw("content")
        if self.selected.get(_CHECKSUM) == "deleted":
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
                replace_by(draw.choice(self._others(victim, files)))(victim)

    def _draw(self, part: str) -> random.Random:
        return random.Random(f"{self._seed} {self._trial} {part}")

    def _others(self, victim: Path, files: Mapping[str, Sequence[Path]]) -> list[Path]:
        kind, is_same = self.selected[_KIND], self.selected[_OTHER] == _SAME
        kinds = [other for other in files if (other == kind) == is_same]
        return [path for other in kinds for path in files[other] if path != victim]

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
