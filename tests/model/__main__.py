"""Checks the model of the protocol: that it holds, and that it does not without any of its rules.

`python -m tests.model [case …]` runs all cases, or those that are named. The README beside this
file says what is modelled, and what is not.
"""

import sys
import time
from dataclasses import dataclass

from tests.model import tlc

# What a user relies on, what keeps it so, and that each run can go on.
SEEN = ["OneCut", "ShownOnce", "ShownIsCut"]
KEPT = ["CutIsSealed", "InOrder", "GoesOnFromCut", "OneInput"]
GOES_ON = ["NoneStopped", "NoneStuck"]
ALL = SEEN + KEPT + GOES_ON


@dataclass(frozen=True)
class Case:
    """A run of the checker.

    violates: what it has to find, nothing if the model is to hold
    """

    name: str
    violates: str | None = None
    invariants: tuple[str, ...] = tuple(ALL)
    runs: int = 3
    last: int = 1
    sinks: str = "plain seal"
    broken: str = "none"

    def check(self) -> tlc.Verdict:
        runs = ", ".join(f"r{n}" for n in range(1, self.runs + 1))
        sinks = ", ".join(f'"{sink}"' for sink in self.sinks.split())
        constants = {
            "Runs": f"{{{runs}}}",
            "Last": str(self.last),
            "Sinks": f"{{{sinks}}}",
            "Broken": f'"{self.broken}"',
        }
        return tlc.check("Cuts", constants, list(self.invariants))


@dataclass(frozen=True)
class OfPages:
    """The same of what a cut of format 2 names."""

    name: str
    violates: str | None = None
    invariants: tuple[str, ...] = ("WholeChains", "NothingGone")
    broken: str = "none"
    last: int = 2
    keep: int = 0
    pins: int = 1

    def check(self) -> tlc.Verdict:
        numbers = {"Last": self.last, "Keep": self.keep, "Margin": 0, "Pins": self.pins}
        constants = {name: str(number) for name, number in numbers.items()}
        stores = {"Stores": "{s1, s2}", "Broken": f'"{self.broken}"'}
        return tlc.check("Pages", constants | stores, list(self.invariants))


def without(rule: str, violates: str, runs: int = 3, sinks: str = "plain seal") -> Case:
    """The model without a rule, which has to be found in what is named and in nothing else."""
    return Case(rule, violates, (violates,), runs=runs, sinks=sinks, broken=rule)


def reaches(never: str, sinks: str = "plain seal") -> Case:
    """The model gets into a state that is said never to come."""
    return Case(never, never, (never,), sinks=sinks)


def without_of_pages(rule: str, violates: str) -> OfPages:
    return OfPages(rule, violates, (violates,), broken=rule)


HOLDS: list[Case | OfPages] = [
    Case("three runs, two epochs"),
    Case("sinks that skip, too", sinks="skip seal"),
    Case("three epochs", last=2),
    OfPages("pages, three epochs"),
]
REACHES: list[Case | OfPages] = [
    reaches("NeverDone"),
    reaches("NeverFollowed"),
    reaches("NeverContested"),
    reaches("NeverAdopted"),
    reaches("NeverFenced"),
    reaches("NeverSkipped", sinks="skip seal"),
    OfPages("NeverSwept", "NeverSwept", ("NeverSwept",)),
    OfPages("NeverPagesSwept", "NeverPagesSwept", ("NeverPagesSwept",)),
]
BROKEN: list[Case | OfPages] = [
    without("OwnerIfAbsent", "NoneStopped"),
    without("OwnThenFind", "ShownOnce"),
    without("LookAfterFound", "NoneStopped"),
    without("LookAfterCut", "NoneStopped"),
    without("EntryIfAbsent", "ShownOnce"),
    without("EndTruly", "NoneStopped"),
    without("EndAfterFence", "NoneStopped"),
    without("FenceEntry", "NoneStopped"),
    without("AdoptEarlier", "NoneStopped"),
    without("SealIsAnObject", "ShownOnce"),
    without("SealThenShow", "ShownOnce"),
    without("LookAfterSeal", "ShownOnce"),
    without("HighestSeal", "ShownOnce"),
    without("Claim", "ShownOnce"),
    # It takes a fourth run to show what is wrong then.
    without("CopiedSeal", "CutIsSealed"),
    without("LookAfterClaim", "ShownOnce"),
    without("FirstSeal", "ShownOnce"),
    without("FirstWhole", "ShownOnce"),
    without("CutIfAbsent", "OneCut"),
    without("LatestFrames", "ShownIsCut", sinks="skip seal"),
    without_of_pages("PageBeforeRoot", "NothingGone"),
    without_of_pages("WholeWindow", "WholeChains"),
    without_of_pages("SweepByPages", "NothingGone"),
    without_of_pages("KeepPages", "NothingGone"),
    without_of_pages("PageInTime", "NothingGone"),
]
# Take many minutes, and are run where they are named alone.
LONG: list[Case | OfPages] = [
    Case("four runs", runs=4),
    OfPages("pages, four epochs", last=3, keep=1, pins=0),
]
# Rules that others stand in for: without one of them alone the model still holds.
SPARE: list[Case | OfPages] = [Case("StopAtLater", broken="StopAtLater")]


def run(title: str, cases: list[Case | OfPages]) -> int:
    """Prints what came of each case; how many came to something else than they should."""
    print(title)
    wrong = 0
    for case in cases:
        began = time.monotonic()
        verdict = case.check()
        is_right = verdict.violated == case.violates
        wrong += not is_right
        print(
            f"  {'ok' if is_right else 'WRONG':6}{case.name:24}{verdict.violated or 'holds':16}"
            f"{verdict.states:>10,} states, {verdict.depth} deep, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
    return wrong


def main(names: list[str]) -> int:
    tlc.fetch()
    groups = {
        "The protocol holds:": HOLDS + LONG,
        "The model gets to:": REACHES,
        "A protocol without a rule is found out:": BROKEN,
        "A protocol without a rule that others stand in for holds:": SPARE,
    }
    chosen = {
        title: [case for case in cases if case.name in names or not (names or case in LONG)]
        for title, cases in groups.items()
    }
    wrong = sum(run(title, cases) for title, cases in chosen.items() if cases)
    print(f"{sum(map(len, chosen.values())) - wrong} passed, {wrong} failed")
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
