"""The decisions of a ledger, compared with a model of the query and of its target."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import EpochRanges, Expected
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


Backup = tuple[Run | None, tuple[RecordedEpoch, ...]]


@dataclass
class ModelTarget:
    """A target that keeps its records and its rows in one transaction."""

    run: Run | None = None
    epochs: list[RecordedEpoch] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def published(self) -> set[int]:
        return {of.epoch.epoch for of in self.epochs if not of.is_undone}

    def expected(self, query: ModelQuery) -> Expected:
        """What the checkpoint records: each epoch of the history has been published here."""
        return Expected(EpochRanges.of(query.history), self.gaps)

    def begin(self, query: ModelQuery, batch: Batch, owner: int) -> ledger.Begun:
        position = -1 if self.run is None else self.run.position
        operations = [of for of in query.operations if position < of.epoch < batch.epoch]
        expected = self.expected(query)
        decided = ledger.begin(self.run, self.epochs, batch, owner, operations, expected=expected)
        match decided:
            case ledger.Begin(run):
                self.run = run
            case ledger.Undo(run, surplus, _):
                self.run = run
                self.epochs = [
                    replace(of, is_undone=of.is_undone or of.epoch in surplus) for of in self.epochs
                ]
        return decided

    def find(self, query: ModelQuery, batch: Batch) -> object:
        return ledger.find(self.run, self.epochs, batch, self.expected(query))

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

    def backup(self) -> Backup:
        return self.run, tuple(self.epochs)

    def restore(self, backup: Backup) -> None:
        self.run, self.epochs = backup[0], list(backup[1])


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


losses = st.lists(
    st.one_of(
        st.just("epoch"),
        st.just("restart"),
        st.just("back up"),
        st.tuples(st.just("operation"), st.integers(0, 40)),
        st.tuples(st.just("lose"), st.integers(0, 40)),
        st.tuples(st.just("lose"), st.integers(0, 40)),
    ),
    max_size=40,
)


@dataclass
class Losses:
    """A query whose target is restored to earlier states, with its ledger."""

    ways: st.DataObject
    query: ModelQuery = field(default_factory=ModelQuery)
    target: ModelTarget = field(default_factory=ModelTarget)
    backups: list[Backup] = field(default_factory=lambda: [(None, ())])
    # The newest state of the target, and what it lacks by consent.
    newest: Backup = (None, ())
    accepted: set[int] = field(default_factory=set)
    run: int = 1
    has_begun: bool = False

    @property
    def batch(self) -> Batch:
        return batch_of(self.query.number, self.run)

    def restart(self) -> None:
        self.run, self.has_begun = self.run + 1, False

    def lose(self, which: int) -> None:
        self.target.restore(self.backups[which % len(self.backups)])
        last = -1 if self.target.run is None else self.target.run.last
        lost = {epoch for epoch in self.query.history if epoch > last}
        if self.has_begun and lost:
            found = self.target.find(self.query, self.batch)
            assert isinstance(found, ledger.EpochsLost)
            assert numbers(found.epochs) == lost
        self.restart()

    def begin(self) -> bool:
        """Follows each refusal until the run may write; False if only another target helps."""
        while True:
            before = self.target.backup()
            last = -1 if self.target.run is None else self.target.run.last
            decided = self.target.begin(self.query, self.batch, self.run)
            match decided:
                case ledger.EpochsLost(epochs, kept):
                    assert self.target.backup() == before
                    assert numbers(epochs) == {of for of in self.query.history if of > last}
                    self.follow(epochs, kept)
                case ledger.RowsMissing(_, ledger.NO_EPOCH):
                    return False
                case ledger.RowsMissing(_, kept):
                    self.query.operate(kept)
                case _:
                    assert isinstance(decided, ledger.Begin | ledger.Undo)
                    self.has_begun = True
                    return True

    def follow(self, lost: EpochRanges, kept: int) -> None:
        """Takes one of the ways that the error names."""
        way = self.ways.draw(st.sampled_from(["restore", "accept", "roll back"]))
        if way == "restore" and self.newest[0] is not None:
            newest = {of.epoch.epoch for of in self.newest[1]}
            if numbers(lost) - self.accepted <= newest and self.newest[0].last >= lost.last:
                self.target.restore(self.newest)
                return
        if way == "roll back" and kept != ledger.NO_EPOCH:
            self.query.operate(kept)
            return
        self.target.gaps.append((lost.first, lost.last))
        self.accepted |= numbers(lost)

    def write(self) -> None:
        known = self.target.published
        self.accepted -= known
        assert known == set(self.query.history) - self.accepted
        batch = batch_of(self.query.commit(), self.run)
        assert self.target.publish(batch)
        self.newest = self.target.backup()


def numbers(of: EpochRanges) -> set[int]:
    return {number for first, last in of.ranges for number in range(first, last + 1)}


@given(losses, st.data())
def test_a_target_that_was_restored_is_written_only_after_its_lost_epochs_are_dealt_with(
    drawn: list[str | tuple[str, int]], ways: st.DataObject
) -> None:
    """Restored, written again after a rollback, or accepted by name: these and no others."""
    play = Losses(ways)
    for step in drawn:
        if step == "restart":
            play.restart()
        elif step == "back up":
            play.backups.append(play.target.backup())
        elif isinstance(step, tuple) and step[0] == "lose":
            play.lose(step[1])
        elif isinstance(step, tuple):
            if play.query.histories:
                sources = sorted(play.query.histories)
                play.query.operate(sources[step[1] % len(sources)])
                play.restart()
        else:
            if not play.has_begun and not play.begin():
                return
            play.write()


def test_a_gap_is_accepted_for_these_very_epochs_alone() -> None:
    published = EpochRanges(((0, 5), (7, 9)))
    batch = batch_of(10, 1)
    refused = ledger.lost_after(3, batch, Expected(published))
    assert refused == ledger.EpochsLost(EpochRanges(((4, 5), (7, 9))), before=3)
    assert str(refused.epochs) == "epochs 4 to 5, 7 to 9"
    for gap, is_accepted in (((4, 9), True), ((3, 9), False), ((4, 10), False), ((4, 5), False)):
        lost = ledger.lost_after(3, batch, Expected(published, [gap]))
        assert (lost is None) == is_accepted
    # The epoch that is about to be written again may be lost.
    assert ledger.lost_after(8, batch_of(9, 1), Expected(published)) is None
    assert ledger.lost_after(9, batch, Expected(published)) is None
    everything = ledger.lost_after(-1, batch, Expected(published))
    assert everything == ledger.EpochsLost(published, before=ledger.NO_EPOCH)
