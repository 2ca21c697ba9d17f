"""How several sinks process an epoch, and which published epochs count after operations."""

from typing import Any

import pytest

from cleancut import RequestError
from cleancut.sinks import PostgresSink, SqlLedger, SqlSink, fan_out
from cleancut.sinks._core.query_side import Operation, counts, kept_until
from cleancut.sinks._tables.staging import StagingNames
from tests.unit.sink_steps import Side, Target, give


def test_all_stage_before_one_seal_and_publish_after_it() -> None:
    steps: list[str] = []
    side = Side(steps)
    both = fan_out(Target("a", steps), Target("b", steps))
    assert give(both, side) == [
        "a begins in the session",
        "b begins in the session",
        "compute",
        "a stages",
        "b stages",
        "close",
        "a publishes a staged",
        "b publishes b staged",
        "record a, b",
        "unpersist",
        "a sweeps",
        "b sweeps",
    ]
    # It runs again in the same run: the tasks have to run for the state.
    assert give(both, side) == [
        "compute",
        "close",
        "record a, b",
        "unpersist",
        "a sweeps",
        "b sweeps",
    ]
    assert side.closed[0] == side.closed[1]


def test_rows_that_a_sink_reads_once_are_not_cached() -> None:
    steps: list[str] = []
    side = Side(steps)
    once = Target("a", steps)
    once.reads_rows_once = True
    assert give(once, side) == [
        "a begins in the session",
        *("hold", "a stages", "close", "a publishes a staged", "record a", "a sweeps"),
    ]
    # It is published, and its tasks have to run.
    assert give(once, side) == ["compute", "close", "record a", "unpersist", "a sweeps"]
    # Another sink reads them, too.
    once.shown = None
    assert "compute" in give(fan_out(once, Target("b", steps)), side)


def test_the_next_run_publishes_to_the_sink_that_lacks_the_epoch() -> None:
    steps: list[str] = []
    side = Side(steps)
    a, b = Target("a", steps), Target("b", steps, fails=True)
    with pytest.raises(OSError, match="the target is gone"):
        give(fan_out(a, b), side)
    assert a.shown == "a staged"
    assert b.shown is None
    assert side.steps[-1] == "unpersist"
    b.fails = False
    assert give(fan_out(a, b), side) == [
        *("compute", "b stages", "close", "b publishes b staged", "record a, b", "unpersist"),
        *("a sweeps", "b sweeps"),
    ]
    # If the seal is an object, the rows are not computed.
    a.shown, b.shown = "a staged", None
    side.output = side.closed[0]
    assert give(fan_out(a, b), side)[0] == "finish"
    assert {a.shown, b.shown} == {"a staged", "b staged"}


@pytest.mark.parametrize("output", ["", "something else", 'cleancut.sinks\n{"a": "a staged"}'])
def test_an_epoch_sealed_for_other_sinks_is_computed_again(output: str) -> None:
    steps: list[str] = []
    side = Side(steps, output)
    assert "compute" in give(fan_out(Target("a", steps), Target("b", steps)), side)


def test_a_fan_out_accepts_only_sinks() -> None:
    def write(rows: Any, epoch: int) -> None: ...

    sinks: list[Any] = [Target("a", []), write]
    with pytest.raises(RequestError, match=r"is no sink.*exactly_once") as raised:
        fan_out(*sinks)
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


def test_a_fan_out_refuses_a_duplicate_sink() -> None:
    for sinks in ([], [Target("a", []), Target("a", [])]):
        with pytest.raises(RequestError) as raised:
            fan_out(*sinks)
        assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


@pytest.mark.parametrize(
    ("operations", "kept"),
    [
        ([], None),
        # Operations that do not roll back have the result of the last epoch.
        ([(5, 4)], 4),
        ([(5, 1), (6, 1)], 1),
        # A rollback that was undone before anything was published.
        ([(6, 1), (8, 4)], 4),
        # A rollback to the result of an earlier rollback.
        ([(6, 1), (8, 6)], 1),
        # A rollback that was not completed, before another one.
        ([(6, 1), (7, 4), (8, 4)], 4),
    ],
)
def test_the_target_epoch_of_rollbacks(operations: list[tuple[int, int]], kept: int | None) -> None:
    assert kept_until([Operation(*operation) for operation in operations]) == kept


def test_the_epochs_that_count_after_several_operations() -> None:
    # 0 1 2, back to 0, 5 6, back to 5, 9: then 0 5 9 count, or 0 1 2 if that is undone to 2.
    operations = [Operation(4, 0), Operation(8, 5)]
    assert [epoch for epoch in (0, 1, 2, 5, 6, 9) if counts(epoch, 9, operations)] == [0, 5, 9]
    assert [epoch for epoch in (0, 1, 2) if counts(epoch, 2, operations)] == [0, 1, 2]
    assert [epoch for epoch in (0, 1, 2, 5, 6) if counts(epoch, 6, operations)] == [0, 5, 6]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"order_by": "o"}, "need keys"),
        ({"delete_when": "d"}, "need keys"),
        ({"keep_undo": 3}, "need keys"),
        ({"query_column": "q"}, "needs an epoch_column"),
        ({"keys": "k", "keep_undo": -1}, "a number of epochs"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, Any], problem: str) -> None:
    for kind in (PostgresSink, SqlSink):
        with pytest.raises(RequestError, match=problem) as raised:
            kind("sqlite:///x", "t", **options)
        assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


@pytest.mark.parametrize("made", [SqlSink, SqlLedger])
def test_an_untested_database_is_refused(made: Any) -> None:
    """Its statements were guesses, which only failed when the first epoch was published."""
    with pytest.raises(RequestError, match="PostgreSQL are supported, and oracle is not") as raised:
        made("oracle+oracledb://writer:secret@h/d", "t")
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    assert "secret" not in str(raised.value)
    for url in ("sqlite:///x", "mysql+pymysql://h/d", "mariadb://h/d", "postgresql+psycopg://h/d"):
        made(url, "t")


def test_names_of_staging_tables_contain_query_and_epoch() -> None:
    names, other = StagingNames("PostgresSink t q-1"), StagingNames("PostgresSink t q-2")
    for epoch in (0, 7, 10**15):
        name = names.fresh(epoch, "0123456789abcdef")
        assert name.startswith(names.prefix)
        assert len(name) <= 63
        assert names.epoch(name) == epoch
        assert names.epoch(f"{name}x") > 2**62
        assert other.epoch(name) > 2**62
