"""Dimensions of the inputs of a generator, and the pairs of values that no run can have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

# The index of a value by the name of its dimension.
Selection = Mapping[str, int]
# Two dimensions, each with the name of a value.
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Dimension:
    """A dimension.

    Attributes:
        name: its name.
        choices: its values; a repeated value is more frequent.
    """

    name: str
    choices: Sequence[Any]

    @cached_property
    def values(self) -> Sequence[Any]:
        """The distinct values."""
        return list(dict.fromkeys(self.choices))

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the values."""
        return [str(value) for value in self.values]

    @cached_property
    def weighted(self) -> Sequence[int]:
        """The indices of values, as often as they are in the choices."""
        return [self.values.index(value) for value in self.choices]


@dataclass(frozen=True)
class Impossible:
    """Values that no run has together.

    Attributes:
        first: a dimension and the names of its values.
        second: another dimension and the names of its values.
        reason: why.
    """

    first: tuple[str, Sequence[str]]
    second: tuple[str, Sequence[str]]
    reason: str

    def pairs(self) -> Iterator[Pair]:
        """Returns the pairs, in the order of the conditions."""
        (one, values), (other, others) = self.first, self.second
        for value, another in product(values, others):
            yield (one, value), (other, another)


@dataclass(frozen=True)
class InputSpace:
    """The inputs of a generator."""

    generator: str
    dimensions: Sequence[Dimension]
    impossible: Sequence[Impossible] = ()

    @cached_property
    def impossible_pairs(self) -> Mapping[Pair, str]:
        """The reasons of impossible pairs, each in both orders."""
        reasons: dict[Pair, str] = {}
        for rule in self.impossible:
            for one, other in rule.pairs():
                reasons[one, other] = reasons[other, one] = rule.reason
        return reasons

    def possible_pairs(self) -> Iterator[Pair]:
        """Returns each possible pair once, in the order of the dimensions."""
        for one, other in combinations(self.dimensions, 2):
            for value, another in product(one.names, other.names):
                pair = ((one.name, value), (other.name, another))
                if pair not in self.impossible_pairs:
                    yield pair

    def selected(self, selection: Selection) -> dict[str, Any]:
        """Returns the selected values by dimension."""
        return {one.name: one.values[selection[one.name]] for one in self.dimensions}
