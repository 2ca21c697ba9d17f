"""The tests of the contract of a sink that `make test` runs; `make chaos` runs all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from cleancut.testing import SinkContract

TESTS = [name for name in dir(SinkContract) if name.startswith("test_")]
DIES = "test_killed_run_leaves_no_partial_lost_or_duplicated_epoch"
FOLLOWED = "test_fenced_run_writes_nothing"
SEALED = "test_sealed_epoch_is_published_after_a_restart"
WENT_BACK = "test_rolled_back_epochs_are_undone_or_refused"
LOST = "test_target_that_lost_epochs_is_refused"
LOST_MEANWHILE = "test_target_that_loses_epochs_during_a_run_is_refused"
GONE_SEALED = "test_target_deleted_after_the_seal_is_refused"
ROLLED_BACK = "test_run_from_before_a_rollback_publishes_nothing"
MOVED = "test_moved_query_continues_and_fences_earlier_runs"
GONE = "test_deleted_target_is_not_recreated"
BY_HAND = "test_checkpoint_moved_by_hand_is_accepted_by_name"
REPLACED = "test_sealed_epoch_is_refused_by_another_sink"
ONE_BY_ONE = "test_sink_object_serves_one_query_after_another"
RAISED = "test_error_in_the_rows_is_raised_unchanged"
UNDONE = "test_undone_rollback_is_followed_or_refused"
# The event of each test that needs no seal, as pages state it.
EVENTS = {
    "test_retried_epoch_is_written_once": "an epoch runs again",
    DIES: "the driver dies before or after the write",
    FOLLOWED: "an older run continues after a newer one has begun",
    "test_gaps_and_empty_epochs_are_accepted": "the epochs have gaps",
    RAISED: "a task fails",
    "test_two_queries_write_independently": "two queries write to one target",
    ONE_BY_ONE: "two queries use one function in turn",
    "test_epoch_with_other_input_is_refused": "an epoch runs again with other input",
    LOST: "the target is restored to an earlier state",
    LOST_MEANWHILE: "the target is restored during a run",
    GONE: "the target is deleted",
    WENT_BACK: "the query is rolled back, and later epochs follow",
    UNDONE: "a rollback is undone",
    ROLLED_BACK: "an older run continues after a rollback",
    MOVED: "an older run continues after the checkpoint was moved",
    BY_HAND: "the checkpoint is moved by hand",
}
# Fulfilled by a sink that does not name itself in the seal.
HELD_BY_NAIVE = {REPLACED}
# The failures that the contract reports for a sink without a ledger.
NAIVE = "lost|too many|a second time|former checkpoint"


def briefly(*kept: str) -> Callable[[type[SinkContract]], type[SinkContract]]:
    """Marks all other tests of a contract as long."""

    def chosen(contract: type[SinkContract]) -> type[SinkContract]:
        for name in set(TESTS) - set(kept):
            setattr(contract, name, None)
        return contract

    return chosen


def in_a_block(contract: type[SinkContract]) -> type[SinkContract]:
    """Writes to the sink of a contract in a block, as in a user's function."""
    make_sink = contract.make_sink
    accept_gap = contract.accept_gap
    accept_move = contract.accept_move

    def made(self: SinkContract, home: Path) -> Callable[[DataFrame, int], None]:
        sink: Any = make_sink(self, home)

        def write(rows: DataFrame, epoch: int) -> None:
            with sink.epoch(rows, epoch) as e:
                # Without a check of `is_fresh`: writes of a published epoch are skipped.
                e.write(e.rows.where("id >= 0"))

        setattr(write, "sink", sink)  # noqa: B010  # a function is given no attributes
        return write

    def accepted(self: SinkContract, write: Any, first: int, last: int) -> None:
        accept_gap(self, write.sink, first, last)

    def moved(self: SinkContract, write: Any, checkpoint: str) -> None:
        accept_move(self, write.sink, checkpoint)

    setattr(contract, "accept_move", moved)  # noqa: B010  # a method is not assigned to
    setattr(contract, "make_sink", made)  # noqa: B010  # a method is not assigned to
    setattr(contract, "accept_gap", accepted)  # noqa: B010  # the same
    return contract
