"""The decisions of a ledger, compared with a model of the query and of its target."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.query_side import Act


@dataclass
class ModelQuery:
    """A query, its operations, and the epochs that each state of it contains."""

    number: int = 0
    operations: list[Act] = field(default_factory=list)
    # By epoch or operation: the epochs whose output belongs to the state after it.
    histories: dict[int, tuple[int, ...]] = field(default_factory=dict)
    current: int = -1

    def commit(self) -> int:
        epoch, self.number = self.number, self.number + 1
        self.histories[epoch] = (*self.history, epoch)
        self.current = epoch
        return epoch

    def operate(self, source: int) -> None:
        """An operation that continues from the state after an epoch or an operation."""
        self.operations.append(Act(self.number, source))
        self.histories[self.number] = self.histories[source]
        self.current = self.number
        self.number += 1

    @property
    def history(self) -> tuple[int, ...]:
        return self.histories.get(self.current, ())


@dataclass
class ModelTarget:
    """A target that keeps its records and its rows in one transaction."""

    run: Run | None = None
    epochs: list[RecordedEpoch] = field(default_factory=list)

    @property
    def published(self) -> set[int]:
        return {of.epoch.epoch for of in self.epochs if not of.is_undone}

    def begin(self, query: ModelQuery, batch: Batch, owner: int) -> ledger.Begun:
        position = -1 if self.run is None else self.run.position
        operations = [of for of in query.operations if position < of.epoch < batch.epoch]
        decided = ledger.begin(self.run, self.epochs, batch, owner, operations)
        match decided:
            case ledger.Begin(run):
                self.run = run
            case ledger.Undo(run, surplus, _):
                self.run = run
                self.epochs = [
                    replace(of, is_undone=of.is_undone or of.epoch in surplus) for of in self.epochs
                ]
        return decided

    def publish(self, batch: Batch) -> bool:
        """Whether the epoch was published, by this run or an earlier one."""
        found = ledger.find(self.run, self.epochs, batch)
        if isinstance(found, LedgerEpoch):
            return True
        if found is not None:
            return False
        decided = ledger.publish(self.run, batch, "", 1, 0)
        if isinstance(decided, ledger.Fenced):
            return False
        self.run, epoch = decided
        self.epochs.append(RecordedEpoch(epoch))
        return True


def batch_of(epoch: int, run: int) -> Batch:
    return Batch(epoch, "q", f"run-{run}", "/checkpoint", 1_000 + epoch)


steps = st.lists(
    st.one_of(
        st.just("epoch"),
        st.just("restart"),
        st.just("late"),
        st.tuples(st.just("operation"), st.integers(0, 40)),
    ),
    max_size=40,
)


@given(steps)
def test_a_target_has_the_epochs_of_the_history_that_the_query_continues(
    drawn: list[str | tuple[str, int]],
) -> None:
    """Or it is refused, because it has undone some of them. Older runs publish nothing."""
    query, target = ModelQuery(), ModelTarget()
    run, has_begun, older = 1, False, 0
    for step in drawn:
        if step == "restart":
            run, has_begun, older = run + 1, False, run if has_begun else older
        elif isinstance(step, tuple):
            if query.histories:
                numbers = sorted(query.histories)
                query.operate(numbers[step[1] % len(numbers)])
                # The query was stopped for it.
                run, has_begun, older = run + 1, False, run if has_begun else older
        elif step == "late":
            if older and has_begun:
                published = list(target.epochs)
                assert not target.publish(batch_of(query.number, older))
                assert isinstance(
                    target.begin(query, batch_of(query.number, older), older), ledger.Fenced
                )
                assert target.epochs == published
        else:
            batch = batch_of(query.number, run)
            if not has_begun:
                before = (target.run, list(target.epochs))
                decided = target.begin(query, batch, run)
                lost = set(query.history) - target.published
                if isinstance(decided, ledger.RowsMissing):
                    assert {of.epoch for of in decided.epochs} == lost
                    assert decided.before in (*query.history, ledger.NO_EPOCH)
                    assert (target.run, target.epochs) == before
                    # As the error says: roll back to before them, or begin with a new target.
                    if decided.before == ledger.NO_EPOCH:
                        return
                    query.operate(decided.before)
                    batch = batch_of(query.number, run)
                    decided = target.begin(query, batch, run)
                assert isinstance(decided, ledger.Begin | ledger.Undo)
                has_begun = True
            assert target.published == set(query.history)
            epoch = query.commit()
            assert target.publish(batch_of(epoch, run))
            assert target.publish(batch_of(epoch, run))
            assert target.published == set(query.history)


@given(steps)
def test_the_epochs_that_count_are_those_of_the_history(
    drawn: list[str | tuple[str, int]],
) -> None:
    query = ModelQuery()
    committed = set()
    for step in drawn:
        if isinstance(step, tuple) and query.histories:
            numbers = sorted(query.histories)
            query.operate(numbers[step[1] % len(numbers)])
        elif step == "epoch":
            committed.add(query.commit())
        history = ledger.History(tuple(query.operations), query.number - 1)
        assert {epoch for epoch in committed if history.counts(epoch)} == set(query.history)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_with_other_input_and_one_that_was_passed_are_no_new_epochs(
    first: int, second: int, third: int
) -> None:
    target = ModelTarget()
    target.begin(ModelQuery(), batch_of(0, 1), 1)
    for epoch in sorted({first, second}):
        assert target.publish(batch_of(epoch, 1))
    found = ledger.find(target.run, target.epochs, batch_of(third, 1))
    if third in (first, second):
        assert isinstance(found, LedgerEpoch)
        other = replace(batch_of(third, 1), planned_ms=7)
        assert isinstance(ledger.find(target.run, target.epochs, other), ledger.OtherInput)
    elif third < max(first, second):
        assert found == ledger.Passed(max(first, second))
    else:
        assert found is None


def test_a_target_that_records_some_epochs_is_not_rolled_back_to_before_them() -> None:
    epochs = [
        RecordedEpoch(LedgerEpoch(0, epoch, 1_000 + epoch, "run-1", "", 1, 0)) for epoch in (3, 4)
    ]
    run = Run("run-1", last=4)
    rollbacks = {
        source: ledger.begin(run, epochs, batch_of(6, 2), 0, [Act(5, source)], first=3)
        for source in (1, 2, 3)
    }
    assert isinstance(rollbacks[1], ledger.Refused)
    assert [type(rollbacks[source]) for source in (2, 3)] == [ledger.Undo, ledger.Undo]
