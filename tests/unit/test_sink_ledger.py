"""The ledger of a database, on SQLite: which run may write, what is published, and rollbacks."""

import functools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from cleancut import FencedError, RequestError, RetryableError
from cleancut.sinks import (
    Batch,
    LedgerEpoch,
    PostgresLedger,
    SqlLedger,
    SqlSink,
    Transaction,
    exactly_once,
)
from cleancut.sinks._core.database import masked, scrubbed, within
from cleancut.sinks._core.expected import EpochRanges
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._core.lineage import Origin, decode_checkpoints
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._tables.sql import SqlDatabase
from tests.support.refusals import refusal

BATCH = Batch(0, query_id="q-1", run_id="r-1", checkpoint="file:/ckpt", planned_ms=1_000)


@dataclass(frozen=True)
class Side:
    """An epoch of a run of a query, with its generation and operations."""

    batch: Batch
    owner: int | None = None
    done: tuple[Operation, ...] = ()

    def generation(self) -> int | None:
        return self.owner

    def operations(self, after: int) -> Sequence[Operation]:
        return [act for act in self.done if act.epoch > after]


def run(epoch: int, run_id: str = "r-1") -> Batch:
    return replace(BATCH, epoch=epoch, run_id=run_id, planned_ms=1_000 + epoch)


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    return SqlLedger(f"sqlite:///{tmp_path}/db", "orders", retry_for_s=5)


def begin(
    ledger: SqlLedger,
    batch: Batch,
    owner: int | None = None,
    *operations: Operation,
    undo: Any = None,
) -> None:
    side: Any = Side(batch, owner, operations)
    ledger.begin(side, undo)


def publish(ledger: SqlLedger, *batches: Batch) -> None:
    def work(batch: Batch, transaction: Transaction) -> None:
        assert ledger.lock(transaction, batch) is None
        ledger.publish(transaction, batch, "", 3)

    for batch in batches:
        ledger.within(functools.partial(work, batch))


def find(ledger: SqlLedger, batch: Batch) -> LedgerEpoch | None:
    epoch: LedgerEpoch | None = ledger.within(lambda transaction: ledger.find(transaction, batch))
    return epoch


def epochs(ledger: SqlLedger, query: str = "q-1") -> list[int]:
    published: list[LedgerEpoch] = ledger.within(
        lambda transaction: ledger.published(transaction, query)
    )
    return [epoch.epoch for epoch in published]


def test_an_epoch_is_recorded_once_and_found_by_each_later_run(ledger: SqlLedger) -> None:
    begin(ledger, run(0))
    publish(ledger, run(0), run(5))
    assert epochs(ledger) == [0, 5]
    again = find(ledger, run(5, "r-9"))
    assert again is not None
    assert (again.run_id, again.rows, again.incarnation) == ("r-1", 3, 0)
    assert find(ledger, run(6)) is None
    other = replace(run(5), planned_ms=9)
    assert refusal(lambda: find(ledger, other)).error_id == "CLEANCUT_SINK_EPOCH_CONFLICT"
    # A skipped epoch that comes after later ones belongs to a query whose checkpoint was set to an
    # older state.
    assert refusal(lambda: find(ledger, run(3))).error_id == "CLEANCUT_SINK_REFUSED"
    # Another query has its own epoch numbers.
    assert find(ledger, replace(run(3), query_id="q-2")) is None


def test_a_run_writes_nothing_once_another_one_has_begun(ledger: SqlLedger) -> None:
    begin(ledger, run(0))
    publish(ledger, run(0))
    begin(ledger, run(1, "r-2"))
    error = refusal(lambda: publish(ledger, run(1)))
    assert isinstance(error, FencedError)
    assert error.error_id == "CLEANCUT_FENCED"
    assert "run r-2" in str(error)
    # Nor can the earlier run write again, as with another sink in the same driver.
    assert isinstance(refusal(lambda: begin(ledger, run(1))), FencedError)
    begin(ledger, run(1, "r-2"))
    publish(ledger, run(1, "r-2"))
    assert epochs(ledger) == [0, 1]


def test_the_generation_of_the_query_decides_which_run_is_older(ledger: SqlLedger) -> None:
    begin(ledger, run(0, "new"), 7)
    assert isinstance(refusal(lambda: begin(ledger, run(0, "old"), 6)), FencedError)
    begin(ledger, run(0, "newer"), 8)


def test_a_failed_transaction_leaves_nothing(ledger: SqlLedger) -> None:
    begin(ledger, run(0))

    def work(transaction: Transaction) -> None:
        ledger.lock(transaction, run(0))
        ledger.publish(transaction, run(0), "", 1)
        transaction.run("SELECT * FROM nowhere")

    error = refusal(lambda: ledger.within(work))
    assert error.error_id == "CLEANCUT_SINK_REFUSED"
    assert "nowhere" in str(error)
    assert epochs(ledger) == []


def test_epochs_are_undone_with_a_rollback_of_the_query(ledger: SqlLedger) -> None:
    begin(ledger, run(0))
    publish(ledger, *map(run, range(4)))
    undone: list[int] = []

    def undo(transaction: Transaction, published: Sequence[LedgerEpoch]) -> None:
        undone.extend(epoch.epoch for epoch in published)

    # An operation that continues from the last epoch is no rollback.
    begin(ledger, run(5, "r-2"), None, Operation(4, 3), undo=undo)
    assert undone == []
    begin(ledger, run(9, "r-3"), None, Operation(7, 1), undo=undo)
    assert undone == [2, 3]
    publish(ledger, run(9, "r-3"))
    assert epochs(ledger) == [0, 1, 9]
    last = find(ledger, run(9, "r-3"))
    assert last is not None
    assert last.incarnation == 7
    # An undo would require rows that are already deleted.
    error = refusal(lambda: begin(ledger, run(12, "r-4"), None, Operation(11, 3), undo=undo))
    assert error.error_id == "CLEANCUT_SINK_ROWS_MISSING"
    assert "`cleancut rollback file:/ckpt --to-epoch 1 --apply`" in str(error)
    assert "epoch 2 (3 rows), epoch 3 (3 rows)" in str(error)
    assert epochs(ledger) == [0, 1, 9]
    # As the error says.
    both = (Operation(11, 3), Operation(13, 1))
    begin(ledger, run(14, "r-5"), None, *both, undo=undo)
    assert (undone, epochs(ledger)) == ([2, 3, 9], [0, 1])
    publish(ledger, run(14, "r-5"))
    assert epochs(ledger) == [0, 1, 14]


def test_a_rollback_that_is_undone_before_anything_was_published_is_refused(
    ledger: SqlLedger,
) -> None:
    """The rows of the epochs between would be missing without an error."""
    begin(ledger, run(0))
    publish(ledger, *map(run, range(4)))
    begin(ledger, run(6, "r-2"), None, Operation(5, 1), undo=lambda *_: None)
    assert epochs(ledger) == [0, 1]
    both = (Operation(5, 1), Operation(8, 3))
    error = refusal(lambda: begin(ledger, run(9, "r-3"), None, *both, undo=lambda *_: None))
    assert error.error_id == "CLEANCUT_SINK_ROWS_MISSING"
    # The same operation again, as after a run that crashed before it published anything.
    begin(ledger, run(6, "r-4"), None, Operation(5, 1), undo=None)
    assert epochs(ledger) == [0, 1]


def test_a_sink_without_undo_names_the_epochs_and_changes_nothing(ledger: SqlLedger) -> None:
    begin(ledger, run(0))
    publish(ledger, *map(run, range(4)))

    def unable(transaction: Transaction, published: Sequence[LedgerEpoch]) -> None:
        raise UndoRefusedError("it has no epoch_column")

    for undo, reason in ((None, "which rows"), (unable, "no epoch_column")):
        going_on = functools.partial(begin, ledger, run(7, "r-2"), 2, Operation(6, 1), undo=undo)
        error = refusal(going_on)
        assert isinstance(error, RequestError)
        assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
        assert reason in str(error)
        assert "from epoch 1" in str(error)
        assert "epoch 2 (3 rows), epoch 3 (3 rows)" in str(error)
        assert epochs(ledger) == [0, 1, 2, 3]
    # As the error says: after the rows were deleted by hand.
    assert ledger.mark_unpublished("q-1", after=1) == 2
    begin(ledger, run(7, "r-2"), 2, Operation(6, 1))
    publish(ledger, run(7, "r-2"))
    assert epochs(ledger) == [0, 1, 7]


def test_a_limited_number_of_epochs_is_recorded(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleancut.sinks._ledgers.ledger.KEPT_EPOCHS", 3)
    begin(ledger, run(0))
    publish(ledger, *map(run, range(6)))
    assert epochs(ledger) == [3, 4, 5]
    assert refusal(lambda: find(ledger, run(1))).error_id == "CLEANCUT_SINK_REFUSED"
    error = refusal(
        lambda: begin(ledger, run(9, "r-2"), None, Operation(7, 0), undo=lambda *_: None)
    )
    assert error.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "from 3 on" in str(error)


def test_secrets_are_masked_everywhere() -> None:
    dsn = "postgresql://me:s3cr%40t@db:5432/x?sslpassword=abc&a=1"
    assert "s3cr" not in masked(dsn)
    assert masked(r"host=db password='it\'s' user=x") == "host=db password=*** user=x"
    assert masked(dsn).endswith("?sslpassword=***&a=1")
    database = SqlDatabase("mysql+pymysql://me:s3cr%40t@db/x")
    assert set(database.secrets()) == {"s3cr%40t", "s3cr@t"}
    assert "s3cr" not in scrubbed("cannot log in with s3cr@t\n at s3cr%40t", database.secrets())
    for text in (repr(database), database.label, repr(PostgresLedger(dsn, "n"))):
        assert "s3cr" not in text


class FlakyDatabase:
    """A database whose transactions fail a given number of times."""

    label, lock = "there", ""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)

    def transaction(self) -> Any:
        from contextlib import nullcontext

        return nullcontext(self)

    def verdict(self, failure: Exception) -> str:
        return self.verdicts.pop(0)

    def secrets(self) -> Sequence[str]:
        return ["secret"]


def test_a_transaction_is_retried_until_the_deadline() -> None:
    database: Any = FlakyDatabase("lost", "again")

    def work(transaction: Any) -> str:
        if database.verdicts:
            raise OSError("my secret is out")
        return "done"

    assert within(database, 5, work, "sink") == "done"
    database.verdicts = ["lost"] * 50
    error = refusal(lambda: within(database, 0.2, work, "sink"))
    assert isinstance(error, RetryableError)
    assert error.error_id == "CLEANCUT_SINK_UNREACHABLE"
    assert "my *** is out" in str(error)
    assert error.__cause__ is None
    database.verdicts = ["error"]
    assert refusal(lambda: within(database, 5, work, "sink")).error_id == "CLEANCUT_SINK_REFUSED"


def test_a_function_writes_no_epoch_without_its_rows(ledger: SqlLedger) -> None:
    write = exactly_once(ledger=ledger)(lambda *_: None)
    begin(ledger, run(0))
    error = refusal(lambda: write.publish("", run(0)))
    assert isinstance(error, RetryableError)
    assert error.error_id == "CLEANCUT_SINK_STAGED_LOST"
    assert not write.can_publish("", run(0), None)


def test_a_table_has_one_ledger_for_all_spellings_of_its_name(tmp_path: Path) -> None:
    """The key was the name as given: an epoch was published once for each spelling."""

    def publish_to(table: str, run_id: str) -> bool:
        sink = SqlSink(f"sqlite:///{tmp_path}/db", table, retry_for_s=5)
        batch = run(0, run_id)
        side: Any = Side(batch)
        sink.begin(side, cast(Any, None))
        if sink.published(batch) is not None:
            return False
        ledger = sink._ledger
        ledger.within(lambda transaction: ledger.lock(transaction, batch))
        ledger.within(lambda transaction: ledger.publish(transaction, batch, "handle", 1))
        assert [epoch.epoch for epoch in sink.epochs("q-1")] == [0]
        return True

    published = [
        publish_to(table, f"r-{at}") for at, table in enumerate(["counts", "main.counts", "Counts"])
    ]
    assert published == [True, False, False]


def test_records_under_the_former_key_of_a_table_are_migrated(tmp_path: Path) -> None:
    former = SqlLedger(f"sqlite:///{tmp_path}/db", "SqlSink counts", retry_for_s=5)
    begin(former, run(0))
    publish(former, run(0), run(1))
    sink = SqlSink(f"sqlite:///{tmp_path}/db", "main.counts", retry_for_s=5)
    side: Any = Side(run(2, "r-2"))
    sink.begin(side, cast(Any, None))
    assert [epoch.epoch for epoch in sink.epochs("q-1")] == [0, 1]
    assert epochs(former) == []
    # An older run is fenced under each name.
    assert isinstance(
        refusal(lambda: sink.begin(cast(Any, Side(run(2))), cast(Any, None))), FencedError
    )


def test_a_restored_database_is_written_only_after_the_loss_is_accepted(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    """The same run, and the next one; an older generation is fenced as before."""
    begin(ledger, run(0), 2)
    publish(ledger, *(run(epoch) for epoch in range(3)))
    shutil.copy(tmp_path / "db", tmp_path / "backup")
    publish(ledger, *(run(epoch) for epoch in range(3, 6)))
    shutil.copy(tmp_path / "backup", tmp_path / "db")
    published = {"orders": EpochRanges(((0, 5),)), "another": EpochRanges(((0, 9),))}
    same, next_run = (replace(run(6, run_id), recorded=published) for run_id in ("r-1", "r-2"))
    for step in (
        lambda: find(ledger, same),
        lambda: ledger.within(lambda transaction: ledger.lock(transaction, same)),
        lambda: begin(ledger, next_run, 3),
    ):
        refused = refusal(step)
        assert refused.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
        assert "orders does not contain epochs 3 to 5 of the query q-1" in str(refused)
        assert "`cleancut rollback file:/ckpt --to-epoch 2 --apply`" in str(refused)
        assert "call `accept_gap(3, 5)`" in str(refused)
    with pytest.raises(FencedError):
        begin(ledger, next_run, 1)
    assert epochs(ledger) == [0, 1, 2]
    ledger.accept_gap(3, 4)
    assert refusal(lambda: begin(ledger, next_run, 3)).error_id == "CLEANCUT_SINK_EPOCHS_LOST"
    ledger.accept_gap(3, 5)
    begin(ledger, next_run, 3)
    publish(ledger, next_run)
    assert epochs(ledger) == [0, 1, 2, 6]


def test_the_ledger_of_a_query_is_lost_if_the_checkpoint_records_its_epochs(
    ledger: SqlLedger,
) -> None:
    recorded = {"orders": EpochRanges(((2, 4),))}
    refused = refusal(lambda: begin(ledger, replace(run(5), recorded=recorded)))
    assert refused.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
    assert "cleancut rollback" not in str(refused)
    # An epoch in which the function called no sink, and a sink that is new.
    begin(ledger, replace(run(5), recorded={"another": EpochRanges(((0, 4),))}))


def test_a_moved_query_owns_its_ledger_with_any_generation(ledger: SqlLedger) -> None:
    for generation in range(1, 8):
        begin(ledger, run(0, f"old-{generation}"), generation)
    publish(ledger, run(0, "old-7"))
    moved = replace(
        run(2, "new-1"), checkpoint="file:/new", lineage=(Origin("/ckpt", generation=7, epoch=0),)
    )
    begin(ledger, moved, 1)
    publish(ledger, moved)
    for batch, generation in ((run(3, "old-7"), 7), (run(3, "old-8"), 8)):
        with pytest.raises(FencedError):
            begin(ledger, batch, generation)
    # Spark's provider counts no generations.
    further = replace(
        moved, run_id="new-2", checkpoint="/third", lineage=(*moved.lineage, Origin("file:///new"))
    )
    begin(ledger, further, None)
    [(locations,)] = ledger.within(
        lambda transaction: transaction.run("SELECT checkpoint FROM cleancut_runs")
    )
    assert decode_checkpoints(locations) == ("/ckpt", "file:///new", "/third")
    stranger = replace(run(4, "other"), checkpoint="hdfs://other/q")
    refused = refusal(lambda: begin(ledger, stranger, 99))
    assert refused.error_id == "CLEANCUT_SINK_CHECKPOINT_UNKNOWN"
    assert 'call `accept_move("/third")` of the sink' in str(refused)
    ledger.accept_move("/third")
    begin(ledger, stranger, 1)
    with pytest.raises(FencedError):
        begin(ledger, replace(further, run_id="new-3"), None)


def test_epochs_that_were_published_after_a_copy_are_refused(ledger: SqlLedger) -> None:
    begin(ledger, run(0), 1)
    publish(ledger, *(run(epoch) for epoch in range(4)))
    copied = replace(
        run(5, "r-2"), checkpoint="/copy", lineage=(Origin("file:/ckpt", generation=1, epoch=1),)
    )
    refused = refusal(lambda: begin(ledger, copied, 1, undo=lambda transaction, epochs: None))
    assert refused.error_id == "CLEANCUT_SINK_UNDO_REFUSED"
    assert "epoch 2 (3 rows), epoch 3 (3 rows)" in str(refused)
    assert "`mark_unpublished(after=1)`" in str(refused)
    ledger.mark_unpublished("q-1", after=1)
    begin(ledger, copied, 1)
    publish(ledger, copied)
    assert epochs(ledger) == [0, 1, 5]
