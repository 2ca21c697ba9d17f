"""What the contract of sinks reports about a sink that does not fulfill it."""

import re
from dataclasses import dataclass
from pathlib import Path

from cleancut import CleancutError
from cleancut.testing import SinkContract

WHOLE, DUPLICATED, LOST, REFUSED = "whole", "duplicated", "lost", "refused"
REPLACED, NOT_REFUSED = "replaced", "not refused"
# Rows with this ID or a greater one are the other input of an epoch, whose number is in their `n`.
OTHER_INPUT = 500
_OF_EPOCH = 1


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test.

    Attributes:
        kind: what happened to the rows.
        rows: the number of lost or surplus rows, if the test counts them.
        reason: the failure that the test reports.
    """

    kind: str
    rows: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.rows} {self.kind}" if self.rows else self.kind


def outcome(contract: SinkContract, test: str, home: Path) -> Outcome:
    """Runs a test of a contract in an empty directory."""
    try:
        getattr(contract, test)(home)
    except CleancutError as refusal:
        return Outcome(REFUSED, reason=str(refusal))
    except AssertionError as failure:
        return _counted(str(failure), contract, home)
    return Outcome(WHOLE)


def _counted(failure: str, contract: SinkContract, home: Path) -> Outcome:
    # A test accepts the epoch or its absence, so the smaller difference counts.
    counted = re.findall(r"(\d+) rows lost, (\d+) too many", failure)
    if counted:
        lost, surplus = min(((int(lost), int(surplus)) for lost, surplus in counted), key=sum)
        return Outcome(LOST, lost, failure) if lost else Outcome(DUPLICATED, surplus, failure)
    if "an epoch was written again, with other input" in failure:
        return Outcome(_other_input(contract, home), reason=failure)
    return Outcome(NOT_REFUSED, reason=failure)


def _other_input(contract: SinkContract, home: Path) -> str:
    """Returns what happened to an epoch that ran again with other input."""
    ids = [row[0] for row in contract.read(home) if row[2] == _OF_EPOCH]
    if not any(number >= OTHER_INPUT for number in ids):
        return LOST
    return DUPLICATED if any(number < OTHER_INPUT for number in ids) else REPLACED
