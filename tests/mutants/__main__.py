"""`python -m tests.mutants`: plants each defect of the catalogue; the tests of each must fail.

A defect that no test finds is a missing test. The results are stored, and written into the
documentation; `page` does that alone.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.mutants import page, python_code, record, scala_code
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.record import Result
from tests.mutants.switches import Found, Switch, switches


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each defect and the score; returns 1 if a defect was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "page"], default="run")
    parser.add_argument("--only", default="", help="part of an area or of a defect")
    options = parser.parse_args(arguments)
    if options.command == "page":
        page.update()
        return 0
    only: str = options.only
    planted = all_planted()
    chosen = [one for one in planted if only in f"{one.area}: {one.defect}"]
    failure = _failure_without([one for one in MUTANTS if one in chosen])
    if failure is not None:
        parser.error(f"{failure} fails without a defect")
    results = []
    print("| area | planted defect | found by | runs | seconds |\n|---|---|---|---|---|")
    for one in chosen:
        began = time.monotonic()
        search = search_of(one)()
        result = Result(
            one.area, one.defect, search.by if search else None, search.runs if search else None
        )
        results.append(result)
        by, runs = result.by or "**not found**", result.runs or ""
        seconds = time.monotonic() - began
        print(f"| {one.area} | {one.defect} | {by} | {runs} | {seconds:.0f} |", flush=True)
        record.add([result], [(each.area, each.defect) for each in planted])
    page.update()
    missing = sum(result.by is None for result in results)
    print(f"\n{len(results)} planted, {missing} not found")
    return min(missing, 1)


def all_planted() -> list[Mutant | Switch]:
    """All planted defects, in the order of the tables."""
    planted: list[Mutant | Switch] = [*MUTANTS, *switches()]
    areas = list(dict.fromkeys(one.area for one in planted))
    return sorted(planted, key=lambda one: areas.index(one.area))


def search_of(one: Mutant | Switch) -> Callable[[], Found | None]:
    """Searches for a defect."""
    return one.find if isinstance(one, Switch) else partial(_failing_test, one)


def _failing_test(mutant: Mutant) -> Found | None:
    code = scala_code if mutant.path.endswith(".scala") else python_code
    by = code.failing_test(mutant)
    return None if by is None else Found(by)


def _failure_without(mutants: Sequence[Mutant]) -> str | None:
    """The first test that fails without a defect."""
    in_scala = [one for one in mutants if one.path.endswith(".scala")]
    suites = list(dict.fromkeys(suite for one in in_scala for suite in one.tests))
    failure = scala_code.first_failure(suites)
    for tests in dict.fromkeys(tuple(one.tests) for one in mutants if one not in in_scala):
        failure = failure or python_code.first_failure(tests)
    return failure


if __name__ == "__main__":
    sys.exit(main())
