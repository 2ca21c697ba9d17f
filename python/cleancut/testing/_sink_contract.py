"""The contract of a sink, as tests that users can run against their own sinks."""

import contextlib
import functools
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cleancut.errors import CleancutError, FencedError, RequestError, from_java
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import Operation
from cleancut.testing._line_trace import Lines, Pause, SimulatedCrash, crash
from cleancut.testing._simulated_query import SimulatedQuery, SimulatedRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
Sink = Callable[["DataFrame", int], Any]

_ROWS = 6
_PARTITIONS = 2
# The line of a run that is not killed.
_NO_LINE = 0
# The value by which rows of another query are identified.
_OTHER = 1000


class SinkContract(ABC):
    """Tests of a sink for `foreachBatch`; derive a class whose name pytest collects.

        class TestMySink(SinkContract):
            def make_sink(self, home):
                return MySink(home / "table")

            def read(self, home):
                return rows_of(home / "table")

    A test simulates the runs of a query, without a stream: it passes epochs to the sink, kills it
    at lines throughout its code, or pauses it there while another run continues, and reads the
    target. `home` is an empty directory at the beginning of each test, and the same for all sinks
    of the test; for a target elsewhere use its name.

    Rows have the columns `id` (long), `word` (string) and `n` (int).

    Attributes:
        keys: key columns, by which a row replaces another one, if the sink has keys: `("id",)`.
        crashes: number of lines at which the sink is killed.
        pauses: number of lines at which an older run is paused.
    """

    keys: ClassVar[Sequence[str]] = ()
    crashes: ClassVar[int] = 6
    pauses: ClassVar[int] = 3
    pause_s: ClassVar[float] = 2.0

    @abstractmethod
    def make_sink(self, home: Path) -> Sink:
        """Creates another sink for the same target, as a restarted driver does."""

    @abstractmethod
    def read(self, home: Path) -> Iterable[Row]:
        """The rows that a reader sees: (id, word, n), in any order; empty if there are none.

        Args:
            home: directory of the test.
        """

    def save(self, home: Path) -> object:
        """A copy of the target with its ledger, for `restore`; by default all files in `home`.

        None if it cannot be copied: restored targets are not tested then.

        Args:
            home: directory of the test.
        """
        if not any(home.iterdir()):
            return None
        saved = Path(tempfile.mkdtemp(prefix="cleancut-saved-"))
        shutil.copytree(home, saved, dirs_exist_ok=True)
        return saved

    def restore(self, home: Path, saved: Any) -> None:
        """Restores the target and its ledger to a saved state.

        Args:
            home: directory of the test.
            saved: the result of `save`.
        """
        self.drop(home)
        shutil.copytree(saved, home, dirs_exist_ok=True)

    def drop(self, home: Path) -> None:
        """Deletes the target and its ledger; by default all files in `home`.

        Args:
            home: directory of the test.
        """
        for path in home.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def accept_gap(self, sink: Any, first: int, last: int) -> None:
        """Accepts that the target of a sink has lost epochs.

        Args:
            sink: the result of `make_sink`.
            first: the first lost epoch.
            last: the last lost epoch.
        """
        sink.accept_gap(first, last)

    def accept_move(self, sink: Any, checkpoint: str) -> None:
        """Accepts that the query continues a checkpoint whose files were moved.

        Args:
            sink: the result of `make_sink`.
            checkpoint: the former location.
        """
        sink.accept_move(checkpoint)

    def session(self) -> "SparkSession":
        """The session that creates the rows: the active one, or a new local one."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    def test_retried_epoch_is_written_once(self, tmp_path: Path) -> None:
        """Retries in the same run, in another one, and after later epochs."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in (0, 1, 2):
            play.give(run, sink, epoch)
            play.check(range(epoch + 1))
        play.give(run, sink, 2)
        play.check(range(3))
        run, sink = play.query.start(), self.make_sink(tmp_path)
        play.give(run, sink, 2)
        play.check(range(3))
        # This happens only after a rollback by hand, so a refusal is also correct.
        with contextlib.suppress(CleancutError):
            play.give(run, sink, 0)
        play.check(range(3))

    def test_gaps_and_empty_epochs_are_accepted(self, tmp_path: Path) -> None:
        """Operations skip epoch numbers, and epochs that only advance a watermark have no rows.

        The checkpoint records the published epochs, so a skipped number is no loss.
        """
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        play.give(run, sink, 0)
        play.give(run, sink, 3, rows=0)
        play.give(run, sink, 7)
        play.check([0, 7])
        run, sink = play.query.start(), self.make_sink(tmp_path)
        play.give(run, sink, 7)
        play.give(run, sink, 8, rows=0)
        play.give(run, sink, 9)
        play.check([0, 7, 9])

    def test_killed_run_leaves_no_partial_lost_or_duplicated_epoch(self, tmp_path: Path) -> None:
        """Kills a run before, in and after each step; then the next run writes the same epoch."""
        play = _Play(self, tmp_path)
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        lines = play.lines(1)
        # Includes a kill after the sink has finished, before Spark records it.
        for turn, line in enumerate([*_spread(lines, self.crashes), _NO_LINE]):
            epoch = turn + 2
            sink = self.make_sink(tmp_path)
            with contextlib.suppress(SimulatedCrash), Lines(sink, line, crash):
                play.give(play.query.start(), sink, epoch)
            play.check_either(range(epoch), range(epoch + 1), f"it died at line {line} of {lines}")
            play.give(play.query.start(), self.make_sink(tmp_path), epoch)
            play.check(range(epoch + 1), f"after it had died at line {line} of {lines}")

    def test_sealed_epoch_is_published_after_a_restart(self, tmp_path: Path) -> None:
        """As with in-flight rows: the previous run was killed after its seal."""
        play = _Play(self, tmp_path, SimulatedQuery(keeps_seals=True))
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        for epoch in (1, 2):
            with contextlib.suppress(SimulatedCrash):
                play.give(play.query.start(), self.make_sink(tmp_path), epoch, sealed=crash)
            play.check_either(range(epoch), range(epoch + 1), "it died after the seal")
            play.give(play.query.start(), self.make_sink(tmp_path), epoch)
            play.check(range(epoch + 1))
            # The same after the publication.
            play.give(play.query.start(), self.make_sink(tmp_path), epoch)
            play.check(range(epoch + 1))

    def test_fenced_run_writes_nothing(self, tmp_path: Path) -> None:
        """Pauses a run at a line while a newer run writes its epoch and the next; then resumes."""
        play = _Play(self, tmp_path)
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        lines, epoch = play.lines(1), 2
        for line in _spread(lines, self.pauses):
            older, its_sink = play.query.start(), self.make_sink(tmp_path)
            pause = Pause(self.pause_s)
            zombie = play.zombie(older, its_sink, epoch, Lines(its_sink, line, pause))
            with zombie as thread:
                pause.wait_for(thread)
                newer, sink = play.query.start(), self.make_sink(tmp_path)
                play.give(newer, sink, epoch)
                play.give(newer, sink, epoch + 1)
                play.check(range(epoch + 2), f"while an older run waits at line {line}")
                pause.resume()
            play.check_refusal(f"after an older run had waited at line {line}")
            play.check(range(epoch + 2), f"after an older run had waited at line {line}")
            with contextlib.suppress(FencedError):
                play.give(older, its_sink, epoch + 2)
            play.give(newer, sink, epoch + 2)
            play.check(range(epoch + 3), "after an older run had tried the next epoch")
            epoch += 3

    def test_run_from_before_a_rollback_publishes_nothing(self, tmp_path: Path) -> None:
        """An older run stops at a line, the query is rolled back, and the older run continues.

        The epoch of the older run may be visible until the next run has begun.
        """
        play = _Play(self, tmp_path)
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        lines, epoch, history = play.lines(1), 2, [0, 1]
        for line in _spread(lines, self.pauses):
            older, its_sink = play.query.start(), self.make_sink(tmp_path)
            pause = Pause(self.pause_s)
            with play.zombie(older, its_sink, epoch, Lines(its_sink, line, pause)) as thread:
                pause.wait_for(thread)
                play.query.operations.append(Operation(epoch=epoch + 1, source=epoch - 1))
                try:
                    play.give(play.query.start(), self.make_sink(tmp_path), epoch + 2)
                except RequestError as refusal:
                    # The older run has published, and the sink cannot undo that.
                    if refusal.error_id != "CLEANCUT_SINK_UNDO_REFUSED":
                        raise
                    pause.resume()
                    return
                pause.resume()
            try:
                play.give(play.query.start(), self.make_sink(tmp_path), epoch + 3)
            except RequestError as refusal:
                if refusal.error_id != "CLEANCUT_SINK_UNDO_REFUSED":
                    raise
                return
            history += [epoch + 2, epoch + 3]
            play.check(history, f"after a run from before a rollback had waited at line {line}")
            epoch += 4

    def test_epoch_with_other_input_is_refused(self, tmp_path: Path) -> None:
        """The query was reset by hand: writing would duplicate rows, skipping would lose rows."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in (0, 1):
            play.give(run, sink, epoch)
        play.query.plan(1, again=True)
        try:
            play.give(play.query.start(), self.make_sink(tmp_path), 1, first=500)
        except RequestError:
            pass
        else:
            raise AssertionError("an epoch was written again, with other input")
        play.check(range(2))

    def _save_between(self, play: "_Play", run: SimulatedRun, sink: Sink, home: Path) -> object:
        """Writes epochs 0 to 3; returns a copy of the target after epoch 1, if it can be made."""
        for epoch in (0, 1):
            play.give(run, sink, epoch)
        early = self.save(home)
        if early is not None:
            for epoch in (2, 3):
                play.give(run, sink, epoch)
        return early

    def test_target_that_lost_epochs_is_refused(self, tmp_path: Path) -> None:
        """The target was restored to an earlier state, with its ledger. Tests each remedy."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        early = self._save_between(play, run, sink, tmp_path)
        if early is None:
            return
        late = self.save(tmp_path)
        self.restore(tmp_path, early)
        play.refused(4, "epochs 2 to 3")
        play.check([0, 1], "a target that has lost epochs 2 and 3 was refused")
        self.restore(tmp_path, late)
        play.give(play.query.start(), self.make_sink(tmp_path), 4)
        play.check(range(5), "the target was restored to its last state")
        self.restore(tmp_path, early)
        play.refused(5, "epochs 2 to 4", "--to-epoch 1 ")
        play.query.operations.append(Operation(epoch=6, source=1))
        play.give(play.query.start(), self.make_sink(tmp_path), 7)
        play.check([0, 1, 7], "the query was rolled back to the last epoch of the target")
        self.restore(tmp_path, early)
        play.refused(8, "epoch 7", "accept_gap(7, 7)")
        sink = self.make_sink(tmp_path)
        self.accept_gap(sink, 7, 7)
        play.give(play.query.start(), sink, 8)
        play.check([0, 1, 8], "the loss of epoch 7 was accepted")
        play.give(play.query.start(), self.make_sink(tmp_path), 9)
        play.check([0, 1, 8, 9], "the loss of epoch 7 was accepted before")

    def test_target_that_loses_epochs_during_a_run_is_refused(self, tmp_path: Path) -> None:
        """The target is restored to an earlier state during a run; then it is deleted."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        early = self._save_between(play, run, sink, tmp_path)
        if early is None:
            return
        self.restore(tmp_path, early)
        play.refused(4, "epochs 2 to 3", run=run, sink=sink)
        play.check([0, 1], "a run was refused whose target has lost epochs 2 and 3")
        self.drop(tmp_path)
        play.refused(4, "epochs 0 to 3", run=run, sink=sink)
        play.check([], "a run was refused whose target was deleted")

    def test_target_deleted_after_the_seal_is_refused(self, tmp_path: Path) -> None:
        """It is deleted between the seal of an epoch and its publication."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in (0, 1):
            play.give(run, sink, epoch)
        if self.save(tmp_path) is None:
            return
        gone = functools.partial(self.drop, tmp_path)
        play.refused(2, "epochs 0 to 1", run=run, sink=sink, sealed=gone)
        play.check([], "a run was refused whose target was gone after the seal")

    def test_deleted_target_is_not_recreated(self, tmp_path: Path) -> None:
        """The ledger is deleted too; a new query, or one that accepts the loss, creates it."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in (0, 1):
            play.give(run, sink, epoch)
        if self.save(tmp_path) is None:
            return
        self.drop(tmp_path)
        play.refused(2, "epochs 0 to 1", "accept_gap(0, 1)")
        sink = self.make_sink(tmp_path)
        self.accept_gap(sink, 0, 1)
        play.give(play.query.start(), sink, 2)
        play.check([2], "the loss of all epochs was accepted")

    def test_moved_query_continues_and_fences_earlier_runs(self, tmp_path: Path) -> None:
        """Generations restart at the new checkpoint. Runs at the former one can still start."""
        play = _Play(self, tmp_path)
        for epoch in (0, 1):
            play.give(play.query.start(), self.make_sink(tmp_path), epoch)
        former, its_sink = play.query, self.make_sink(tmp_path)
        older = former.start()
        play.give(older, its_sink, 2)
        play.query = former.move()
        play.give(play.query.start(), self.make_sink(tmp_path), 3)
        play.check(range(4), "the query was moved")
        shown = play.shown()
        for run, sink in ((older, its_sink), (former.start(), self.make_sink(tmp_path))):
            with contextlib.suppress(FencedError):
                play.give(run, sink, 4)
                raise AssertionError("a run of the former checkpoint has published")
            assert play.shown() == shown, "a run of the former checkpoint has changed the target"
        play.give(play.query.start(), self.make_sink(tmp_path), 4)
        play.check(range(5), "after runs of the former checkpoint")
        play.query = play.query.move()
        play.give(play.query.start(), self.make_sink(tmp_path), 5)
        play.check(range(6), "the query was moved twice")

    def test_checkpoint_moved_by_hand_is_accepted_by_name(self, tmp_path: Path) -> None:
        """No record names the former checkpoint. The test makes the call of the error's remedy."""
        play = _Play(self, tmp_path)
        for epoch in (0, 1):
            play.give(play.query.start(), self.make_sink(tmp_path), epoch)
        former = play.query.checkpoint
        play.query = play.query.move(is_recorded=False)
        refusal = play.refused_by("CLEANCUT_SINK_CHECKPOINT_UNKNOWN", 2) or ""
        assert f'accept_move("{former}")' in refusal, f"a former checkpoint is not named: {refusal}"
        play.check([0, 1], "a run of an unknown checkpoint was refused")
        sink = self.make_sink(tmp_path)
        self.accept_move(sink, former)
        play.give(play.query.start(), sink, 2)
        play.give(play.query.start(), self.make_sink(tmp_path), 3)
        play.check(range(4), "the move was accepted")

    def test_sealed_epoch_is_refused_by_another_sink(self, tmp_path: Path) -> None:
        """The previous run was killed after its seal, which names its sink; the sink changes."""
        play, other = _Play(self, tmp_path, SimulatedQuery(keeps_seals=True)), _OtherSink()
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        with contextlib.suppress(SimulatedCrash):
            play.give(play.query.start(), self.make_sink(tmp_path), 1, sealed=crash)
        # A function may seal without a name.
        if play.query.seals.get(1):
            with contextlib.suppress(RequestError):
                play.give(play.query.start(), other, 1)
            assert not other.epochs, "a sealed epoch was written a second time, to another sink"
            play.give(play.query.start(), self.make_sink(tmp_path), 1)
            play.give(play.query.start(), other, 2)
            play.check([0, 1], "the epoch was completed, and the sink was changed")
            assert other.epochs == {2}, "the sink was changed after its epoch, and was refused"

    def test_sink_object_serves_one_query_after_another(self, tmp_path: Path) -> None:
        """A second query that uses it within an epoch of the first may be refused."""
        play, other = _Play(self, tmp_path), _Play(self, tmp_path, first=_OTHER)
        sink, taken = self.make_sink(tmp_path), list[int]()

        def take(epoch: int) -> None:
            with contextlib.suppress(RequestError):
                other.give(other.query.start(), sink, epoch)
                taken.append(epoch)

        play.give(play.query.start(), sink, 0)
        play.give(play.query.start(), sink, 1, sealed=lambda: take(0))
        play.check([0, 1], "another query used the sink meanwhile", other.expected(taken))
        take(1)
        play.give(play.query.start(), sink, 2)
        play.check(range(3), "another query used the sink", other.expected(taken))
        for epoch in taken[-1:]:
            other.give(other.query.start(), self.make_sink(tmp_path), epoch)
        play.give(play.query.start(), self.make_sink(tmp_path), 2)
        play.check(range(3), "another query used the sink before", other.expected(taken))

    def test_error_in_the_rows_is_raised_unchanged(self, tmp_path: Path) -> None:
        """An error of a task is no fault of the target, and leaves no rows there."""
        play = _Play(self, tmp_path)
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        failure = play.failure_of(1, "no such word")
        assert failure is not None, "rows lost: an epoch was published although a task has failed"
        assert not isinstance(failure, CleancutError), f"it was reported as another: {failure}"
        assert "no such word" in str(failure), f"the error of the task is missing: {failure}"
        play.check([0], "a task has failed")
        play.give(play.query.start(), self.make_sink(tmp_path), 1)
        play.check([0, 1], "a task had failed before")

    def test_two_queries_write_independently(self, tmp_path: Path) -> None:
        """Both number their epochs from 0. The second may be refused, before it writes."""
        play = _Play(self, tmp_path)
        other = _Play(self, tmp_path, first=_OTHER)
        play.give(play.query.start(), self.make_sink(tmp_path), 0)
        try:
            other.give(other.query.start(), self.make_sink(tmp_path), 0)
            others = [0]
        except RequestError:
            others = []
        play.give(play.query.start(), self.make_sink(tmp_path), 1)
        play.check([0, 1], "with another query", other.expected(others))
        if others:
            other.give(other.query.start(), self.make_sink(tmp_path), 0)
            play.check([0, 1], "with another query", other.expected(others))

    def test_rolled_back_epochs_are_undone_or_refused(self, tmp_path: Path) -> None:
        """Before the query continues, its target must equal that of the restored epoch."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in range(4):
            play.give(run, sink, epoch)
        play.query.operations.append(Operation(epoch=5, source=1))
        run, sink = play.query.start(), self.make_sink(tmp_path)
        try:
            play.give(run, sink, 6)
        except RequestError as refusal:
            if refusal.error_id != "CLEANCUT_SINK_UNDO_REFUSED":
                raise
            play.check(range(4), "the rollback was refused")
            return
        play.check([0, 1, 6], "the query was rolled back to epoch 1")
        play.give(play.query.start(), self.make_sink(tmp_path), 6)
        play.check([0, 1, 6], "the query was rolled back to epoch 1, and restarted")

    def test_undone_rollback_is_followed_or_refused(self, tmp_path: Path) -> None:
        """The sink may have deleted rows that count again; then the test follows its advice."""
        play = _Play(self, tmp_path)
        run, sink = play.query.start(), self.make_sink(tmp_path)
        for epoch in range(4):
            play.give(run, sink, epoch)
        play.query.operations.append(Operation(epoch=5, source=1))
        is_undone = play.refused_by("CLEANCUT_SINK_UNDO_REFUSED", 6) is None
        play.query.operations.append(Operation(epoch=7, source=3))
        advice = play.refused_by("CLEANCUT_SINK_ROWS_MISSING", 8)
        if advice is None:
            play.check([*range(4), 8], "the rollback was undone")
            return
        assert is_undone, f"rows are missing that were not undone: {advice}"
        assert "--to-epoch 1 " in advice, f"the refusal names no epoch to roll back to: {advice}"
        play.query.operations.append(Operation(epoch=9, source=1))
        play.give(play.query.start(), self.make_sink(tmp_path), 10)
        play.check([0, 1, 10], "the query was rolled back again, as the error says")


class _OtherSink(EpochSink):
    """Another target, in memory."""

    def __init__(self) -> None:
        self.epochs: set[int] = set()

    @property
    def name(self) -> str:
        return "another sink"

    def published(self, batch: Batch) -> str | None:
        return "" if batch.epoch in self.epochs else None

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        return ""

    def publish(self, handle: str, batch: Batch) -> None:
        self.epochs.add(batch.epoch)


class _Play:
    """A simulated query, its epochs, and the expected content of the target."""

    def __init__(
        self,
        contract: SinkContract,
        home: Path,
        query: SimulatedQuery | None = None,
        first: int = 0,
    ) -> None:
        self.query = query or SimulatedQuery()
        self._contract = contract
        self._home = home
        self._first = first
        self._given: dict[int, list[Row]] = {}
        self._failure: Exception | None = None

    def give(
        self,
        run: SimulatedRun,
        sink: Sink,
        epoch: int,
        *,
        rows: int = _ROWS,
        first: int = 0,
        sealed: Callable[[], None] = lambda: None,
        fails_with: str = "",
    ) -> None:
        """Passes an epoch to a sink; the rows of an epoch are the same each time.

        Args:
            run: run of the query.
            sink: the sink.
            epoch: number of the epoch.
            rows: number of rows.
            first: offset of the ids.
            sealed: function that is called after the seal.
            fails_with: error that the task of the last row raises; "" for none.
        """
        base = self._first + first + (0 if self._contract.keys else _ROWS * epoch)
        if not first:
            ids = range(base, base + rows)
            self._given[epoch] = [(number, f"word {number}", self._first + epoch) for number in ids]
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        spark = self._contract.session()
        made = spark.range(base, base + rows, 1, _PARTITIONS).selectExpr(
            "id", "concat('word ', id) AS word", f"int({self._first + epoch}) AS n"
        )
        if fails_with:
            last = f"id = {base + rows - 1}"
            made = made.withColumn("word", F.expr(f"if({last}, raise_error('{fails_with}'), word)"))
        run.give(sink, made, epoch, sealed)

    def failure_of(self, epoch: int, raised: str) -> Exception | None:
        """The failure of a new run in which a task raises an error; None if it succeeds."""
        sink = self._contract.make_sink(self._home)
        try:
            self.give(self.query.start(), sink, epoch, fails_with=raised)
        except Exception as failure:  # any error of the sink
            return failure
        return None

    def refused_by(self, error_id: str, epoch: int) -> str | None:
        """The text of the error that refuses a new run; None if the epoch is written."""
        try:
            self.give(self.query.start(), self._contract.make_sink(self._home), epoch)
        except RequestError as refusal:
            if refusal.error_id != error_id:
                raise
            return str(refusal)
        return None

    def refused(
        self,
        epoch: int,
        *named: str,
        run: SimulatedRun | None = None,
        sink: Sink | None = None,
        sealed: Callable[[], None] = lambda: None,
    ) -> None:
        """Checks that a run is refused, and that the error names the lost epochs.

        Args:
            epoch: epoch of the run.
            named: texts that the error must contain.
            run: the run; None for a new one.
            sink: the sink; None for a new one.
            sealed: function that is called after the seal.
        """
        text = ""
        sink = sink or self._contract.make_sink(self._home)
        try:
            self.give(run or self.query.start(), sink, epoch, sealed=sealed)
        except RequestError as refusal:
            if refusal.error_id != "CLEANCUT_SINK_EPOCHS_LOST":
                raise
            text = str(refusal)
        assert text, f"epoch {epoch} was written after earlier epochs were lost"
        missing = [text_part for text_part in named if text_part not in text]
        assert not missing, f"the refusal does not contain {missing}: {text}"

    def lines(self, epoch: int) -> int:
        """The number of lines that a sink executes for an epoch, which it writes."""
        sink = self._contract.make_sink(self._home)
        with Lines(sink) as counted:
            self.give(self.query.start(), sink, epoch)
        assert counted.passed > 0, "no line of the sink was executed"
        return counted.passed

    @contextlib.contextmanager
    def zombie(
        self, run: SimulatedRun, sink: Sink, epoch: int, lines: Lines
    ) -> Iterator[threading.Thread]:
        """Runs an epoch in another thread, which has ended at the end of the block."""

        def take() -> None:
            # It may be refused, or fail because the other run has deleted its files.
            self._failure = None
            try:
                with lines:
                    self.give(run, sink, epoch)
            except Exception as failure:
                self._failure = failure

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            thread.join()

    def check_refusal(self, when: str) -> None:
        """Checks that the error of the last older run does not advise to change query or target."""
        failure = self._failure
        error = None if failure is None else from_java(failure)
        assert not isinstance(error, RequestError), f"an older run was misled {when}: {error}"

    def expected(self, epochs: Iterable[int]) -> list[Row]:
        """The expected rows after some epochs."""
        rows = [row for epoch in epochs for row in self._given[epoch]]
        if not self._contract.keys:
            return rows
        names = ("id", "word", "n")
        places = [names.index(key) for key in self._contract.keys]
        return list({tuple(row[at] for at in places): row for row in rows}.values())

    def shown(self) -> Counter[Row]:
        """The rows that readers see."""
        return Counter(tuple(row) for row in self._contract.read(self._home))

    def check(self, epochs: Iterable[int], when: str = "", more: Sequence[Row] = ()) -> None:
        """Checks that readers see these epochs, and nothing else."""
        problem = self._problem([*self.expected(epochs), *more])
        assert problem is None, f"{problem} {when}".rstrip()

    def check_either(self, these: Iterable[int], those: Iterable[int], when: str) -> None:
        """Checks that readers see one of two sets of epochs."""
        problems = [self._problem(self.expected(epochs)) for epochs in (these, those)]
        assert None in problems, f"{' and, with the epoch, '.join(map(str, problems))}: {when}"

    def _problem(self, wanted: Sequence[Row]) -> str | None:
        rows = Counter(tuple(row) for row in self._contract.read(self._home))
        lost, extra = Counter(wanted) - rows, rows - Counter(wanted)
        if not lost and not extra:
            return None
        example = next(iter(lost or extra))
        return f"{lost.total()} rows lost, {extra.total()} too many, as {example}"


def _spread(lines: int, count: int) -> list[int]:
    """Some line numbers, from the first to the last line."""
    if count < 2:
        return [lines // 2 or 1] * count
    return sorted({1 + at * (lines - 1) // (count - 1) for at in range(count)})
