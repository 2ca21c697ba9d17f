"""An epoch as a block: the steps before, in and after it."""

from pathlib import Path
from typing import Any

import pytest

from cleancut import RequestError
from cleancut.sinks import SqlLedger, fan_out
from tests.unit.sink_steps import Rows, Side, Target, block, give

BEGINS = "a begins in the session"
PUBLISHES = ("close", "a publishes a staged", "record a", "unpersist", "a sweeps")


@pytest.fixture
def steps() -> list[str]:
    return []


@pytest.fixture
def side(steps: list[str]) -> Side:
    return Side(steps)


@pytest.fixture
def target(steps: list[str]) -> Target:
    return Target("a", steps)


def made(steps: list[str]) -> Any:
    """Rows derived from those of the epoch."""
    return Rows(steps, "some rows")


def test_the_block_stages_and_leaving_it_seals_and_publishes(target: Target, side: Side) -> None:
    with block(target, side) as e:
        assert (e.epoch, e.fresh) == (7, True)
        assert repr(e) == "OpenEpoch(epoch=7, fresh=True)"
        assert side.steps == [BEGINS]
        assert e.rows is e.rows
        assert side.steps == [BEGINS, "compute"]
        e.write(made(side.steps))
        assert side.steps == [BEGINS, "compute", "a stages"]
    assert side.steps == [BEGINS, "compute", "a stages", *PUBLISHES]
    assert target.staged == ["some rows"]


def test_the_tasks_run_once_if_only_derived_rows_are_written(target: Target, side: Side) -> None:
    """Also for a sink that reads its rows once: it may read a part of them, or other rows."""
    target.reads_rows_once = True
    with block(target, side) as e:
        e.write(made(side.steps))
    assert side.steps == [BEGINS, "compute", "a stages", *PUBLISHES]


def test_an_unread_batch_is_read_once(target: Target, side: Side) -> None:
    target.reads_rows_once = True
    with block(target, side) as e:
        # The batch itself has all of its rows.
        e.write(e._df)
    assert side.steps == [
        *(BEGINS, "hold", "a stages", "close", "a publishes a staged", "record a", "a sweeps"),
    ]
    target.shown = None
    with block(target, side) as e:
        assert e.rows
        e.write()
    assert side.steps == ["compute", "a stages", *PUBLISHES]


def test_a_block_without_writes_publishes_an_empty_epoch(target: Target, side: Side) -> None:
    with block(target, side) as e:
        assert e.fresh
    assert side.steps == [BEGINS, "compute", "a stages", *PUBLISHES]
    assert target.staged == ["0 rows"]


@pytest.mark.parametrize("writes", [True, False])
def test_an_exception_in_a_block_leaves_the_epoch_to_the_next_run(
    target: Target, side: Side, writes: bool
) -> None:
    def fail(e: Any) -> None:
        assert e.rows
        if writes:
            e.write()
        raise OSError("in the block")

    with pytest.raises(OSError, match="in the block"), block(target, side) as e:
        fail(e)
    assert side.steps == [BEGINS, "compute", *["a stages"][:writes], "unpersist"]
    assert target.shown is None
    assert give(target, side) == ["compute", "a stages", *PUBLISHES]


def test_a_published_epoch_is_not_fresh_and_refuses_writes(target: Target, side: Side) -> None:
    give(target, side)
    with block(target, side) as e:
        # All steps are done; the tasks had to run for the state.
        assert side.steps == ["compute", "close", "record a", "unpersist", "a sweeps"]
        assert not e.fresh
        rows: Any = e.rows
        assert rows.name == "0 rows"
        e.write(rows)
        e.write()
    assert side.steps == ["compute", "close", "record a", "unpersist", "a sweeps"]


def test_a_sealed_epoch_is_finished_before_the_block(target: Target, side: Side) -> None:
    side.output = 'cleancut.sinks\n{"a": "a staged"}'
    with block(target, side) as e:
        assert not e.fresh
        assert side.steps == [BEGINS, "finish", "a publishes a staged", "record a", "a sweeps"]
    assert target.shown == "a staged"


def test_an_epoch_sealed_for_another_sink_is_refused(target: Target, side: Side) -> None:
    """The other sink may have published it: the epoch was written to both targets."""
    side.output = 'cleancut.sinks\n{"a": "a staged", "b": "b staged"}'
    with pytest.raises(RequestError) as raised, block(target, side):
        pass
    assert raised.value.error_id == "CLEANCUT_SINK_REPLACED"
    assert "sealed for b," in str(raised.value)
    assert "`cleancut rollback file:/ckpt --to-epoch 6 --apply`" in str(raised.value)
    assert side.steps == []


def test_an_epoch_in_one_of_two_sinks_is_written_to_the_other(
    target: Target, side: Side, steps: list[str]
) -> None:
    other = Target("b", steps)
    give(target, side)
    with block(fan_out(target, other), side) as e:
        assert e.fresh
        e.write(made(steps))
    assert (target.staged, other.staged) == (["all rows"], ["some rows"])
    assert other.shown == "b staged"


def test_an_epoch_is_written_once_and_within_its_block(target: Target, side: Side) -> None:
    with block(target, side) as e:
        e.write()
        with pytest.raises(RequestError, match="a second time") as raised:
            e.write()
        assert raised.value.error_id == "CLEANCUT_SINK_REFUSED"
    assert target.shown == "a staged"
    with pytest.raises(RequestError, match="after its block was left"):
        e.write()


@pytest.mark.parametrize("step", ["stage", "compute"])
def test_a_block_that_swallows_a_failed_write_ends_with_its_error(
    step: str, target: Target, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the epoch would be published without these rows."""

    def failing(*_: object) -> str:
        raise OSError("the disk is full")

    monkeypatch.setattr(target if step == "stage" else side, step, failing)

    def pass_over(e: Any) -> None:
        with pytest.raises(OSError, match="the disk is full"):
            e.write(e.rows)
        with pytest.raises((OSError, RequestError)):
            e.write()

    with pytest.raises(OSError, match="the disk is full"), block(target, side) as e:
        pass_over(e)
    assert target.shown is None
    assert "close" not in side.steps


def test_the_block_of_a_ledger_seals_and_records_the_epoch_in_its_transaction(
    side: Side, tmp_path: Path
) -> None:
    ledger = SqlLedger(f"sqlite:///{tmp_path}/db", "sizes")

    def sizes() -> object:
        return ledger.within(lambda transaction: transaction.run("SELECT n FROM sizes"))

    ledger.within(lambda transaction: transaction.run("CREATE TABLE sizes (n INT)"))

    def fail(e: Any) -> None:
        e.transaction.run("INSERT INTO sizes VALUES (1)")
        raise OSError("in the block")

    with pytest.raises(OSError, match="in the block"), block(ledger, side) as e:
        fail(e)
    assert side.steps == ["compute", "close", "unpersist"]
    assert side.closed == ['cleancut.sinks\n{"sizes": ""}']
    assert sizes() == []
    with block(ledger, side) as e:
        assert e.fresh
        rows: Any = e.rows
        assert rows.name == "all rows"
        e.transaction.run("INSERT INTO sizes VALUES (2)")
    assert sizes() == [(2,)]
    for sealed, steps in (
        (None, ["finish", "compute", "close", "record sizes", "unpersist"]),
        ("", ["finish", "record sizes"]),
    ):
        side.output = sealed
        with block(ledger, side) as e:
            assert not e.fresh
            rows = e.rows
            assert rows.name == "0 rows"
        assert side.steps == steps


def test_the_block_of_a_ledger_refuses_an_epoch_sealed_for_another_sink(
    side: Side, tmp_path: Path
) -> None:
    """Its rows would be in both targets. The block of a ledger sealed without a name."""
    side.output = 'cleancut.sinks\n{"one": "one staged"}'
    ledger = SqlLedger(f"sqlite:///{tmp_path}/db", "sizes")
    with pytest.raises(RequestError) as raised, block(ledger, side):
        raise AssertionError("the block was entered")
    assert raised.value.error_id == "CLEANCUT_SINK_REPLACED"
