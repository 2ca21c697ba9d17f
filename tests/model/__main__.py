"""Checks the model of the protocol: it holds, and it fails without any one of its rules.

`python -m tests.model [case …]` runs all cases, or the named ones. The README in this directory
describes the model and its limits.
"""

import sys
import time
from dataclasses import dataclass

from tests.model import tlc

# The guarantees for users, the invariants that ensure them, and the progress of each run.
SEEN = ["OneCut", "ShownOnce", "ShownIsCut"]
KEPT = ["CutIsSealed", "InOrder", "GoesOnFromCut", "OneInput"]
GOES_ON = ["NoneStopped", "NoneStuck"]
ALL = SEEN + KEPT + GOES_ON


@dataclass(frozen=True)
class Case:
    """A run of the checker.

    violates: the expected violation, empty if the model has to hold
    handovers: whether a run may wait for the end of the run before
    """

    name: str
    violates: str | None = None
    invariants: tuple[str, ...] = tuple(ALL)
    runs: int = 3
    last: int = 1
    sinks: str = "plain seal"
    broken: str = "none"
    handovers: bool = False

    def check(self) -> tlc.Verdict:
        runs = ", ".join(f"r{n}" for n in range(1, self.runs + 1))
        sinks = ", ".join(f'"{sink}"' for sink in self.sinks.split())
        constants = {
            "Runs": f"{{{runs}}}",
            "Last": str(self.last),
            "Sinks": f"{{{sinks}}}",
            "Broken": f'"{self.broken}"',
            "Handovers": str(self.handovers).upper(),
        }
        return tlc.check("Cuts", constants, list(self.invariants))


@dataclass(frozen=True)
class OfPages:
    """A run of the checker on the pages of cuts."""

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


def without(
    rule: str,
    violates: str,
    runs: int = 3,
    last: int = 1,
    sinks: str = "plain seal",
    handovers: bool = False,
) -> Case:
    """Returns the model without a rule, which must violate exactly the named invariant."""
    return Case(rule, violates, (violates,), runs, last, sinks, broken=rule, handovers=handovers)


def reaches(never: str, last: int = 1, sinks: str = "plain seal", handovers: bool = False) -> Case:
    """Checks that the model reaches a state that an invariant excludes."""
    return Case(never, never, (never,), last=last, sinks=sinks, handovers=handovers)


def without_of_pages(rule: str, violates: str) -> OfPages:
    return OfPages(rule, violates, (violates,), broken=rule)


HOLDS: list[Case | OfPages] = [
    Case("three runs, two epochs"),
    Case("sinks that skip, too", sinks="skip seal"),
    Case("three epochs", last=2),
    Case("handovers", handovers=True),
    OfPages("pages, three epochs"),
]
REACHES: list[Case | OfPages] = [
    reaches("NeverDone"),
    reaches("NeverFollowed"),
    reaches("NeverContested"),
    reaches("NeverAdopted"),
    reaches("NeverFenced"),
    reaches("NeverSkipped", sinks="skip seal"),
    reaches("NeverEnteredLate"),
    reaches("NeverCutLate"),
    reaches("NeverPlannedBeforeCut", last=2),
    reaches("NeverHandedOver", handovers=True),
    reaches("NeverTakenFromActive", handovers=True),
    # With one format of cuts a segment is deleted in the fourth epoch at the earliest.
    OfPages("NeverSwept", "NeverSwept", ("NeverSwept",), last=3, pins=0),
    OfPages("NeverPagesSwept", "NeverPagesSwept", ("NeverPagesSwept",)),
]
BROKEN: list[Case | OfPages] = [
    without("OwnerIfAbsent", "NoneStopped"),
    without("OwnThenFind", "ShownOnce"),
    without("LookAfterFound", "NoneStopped"),
    without("LookAfterCut", "NoneStopped"),
    without("EntryIfAbsent", "ShownOnce"),
    without("EntryBeforeTasks", "ShownOnce"),
    without("EndAfterEntry", "NoneStopped"),
    without("EndAfterFailure", "NoneStopped"),
    without("EntryAfterCut", "NoneStopped", runs=2, last=2),
    without("LookQueued", "NoneStopped", runs=2, last=2),
    without("EndTruly", "NoneStopped"),
    without("EndAfterFence", "NoneStopped"),
    without("FenceEntry", "NoneStopped"),
    without("AdoptEarlier", "NoneStopped"),
    without("SealIsAnObject", "ShownOnce"),
    without("SealThenShow", "ShownOnce"),
    without("LookAfterSeal", "ShownOnce"),
    without("HighestSeal", "ShownOnce"),
    without("Claim", "ShownOnce"),
    # The violation requires a fourth run.
    without("CopiedSeal", "CutIsSealed"),
    without("LookAfterClaim", "ShownOnce"),
    without("FirstSeal", "ShownOnce"),
    without("FirstWhole", "ShownOnce"),
    without("CutIfAbsent", "OneCut"),
    without("Took", "ShownOnce", handovers=True),
    without("LookTook", "ShownOnce", handovers=True),
    without("LookLater", "ShownOnce", handovers=True),
    without("TookThenFind", "ShownOnce", handovers=True),
    without("NoEndOfWaiting", "NoneStopped", handovers=True),
    without("LatestFrames", "ShownIsCut", sinks="skip seal"),
    without_of_pages("PageBeforeRoot", "NothingGone"),
    without_of_pages("WholeWindow", "WholeChains"),
    without_of_pages("SweepByPages", "NothingGone"),
    without_of_pages("KeepPages", "NothingGone"),
    without_of_pages("PageInTime", "NothingGone"),
]
# These take many minutes, and run only by name.
LONG: list[Case | OfPages] = [
    Case("four runs", runs=4),
    OfPages("pages, four epochs", last=3, keep=1, pins=0),
]
# Redundant rules: without only one of them the model still holds.
SPARE: list[Case | OfPages] = [Case("StopAtLater", broken="StopAtLater")]


def run(title: str, cases: list[Case | OfPages]) -> int:
    """Prints the result of each case; returns the number of unexpected results."""
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
        "A protocol without a rule is violated:": BROKEN,
        "A protocol without a redundant rule holds:": SPARE,
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
