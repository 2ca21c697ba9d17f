"""Defects that the simulations plant by switches.

Each runs as its own test runs it, which begins with a seed that is known to show the defect.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from pathlib import Path

from tests.mutants.scala_code import run
from tests.sim.dataflow import found_after
from tests.sim.defects import DEFECTS, Defect
from tests.unit.test_flow_simulation import FIRST

COMMITS = "commit of cuts, simulated"
DATAFLOWS = "dataflows, simulated"

_ROOT = Path(__file__).parents[2]
_SIMULATION = "jvm/spark/src/test/scala/io/cleancut/coordinator/sim/Defect.scala"
_SWITCH = re.compile(r"/\*\* ([^/]*?)\.? \*/\s*case object (\w+)\s+extends Defect\(")
_RUN = re.compile(r"\+ in run (\d+):")
_RUNS = 1000


@dataclass(frozen=True)
class Found:
    """The test that found a defect.

    Attributes:
        by: the test.
        runs: the number of runs that the search takes at most; None if the test is no search.
    """

    by: str
    runs: int | None = None


@dataclass(frozen=True)
class Switch:
    """A defect that another test plants.

    Attributes:
        area: the kind of test.
        defect: what is wrong.
        find: searches for it.
    """

    area: str
    defect: str
    find: Callable[[], Found | None]


def switches() -> list[Switch]:
    """All defects of the simulations."""
    return [*_of_commits(), *_of_dataflows()]


def _of_commits() -> Iterator[Switch]:
    text = (_ROOT / _SIMULATION).read_text(encoding="utf-8")
    for doc, name in _SWITCH.findall(text):
        yield Switch(COMMITS, f"`{name}`: {_lower(doc)}", partial(_simulated, name))


def _simulated(name: str) -> Found | None:
    suite = "CutSimulationSuite"
    test = f"the simulation finds the defect {name}"
    is_passed, output = run(f"{suite}::{test}", CLEANCUT_DEFECT_RUNS=str(_RUNS))
    if is_passed and (match := _RUN.search(output)):
        return Found(f"`{suite}`", int(match[1]))
    if f"- {test} *** FAILED ***" in output:
        return None
    raise RuntimeError(f"{suite} has no result of {name}\n{output}")


def _of_dataflows() -> Iterator[Switch]:
    for name, defect in DEFECTS.items():
        find = partial(_of_seeds, defect, FIRST.get(name, 1))
        yield Switch(DATAFLOWS, f"`{name}`: {_lower(getdoc(defect) or '')}", find)


def _of_seeds(defect: Defect, first_seed: int) -> Found | None:
    runs = found_after(defect, first_seed, _RUNS)
    return None if runs is None else Found("`test_flow_simulation.py`", runs)


def _lower(doc: str) -> str:
    """A sentence as a part of another one."""
    text = " ".join(doc.split()).rstrip(".")
    return text[:1].lower() + text[1:]
