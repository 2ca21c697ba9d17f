"""Plans of operations on a dataflow are refused if the dataflow has changed since."""

import json
from pathlib import Path

import pytest

import cleancut
from cleancut import RequestError
from tests.support.flow_pair import Pair, roll_back_without_spark


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair = Pair(str(tmp_path)).added()
    roll_back_without_spark(pair, monkeypatch)
    return pair


def test_a_plan_is_refused_if_a_query_has_committed_epochs_since(
    on_disk: Pair,
) -> None:
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    on_disk.step()
    flow.cut(name="good")
    b.run()
    plan = flow.rollback("good")
    assert [(member.member, member.operation) for member in plan.members] == [
        ("a", "stays"),
        ("b", "rollback"),
    ]
    # The plan keeps it, but it would have to be rolled back.
    a.run()
    with pytest.raises(RequestError) as raised:
        plan.apply()
    assert raised.value.error_id == "CLEANCUT_PLAN_OUTDATED"
    assert "a had epoch 0, and has epoch 1 now" in str(raised.value)
    assert f"`cleancut dataflow {flow.location} rollback`" in str(raised.value)
    assert (a.epoch, b.epoch) == (1, 1)
    assert [published.epoch for published in cleancut.Channel(a.channel).epochs()] == [0, 1]
    done = flow.rollback("good").apply()
    assert {member.operation for member in done.members} == {"rollback"}
    assert (a.epoch, b.epoch) == (2, 2)


def test_a_restore_fences_no_query_that_its_plan_does_not_name(
    on_disk: Pair,
) -> None:
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    on_disk.step()
    flow.cut(name="good")
    on_disk.step()
    plan = flow.rollback("good")
    owner = {"runId": "r-1", "host": "h", "startedMs": 1_790_000_000_000}
    place = on_disk.home.place(b.checkpoint)
    place.create(f"cleancut/owners/{1:020d}.json", json.dumps(owner).encode())
    with pytest.raises(RequestError, match="b runs now") as raised:
        plan.apply(fence="moved")
    assert raised.value.error_id == "CLEANCUT_PLAN_OUTDATED"
    assert (a.epoch, b.epoch) == (1, 1)
    assert not Path(b.checkpoint, f"cleancut/owners/{2:020d}.json").exists()
    plan = flow.rollback("good")
    # A query in the plan may commit another epoch before it is fenced.
    b.run()
    assert plan.apply(fence="moved").is_applied
    assert (a.epoch, b.epoch) == (2, 3)
