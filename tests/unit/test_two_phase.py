"""A sink of two phases on a committer in memory: when it commits, aborts and undoes a handle."""

from dataclasses import replace
from typing import Any

import pytest

from cleancut import FencedError, RequestError
from cleancut.sinks import Batch, Committer, TwoPhaseSink
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._epoch_log.manifest import encoded
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    PREPARED,
    UNDONE,
    Prepared,
    manifest_epochs,
    manifest_name,
    operation_name,
    prepared_in,
    undone_epochs,
)
from cleancut.sinks._two_phase import _Decision, _encoded
from tests.unit.sink_records import BATCH, Directory
from tests.unit.sink_steps import Side


class Target(Committer):
    """A target that records the steps; `fails` is raised by each commit."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.fails: Exception | None = None

    def stage(self, rows: Any, handle: str) -> None:
        self.steps.append(f"stage {handle}")

    def commit(self, handle: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.steps.append(f"commit {handle}")

    def abort(self, handle: str) -> None:
        self.steps.append(f"abort {handle}")

    def undo(self, handle: str) -> None:
        self.steps.append(f"undo {handle}")


class RolledBack(Side):
    """A query with operations on its checkpoint."""

    def __init__(self, batch: Batch, *operations: Operation) -> None:
        super().__init__([], batch=batch)
        self.done = operations

    def operations(self, after: int) -> list[Operation]:
        return [operation for operation in self.done if operation.epoch > after]


class Sink:
    """A sink, its target and its records in memory."""

    def __init__(self) -> None:
        self.target = Target()
        self.records = Directory()
        self.sink = TwoPhaseSink(self.target, decisions="mem:/sink")

    def begin(self, epoch: int, *operations: Operation) -> None:
        records: Any = self.records
        side: Any = RolledBack(at(epoch), *operations)
        self.sink._begin(side, records)

    def publish(self, epoch: int) -> None:
        """Stages and publishes an epoch."""
        self.sink.publish(self.sink.stage(None, at(epoch)), at(epoch))  # type: ignore[arg-type]
        self.target.steps.clear()

    def prepare(self, epoch: int, token: str = "a") -> Prepared:
        """Adds the record of an attempt of another run."""
        prepared = Prepared(epoch, token * 16)
        self.records.create(f"{prepared.directory}/prepared.json", encoded({}))
        return prepared

    def decide(self, prepared: Prepared) -> None:
        """Adds the decision of another run."""
        batch = at(prepared.epoch)
        decision = _Decision(prepared, batch.query_id, "r-1", batch.planned_ms)
        self.records.create(manifest_name(prepared.epoch), decision.encode())

    def prepared(self) -> list[Prepared]:
        return prepared_in(self.records.names(PREPARED))

    def undone(self) -> set[int]:
        return set(undone_epochs(self.records.names(UNDONE)))


def at(epoch: int) -> Batch:
    return replace(BATCH, epoch=epoch, planned_ms=1_000 + epoch)


@pytest.fixture
def sink() -> Sink:
    """A sink that has published the epochs 0 to 3."""
    made = Sink()
    made.begin(0)
    for epoch in range(4):
        made.publish(epoch)
    return made


def test_a_decision_of_a_killed_run_is_committed(sink: Sink) -> None:
    left = sink.prepare(4)
    sink.decide(left)
    sink.begin(5)
    assert sink.target.steps == [f"commit {left.handle}"]
    assert sink.prepared() == []


def test_epochs_that_do_not_count_are_undone_in_reverse_order(sink: Sink) -> None:
    # An older run may still be about to commit them, so each is committed before.
    sink.begin(5, Operation(4, 1))
    kinds = [step.rpartition("_")[0] for step in sink.target.steps]
    assert kinds == ["commit cleancut_3", "undo cleancut_3", "commit cleancut_2", "undo cleancut_2"]
    assert sink.undone() == {2, 3}
    sink.target.steps.clear()
    sink.begin(5, Operation(4, 1))
    assert sink.target.steps == []


def test_a_decision_that_does_not_count_is_not_committed(sink: Sink) -> None:
    sink.begin(5, Operation(4, 1))
    left = sink.prepare(5)
    sink.decide(left)
    sink.target.steps.clear()
    # The query returns to epoch 3, whose rows are undone: the operator has to restore them.
    with pytest.raises(RequestError) as raised:
        sink.begin(7, Operation(4, 1), Operation(6, 3))
    assert raised.value.error_id == "CLEANCUT_SINK_ROWS_MISSING"
    assert sink.target.steps == []
    assert sink.prepared() == [left]


def test_a_run_from_before_a_rollback_commits_nothing(sink: Sink) -> None:
    handle = sink.sink.stage(None, at(4))  # type: ignore[arg-type]
    sink.records.create(operation_name(5), encoded({"source": 1}))
    sink.target.steps.clear()
    with pytest.raises(FencedError):
        sink.sink.publish(handle, at(4))
    # The newer run undoes the decision.
    assert sink.target.steps == []
    assert [left.epoch for left in sink.prepared()] == [4]
    sink.begin(6, Operation(5, 1))
    assert 4 in sink.undone()


def test_the_rows_of_the_decision_are_committed_and_others_aborted(sink: Sink) -> None:
    decided = sink.prepare(4)
    sink.decide(decided)
    mine = Prepared(4, "b" * 16)
    sink.sink.publish(_encoded(mine), at(4))
    assert sink.target.steps == [f"commit {decided.handle}", f"abort {mine.handle}"]


def test_a_handle_is_recorded_until_it_is_committed(sink: Sink) -> None:
    sink.target.fails = ConnectionError("the target is gone")
    handle = sink.sink.stage(None, at(4))  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        sink.sink.publish(handle, at(4))
    (left,) = sink.prepared()
    sink.target.fails = None
    sink.target.steps.clear()
    sink.begin(5)
    assert sink.target.steps == [f"commit {left.handle}"]


def test_only_rows_without_a_decision_up_to_the_epoch_are_aborted(sink: Sink) -> None:
    undecided, decided, later = sink.prepare(3, "b"), sink.prepare(4), sink.prepare(5)
    sink.decide(decided)
    sink.sink.clean_up(at(4))
    assert sink.target.steps == [f"abort {undecided.handle}"]
    assert sink.prepared() == [decided, later]
    assert manifest_epochs(sink.records.names(EPOCHS)) == [0, 1, 2, 3, 4]
