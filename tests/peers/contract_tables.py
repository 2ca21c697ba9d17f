"""The tables of the contract of documented functions for `foreachBatch`."""

from collections.abc import Sequence

from tests.peers.contract import FINDINGS, NAMES, Finding
from tests.support.contracts import (
    BY_HAND,
    EVENTS,
    GONE,
    LOST,
    LOST_MEANWHILE,
    MOVED,
    ROLLED_BACK,
    UNDONE,
    WENT_BACK,
)

BEGIN = "<!-- made by tests/peers: contract -->"
_REFUSED = "the run is refused"
_UNDONE = "the rows of undone epochs are removed, or the run is refused"
# What the contract requires, where it is not that each row is there once.
_REQUIRED = {
    "test_epoch_with_other_input_is_refused": _REFUSED,
    LOST: _REFUSED,
    LOST_MEANWHILE: _REFUSED,
    GONE: _REFUSED,
    WENT_BACK: _UNDONE,
    UNDONE: "the rows are restored, or the run is refused",
    ROLLED_BACK: "the older run is refused",
    MOVED: "the older run is refused",
    BY_HAND: _REFUSED,
}
_ONCE = "each row once"


def render(findings: Sequence[Finding] | None = None) -> str:
    """Renders the events, and the outcome of each idiom."""
    shown = FINDINGS.read() if findings is None else findings
    outcomes = {(one.idiom, one.event): one.outcome for one in shown}
    names = [name for name in NAMES if any(one.idiom == name for one in shown)]
    rows = [
        f"| event | the contract requires | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for test, event in EVENTS.items():
        cells = [outcomes.get((name, event), "n/a") for name in names]
        rows.append(f"| {event} | {_REQUIRED.get(test, _ONCE)} | {' | '.join(cells)} |")
    commits = sorted({one.commit for one in shown})
    # A table needs an empty line before it.
    return "\n".join(["", *rows, "", f"Commit: {', '.join(commits)}.", ""])
