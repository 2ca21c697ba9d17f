"""The decisions of a ledger, compared with a model of the query and of its target."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import EpochRanges, Expected
from cleancut.sinks._core.ledger import LedgerEpoch, RecordedEpoch, Run
from cleancut.sinks._core.lineage import Origin, Position, position
from cleancut.sinks._core.query_side import Operation
from tests.support.draws import draws


@dataclass
class ModelQuery:
    """A query, its operations, and the epochs that each of its states contains."""

    number: int = 0
    operations: list[Operation] = field(default_factory=list)
    # By epoch or operation: the epochs whose output belongs to the state after it.
    histories: dict[int, tuple[int, ...]] = field(default_factory=dict)
    current: int = -1

    def commit(self) -> int:
        epoch, self.number = self.number, self.number + 1
        self.histories[epoch] = (*self.history, epoch)
        self.current = epoch
        return epoch

    def operate(self, source: int) -> None:
        """Performs an operation that continues from the state after an epoch or an operation."""
        self.operations.append(Operation(self.number, source))
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
        return {published.epoch.epoch for published in self.epochs if not published.is_undone}

    def expected(self, query: ModelQuery) -> Expected:
        """Returns the record of the checkpoint: each epoch of the history was published here."""
        return Expected(EpochRanges.of(query.history), self.gaps)

    def begin(self, query: ModelQuery, batch: Batch, owner: int) -> ledger.Begun:
        position = -1 if self.run is None else self.run.position
        operations = [
            operation for operation in query.operations if position < operation.epoch < batch.epoch
        ]
        expected = self.expected(query)
        decided = ledger.begin(self.run, self.epochs, batch, owner, operations, expected=expected)
        match decided:
            case ledger.Begin(run):
                self.run = run
            case ledger.Undo(run, surplus, _):
                self.run = run
                self.epochs = [
                    replace(published, is_undone=published.is_undone or published.epoch in surplus)
                    for published in self.epochs
                ]
        return decided

    def find(self, query: ModelQuery, batch: Batch) -> object:
        return ledger.find(self.run, self.epochs, batch, self.expected(query))

    def publish(self, batch: Batch) -> bool:
        """Returns whether this run or an earlier one has published the epoch."""
        known = ledger.find(self.run, self.epochs, batch)
        if isinstance(known, LedgerEpoch):
            return True
        if known is not None:
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


@settings(max_examples=draws(2_000))
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
                # The query was stopped for the operation.
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
                    assert {epoch.epoch for epoch in decided.epochs} == lost
                    assert decided.before in (*query.history, ledger.NO_EPOCH)
                    assert (target.run, target.epochs) == before
                    # As the error says: roll back to an epoch before them, or use a new target.
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
def test_epochs_with_other_input_and_skipped_epochs_are_not_new(
    first: int, second: int, third: int
) -> None:
    target = ModelTarget()
    target.begin(ModelQuery(), batch_of(0, 1), 1)
    for epoch in sorted({first, second}):
        assert target.publish(batch_of(epoch, 1))
    decided = ledger.find(target.run, target.epochs, batch_of(third, 1))
    if third in (first, second):
        assert isinstance(decided, LedgerEpoch)
        other = replace(batch_of(third, 1), planned_ms=7)
        assert isinstance(ledger.find(target.run, target.epochs, other), ledger.OtherInput)
    elif third < max(first, second):
        assert decided == ledger.Passed(max(first, second))
    else:
        assert decided is None


def test_a_target_that_records_some_epochs_is_not_rolled_back_to_before_them() -> None:
    epochs = [
        RecordedEpoch(LedgerEpoch(0, epoch, 1_000 + epoch, "run-1", "", 1, 0)) for epoch in (3, 4)
    ]
    run = Run("run-1", last=4)
    rollbacks = {
        source: ledger.begin(run, epochs, batch_of(6, 2), 0, [Operation(5, source)], first=3)
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
    # The newest state of the target, and the epochs that it lacks by consent.
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
            decided = self.target.find(self.query, self.batch)
            assert isinstance(decided, ledger.EpochsLost)
            assert numbers(decided.epochs) == lost
        self.restart()

    def begin(self) -> bool:
        """Resolves each refusal until the run may write; returns False if only another target
        helps.
        """
        while True:
            before = self.target.backup()
            last = -1 if self.target.run is None else self.target.run.last
            decided = self.target.begin(self.query, self.batch, self.run)
            match decided:
                case ledger.EpochsLost(epochs, kept):
                    assert self.target.backup() == before
                    later = {epoch for epoch in self.query.history if epoch > last}
                    # An operation can return to epochs that were lost while they did not count.
                    known = {published.epoch.epoch for published in self.target.epochs}
                    assert numbers(epochs) == (later or set(self.query.history) - known)
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
        """Performs one of the steps that the error names."""
        way = self.ways.draw(st.sampled_from(["restore", "accept", "roll back"]))
        if way == "restore" and self.newest[0] is not None:
            newest = {published.epoch.epoch for published in self.newest[1]}
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


def numbers(epochs: EpochRanges) -> set[int]:
    return {number for first, last in epochs.ranges for number in range(first, last + 1)}


@settings(max_examples=draws(2_000))
@given(losses, st.data())
def test_a_restored_target_is_written_only_after_its_lost_epochs_are_resolved(
    drawn: list[str | tuple[str, int]], ways: st.DataObject
) -> None:
    """A restore, a rollback, or an acceptance by name resolves exactly these epochs."""
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


def test_a_gap_is_accepted_for_exactly_its_epochs() -> None:
    published = EpochRanges(((0, 5), (7, 9)))
    batch = batch_of(10, 1)
    refused = ledger.lost_after(3, batch, Expected(published))
    assert refused == ledger.EpochsLost(EpochRanges(((4, 5), (7, 9))), before=3)
    assert str(refused.epochs) == "epochs 4 to 5, 7 to 9"
    for gap, is_accepted in (((4, 9), True), ((3, 9), False), ((4, 10), False), ((4, 5), False)):
        lost = ledger.lost_after(3, batch, Expected(published, [gap]))
        assert (lost is None) == is_accepted
    # An epoch that is about to be written again may be lost.
    assert ledger.lost_after(8, batch_of(9, 1), Expected(published)) is None
    assert ledger.lost_after(9, batch, Expected(published)) is None
    everything = ledger.lost_after(-1, batch, Expected(published))
    assert everything == ledger.EpochsLost(published, before=ledger.NO_EPOCH)


moves = st.lists(
    st.one_of(
        st.just("epoch"),
        st.just("restart"),
        st.just("move"),
        st.just("stranger"),
        st.tuples(st.just("operation"), st.integers(0, 40)),
        st.tuples(st.just("late"), st.integers(0, 40)),
        st.tuples(st.just("start there"), st.integers(0, 40)),
    ),
    max_size=40,
)


@dataclass
class Moves:
    """A query that moves between checkpoints, while runs of earlier ones continue."""

    is_by_cuts: bool
    query: ModelQuery = field(default_factory=ModelQuery)
    target: ModelTarget = field(default_factory=ModelTarget)
    lineage: tuple[Origin, ...] = ()
    generation: int = 1
    run: int = 1
    has_begun: bool = False
    # The generations of runs that have started, and the checkpoints that were moved.
    former: list[tuple[Batch, int]] = field(default_factory=list)
    left: list[Batch] = field(default_factory=list)

    @property
    def owner(self) -> int:
        return self.generation if self.is_by_cuts else 0

    def batch(self, epoch: int) -> Batch:
        # Hadoop has several spellings of a local location.
        scheme = ("", "file:", "file://")[self.run % 3]
        place = f"{scheme}/checkpoints/{len(self.lineage)}"
        return replace(batch_of(epoch, self.run), checkpoint=place, lineage=self.lineage)

    def restart(self) -> None:
        if self.has_begun:
            self.former.append((self.batch(self.query.number), self.owner))
        self.run, self.generation, self.has_begun = self.run + 1, self.generation + 1, False

    def move(self) -> None:
        moved = self.batch(self.query.number)
        self.restart()
        self.left.append(moved)
        origin = Origin(moved.checkpoint, self.owner, self.query.number - 1)
        self.lineage, self.generation = (*self.lineage, origin), 1

    def begin(self) -> bool:
        decided = self.target.begin(self.query, self.batch(self.query.number), self.owner)
        while isinstance(decided, ledger.RowsMissing):
            if decided.before == ledger.NO_EPOCH:
                return False
            self.query.operate(decided.before)
            decided = self.target.begin(self.query, self.batch(self.query.number), self.owner)
        assert isinstance(decided, ledger.Begin | ledger.Undo)
        self.has_begun = True
        return True

    def is_fenced(self, batch: Batch, owner: int) -> None:
        before = self.target.backup()
        batch = replace(batch, epoch=self.query.number)
        assert isinstance(self.target.begin(self.query, batch, owner), ledger.Fenced)
        assert not self.target.publish(batch)
        assert self.target.backup() == before


@settings(max_examples=draws(2_000))
@given(moves, st.booleans())
def test_runs_of_earlier_checkpoints_are_fenced_once_a_later_one_has_begun(
    drawn: list[str | tuple[str, int]], is_by_cuts: bool
) -> None:
    play = Moves(is_by_cuts)
    for step in drawn:
        if step == "restart":
            play.restart()
        elif step == "move":
            play.move()
        elif step == "stranger":
            stranger = replace(batch_of(play.query.number, 10_000), checkpoint="/elsewhere")
            before = play.target.backup()
            if before[0] is not None:
                decided = play.target.begin(play.query, stranger, 99)
                assert decided == ledger.Unrelated(before[0])
                assert play.target.backup() == before
        elif isinstance(step, tuple) and step[0] == "operation":
            if play.query.histories:
                sources = sorted(play.query.histories)
                play.query.operate(sources[step[1] % len(sources)])
                play.restart()
        elif isinstance(step, tuple):
            if play.has_begun and step[0] == "late" and play.former:
                play.is_fenced(*play.former[step[1] % len(play.former)])
            if play.has_begun and step[0] == "start there" and play.left:
                place = play.left[step[1] % len(play.left)]
                play.is_fenced(replace(place, run_id=f"run-{20_000 + step[1]}"), 1_000)
        elif play.has_begun or play.begin():
            assert play.target.published == set(play.query.history)
            epoch = play.query.commit()
            assert play.target.publish(play.batch(epoch))
            assert play.target.published == set(play.query.history)
        else:
            return


def test_an_earlier_checkpoint_that_was_used_after_the_move_is_refused() -> None:
    run = Run("run-1", last=9, checkpoint="/first", owner=4)
    epochs = RecordedEpoch.numbered(range(10), ())
    moved = replace(
        batch_of(10, 2), checkpoint="/second", lineage=(Origin("file:/first", 3, epoch=7),)
    )
    refused = ledger.begin(run, epochs, moved, 1, ())
    assert isinstance(refused, ledger.Refused)
    assert ([epoch.epoch for epoch in refused.epochs], refused.bound) == ([8, 9], 7)
    # After the rows were deleted and the epochs marked.
    begun = ledger.begin(replace(run, last=7), epochs[:8], moved, 1, ())
    assert isinstance(begun, ledger.Begin)
    assert (begun.run.checkpoints, begun.run.owner) == (("file:/first", "/second"), 1)


def test_a_move_without_an_operation_requires_an_acceptance() -> None:
    run = Run("run-1", last=9, checkpoint="hdfs://old/q", owner=4)
    moved = replace(batch_of(10, 2), checkpoint="hdfs://new/q")
    assert ledger.begin(run, (), moved, 5, ()) == ledger.Unrelated(run)
    for other in ("hdfs://old", "hdfs://new/q"):
        refused = ledger.begin(run, (), moved, 5, (), expected=Expected(moves=[other]))
        assert refused == ledger.Unrelated(run)
    begun = ledger.begin(run, (), moved, 1, (), expected=Expected(moves=["hdfs://old/q/"]))
    assert isinstance(begun, ledger.Begin)
    assert begun.run.checkpoints == ("hdfs://old/q", "hdfs://new/q")
    # Later runs need no consent, and runs of the former location are fenced.
    again = ledger.begin(begun.run, (), replace(moved, run_id="run-3"), 2, ())
    assert isinstance(again, ledger.Begin)
    assert again.run.checkpoints == begun.run.checkpoints
    older = replace(moved, run_id="run-4", checkpoint="hdfs://old/q")
    assert ledger.begin(again.run, (), older, 9, ()) == ledger.Fenced(again.run)


@pytest.mark.parametrize(
    ("run", "recorded", "expected"),
    [
        (["file:/a"], ["/a/"], Position.SAME),
        (["file:///a", "s3a://b/c"], ["/a", "s3://b/c"], Position.SAME),
        (["a", "b"], ["a"], Position.LATER),
        (["a"], ["a", "b"], Position.EARLIER),
        # A ledger that knows only the last checkpoint.
        (["a", "b"], ["b"], Position.SAME),
        (["a", "b", "c"], ["b"], Position.LATER),
        (["b"], ["a", "b", "c"], Position.EARLIER),
        # Back at a location, after a failover and a failback.
        (["a", "b", "a"], ["a", "b"], Position.LATER),
        (["a"], ["a", "b", "a"], Position.EARLIER),
        # Two copies of one checkpoint.
        (["a", "b"], ["a", "c"], Position.UNRELATED),
        (["b"], ["a"], Position.UNRELATED),
    ],
)
def test_the_order_of_checkpoints(run: list[str], recorded: list[str], expected: Position) -> None:
    assert position(run, recorded) is expected


def test_an_epoch_that_was_undone_is_not_published() -> None:
    batch = batch_of(5, 1)
    published = LedgerEpoch(0, 5, batch.planned_ms, batch.run_id, "out", 1, 0)
    run = Run(batch.run_id, last=5)
    assert ledger.find(run, [RecordedEpoch(published)], batch) == published
    undone = RecordedEpoch(published, is_undone=True)
    assert ledger.find(run, [undone], batch) == ledger.Passed(5)
    assert ledger.find(replace(run, last=4), [undone], batch) is None
    again = replace(published, handle="again")
    assert ledger.find(run, [undone, RecordedEpoch(again)], batch) == again


def test_each_run_is_counted_once() -> None:
    first = ledger.begin(None, [], batch_of(0, 1), 1, [])
    assert isinstance(first, ledger.Begin)
    same = ledger.begin(first.run, [], batch_of(1, 1), 1, [])
    later = ledger.begin(first.run, [], batch_of(1, 2), 2, [])
    assert isinstance(same, ledger.Begin)
    assert isinstance(later, ledger.Begin)
    assert [run.generation for run in (first.run, same.run, later.run)] == [1, 1, 2]
