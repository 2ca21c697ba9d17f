"""Generators cover all pairs of values, and the page shows what they cover."""

import random
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pytest

from tests.input_coverage import page
from tests.input_coverage.coverage import Coverage, read_lines, read_results, store_results
from tests.input_coverage.covering import CoveringSelections, covering_rows
from tests.input_coverage.log import InputLog
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support import operation_kills, python_inputs
from tests.support.flow_kills import PROCESSES, order_of_kills
from tests.support.python_queries import PythonQuery
from tests.support.random_damages import FILES, OBJECTS, RandomDamage, RandomDamages

SMALL = InputSpace(
    "small",
    [Dimension("a", (1, 2, 3)), Dimension("b", ("x", "y")), Dimension("c", (False, False, True))],
    [Impossible(("a", ["1"]), ("b", ["y"]), "no reason")],
)


def _pairs(space: InputSpace, row: dict[str, Any]) -> set[tuple[tuple[str, str], ...]]:
    names = [(one.name, str(row[one.name])) for one in space.dimensions]
    return set(combinations(names, 2))


def _all_pairs(space: InputSpace) -> set[tuple[tuple[str, str], ...]]:
    return {
        ((one.name, str(value)), (other.name, str(another)))
        for one, other in combinations(space.dimensions, 2)
        for value, another in product(one.values, other.values)
    }


@pytest.mark.parametrize("seed", range(20))
def test_rows_have_each_possible_pair_and_no_other(seed: int) -> None:
    draw = random.Random(seed)
    dimensions = [Dimension(f"d{i}", range(draw.randint(1, 5))) for i in range(draw.randint(2, 8))]
    # Each value keeps the value 0 of the other dimensions, so that each has a row.
    rules = [
        Impossible((one.name, [value]), (other.name, [another]), "random")
        for one, other in combinations(dimensions, 2)
        for value, another in product(one.names[1:], other.names[1:])
        if draw.random() < 0.2
    ]
    space = InputSpace("random", dimensions, rules)
    rows = [space.selected(row) for row in covering_rows(space, 120, seed)]
    forbidden = {
        ((one, value), (other, another))
        for rule in rules
        for (one, [value]), (other, [another]) in [(rule.first, rule.second)]
    }
    covered = set().union(*(_pairs(space, row) for row in rows))
    assert covered == _all_pairs(space) - forbidden


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="5 selections do not have"):
        covering_rows(SMALL, 5, seed=1)


def test_values_that_exclude_all_others_are_refused() -> None:
    rules = [Impossible(("a", ["1", "2", "3"]), ("b", ["x", "y"]), "no reason")]
    with pytest.raises(ValueError, match="no selection"):
        covering_rows(InputSpace("none", SMALL.dimensions, rules), 9, seed=1)


def test_cycles_differ_and_repeat_for_their_seeds() -> None:
    selections, again = (CoveringSelections(SMALL, 12) for _ in range(2))
    assert [selections[seed] for seed in range(36)] == [again[seed] for seed in range(36)]
    cycles = [[selections[12 * cycle + row] for row in range(12)] for cycle in range(3)]
    assert cycles[0] != cycles[1] != cycles[2]


@pytest.mark.parametrize("cycle", [0, 1, 82, 15_624])
def test_a_cycle_of_python_queries_has_each_possible_pair(cycle: int) -> None:
    size = python_inputs.SELECTIONS.size
    queries = [PythonQuery.draw(seed) for seed in range(cycle * size, (cycle + 1) * size)]
    covered = [
        {name: [str(value) for value in values] for name, values in query.covered().items()}
        for query in queries
    ]
    assert Coverage.of(python_inputs.SPACE, covered).uncovered == []


def test_a_python_query_has_its_selected_values() -> None:
    for seed in range(200):
        query = PythonQuery.draw(seed)
        inputs = query.covered()
        assert inputs[python_inputs.FORM] == [query.form]
        assert inputs[python_inputs.KEY_TYPE] == [query.key_type]
        assert inputs[python_inputs.TTL_MS] == [query.ttl_ms]
        assert inputs[python_inputs.FIRST_MODE] == [query.modes[0]]
        assert inputs[python_inputs.NESTED] == [query.is_nested]
        chosen = python_inputs.SPACE.selected(python_inputs.SELECTIONS[seed])
        assert chosen[python_inputs.STATE] in query.program.kinds or query.form == "groups"


def test_pairs_that_no_run_had_are_uncovered() -> None:
    runs = [{"a": ["1"], "b": ["x"], "c": ["False"]}, {"a": ["2", "3"], "b": ["y"], "c": ["True"]}]
    coverage = Coverage.of(SMALL, runs)
    assert (coverage.runs, coverage.possible) == (2, 15)
    assert coverage.values["a"] == {"1": 1, "2": 1, "3": 1}
    assert coverage.uncovered == [
        (("a", "2"), ("b", "x")),
        (("a", "3"), ("b", "x")),
        (("a", "1"), ("c", "True")),
        (("a", "2"), ("c", "False")),
        (("a", "3"), ("c", "False")),
        (("b", "x"), ("c", "True")),
        (("b", "y"), ("c", "False")),
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"a": ["4"]}, r"a does not declare \['4'\]"),
        ({"d": ["1"]}, "d does not declare"),
        ({"a": ["1"], "b": ["y"]}, "declared as impossible"),
    ],
)
def test_a_run_outside_its_space_is_refused(inputs: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Coverage.of(SMALL, [inputs])


def test_lines_of_several_processes_are_read_together(tmp_path: Path) -> None:
    for process in range(2):
        log = InputLog(tmp_path / str(process))
        # A seed that two processes ran counts once.
        for seed in (process, 7):
            log.add(SMALL, seed, {"a": [2], "b": ["x"], "c": [seed == 7]})
    [coverage] = read_lines([tmp_path])
    assert coverage.runs == 3
    assert coverage.values["c"] == {"False": 2, "True": 1}
    assert coverage.impossible == [Impossible(("a", ("1",)), ("b", ("y",)), "no reason")]
    store_results([coverage], tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == [coverage]


def test_two_spaces_of_a_generator_are_refused(tmp_path: Path) -> None:
    inputs: dict[str, list[Any]] = {"a": [2]}
    InputLog(tmp_path / "1").add(SMALL, 1, inputs)
    InputLog(tmp_path / "2").add(InputSpace("small", SMALL.dimensions), 1, inputs)
    with pytest.raises(ValueError, match="another space"):
        read_lines([tmp_path])


def test_nothing_is_written_without_a_directory(tmp_path: Path) -> None:
    InputLog(None).add(SMALL, 1, {"a": [1]})
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_the_results() -> None:
    assert page.written() == page.render(), "python -m tests.input_coverage page writes it"


def test_randomized_queries_cover_all_pairs() -> None:
    results = {one.generator: one for one in read_results()}
    for generator in (
        "queries on Cleancut and RocksDB",
        "queries with cuts",
        "Python queries with state",
    ):
        assert results[generator].uncovered == []
        assert all(min(values.values()) > 0 for values in results[generator].values.values())
    assert all(one.reason for result in results.values() for one in result.impossible)


def test_the_page_names_uncovered_and_impossible_pairs() -> None:
    text = page.render([Coverage.of(SMALL, [{"a": ["2"], "b": ["x"], "c": ["True"]}])])
    assert "| small | 1 | 3 | 7 | 4 | 15 | 12 |" in text
    assert "| a: `2` | b: `y` |" in text
    assert "| a: `1` | b: `y` | no reason |" in text


@pytest.mark.parametrize("seed", [0, 1, 99, 999_999])
@pytest.mark.parametrize("damages", [FILES, OBJECTS])
def test_trials_of_chaos_corrupt_files_in_each_possible_way(
    damages: RandomDamages, seed: int
) -> None:
    trials = range(damages.selections.size)
    covered = [RandomDamage(damages, seed, trial).covered() for trial in trials]
    assert Coverage.of(damages.space, covered).uncovered == []


@pytest.mark.parametrize("seed", [0, 1, 4711])
def test_killed_operations_of_chaos_have_each_pair(seed: int) -> None:
    numbers = range(operation_kills.CYCLE)
    covered = [operation_kills.covered_by(seed, number) for number in numbers]
    assert Coverage.of(operation_kills.SPACE, covered).uncovered == []


def test_a_random_corruption_has_its_selected_values(tmp_path: Path) -> None:
    for trial in range(FILES.selections.size):
        home = tmp_path / str(trial)
        home.mkdir()
        files = {
            kind: [home / f"{number}.{kind}" for number in range(2)] for kind in ("base", "delta")
        }
        everything = [path for paths in files.values() for path in paths]
        for number, path in enumerate(everything):
            path.write_bytes(bytes(range(number, number + 40)))
            (home / f".{path.name}.crc").touch()
        before = {path: path.read_bytes() for path in everything}
        damage = RandomDamage(FILES, 3, trial)
        victim = damage.victim(files)
        damage.apply(victim, files)
        selected = damage.selected
        assert victim in files[selected["kind"]]
        kept = (home / f".{victim.name}.crc").exists()
        assert kept == (selected["checksum file of the file system"] == "kept")
        changed = [
            path for path in everything if not path.exists() or path.read_bytes() != before[path]
        ]
        assert changed == [victim]
        if selected["replaced by"] != "none":
            is_same = selected["replaced by"] == "one of its kind"
            others = [path for path in everything if (path.suffix == victim.suffix) == is_same]
            assert victim.read_bytes() in [before[path] for path in others]


@pytest.mark.parametrize("seed", range(5))
def test_each_process_of_a_dataflow_is_killed_after_each(seed: int) -> None:
    cycle = len(PROCESSES) ** 2
    kills = order_of_kills(seed, 2 * cycle + 1)
    for first in (0, cycle):
        pairs = list(pairwise(kills[first : first + cycle + 1]))
        assert sorted(pairs) == sorted(product(PROCESSES, repeat=2))
    assert order_of_kills(seed, 10) == kills[:10]
    assert order_of_kills(seed + 1, 50) != kills[:50]
