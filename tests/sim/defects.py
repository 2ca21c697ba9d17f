"""Planted defects of the coordinator's code; the simulation has to find each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from cleancut.dataflow._cuts.channels import ChannelView
from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._model import names
from cleancut.dataflow._model.facts import Lineage
from cleancut.dataflow._model.records import VectorRecord
from cleancut.dataflow._model.vector import History, Outcome
from cleancut.dataflow._store.log import Pins, Term
from cleancut.dataflow._store.store import DataflowStore

Defect = Callable[[], AbstractContextManager[object]]
_LOG = "cleancut.dataflow._store.log."
_COORDINATOR = "cleancut.dataflow._cuts.coordinator."


def no_lowering() -> AbstractContextManager[object]:
    """The vector has the last cut of each member, regardless of its senders."""

    def newest(history: History) -> Outcome:
        return Outcome({name: cuts[-1].epoch for name, cuts in history.items()}, {}, {})

    return patch("cleancut.dataflow._cuts.decision.newest", newest)


def no_second_look() -> AbstractContextManager[object]:
    """The cuts are not read again after their savepoints exist."""
    return patch.object(Coordinator, "_check_cuts", lambda *_: None)


def attempts_ignored() -> AbstractContextManager[object]:
    """Hidden epochs count as consumed, and operations are ignored."""
    return _both(
        patch.object(ChannelView, "problem", lambda *_: None),
        patch.object(Lineage, "counts", lambda *_: True),
    )


def acts_ignored() -> AbstractContextManager[object]:
    """Only hidden epochs do not count."""
    return patch.object(Lineage, "counts", lambda *_: True)


def acts_of_channels_ignored() -> AbstractContextManager[object]:
    """Operations are read only from the remaining cuts."""
    return patch.object(ChannelView, "list_operations", lambda _: None)


@contextmanager
def vector_before_pins() -> Iterator[None]:
    """The vector is written before the savepoints of its cuts."""
    pin = Coordinator._pin
    later: dict[int, list[Any]] = {}

    def postponed(self: Coordinator, cut: Any) -> None:
        later.setdefault(id(self), []).append(cut)

    settle = Coordinator._settle

    def settled(self: Coordinator) -> VectorRecord | None:
        record = settle(self)
        for cut in later.pop(id(self), []):
            try:
                pin(self, cut)
            except Exception:  # as a careless one would do it
                continue
        return record

    with (
        patch.object(Coordinator, "_pin", postponed),
        patch.object(Coordinator, "_settle", settled),
    ):
        yield


def zombie_goes_on() -> AbstractContextManager[object]:
    """A coordinator whose number is taken takes the next one without a check of the last owner."""

    def append(store: DataflowStore, _: Term, record: VectorRecord) -> None:
        body = record.encode()
        if not store.create(names.vector_name(record.number), body):
            number = max(store.log(), default=0) + 1
            object.__setattr__(record, "number", number)
            store.create(names.vector_name(number), record.encode())

    return patch(f"{_COORDINATOR}append", append)


def no_entry_of_the_beginning() -> AbstractContextManager[object]:
    """A coordinator takes a generation, and no number of the log."""

    def take(store: DataflowStore, _: Mapping[str, object]) -> Term:
        newest = names.generations(store.objects.list(names.COORDINATORS))[0]
        body = store.machinery.token().encode()
        while not store.create(names.coordinator_name(newest + 1), body):
            newest += 1
        return Term(newest + 1, max(store.log(), default=0))

    return patch(f"{_COORDINATOR}take", take)


def savepoints_of_others_given_up() -> AbstractContextManager[object]:
    """All savepoints of an expired vector are dropped, including those that others name."""

    def give_up(self: Pins, going: Sequence[VectorRecord], _: Sequence[VectorRecord]) -> None:
        for vector in going:
            self._store.objects.delete(names.vector_name(vector.number))
            for cut in vector.members:
                self.drop(cut.checkpoint, cut.pin or "")

    return patch.object(Pins, "give_up", give_up)


@contextmanager
def unsure_is_undone() -> Iterator[None]:
    """A vector whose response was lost is treated as not written."""
    settle = Coordinator._settle

    def settled(self: Coordinator) -> VectorRecord | None:
        unsure = self._unsure
        try:
            return settle(self)
        except Exception:
            if unsure is not None:
                self._unsure = None
                for cut in unsure[0].members:
                    if cut.pin and self._is_own(cut.pin):
                        self.pins.drop(cut.checkpoint, cut.pin)
            raise

    # If it is read in between, it counts, and later does not count any more.
    with patch.object(Coordinator, "_settle", settled):
        yield


@contextmanager
def _both(*those: AbstractContextManager[object]) -> Iterator[None]:
    with those[0], those[1]:
        yield


DEFECTS: Mapping[str, Defect] = {
    defect.__name__: defect
    for defect in (
        no_lowering,
        no_second_look,
        attempts_ignored,
        acts_ignored,
        acts_of_channels_ignored,
        vector_before_pins,
        zombie_goes_on,
        no_entry_of_the_beginning,
        savepoints_of_others_given_up,
        unsure_is_undone,
    )
}
