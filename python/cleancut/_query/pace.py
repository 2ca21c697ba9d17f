"""The pace of a running query's epochs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cleancut._brief import Brief

_BUDGET = re.compile(r"\$?([0-9]+(?:\.[0-9]+)?)(?:/day)?")
# Greater than the cost of a day's requests at the slowest possible pace.
_LEAST_USD = 0.000001
_MOST_USD = 1_000_000.0
_MOST_S = 3600.0
_MOST_FAILURES = 1_000_000


@dataclass(frozen=True, repr=False)
class Pace(Brief):
    """Limits on the pace of a query's epochs, in addition to its trigger.

    Attributes:
        min_pause: minimum time between the commit of an epoch and the start of the next.
        interval: minimum time between the starts of two epochs.
        budget: limit in US dollars per day for requests to the object store; None for no limit.
        budget_interval: interval that keeps to the budget at the average cost of recent epochs; 0
            without a budget, before the first epoch, and if requests are free.
        tolerable_failures: number of consecutive failures of maintenance before the query fails;
            None for any number.
        autopause: whether maintenance waits while epochs are late.
        failures: for each maintenance task that fails: number of consecutive failures, and the last
            error.
        postponed_epochs: number of consecutive epochs for which maintenance has waited.
    """

    min_pause: timedelta
    interval: timedelta
    budget: float | None
    budget_interval: timedelta
    tolerable_failures: int | None = None
    autopause: bool = False
    failures: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    postponed_epochs: int = 0

    def __str__(self) -> str:
        parts = []
        if self.min_pause:
            parts.append(f"a pause of {_text(self.min_pause)} after each epoch")
        if self.interval:
            parts.append(f"an epoch every {_text(self.interval)}")
        if self.budget is not None:
            given = f"${self.budget:g} a day"
            parts.append(
                f"{given} allows an epoch every {_text(self.budget_interval)}"
                if self.budget_interval
                else f"{given}, which epochs do not reach"
            )
        return "; ".join([*(parts or ["as its trigger defines"]), *self._maintenance()])

    def _maintenance(self) -> Iterator[str]:
        if self.tolerable_failures is not None:
            yield f"fails after {self.tolerable_failures + 1} consecutive failures of maintenance"
        if self.autopause:
            waited = (
                f", for the last {self.postponed_epochs} of them" if self.postponed_epochs else ""
            )
            yield f"maintenance waits while epochs are late{waited}"
        for what, (count, last) in sorted(self.failures.items()):
            yield f"the {what} has failed {count} times in a row: {last}"


def pace_of(fields: dict[str, Any]) -> Pace:
    """Parses the driver's pace."""
    return Pace(
        min_pause=timedelta(milliseconds=fields["minPauseMs"]),
        interval=timedelta(milliseconds=fields["intervalMs"]),
        budget=fields.get("dollarsPerDay"),
        budget_interval=timedelta(milliseconds=fields["boughtMs"]),
        tolerable_failures=fields.get("tolerableFailures"),
        autopause=fields["autopause"],
        failures={
            task: (failure["count"], failure["last"]) for task, failure in fields["failing"].items()
        },
        postponed_epochs=fields["putOff"],
    )


def failures_of(given: int | str | None) -> int:
    """The number of tolerated consecutive failures; -1 if not given, -2 for any number.

    Raises:
        ValueError: it is neither a number from 0 to 1,000,000 nor "any".
    """
    if given is None:
        return -1
    if given == "any":
        return -2
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= _MOST_FAILURES:
        raise ValueError(
            f'tolerable_failures is from 0 to {_MOST_FAILURES} or "any", and not {given!r}.'
        )
    return given


def switch_of(given: bool | None) -> int:
    """The switch as a number; -1 if not given."""
    return -1 if given is None else int(given)


def millis_of(name: str, given: timedelta | float | None) -> int:
    """A time in milliseconds; -1 if not given.

    Raises:
        ValueError: it is negative, or longer than an hour.
    """
    if given is None:
        return -1
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not 0 <= seconds <= _MOST_S:
        raise ValueError(f"{name} is from 0 to {_MOST_S:g} seconds, and not {given}.")
    return round(seconds * 1000)


def micro_dollars_of(budget: float | str | None) -> int:
    """Millionths of a dollar per day; -1 if no budget is given, 0 for no limit.

    Raises:
        ValueError: it is no amount, below a millionth of a dollar, or above a million dollars.
    """
    if budget is None:
        return -1
    match = _BUDGET.fullmatch(budget.strip()) if isinstance(budget, str) else None
    if isinstance(budget, str) and match is None:
        raise ValueError(f"A budget is an amount such as 5 or $5/day, and not {budget!r}.")
    usd = float(match[1]) if match else float(budget)
    if usd != 0 and not _LEAST_USD <= usd <= _MOST_USD:
        raise ValueError(f"A budget is from $0.000001 to $1000000 a day, or 0, and not {budget}.")
    return round(usd * 1_000_000)


def _text(given: timedelta) -> str:
    return f"{given.total_seconds():g} s"
