"""Expires cuts of a dataflow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cleancut._brief import Brief, plain
from cleancut._display.tables import ranges
from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._model.records import VectorRecord
from cleancut.dataflow._store.log import needless, staying
from cleancut.dataflow._store.store import refused


@dataclass(frozen=True, repr=False)
class DataflowExpiry(Brief):
    """The cuts of a dataflow that will be deleted, or were. Nothing is deleted until `apply`.

    Attributes:
        location: location of the dataflow.
        expired: numbers of the cuts that are deleted.
        retained: numbers of the cuts that are retained.
        names: the number of the cut of each savepoint.
        savepoints: number of savepoints of members that are dropped with these cuts.
        is_applied: whether the plan has been applied.
    """

    location: str
    expired: tuple[int, ...]
    retained: tuple[int, ...]
    names: Mapping[str, int]
    savepoints: int
    is_applied: bool = False
    _rule: tuple[int, int | None] = field(default=(1, None), compare=False)
    _coordinating: Callable[..., Any] | None = field(default=None, compare=False)

    def apply(self) -> "DataflowExpiry":
        """Deletes the cuts of `expired`, except those that have become savepoints since.

        The queries may run. A coordinator that runs elsewhere is on standby meanwhile. The next
        garbage collections of queries and channels delete objects that only these cuts referenced.
        After a kill it can be started again.

        Returns:
            The plan as it was executed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, the plan was applied before.
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_applied or self._coordinating is None:
            raise refused(self.location, "expire", "this plan has been applied before")
        gone, stay = self._coordinating(self._done)
        return replace(
            self,
            expired=tuple(cut.number for cut in gone),
            retained=tuple(cut.number for cut in stay),
            savepoints=len(needless(gone, stay)),
            is_applied=True,
            _coordinating=None,
        )

    def _done(self, by: Coordinator) -> tuple[Sequence[VectorRecord], Sequence[VectorRecord]]:
        """The cuts that were deleted, and those that were retained."""
        gone = by.expire(*self._rule, among=self.expired)
        return gone, tuple(by.entries)

    def to_dict(self) -> Mapping[str, Any]:
        """The plan as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        done = "expired" if self.is_applied else "to expire"
        lines = [f"expire cuts of {self.location}"]
        lines += [f"{done}: {ranges(self.expired) or 'none'}"]
        lines += [f"retained: {ranges(self.retained)}"]
        lines += [f"{name} is cut {number}" for name, number in sorted(self.names.items())]
        return "\n".join(lines)


def plan_expiry(
    location: str,
    counted: Sequence[VectorRecord],
    named: Mapping[str, int],
    rule: tuple[int, int | None],
    coordinating: Callable[..., Any],
) -> DataflowExpiry:
    """Plans to delete cuts by a rule.

    Args:
        location: location of the dataflow.
        counted: its cuts, ascending.
        named: the cut number of each savepoint.
        rule: number of last cuts to retain, and the time since which all are retained, in Unix
            time.
        coordinating: runs a function as the coordinator.
    """
    keep, since_ms = rule
    kept = staying(counted, named.values(), keep, since_ms)
    going = [record for record in counted if record.number not in kept]
    stay = [record for record in counted if record.number in kept]
    return DataflowExpiry(
        location=location,
        expired=tuple(cut.number for cut in going),
        retained=tuple(cut.number for cut in stay),
        names=dict(named),
        savepoints=len(needless(going, stay)),
        _rule=rule,
        _coordinating=coordinating,
    )
