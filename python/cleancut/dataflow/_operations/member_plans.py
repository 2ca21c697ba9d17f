"""Plans for the members of a dataflow, which one operation on the dataflow combines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cleancut.errors import CleancutError, first_line

_SESSION_MISSING = "CLEANCUT_SESSION_MISSING"
_NOT_CHECKED = (
    "The input of the queries was not checked, because no Spark session is running. It is checked "
    "before the first query is changed."
)


class MemberPlan(Protocol):
    """A plan of `rollback` or `clone`."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the operator, before the plan is applied."""

    @property
    def missing_files(self) -> int:
        """The number of input files that the query must read again and that do not exist."""

    def apply(self) -> object:
        """Executes the plan."""


@dataclass(frozen=True)
class MemberPlans:
    """Plans of the members that an operation changes, in their order.

    Attributes:
        planned: for each member, a function that returns its plan.
        allows_missing_input: whether missing input files are accepted.
    """

    planned: Mapping[str, Callable[[], MemberPlan]]
    allows_missing_input: bool

    def notes(self) -> Sequence[str]:
        """Notes of all members, with the errors of those that cannot be planned now."""
        notes = []
        for name, make in self.planned.items():
            try:
                notes += [f"{name}: {note}" for note in make().notes]
            except CleancutError as error:
                if error.error_id == _SESSION_MISSING:
                    return [_NOT_CHECKED]
                notes.append(f"{name}: {first_line(error)}")
        return notes

    def checked(self, refused: Callable[[str], CleancutError]) -> list[MemberPlan]:
        """Plans of all members, none of which lacks input; nothing is changed.

        Args:
            refused: returns the error for a reason.

        Raises:
            CleancutError: a member cannot be changed, or input is missing and this is not allowed.
        """
        plans = {name: make() for name, make in self.planned.items()}
        lacking = {name: plan for name, plan in plans.items() if plan.missing_files}
        if lacking and not self.allows_missing_input:
            details = "; ".join(f"{name}: {' '.join(plan.notes)}" for name, plan in lacking.items())
            raise refused(
                f"input files are missing, and no query was changed. {details} Restore the files, "
                "or pass allow_missing_input=True (--allow-missing-input) to continue without "
                "these rows"
            )
        return list(plans.values())
