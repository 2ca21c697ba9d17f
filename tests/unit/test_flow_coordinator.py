"""Creation of vectors: order, number of requests, and the remains of failures."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cleancut.dataflow._cuts.close_requests import RequestResponder
from cleancut.dataflow._cuts.coordinator import BACKOFF_S, Coordinator
from cleancut.dataflow._model import names
from cleancut.dataflow._model.names import Pin
from cleancut.dataflow._model.records import AnswerRecord, MemberRecord, VectorRecord
from cleancut.dataflow._store.log import Pins
from cleancut.dataflow._store.machinery import Item, Result
from cleancut.errors import CleancutError, FencedError, RetryableError, error_of
from cleancut.sinks._epoch_log.manifest import encoded
from cleancut.sinks._epoch_log.names import operation_name
from tests.support.flow_places import nothing, open_records_in, open_root_in
from tests.support.flow_world import FLOW, Query, Still, World


def pair() -> tuple[World, Query, Query]:
    world = World()
    return world, world.query("a"), world.query("b", "a")


def both(a: Query, b: Query, epochs: int = 1) -> None:
    """Commits epochs of a sender and of its reader, which consumes each immediately."""
    for _ in range(epochs):
        a.run()
        b.consume(a, a.epoch)
        b.run()


def counted(world: World) -> list[VectorRecord]:
    pins = Pins(world.store, open_root_in(world.bucket))
    return pins.counted(world.store.entries())


def test_a_vector_has_the_newest_cuts_that_fit_and_keeps_them() -> None:
    world, a, b = pair()
    both(a, b, 3)
    a.publish()
    b.consume(a, 3)
    b.run()
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 2, "b": 2}
    of_b = made.member("b")
    assert of_b is not None
    assert of_b.newest == 3
    assert of_b.why == "epoch 3 has consumed epoch 3 of a through source 0, and a is at epoch 2"
    (edge,) = made.edges
    assert (edge.sender, edge.receiver, edge.consumed, edge.sent) == ("a", "b", 2, 2)
    assert edge.attempt == a.sent[2]
    assert a.savepoints() == [of_b.pin] == b.savepoints()
    assert counted(world) == [made]
    # A vector equal to the last one is created only on request.
    coordinator = world.coordinator()
    assert coordinator.cut(1) == made
    again = coordinator.cut(1, force=True)
    assert again.number > made.number
    # A member that did not advance is kept by its existing savepoint.
    assert [member.pin for member in again.members] == [member.pin for member in made.members]
    a.commit()
    assert coordinator.cut(1).epochs == {"a": 3, "b": 3}


def test_hidden_epochs_exclude_a_cut_from_vectors() -> None:
    world, a, b = pair()
    both(a, b, 2)
    coordinator = world.coordinator()
    assert coordinator.cut(1).epochs == {"a": 1, "b": 1}
    # The sender is rolled back, and its channel does not know it yet.
    a.commit(act_source=0)
    coordinator.poll()
    made = coordinator.cut(1)
    assert made.epochs == {"a": 2, "b": 0}
    of_b = made.member("b")
    assert of_b is not None
    assert "a was rolled back to before epoch 1" in str(of_b.why)
    # Then the channel records it, and the cut of the rollback is deleted.
    a.hide_epochs(0)
    a.run()
    a.delete_cuts(0, 1, 2)
    assert coordinator.cut(1).epochs == {"a": 3, "b": 0}


def test_manually_hidden_epochs_do_not_count() -> None:
    for is_noted in (False, True):
        world, a, b = pair()
        both(a, b, 2)
        a.commit(act_source=0)
        if is_noted:
            records = open_records_in(world.bucket)(a.channel)
            assert records.create(operation_name(2), encoded({"source": 0}))
        else:
            a.hide_epochs(0)
        a.run()
        a.delete_cuts(0, 1, 2)
        made = world.coordinator().cut(1)
        assert made.epochs == {"a": 3, "b": 0}
        why = "a was rolled back to before epoch 1" if is_noted else "epoch 1 is hidden"
        assert why in str(made.member("b"))
        assert [edge.operations for edge in made.edges] == [((2, 0),) if is_noted else ()]


def test_a_republished_epoch_is_not_the_consumed_one() -> None:
    world, a, b = pair()
    both(a, b, 2)
    # As after a restore by other means: the same number, another attempt, and no record.
    key = f"channel/a/_epochs/{1:020d}.json"
    del world.bucket.data[key]
    a.epoch = 0
    a.publish()
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 1, "b": 0}
    assert "epoch 1 was published again since" in str(made.member("b"))


def test_an_expired_epoch_counts_as_consumed() -> None:
    world, a, b = pair()
    for _ in range(3):
        a.run()
    b.consume(a, 0)
    b.run()
    for epoch in (0, 1):
        del world.bucket.data[f"channel/a/_epochs/{epoch:020d}.json"]
    assert world.coordinator().cut(1).epochs == {"a": 2, "b": 0}
    # Retention never deletes an epoch in the middle.
    a.run()
    b.consume(a, 2)
    b.run()
    a.publish()
    a.publish()
    del world.bucket.data[f"channel/a/_epochs/{2:020d}.json"]
    a.hide_epochs(10)
    del world.bucket.data[f"channel/a/_epochs/{3:020d}.json"]
    world.bucket.data[f"channel/a/_epochs/{1:020d}.json"] = b"none"
    made = world.coordinator().cut(1)
    assert made.epochs["b"] == 0


def test_a_cut_deleted_during_its_savepoint_is_no_part_of_a_vector() -> None:
    world, a, b = pair()
    a.run()
    b.run()
    coordinator = world.coordinator()
    a.run()
    a.run()
    coordinator.poll()

    def delete_cut(operation: str, key: str) -> None:
        if operation == "create" and key.startswith("ckpt/a/cleancut/savepoints"):
            world.bucket.after = nothing
            a.delete_cuts(0, 1, 2)
            a.run()

    world.bucket.after = delete_cut
    made = coordinator.cut(1, wait=False)
    assert made.epochs == {"a": 3, "b": 0}
    assert len(a.savepoints()) == 1
    assert isinstance(world.machinery, Still)
    assert world.machinery.waited == [BACKOFF_S[0]]


def test_an_epoch_that_is_hidden_during_its_savepoint_is_in_no_vector() -> None:
    world, a, b = pair()
    both(a, b, 2)
    coordinator = world.coordinator()
    hidden: list[str] = []

    def hide_epoch(operation: str, key: str) -> None:
        # After the decision, the coordinator lists hidden epochs again.
        if (operation, key) == ("list", "channel/a/_taken_back") and not hidden:
            hidden.append(key)
            a.hide_epochs(0)

    world.bucket.before = hide_epoch
    made = coordinator.cut(1)
    world.bucket.before = nothing
    assert hidden
    assert made.epochs == {"a": 1, "b": 0}
    assert len(b.savepoints()) == 1


def test_a_coordinator_that_was_followed_expires_nothing() -> None:
    world, a, _ = pair()
    coordinator = world.coordinator()
    for _ in range(3):
        a.run()
        coordinator.cut(1)
    before = counted(world)
    world.coordinator()
    with pytest.raises(FencedError):
        coordinator.expire(1)
    assert counted(world) == before


def test_savepoints_of_another_dataflow_remain() -> None:
    world, a, b = pair()
    both(a, b)
    made = world.coordinator().cut(1)
    pin = Pin.parse(str(made.members[0].pin))
    assert pin is not None
    names_kept = []
    for flow in ("0" * len(pin.flow), pin.flow):
        name = str(replace(pin, number=77, flow=flow))
        data = world.bucket.data[f"ckpt/a/cleancut/savepoints/{pin}.cut"]
        world.bucket.data[f"ckpt/a/cleancut/savepoints/{name}.cut"] = data
        names_kept.append(name)
    world.coordinator()
    assert names_kept[0] in a.savepoints()
    assert names_kept[1] not in a.savepoints()


def test_a_coordinator_without_a_vector_retries_a_limited_number_of_times() -> None:
    world, a, b = pair()
    a.publish()
    b.consume(a, 0)
    b.run()
    coordinator = world.coordinator()
    with pytest.raises(RetryableError, match="a is at its beginning") as raised:
        coordinator.cut(1)
    assert raised.value.error_id == "CLEANCUT_DATAFLOW_INCONSISTENT"
    assert isinstance(world.machinery, Still)
    assert world.machinery.waited == list(BACKOFF_S)
    assert (a.savepoints(), b.savepoints(), counted(world)) == ([], [], [])
    a.commit()
    assert coordinator.cut(1).epochs == {"a": 0, "b": 0}


def test_a_dataflow_without_members_refuses() -> None:
    world = World()
    with pytest.raises(CleancutError) as raised:
        world.coordinator()
    assert raised.value.error_id == "CLEANCUT_DATAFLOW_NOT_FOUND"
    world.store.flow_id(create=True)
    with pytest.raises(CleancutError, match="it has no members") as raised:
        world.coordinator().cut(1)
    assert raised.value.error_id == "CLEANCUT_DATAFLOW_REFUSED"


def test_a_query_that_has_not_begun_is_in_the_vector_as_such() -> None:
    world, a, _ = pair()
    a.run()
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 0, "b": -1}
    of_b = made.member("b")
    assert of_b is not None
    assert (of_b.pin, of_b.token) == (None, "")


def test_older_cuts_are_read_only_if_required() -> None:
    world, a, b = pair()
    a.run()
    b.run()
    for _ in range(50):
        a.publish()
        b.consume(a, a.epoch)
        b.run()
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 0, "b": 0}
    assert made.member("b") is not None


def test_a_receiver_falls_back_to_the_savepoint_of_the_last_vector() -> None:
    world, a, b = pair()
    both(a, b)
    first = world.coordinator().cut(1)
    a.publish()
    for _ in range(5):
        b.consume(a, 1)
        b.run()
    b.delete_cuts(0, 1)
    b.run()
    coordinator = world.coordinator()
    made = coordinator.cut(1)
    assert made == first
    a.run()
    made = coordinator.cut(1)
    assert made.epochs == {"a": 2, "b": b.epoch}


def test_a_second_coordinator_fences_the_first() -> None:
    world, a, _ = pair()
    a.run()
    first = world.coordinator()
    first.cut(1)
    a.run()
    second = world.coordinator()
    with pytest.raises(FencedError) as raised:
        first.cut(1)
    assert raised.value.error_id == "CLEANCUT_DATAFLOW_FENCED"
    with pytest.raises(FencedError):
        first.poll()
    # The savepoints that it had created for its vector are deleted again.
    assert len(a.savepoints()) == 1
    assert second.cut(1).epochs == {"a": 1, "b": -1}
    assert [vector.epochs["a"] for vector in counted(world)] == [0, 1]
    # Nor does it return the previous vector, which the other coordinator may expire.
    third = world.coordinator()
    assert third.cut(1).epochs["a"] == 1
    world.coordinator().end()
    with pytest.raises(FencedError):
        third.cut(1, wait=False)
    second.end()
    listed = world.store.objects.list(names.COORDINATORS)
    assert names.generations(listed) == (4, True)


@pytest.mark.parametrize("at", range(40))
@pytest.mark.parametrize("is_done", [True, False])
def test_the_next_coordinator_removes_the_remains_of_a_crash(at: int, is_done: bool) -> None:
    world, a, b = pair()
    both(a, b)
    before = world.coordinator().cut(1)
    both(a, b)

    class Killed(BaseException):
        pass

    count = 0

    def crash_in(*_: str) -> None:
        nonlocal count
        count += 1
        if count > at:
            raise Killed

    setattr(world.bucket, "after" if is_done else "before", crash_in)
    try:
        world.coordinator().cut(1)
    except Killed:
        pass
    finally:
        world.bucket.before = world.bucket.after = nothing
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 1, "b": 1}
    vectors = counted(world)
    assert vectors[0] == before
    assert vectors[-1] == made
    assert {*a.savepoints(), *b.savepoints()} == {
        member.pin for one in vectors for member in one.members
    }


def test_a_lost_response_is_resolved_by_reading_back() -> None:
    world, a, _ = pair()
    a.run()
    coordinator = world.coordinator()
    lost: set[str] = set()

    def losing(operation: str, key: str) -> None:
        kind = key.split("/")[-2]
        if operation == "create" and kind not in lost:
            lost.add(kind)
            raise error_of("CLEANCUT_OBJECT_STORE_UNAVAILABLE", operation=operation, target=key)

    world.bucket.after = losing
    made = coordinator.cut(1, wait=False)
    assert lost == {"savepoints", "vectors"}
    assert counted(world) == [made]
    world.bucket.after = nothing

    # If no response ever comes, nothing else is written in its place.
    def refusing(operation: str, key: str) -> None:
        if operation == "create" and "/vectors/" in key:
            raise error_of("CLEANCUT_OBJECT_STORE_UNAVAILABLE", operation=operation, target=key)

    for is_done in (True, False):
        a.run()
        coordinator.poll()
        setattr(world.bucket, "after" if is_done else "before", refusing)
        with pytest.raises(RetryableError):
            coordinator.cut(1, wait=False)
        a.run()
        coordinator.poll()
        world.bucket.before = world.bucket.after = nothing
        coordinator.cut(1, wait=False)
    vectors = counted(world)
    assert [vector.epochs["a"] for vector in vectors] == [0, 1, 2, 3, 4]
    assert [vector.number for vector in vectors] == list(range(made.number, made.number + 5))


def test_participants_close_their_epochs_and_others_delay_nothing() -> None:
    world, a, b = pair()
    a.run()
    b.run()
    answered = []

    def close() -> AnswerRecord:
        answered.append(a.run())
        return AnswerRecord(answered[-1], is_closing=True)

    attendant = RequestResponder(world.store, "a", close)
    attendant.begin()
    coordinator = world.coordinator()
    machinery = world.machinery
    assert isinstance(machinery, Still)
    waited = machinery.wait

    def wait(seconds: float) -> None:
        waited(seconds)
        attendant.scan()

    machinery.wait = wait  # type: ignore[method-assign]
    made = coordinator.cut(30)
    assert made.epochs == {"a": 1, "b": 0}
    assert (answered, made.not_closed) == ([1], {})
    # It answers each request once.
    assert not attendant.scan()
    # A member that does not answer delays one vector, and later ones do not wait for it.
    machinery.wait = waited  # type: ignore[method-assign]
    b.run()
    began = machinery.seconds
    made = coordinator.cut(30)
    assert machinery.seconds - began == pytest.approx(30, abs=1)
    assert made.epochs == {"a": 1, "b": 1}
    assert made.not_closed == {"a": "it has not answered the request to close its epoch"}
    began = machinery.seconds
    b.run()
    assert coordinator.cut(30).epochs == {"a": 1, "b": 2}
    assert machinery.seconds - began < 1
    attendant.scan()
    attendant.end()
    b.run()
    assert coordinator.cut(30).not_closed == {}
    # Only the last requests and answers are kept.
    assert len(world.store.objects.list(names.REQUESTS)) <= 2


def test_vectors_expire_with_the_savepoints_that_they_alone_need() -> None:
    world, a, b = pair()
    coordinator = world.coordinator()
    b.run()
    numbers = []
    for _ in range(6):
        a.run()
        numbers.append(coordinator.cut(1).number)
    assert world.store.name_vector("good", numbers[1])
    gone = coordinator.expire(2)
    assert [vector.number for vector in gone] == [numbers[0], numbers[2], numbers[3]]
    assert [vector.number for vector in counted(world)] == [numbers[1], numbers[4], numbers[5]]
    assert len(a.savepoints()) == 3
    # The savepoint of `b` is that of the first vector, and all vectors need it.
    assert len(b.savepoints()) == 1
    assert coordinator.expire(2) == []


@dataclass
class Rounds(Still):
    """Counts the requests of the longest chain in which each request waits for the previous one."""

    rounds: int = 0

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        began, ended, results = self.rounds, [self.rounds], []
        for item in items:
            self.rounds = began
            results.append(function(item))
            ended.append(self.rounds)
        self.rounds = max(ended)
        return results


def ten(rows: int = 1) -> tuple[World, Coordinator]:
    """Creates ten members in a chain with a loop."""
    world = World(machinery=Rounds())
    chain = [world.query(f"q{n}", f"q{(n - 1) % 10}") for n in range(10)]
    coordinator = world.coordinator()
    for round_ in range(3):
        for n, query in enumerate(chain):
            sender = chain[n - 1]
            if sender.epoch >= 0:
                query.consume(sender, min(sender.epoch, round_))
            query.run(rows)
    coordinator.poll()
    world.bucket.requests.clear()
    return world, coordinator


def test_the_requests_of_a_vector_depend_on_members_and_edges_alone() -> None:
    counts = []
    for rows in (1, 1_000_000):
        world, coordinator = ten(rows)
        coordinator.cut(1, wait=False)
        counts.append(Counter(operation for operation, _ in world.bucket.requests))
    # One savepoint and one read per member, two reads per channel, and the vector.
    assert counts[0] == counts[1] == {"create": 10 + 1, "list": 10 + 2 * 10}
    world, coordinator = ten()
    coordinator.poll()
    # Without new cuts: one listing per member, and three for the dataflow.
    assert Counter(operation for operation, _ in world.bucket.requests) == {"list": 10 + 3}


def test_a_vector_of_ten_is_made_in_three_rounds_of_requests() -> None:
    world, coordinator = ten()
    machinery = world.machinery
    assert isinstance(machinery, Rounds)

    def count(*_: str) -> None:
        machinery.rounds += 1

    world.bucket.before = count
    machinery.rounds = 0
    made = coordinator.cut(1, wait=False)
    assert set(made.epochs.values()) == {2}
    assert machinery.rounds == 3


def test_a_corrupted_entry_is_named_and_one_of_a_later_release_refused() -> None:
    world, a, _ = pair()
    a.run()
    made = world.coordinator().cut(1)
    key = f"{FLOW.removeprefix('mem:')}/{names.vector_name(made.number)}"
    whole = world.bucket.data[key]
    for changed, error_id in [
        (whole[:-9], "CLEANCUT_DATAFLOW_CORRUPTED"),
        (whole.replace(b'"number":', b'"numbre":'), "CLEANCUT_DATAFLOW_CORRUPTED"),
        (whole.replace(b'"kind":"vector"', b'"kind":"other"'), "CLEANCUT_DATAFLOW_CORRUPTED"),
        (whole.replace(b'"formatVersion":1', b'"formatVersion":2'), "CLEANCUT_FORMAT_UNKNOWN"),
    ]:
        world.bucket.data[key] = changed
        with pytest.raises(CleancutError, match=names.vector_name(made.number)) as raised:
            world.store.entries()
        assert raised.value.error_id == error_id
    assert open_records_in(world.bucket)("mem:channel/a").names("_epochs")


def test_a_channel_of_unknown_sender_limits_its_readers() -> None:
    """If the read of its owner failed, the channel was taken for one from outside the dataflow."""
    world, a, b = pair()
    a.run()
    b.consume(a, 0)
    b.run()
    a.publish()
    b.consume(a, 1)
    b.run()

    def losing(operation: str, key: str) -> None:
        if key.endswith("_query.json"):
            raise error_of("CLEANCUT_OBJECT_STORE_UNAVAILABLE", operation=operation, target=key)

    world.bucket.before = losing
    with pytest.raises(RetryableError, match="CLEANCUT_OBJECT_STORE_UNAVAILABLE"):
        world.coordinator().cut(1)
    world.bucket.before = nothing
    assert world.coordinator().cut(1).epochs == {"a": 0, "b": 0}


def test_records_of_earlier_coordinators_are_deleted() -> None:
    world, a, _ = pair()
    a.run()
    for _ in range(30):
        coordinator = world.coordinator()
        coordinator.end()
    assert len(world.store.log()) == 30
    assert isinstance(world.machinery, Still)
    world.machinery.seconds += 3700
    coordinator = world.coordinator()
    made = coordinator.cut(1)
    assert world.store.log() == [31, 32] == [made.number - 1, made.number]
    listed = world.store.objects.list(names.COORDINATORS)
    assert names.generations(listed) == (31, False)
    assert len(listed) == 1 + 2 * 8
    a.run()
    assert world.coordinator().cut(1).number == 34


VECTORS = Path(__file__).parents[1] / "vectors" / "dataflow"


def test_records_are_read_and_written_as_the_vectors_have_them() -> None:
    def stored(name: str) -> bytes:
        fields = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
        return (json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n").encode()

    vector = VectorRecord.decode(stored("vector"), "p", 7)
    assert vector.encode() == stored("vector")
    assert vector.epochs == {"orders": 41, "report": -1, "totals": 17}
    assert [edge.lineage.counts(epoch) for edge in vector.edges[:1] for epoch in (35, 36, 40)] == [
        True,
        False,
        True,
    ]
    begin = VectorRecord.decode(stored("begin"), "p", 6)
    assert (begin.is_begin, begin.encode()) == (True, stored("begin"))
    assert MemberRecord.decode(stored("member"), "p").encode() == stored("member")
    assert AnswerRecord.decode(stored("answer"), "p").encode() == stored("answer")
    assert str(names.Pin.parse(vector.members[0].pin or "")) == vector.members[0].pin
    assert names.Pin.parse("flow-x") is None
    world = World()
    world.bucket.data["flow/dataflow.json"] = stored("note")
    assert world.store.flow_id() == "5320dff0"
    world.bucket.data["flow/dataflow.json"] = stored("note").replace(b"cleancut-", b"other-")
    with pytest.raises(CleancutError, match="its format is other-dataflow"):
        world.store.flow_id()
