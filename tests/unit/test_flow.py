"""A dataflow on a disk and in a bucket: members, cuts, operations, and a coordinator thread."""

import itertools
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cleancut
from cleancut import Dataflow, RequestError
from cleancut._cli import main as _cli
from cleancut._storage.directory import Directory
from cleancut.dataflow import _dataflow as acting
from cleancut.dataflow._cuts.close_requests import RequestResponder
from cleancut.dataflow._dataflow import Participant
from cleancut.dataflow._model.records import AnswerRecord
from cleancut.dataflow._operations.rollback import DataflowPlan
from cleancut.errors import CleancutError, error_of
from tests.support.documented import blocks, commands
from tests.support.flow_pair import Pair, roll_back_without_spark
from tests.support.flow_world import Query
from tests.support.patience import wait_until
from tests.unit.s3_server import BUCKET, s3_server

REFUSED = "CLEANCUT_DATAFLOW_REFUSED"


@pytest.fixture(params=["disk", "bucket"])
def pair(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> Iterator[Pair]:
    if request.param == "disk":
        yield Pair(str(tmp_path)).added()
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with s3_server() as server:
        place = f"s3://{BUCKET}/{tmp_path.name}"
        yield Pair(place, endpoint=server.endpoint, region="us-east-1").added()


@pytest.fixture
def on_disk(tmp_path: Path) -> Pair:
    return Pair(str(tmp_path)).added()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Pair], None]:
    """Lets the queries of a test perform operations on checkpoints."""

    return lambda pair: roll_back_without_spark(pair, monkeypatch)


def test_members_are_added_and_removed(pair: Pair) -> None:
    flow = pair.flow
    assert [(member.name, member.epoch, member.reason) for member in flow.members()] == [
        ("a", None, None),
        ("b", None, None),
    ]
    pair.step()
    pair.step()
    assert [(member.name, member.epoch, member.query_id) for member in flow.members()] == [
        ("a", 1, "id-a"),
        ("b", 1, "id-b"),
    ]
    (edge,) = flow.edges()
    assert (edge.sender, edge.receiver, edge.consumed, edge.sent) == ("a", "b", 0, 1)
    # A repeated call changes nothing; a name belongs to one checkpoint.
    assert flow.add("a", pair.a.checkpoint).epoch == 1
    for name, place in [("a", pair.b.checkpoint), ("c", pair.a.checkpoint), ("no/name", "c")]:
        with pytest.raises(RequestError) as raised:
            flow.add(name, place)
        assert raised.value.error_id == REFUSED
    # A dataflow cut retains one savepoint per member.
    made = flow.cut(name="good")
    assert made.epochs == {"a": 1, "b": 1}
    assert pair.a.savepoints() == [made.members[0].savepoint]
    assert [in_flight.epochs for in_flight in flow.in_flight("good")] == [(1,)]
    assert flow.remove("b")
    assert not flow.remove("b")
    assert flow.cut().epochs == {"a": 1}
    flow.drop_savepoint("good")
    flow.expire(retain_last=1).apply()
    assert pair.b.savepoints() == []


def test_cuts_are_created_named_inspected_and_expired(on_disk: Pair) -> None:
    pair, flow = on_disk, on_disk.flow
    pair.step(rows=7)
    pair.step(rows=5)
    first = flow.cut(name="good")
    assert (first.epochs, first.names) == ({"a": 1, "b": 1}, ("good",))
    (flying,) = flow.in_flight("good")
    assert (flying.epochs, flying.rows, flying.bytes) == ((1,), 5, 500)
    for _ in range(3):
        pair.step()
        flow.cut()
    cuts = flow.cuts()
    assert [cut.epochs["a"] for cut in cuts] == [1, 2, 3, 4]
    assert flow.get_cut("good") == first
    with pytest.raises(RequestError, match="has the name good") as raised:
        flow.create_savepoint("good")
    assert raised.value.error_id == REFUSED
    with pytest.raises(RequestError, match="there is no cut 99"):
        flow.in_flight(99)
    assert flow.create_savepoint("better", cuts[1].number).names == ("better",)
    plan = flow.expire(retain_last=1)
    assert (plan.expired, len(plan.retained)) == ((cuts[2].number,), 3)
    assert len(flow.cuts()) == 4
    done = plan.apply()
    assert (done.expired, done.is_applied) == (plan.expired, True)
    assert len(flow.cuts()) == 3
    with pytest.raises(RequestError, match="applied before"):
        done.apply()
    assert flow.drop_savepoint("better")
    assert not flow.drop_savepoint("better")
    flow.expire(retain_last=1, retain_for="0s").apply()
    assert [cut.names for cut in flow.cuts()] == [("good",), ()]
    # Named cuts and the last one are retained.
    assert len(pair.a.savepoints()) == 2
    lines = flow.history()
    assert [(row.number, row.member) for row in lines[:2]] == [
        (first.number, "a"),
        (first.number, "b"),
    ]
    status = flow.status()
    assert (status.is_running, status.next) == (False, {"a": 4, "b": 4})
    assert status.last == flow.cuts()[-1]
    for shown in (status, first, flow.verify(), plan):
        assert str(shown)
    assert json.dumps(status.to_dict(), default=str)


def test_an_expiry_counts_savepoints_in_plan_and_result(
    on_disk: Pair,
) -> None:
    """A name counted once for all members, and a savepoint that a later cut needs as deleted."""
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    b.run()
    for _ in range(3):
        a.run()
        flow.cut()

    def there() -> int:
        return len(a.savepoints()) + len(b.savepoints())

    # `b` does not advance, so all cuts share its first savepoint.
    assert there() == 4
    plan = flow.expire(retain_last=1)
    assert (len(plan.expired), plan.savepoints) == (2, 2)
    done = plan.apply()
    assert (done.expired, done.retained, done.savepoints) == (plan.expired, plan.retained, 2)
    assert there() == 2
    # Savepoints of members that advanced are deleted. A cut created after the plan expires no
    # other.
    for query in (a, b):
        query.run()
    flow.cut()
    plan = flow.expire(retain_last=1)
    assert (len(plan.expired), plan.savepoints) == (1, 2)
    a.run()
    last = flow.cut()
    done = plan.apply()
    assert (done.expired, done.retained) == (plan.expired, (*plan.retained, last.number))
    assert (done.savepoints, there()) == (2, 3)


def test_verify_checks_the_objects_of_a_cut(on_disk: Pair) -> None:
    flow, home = on_disk.flow, Path(on_disk.home.prefix)
    on_disk.step(rows=7)
    on_disk.step(rows=5)
    flow.cut()
    report = flow.verify()
    # Only the manifest names the files of the channel.
    assert [problem.detail for problem in report.problems] == ["is missing"]
    (flying,) = (home / "channel/a/_epochs").glob("*1.json")
    file = home / "channel/a" / json.loads(flying.read_text())["files"][0]["name"]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 499)
    assert [problem.detail for problem in flow.verify().problems] == ["has 499 bytes, not 500"]
    file.write_bytes(b"x" * 500)
    report = flow.verify()
    assert (report.ok, report.members, report.epochs, report.files) == (True, 2, 1, 1)
    assert flow.test_restore().rows == 0
    # A savepoint of another cut, and a corrupted one.
    (saved,) = (home / "ckpt/a/cleancut/savepoints").iterdir()
    whole = saved.read_bytes()
    saved.write_bytes((home / f"ckpt/a/cleancut/cuts/{0:020d}.cut").read_bytes())
    assert "keeps another cut, of epoch 0" in str(flow.verify())
    saved.write_bytes(whole[:-1])
    assert not flow.verify().ok
    assert not flow.test_restore().ok
    saved.unlink()
    with pytest.raises(RequestError, match="there is no cut"):
        flow.verify()


def test_a_coordinator_in_a_thread_creates_cuts_and_stands_by(on_disk: Pair) -> None:
    flow = on_disk.flow
    on_disk.step()
    with flow.run(interval=0.05, poll=0.02, retain_last=3) as runs:
        assert runs.is_active
        with pytest.raises(RequestError, match="it runs already"):
            flow.run()
        for epoch in range(1, 6):
            on_disk.step()
            _until(lambda: _last(flow) == on_disk.a.epoch)
            assert epoch == on_disk.a.epoch
        assert len(flow.cuts()) <= 4
        assert flow.status().is_running
        on_disk.step()
        assert flow.cut().epochs == {"a": 6, "b": 6}
        # Another process creates a cut.
        other = Dataflow(flow.location)
        on_disk.step()
        assert other.cut(name="theirs").epochs == {"a": 7, "b": 7}
        on_disk.step()
        _until(lambda: _last(flow) == 8)
        assert not runs.is_standby
    assert "is_active=False" in repr(runs)
    assert not flow.status().is_running
    assert runs.error() is None
    assert len(on_disk.a.savepoints()) == len(flow.cuts())
    for wrong, why in (
        ({"interval": 0}, "longer"),
        ({"retain_last": 0}, "at least 1"),
        ({"poll": "x"}, "7d"),
    ):
        with pytest.raises(ValueError, match=why):
            flow.run(**wrong)


def test_a_standby_continues_after_a_crash_during_a_single_cut(
    on_disk: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = on_disk.flow
    on_disk.step()
    with flow.run(interval=0.05, poll=0.02) as runs:
        _until(lambda: _last(flow) == 0)
        # Killed between its beginning and its end.
        Dataflow(flow.location)._coordinator(once=True).begin()
        _until(lambda: runs.is_standby)
        on_disk.step()
        time.sleep(0.2)
        assert _last(flow) == 0
        monkeypatch.setattr("cleancut.dataflow._cuts.run._ONCE_S", 0.1)
        _until(lambda: _last(flow) == 1)
        # While another coordinator runs, it stands by.
        other = Dataflow(flow.location)._coordinator()
        other.begin()
        _until(lambda: runs.is_standby)
        time.sleep(0.4)
        assert runs.is_standby
        other.end()
        _until(lambda: not runs.is_standby)


def test_a_coordinator_ends_after_too_many_failures(
    on_disk: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk.a.publish()
    on_disk.b.consume(on_disk.a, 0)
    on_disk.b.run()
    flow = on_disk.flow
    monkeypatch.setattr(flow._machinery, "wait", lambda _: None)
    runs = flow.run(interval=0.01, poll=0.01, tolerable_failures=2)
    _until(lambda: not runs.is_active)
    error = runs.error()
    assert isinstance(error, CleancutError)
    assert error.error_id == "CLEANCUT_DATAFLOW_INCONSISTENT"
    assert "a is at its beginning" in str(runs.last_error)
    assert flow.status().next is None
    runs.stop()


def test_a_driver_answers_requests(on_disk: Pair) -> None:
    flow, a = on_disk.flow, on_disk.a
    on_disk.step()
    is_running = threading.Event()
    is_running.set()
    closed = []

    def close() -> AnswerRecord:
        closed.append(a.run())
        return AnswerRecord(closed[-1], is_closing=True)

    attending = Participant(RequestResponder(flow._store, "a", close), is_running.is_set, 0.02)
    with attending:
        attending.begin()
        assert flow.cut(5).epochs == {"a": 1, "b": 0}
        assert (closed, attending.answered) == ([1], 1)
    assert flow.cut(0.1).not_closed == {}
    assert "attending" not in {path.name for path in Path(flow.location).rglob("attending/*")}


def test_a_rollback_of_all_members_and_their_continuation(
    on_disk: Pair, without_spark: Callable[[Pair], None]
) -> None:
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    without_spark(on_disk)
    for _ in range(3):
        on_disk.step()
    good = flow.cut(name="good")
    for _ in range(2):
        on_disk.step()
    plan = flow.rollback("good")
    assert [
        (member.member, member.operation, member.epoch, member.target_epoch)
        for member in plan.members
    ] == [
        ("a", "rollback", 4, 2),
        ("b", "rollback", 4, 2),
    ]
    assert [(channel.sender, channel.after, channel.epochs) for channel in plan.channels] == [
        ("a", 2, (3, 4))
    ]
    assert "Nothing has changed yet." in str(plan)
    done = plan.apply()
    assert done.is_applied
    assert (a.epoch, b.epoch) == (5, 5)
    assert [published.epoch for published in cleancut.Channel(a.channel).epochs()] == [0, 1, 2]
    # The in-flight epochs are the same again, and a cut of that state is equal.
    again = flow.cut()
    assert again.epochs == {"a": 5, "b": 5}
    assert (
        [in_flight.epochs for in_flight in flow.in_flight()]
        == [(2,)]
        == [in_flight.epochs for in_flight in flow.in_flight(good.number)]
    )
    # All members are at the cut already, so the plan is empty.
    assert {member.operation for member in flow.rollback("good").members} == {"stays"}
    on_disk.step()
    assert flow.cut().epochs == {"a": 6, "b": 6}
    with pytest.raises(RequestError, match="applied before"):
        done.apply()


def test_no_query_is_rolled_back_if_the_input_of_one_is_missing(
    on_disk: Pair, without_spark: Callable[[Pair], None]
) -> None:
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    without_spark(on_disk)
    on_disk.step()
    flow.cut(name="good")
    on_disk.step()
    on_disk.missing[b.checkpoint] = 3
    plan = flow.rollback("good")
    assert "b: 3 input files are missing." in str(plan)
    with pytest.raises(RequestError, match="no query was changed") as raised:
        plan.apply()
    assert raised.value.error_id == REFUSED
    assert "--allow-missing-input" in str(raised.value)
    assert (a.epoch, b.epoch) == (1, 1)
    flow.rollback("good", allow_missing_input=True).apply()
    assert (a.epoch, b.epoch) == (2, 2)


class Killed(BaseException):
    """The end of a process; no handler catches it."""


def crash_in(function: Callable[..., Any], at: int, counts: list[int], *, is_done: bool) -> Any:
    """Returns a function that crashes in one of its calls, before or after its effect."""

    def called(*given: Any) -> Any:
        counts[0] += 1
        is_last = counts[0] == at + 1
        if is_last and not is_done:
            raise Killed
        answer = function(*given)
        if is_last:
            raise Killed
        return answer

    return called


@pytest.mark.parametrize("is_done", [True, False])
def test_a_rollback_that_crashes_anywhere_is_repeated(
    tmp_path: Path,
    without_spark: Callable[[Pair], None],
    monkeypatch: pytest.MonkeyPatch,
    is_done: bool,
) -> None:
    for at in itertools.count():
        pair = Pair(str(tmp_path / str(at))).added()
        without_spark(pair)
        for _ in range(2):
            pair.step()
        pair.flow.cut(name="good")
        pair.step()
        counts = [0]
        with monkeypatch.context() as patched:
            for name in ("create", "delete"):
                method = crash_in(getattr(Directory, name), at, counts, is_done=is_done)
                patched.setattr(Directory, name, method)
            try:
                pair.flow.rollback("good").apply()
            except Killed:
                is_through = False
            else:
                is_through = True
        pair.flow.rollback("good").apply()
        assert {member.operation for member in pair.flow.rollback("good").members} == {"stays"}
        assert [published.epoch for published in cleancut.Channel(pair.a.channel).epochs()] == [
            0,
            1,
        ]
        assert pair.flow.cut().edges[0].consumed == 0
        assert pair.flow.in_flight()[0].epochs == (1,)
        if is_through:
            break
    assert at >= 8


def test_an_impossible_rollback_is_refused(on_disk: Pair) -> None:
    flow, a, b = on_disk.flow, on_disk.a, on_disk.b
    a.run()
    flow.cut(name="early")
    b.run()
    with pytest.raises(RequestError, match="b had not started at that cut"):
        flow.rollback("early")
    flow.cut(name="good")
    a.run()
    # A run that has not recorded its end.
    owner = {"runId": "r-1", "host": "h", "startedMs": 1_790_000_000_000}
    place = on_disk.home.place(a.checkpoint)
    place.create(f"cleancut/owners/{1:020d}.json", json.dumps(owner).encode())
    plan = flow.rollback("good")
    assert "run r-1 on h" in plan.running["a"]
    with pytest.raises(RequestError, match="have not recorded their end"):
        plan.apply()
    flow.remove("a")
    flow.add("a", f"{on_disk.home.prefix}elsewhere")
    with pytest.raises(RequestError, match="a has another checkpoint now"):
        flow.rollback("good")


def test_a_clone_has_the_in_flight_epochs_and_new_ids(
    on_disk: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, home = on_disk.flow, on_disk.home.prefix
    for _ in range(3):
        on_disk.step()
    (flying,) = Path(home).glob("channel/a/_epochs/*2.json")
    name = json.loads(flying.read_text())["files"][0]["name"]
    (Path(home) / "channel/a" / name).parent.mkdir(parents=True)
    (Path(home) / "channel/a" / name).write_bytes(b"rows")
    at = flow.cut(name="good")
    on_disk.step()
    made = []

    class ClonePlan:
        def __init__(self, checkpoint: str, into: str) -> None:
            self.names = Path(checkpoint).name, into
            self.notes: tuple[str, ...] = ()
            self.missing_files = 0

        def apply(self) -> None:
            name, into = self.names
            made.append(name)
            query = on_disk.a if name == "a" else on_disk.b
            twin = Query(f"{name}2", on_disk.home, query.reads, epoch=1)
            twin.epoch, twin.at, twin.cuts = 2, dict(query.cuts[2]), {}
            assert twin.checkpoint == into
            twin.commit()

    monkeypatch.setattr(
        acting, "clone", lambda location, into, _, **named: ClonePlan(location, into)
    )
    members = {name: f"{home}ckpt/{name}2" for name in "ab"}
    channels = {on_disk.a.channel: f"{home}channel/a2"}
    with pytest.raises(RequestError, match="have no new location"):
        flow.clone(f"{home}flow2", members, {}, at="good")
    with pytest.raises(RequestError, match="two of the locations are equal"):
        flow.clone(f"{home}flow2", members, {on_disk.a.channel: on_disk.a.channel}, at="good")
    plan = flow.clone(f"{home}flow2", members, channels, at="good")
    assert [(channel.sender, channel.epochs) for channel in plan.channels] == [("a", (1, 2))]
    # A channel without readers is in flight completely; a channel without a sender stays empty.
    shutil.copytree(Path(home, "channel/a"), Path(home, "channel/spare"))
    channels |= {f"{home}channel/{name}": f"{home}channel/{name}2" for name in ("spare", "none")}
    plan = flow.clone(f"{home}flow2", members, channels, at="good")
    epochs = [(channel.sender, channel.epochs) for channel in plan.channels]
    assert epochs == [("a", (1, 2)), ("a", (0, 1, 2))]
    others = Path(home, "channel/others")
    others.mkdir()
    others.joinpath("_query.json").write_text(
        '{"formatVersion": 1, "queryId": "id-z", "checkpoint": "/z"}'
    )
    with pytest.raises(RequestError, match="are no part of it"):
        flow.clone(f"{home}flow2", members, channels | {str(others): f"{home}x"}, at="good")
    assert isinstance(plan, DataflowPlan)
    plan.apply()
    flow.clone(f"{home}flow2", members, channels, at="good").apply()
    assert made == ["a", "b"]
    twin = Dataflow(f"{home}flow2")
    cut = twin.cut()
    assert cut.epochs == at.epochs
    assert [member.query_id for member in cut.members] == ["id-a2", "id-b2"]
    (edge,) = twin.in_flight()
    assert (edge.sender, edge.epochs, edge.rows) == ("a", (2,), 10)
    assert Path(home, "channel/a2", name).read_bytes() == b"rows"
    assert Path(home, "channel/spare2", name).read_bytes() == b"rows"
    owner = json.loads(Path(home, "channel/a2/_query.json").read_text())
    assert owner["queryId"] == "id-a2"
    # The original dataflow is unchanged.
    assert flow.cut().epochs == {"a": 3, "b": 3}


def test_the_commands_match_the_methods(on_disk: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    flow, place = on_disk.flow, on_disk.flow.location

    def said(act: str, *given: str, status: int = _cli.OK) -> str:
        assert _cli.main(["dataflow", place, act, *given]) == status
        printed = capsys.readouterr()
        assert bool(printed.err) == (status == _cli.REFUSED)
        assert printed.err.startswith("[CLEANCUT_" if printed.err else "")
        return printed.out + printed.err

    on_disk.step()
    on_disk.step()
    made = json.loads(said("cut", "--name", "good", "--no-wait", "--json"))
    assert made["epochs"] == {"a": 1, "b": 1}
    assert [member["name"] for member in json.loads(said("members", "--json"))] == ["a", "b"]
    for act in ("status", "edges", "cuts", "history", "show", "in-flight"):
        assert "a" in said(act)
        assert json.loads(said(act, "--json"))
    assert "is missing" in said("verify", status=_cli.DAMAGED)
    assert "is missing" in said("test-restore", "--at", "good", status=_cli.DAMAGED)
    for wrong in (["cut", "--timeout", "x"], ["run", "--poll", "x"], ["expire"]):
        assert "CLEANCUT_COMMAND_INVALID" in said(*wrong, status=_cli.REFUSED)
    on_disk.step()
    said("cut", "--timeout", "1s")
    assert "2" in said("savepoint", "create", "late")
    assert "late is dropped" in said("savepoint", "drop", "late")
    assert "there is no late" in said("savepoint", "drop", "late", status=_cli.REFUSED)
    on_disk.step()
    said("cut")
    assert "to expire: 4" in said("expire", "--retain-last", "1")
    assert "expired: 4" in said("expire", "--retain-last", "1", "--apply")
    assert [cut.names for cut in flow.cuts()] == [("good",), ()]
    plan = said("rollback", "--to", "good")
    assert "rollback" in plan
    assert "Run the command again with --apply" in plan
    other = f"{on_disk.home.prefix}ckpt/c"
    assert "c" in said("add", "c", other)
    assert "c is removed" in said("remove", "c")
    said("add", "c", other)
    assert json.loads(said("remove", "c", "--json")) == {"operation": "remove", "name": "c"}
    assert "there is no c" in said("remove", "c", status=_cli.REFUSED)
    assert said("rollback", "--to", "good") == plan
    assert "has moved to" in said("move-channel", on_disk.a.channel, f"{other}-moved")
    assert {edge.channel for edge in flow.edges()} == {f"file:{other}-moved"}
    assert json.loads(said("move-channel", f"{other}-moved", other, "--json"))["target"] == other
    assert _cli.main(["dataflow", f"{place}/none", "status"]) == _cli.REFUSED
    assert "CLEANCUT_DATAFLOW_NOT_FOUND" in capsys.readouterr().err


@dataclass
class NoSpark:
    """Replaces Spark in the operations of commands.

    Attributes:
        connections: the operation that each session was started for, and its settings.
        done: each operation with its locations.
        stopped: the number of sessions that were stopped.
    """

    connections: list[tuple[str, list[str]]] = field(default_factory=list)
    done: list[tuple[str, ...]] = field(default_factory=list)
    stopped: int = 0

    def start(self, parsed: Any) -> "NoSpark":
        self.connections.append((parsed.operation, parsed.conf))
        return self

    def stop(self) -> None:
        self.stopped += 1

    def act(self, name: str) -> Callable[..., Any]:
        def planned(*places: str, session: object, **_: bool) -> Any:
            assert session in (None, self)
            if session is None:
                raise error_of("CLEANCUT_SESSION_MISSING", act=name)
            # The last argument is a savepoint with a random name.
            return SimpleNamespace(
                notes=(),
                missing_files=0,
                apply=lambda: self.done.append((name, *places[:-1])),
            )

        return planned


def test_commands_start_spark_with_the_access_of_the_store(
    on_disk: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow, home = on_disk.flow, on_disk.home.prefix
    on_disk.step()
    on_disk.step()
    flow.cut(name="good")
    on_disk.step()
    flow.cut()
    spark = NoSpark()
    monkeypatch.setattr(acting, "rollback", spark.act("rollback"))
    monkeypatch.setattr(acting, "clone", spark.act("clone"))
    monkeypatch.setattr(_cli, "_session", spark.start)

    def said(act: str, *given: str, status: int = _cli.OK) -> str:
        assert _cli.main(["dataflow", flow.location, act, *given]) == status
        out, err = capsys.readouterr()
        return out or err

    places = ["--member", "a", f"{home}ckpt/a2", "--member", "b", f"{home}ckpt/b2"]
    channel = ["--channel", on_disk.a.channel, f"{home}channel/a2"]
    given = [f"{home}flow2", *places, *channel, "--at", "good"]
    plan = json.loads(said("clone", *given, "--json"))
    assert [member["operation"] for member in plan["members"]] == ["clone", "clone"]
    assert (plan["target"], plan["is_applied"]) == (f"{home}flow2", False)
    assert "Run the command again with --apply" in said("clone", *given)
    assert "no Spark session is running" in said("clone", *given)
    # A refused command starts no Spark.
    for wrong, why in (
        ([f"{home}flow2", *places], "have no new location"),
        ([*given, "--member", "a", f"{home}x"], "a has two targets"),
    ):
        assert why in said("clone", *wrong, "--apply", status=_cli.REFUSED)
    with pytest.raises(SystemExit):
        said("clone", f"{home}flow2")
    assert spark == NoSpark()
    reached = ["--endpoint", "http://s3:9000", "--requester-pays", "--conf", "x.y=z"]
    assert json.loads(said("clone", *given, *reached, "--apply", "--json"))["is_applied"]
    prefix = "spark.sql.streaming.stateStore.cleancut."
    options = [f"{prefix}s3.endpoint=http://s3:9000", f"{prefix}s3.requesterPays=true", "x.y=z"]
    assert (spark.connections, spark.stopped) == ([("clone", options)], 1)
    queries = on_disk.a, on_disk.b
    assert spark.done == [
        ("clone", query.checkpoint, f"{home}ckpt/{query.name}2") for query in queries
    ]
    assert [member.name for member in Dataflow(f"{home}flow2").members()] == ["a", "b"]
    said("rollback", "--to", "good", "--apply")
    assert (spark.connections[1:], spark.stopped) == ([("rollback", [])], 2)
    assert spark.done[2:] == [("rollback", query.checkpoint) for query in queries]


def test_the_documented_code_and_commands_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = Pair(str(tmp_path))
    pair.step()
    pair.step()
    (manifest,) = tmp_path.glob("channel/a/_epochs/*1.json")
    file = tmp_path / "channel/a" / json.loads(manifest.read_text())["files"][0]["name"]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 1000)
    (code,) = blocks("docs/concepts/dataflow.md", "python")
    given = {"location": pair.flow.location, "cleancut": cleancut}
    given |= {"orders_checkpoint": pair.a.checkpoint, "totals_checkpoint": pair.b.checkpoint}
    exec(code, dict(given))
    assert "before-the-change" in capsys.readouterr().out
    (typed,) = blocks("docs/concepts/dataflow.md", "sh")
    typed = typed.replace("LOCATION", pair.flow.location).replace("CHANNEL", pair.a.channel)
    for line in commands(typed):
        assert line[0] == "cleancut"
        assert _cli.main(line[1:]) == _cli.OK, line
    out = capsys.readouterr().out
    assert "rollback of" in out
    assert "clone of" in out


def _last(flow: Dataflow) -> int | None:
    """Returns the epoch of `a` in the last cut."""
    cuts = flow.cuts()
    return cuts[-1].epochs["a"] if cuts else None


def _until(is_so: Callable[[], object]) -> None:
    wait_until(is_so)
