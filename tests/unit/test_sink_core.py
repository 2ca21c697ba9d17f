"""How several sinks take an epoch, and what acts on a checkpoint mean for what is published."""

from typing import Any

import pytest

from cleancut import RequestError
from cleancut.sinks import PostgresSink, SqlLedger, SqlSink, fan_out
from cleancut.sinks._core.query_side import Act, counts, kept_until
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
    # It runs again in the same run: the tasks have to, for the state.
    assert give(both, side) == [
        "compute",
        "close",
        "record a, b",
        "unpersist",
        "a sweeps",
        "b sweeps",
    ]
    assert side.closed[0] == side.closed[1]


def test_rows_that_a_sink_reads_once_are_not_kept() -> None:
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
    # Another one reads them, too.
    once.shown = None
    assert "compute" in give(fan_out(once, Target("b", steps)), side)


def test_what_a_run_has_brought_to_one_of_two_the_next_brings_to_the_other() -> None:
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
    # Where the seal is an object, nothing is computed.
    a.shown, b.shown = "a staged", None
    side.output = side.closed[0]
    assert give(fan_out(a, b), side)[0] == "finish"
    assert {a.shown, b.shown} == {"a staged", "b staged"}


@pytest.mark.parametrize("output", ["", "something else", 'cleancut.sinks\n{"a": "a staged"}'])
def test_what_was_sealed_for_other_sinks_is_computed_again(output: str) -> None:
    steps: list[str] = []
    side = Side(steps, output)
    assert "compute" in give(fan_out(Target("a", steps), Target("b", steps)), side)


def test_a_fan_out_takes_sinks_alone() -> None:
    def write(rows: Any, epoch: int) -> None: ...

    sinks: list[Any] = [Target("a", []), write]
    with pytest.raises(RequestError, match=r"is no sink.*exactly_once") as raised:
        fan_out(*sinks)
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


def test_a_sink_is_given_once_to_a_fan_out() -> None:
    for sinks in ([], [Target("a", []), Target("a", [])]):
        with pytest.raises(RequestError) as raised:
            fan_out(*sinks)
        assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


@pytest.mark.parametrize(
    ("acts", "kept"),
    [
        ([], None),
        # Acts that do not go back have the result of the last epoch.
        ([(5, 4)], 4),
        ([(5, 1), (6, 1)], 1),
        # One that was undone, before anything was published.
        ([(6, 1), (8, 4)], 4),
        # One that went back to what an earlier one had made.
        ([(6, 1), (8, 6)], 1),
        # One that was not done, before another one.
        ([(6, 1), (7, 4), (8, 4)], 4),
    ],
)
def test_how_far_a_query_has_gone_back(acts: list[tuple[int, int]], kept: int | None) -> None:
    assert kept_until([Act(*act) for act in acts]) == kept


def test_what_counts_after_several_acts() -> None:
    # 0 1 2, back to 0, 5 6, back to 5, 9: then 0 5 9 count; and 0 1 2 if that is undone to 2.
    acts = [Act(4, 0), Act(8, 5)]
    assert [epoch for epoch in (0, 1, 2, 5, 6, 9) if counts(epoch, 9, acts)] == [0, 5, 9]
    assert [epoch for epoch in (0, 1, 2) if counts(epoch, 2, acts)] == [0, 1, 2]
    assert [epoch for epoch in (0, 1, 2, 5, 6) if counts(epoch, 6, acts)] == [0, 5, 6]


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
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], problem: str) -> None:
    for kind in (PostgresSink, SqlSink):
        with pytest.raises(RequestError, match=problem) as raised:
            kind("sqlite:///x", "t", **options)
        assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"


@pytest.mark.parametrize("made", [SqlSink, SqlLedger])
def test_a_database_whose_sql_no_test_has_run_on_is_refused(made: Any) -> None:
    """Its statements were guesses, which only failed when the first epoch was published."""
    with pytest.raises(RequestError, match="PostgreSQL are supported, and oracle is not") as raised:
        made("oracle+oracledb://writer:secret@h/d", "t")
    assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    assert "secret" not in str(raised.value)
    for url in ("sqlite:///x", "mysql+pymysql://h/d", "mariadb://h/d", "postgresql+psycopg://h/d"):
        made(url, "t")


def test_names_of_staging_tables_tell_query_and_epoch() -> None:
    names, other = StagingNames("PostgresSink t q-1"), StagingNames("PostgresSink t q-2")
    for epoch in (0, 7, 10**15):
        name = names.fresh(epoch, "0123456789abcdef")
        assert name.startswith(names.prefix)
        assert len(name) <= 63
        assert names.epoch(name) == epoch
        assert names.epoch(f"{name}x") > 2**62
        assert other.epoch(name) > 2**62
