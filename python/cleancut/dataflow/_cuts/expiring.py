"""Plans which cuts of a dataflow go."""

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
class FlowExpiry(Brief):
    """Which cuts of a dataflow are to be given up, or have been. Nothing is, until `apply`.

    Attributes:
        location: of the dataflow.
        going: the numbers of those that go.
        staying: the numbers of those that stay.
        names: for each savepoint, the number of its cut.
        savepoints: how many savepoints of members go with them.
        is_applied: whether it was done.
    """

    location: str
    going: tuple[int, ...]
    staying: tuple[int, ...]
    names: Mapping[str, int]
    savepoints: int
    is_applied: bool = False
    _rule: tuple[int, int | None] = field(default=(1, None), compare=False)
    _coordinating: Callable[..., Any] | None = field(default=None, compare=False)

    def apply(self) -> "FlowExpiry":
        """Gives up the cuts of `going`, except those that have got a name since.

        Killed, it can be begun again.
        A coordinator that runs elsewhere stands by meanwhile. The queries may run. What only these
        cuts have kept goes with the next sweeps of the queries, and of the channels.

        Returns:
            What was done.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, this plan has been carried out.
            FencedError: CLEANCUT_DATAFLOW_FENCED.
        """
        if self.is_applied or self._coordinating is None:
            raise refused(self.location, "expire", "this plan has been carried out")
        gone, stay = self._coordinating(self._done)
        return replace(
            self,
            going=tuple(of.number for of in gone),
            staying=tuple(of.number for of in stay),
            savepoints=len(needless(gone, stay)),
            is_applied=True,
            _coordinating=None,
        )

    def _done(self, by: Coordinator) -> tuple[Sequence[VectorRecord], Sequence[VectorRecord]]:
        """What was given up, and what has stayed."""
        gone = by.expire(*self._rule, among=self.going)
        return gone, tuple(by.entries)

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for JSON."""
        return plain(self)

    def __str__(self) -> str:
        done = "were given up" if self.is_applied else "are to be given up"
        lines = [f"expire cuts of {self.location}"]
        lines += [f"{len(self.going)} {done}: {ranges(self.going) or 'none'}"]
        lines += [f"{len(self.staying)} stay: {ranges(self.staying)}"]
        lines += [f"{name} is cut {number}" for name, number in sorted(self.names.items())]
        return "\n".join(lines)


def plan_expiry(
    location: str,
    counted: Sequence[VectorRecord],
    named: Mapping[str, int],
    rule: tuple[int, int | None],
    coordinating: Callable[..., Any],
) -> FlowExpiry:
    """What a rule would give up.

    Args:
        location: of the dataflow.
        counted: its cuts, ascending.
        named: the number of each savepoint's.
        rule: how many of the last stay, and since when all do, in Unix time.
        coordinating: does something as the coordinator.
    """
    keep, since_ms = rule
    kept = staying(counted, named.values(), keep, since_ms)
    going = [of for of in counted if of.number not in kept]
    stay = [of for of in counted if of.number in kept]
    return FlowExpiry(
        location=location,
        going=tuple(of.number for of in going),
        staying=tuple(of.number for of in stay),
        names=dict(named),
        savepoints=len(needless(going, stay)),
        _rule=rule,
        _coordinating=coordinating,
    )
