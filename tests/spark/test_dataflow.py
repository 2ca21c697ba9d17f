"""`Dataflow` of running queries: a cut of both, in-flight epochs, and operations on all members."""

import copy
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import Channel, Dataflow, RequestError
from cleancut._cli import main as _cli
from tests.spark.test_channels import ROWS, Flow
from tests.support.patience import PATIENCE_S
from tests.support.sink_places import Disk

pytestmark = pytest.mark.spark


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path) -> Flow:
    return Flow(spark, tmp_path, Disk(tmp_path / "channel"))


def twin_of(flow: Flow, channel: str) -> Flow:
    """Returns the same queries at other locations."""
    twin: Any = copy.copy(flow)
    twin.channel = Channel(channel)
    twin.at = lambda name: flow.at(f"{name}2")
    typed: Flow = twin
    return typed


@pytest.fixture
def in_this_process(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets commands use the session of the tests, which outlives them."""
    unstopped = SimpleNamespace(
        _jvm=spark._jvm, _jsparkSession=spark._jsparkSession, stop=lambda: None
    )
    monkeypatch.setattr(_cli, "_session", lambda _: unstopped)


def clone_by_command(
    whole: Dataflow, into: Path, members: Mapping[str, str], channels: Mapping[str, str]
) -> None:
    """Clones the cut `good` by the documented command."""
    command = ["dataflow", whole.location, "clone", str(into), "--at", "good", "--apply"]
    for option, places in (("--member", members), ("--channel", channels)):
        for pair in places.items():
            command += [option, *pair]
    assert _cli.main(command) == _cli.OK


@pytest.mark.usefixtures("in_this_process")
def test_a_cut_of_two_queries_is_rolled_back_to_and_cloned(flow: Flow, tmp_path: Path) -> None:
    whole = Dataflow(tmp_path / "flow")
    flow.add(2)
    flow.send()
    assert flow.read("one").last == flow.expected()
    flow.add()
    flow.send()
    whole.add("sender", flow.at("sender"))
    whole.add("one", flow.at("one"))
    good = whole.cut(name="good")
    (edge,) = good.edges
    assert (edge.sender, edge.receiver, edge.consumed) == ("sender", "one", 1)
    (flying,) = whole.in_flight("good")
    assert (flying.epochs, flying.rows) == ((2,), ROWS)
    assert whole.test_restore("good").problems == ()
    # Both continue, so that their cuts of that state expire.
    flow.add(2)
    flow.send()
    assert flow.read("one").last == flow.expected(5)

    twin = twin_of(flow, str(tmp_path / "channel2"))
    places = {name: twin.at(name) for name in ("sender", "one")}
    clone_by_command(whole, tmp_path / "flow2", places, {edge.channel: str(tmp_path / "channel2")})

    plan = whole.rollback("good", session=flow.spark)
    assert {member.operation for member in plan.members} == {"rollback"}
    assert [channel.epochs for channel in plan.channels] == [(3, 4)]
    plan.apply()
    assert flow.held() == [0, 1, 2]
    # The in-flight epochs are read again, and then the new epochs of the sender.
    assert flow.read("one").last == flow.expected(3)
    flow.send()
    assert flow.read("one").last == flow.expected(5)
    assert whole.cut().edges[0].consumed == flow.held()[-1]
    assert whole.verify().ok

    # The clone has the same in-flight epochs, under its own IDs.
    of_clone = Dataflow(tmp_path / "flow2")
    assert [channel.epochs for channel in of_clone.in_flight(of_clone.cut().number)] == [(2,)]
    assert twin.read("one").last == flow.expected(3)
    twin.send()
    assert twin.read("one").last == flow.expected(5)
    made = of_clone.cut()
    assert {member.query_id for member in made.members}.isdisjoint(
        member.query_id for member in good.members
    )
    assert cleancut.Checkpoint(places["one"]).verify().problems == ()


def test_a_participating_driver_closes_its_epoch_for_a_cut(flow: Flow, tmp_path: Path) -> None:
    whole = Dataflow(tmp_path / "flow")
    whole.add("other", flow.at("other"))
    rows = flow.spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    query = (
        rows.selectExpr("value AS v", "value % 7 AS k")
        .writeStream.foreachBatch(flow.channel)
        .option("checkpointLocation", flow.at("sender"))
        .start()
    )
    try:
        cleancut.coordinator(query).wait_for(1, timeout=PATIENCE_S)
        with pytest.raises(RequestError, match="add it first"):
            whole.participate(query)
        whole.add("sender", flow.at("sender"))
        with whole.participate(query, every=0.1) as attending:
            before = cleancut.coordinator(query).status().committed
            made = whole.cut(timeout="60s")
            epoch = made.epochs["sender"]
            assert made.not_closed == {}
            assert attending.answered == 1
            assert epoch is not None
            assert before is not None
            assert epoch >= before
        assert whole.cut(timeout="5s").not_closed == {}
        assert attending.answered == 1
    finally:
        cleancut.stop(query)
