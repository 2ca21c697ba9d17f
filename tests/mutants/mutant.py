"""A planted defect in the code: a text of a file, and what replaces it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A planted defect.

    Attributes:
        area: the part of the system.
        defect: what is wrong.
        path: the file, from the root of the repository.
        old: the replaced text, which the file has once.
        new: the text in its place.
        tests: arguments of pytest; if the file is in Scala, suites, or `suite::test`.
    """

    area: str
    defect: str
    path: str
    old: str
    new: str
    tests: Sequence[str]

    def text(self, original: str) -> str:
        """The file with the defect.

        Raises:
            ValueError: the file does not have the replaced text exactly once.
        """
        if original.count(self.old) != 1:
            raise ValueError(f"{self.path} has {original.count(self.old)} times: {self.old}")
        return original.replace(self.old, self.new)


def mutants_of(
    area: str, path: str, tests: Sequence[str], *defects: tuple[str, str, str]
) -> list[Mutant]:
    """Defects of one file, each as its description, the replaced text and the text in its place."""
    return [Mutant(area, defect, path, old, new, tests) for defect, old, new in defects]
