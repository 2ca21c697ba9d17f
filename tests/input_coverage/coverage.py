"""Covered values and pairs, computed from the lines of generators."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, Self

from tests.input_coverage.space import Dimension, Impossible, InputSpace, Pair

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Coverage:
    """What the runs of a generator have covered.

    Attributes:
        generator: its name.
        runs: the number of runs.
        values: for each dimension, the number of runs with each value.
        possible: the number of pairs of values that a run can have.
        uncovered: the possible pairs that no run had.
        impossible: for each reason, the two conditions of impossible pairs.
    """

    generator: str
    runs: int
    values: Mapping[str, Mapping[str, int]]
    possible: int
    uncovered: Sequence[Pair]
    impossible: Sequence[Impossible]

    @classmethod
    def of(cls, space: InputSpace, runs: Iterable[Mapping[str, Sequence[str]]]) -> Self:
        """Compares runs with the space of their generator.

        Raises:
            ValueError: if a run has a value or pair that the space does not have.
        """
        values = {one.name: Counter(dict.fromkeys(one.names, 0)) for one in space.dimensions}
        order = [one.name for one in space.dimensions]
        covered: set[Pair] = set()
        count = 0
        for inputs in runs:
            count += 1
            _check_values(space, values, inputs)
            for name, names in inputs.items():
                values[name].update(names)
            for one, other in combinations([name for name in order if name in inputs], 2):
                covered.update(
                    ((one, value), (other, another))
                    for value, another in product(inputs[one], inputs[other])
                )
        wrong = sorted(covered & space.impossible_pairs.keys())
        if wrong:
            raise ValueError(f"{space.generator}: a run has {wrong[0]}, declared as impossible")
        possible = list(space.possible_pairs())
        return cls(
            generator=space.generator,
            runs=count,
            values={name: dict(counts) for name, counts in values.items()},
            possible=len(possible),
            uncovered=[pair for pair in possible if pair not in covered],
            impossible=space.impossible,
        )


def _check_values(
    space: InputSpace, values: Mapping[str, Counter[str]], inputs: Mapping[str, Sequence[str]]
) -> None:
    for name, names in inputs.items():
        unknown = set(names) - values[name].keys() if name in values else {"the dimension"}
        if unknown:
            raise ValueError(f"{space.generator}: {name} does not declare {sorted(unknown)}")


def read_lines(directories: Iterable[Path]) -> list[Coverage]:
    """Reads all lines below directories.

    Raises:
        ValueError: if two processes declared different spaces of a generator, or a line is wrong.
    """
    spaces: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[int | str, Mapping[str, Sequence[str]]]] = {}
    for path in sorted(path for home in directories for path in home.rglob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for line in map(json.loads, file):
                generator = line["generator"]
                if "dimensions" not in line:
                    runs.setdefault(generator, {})[line["seed"]] = line["inputs"]
                elif spaces.setdefault(generator, line) != line:
                    raise ValueError(f"{path}: {generator} has another space in an earlier file")
    return [Coverage.of(_space(spaces[name]), runs[name].values()) for name in sorted(runs)]


def _space(line: Mapping[str, Any]) -> InputSpace:
    return InputSpace(
        line["generator"],
        [Dimension(one["name"], one["values"]) for one in line["dimensions"]],
        [_rule(rule["pairs"], rule["reason"]) for rule in line["impossible"]],
    )


def _rule(conditions: Sequence[Mapping[str, Any]], reason: str) -> Impossible:
    first, second = ((one["name"], tuple(one["values"])) for one in conditions)
    return Impossible(first, second, reason)


def read_results(place: Path = RESULTS) -> list[Coverage]:
    """Reads the stored results, sorted by generator."""
    if not place.exists():
        return []
    return [
        Coverage(
            **{
                **fields,
                "uncovered": [tuple(map(tuple, pair)) for pair in fields["uncovered"]],
                "impossible": [
                    Impossible(_condition(one["first"]), _condition(one["second"]), one["reason"])
                    for one in fields["impossible"]
                ],
            }
        )
        for fields in json.loads(place.read_text(encoding="utf-8"))
    ]


def _condition(stored: Sequence[Any]) -> tuple[str, Sequence[str]]:
    name, values = stored
    return name, tuple(values)


def store_results(results: Iterable[Coverage], place: Path = RESULTS) -> None:
    """Stores results instead of earlier ones of the same generators."""
    by_name = {one.generator: one for one in (*read_results(place), *results)}
    stored = [asdict(by_name[name]) for name in sorted(by_name)]
    place.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
