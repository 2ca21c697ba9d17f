"""How vectors are made: in what order, by how many requests, and what failures leave."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cleancut.dataflow._cuts.closing import Attendant
from cleancut.dataflow._cuts.coordinator import BACKOFF_S, Coordinator
from cleancut.dataflow._model import names
from cleancut.dataflow._model.records import AnswerRecord, MemberRecord, VectorRecord
from cleancut.dataflow._store.log import Pins
from cleancut.dataflow._store.machinery import Item, Result
from cleancut.errors import CleancutError, FencedError, RetryableError, error_of
from cleancut.sinks._epoch_log.manifest import encoded
from cleancut.sinks._epoch_log.names import act_name
from tests.support.flow_places import nothing, open_records_in, open_root_in
from tests.support.flow_world import FLOW, Query, Still, World


def pair() -> tuple[World, Query, Query]:
    world = World()
    return world, world.query("a"), world.query("b", "a")


def both(a: Query, b: Query, epochs: int = 1) -> None:
    """Epochs of a sender and its reader, which has consumed each at once."""
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
    # The same again is no new one, but where it is asked for.
    coordinator = world.coordinator()
    assert coordinator.cut(1) == made
    again = coordinator.cut(1, anew=True)
    assert again.number > made.number
    # What did not move is kept by the savepoint that there is.
    assert [of.pin for of in again.members] == [of.pin for of in made.members]
    a.commit()
    assert coordinator.cut(1).epochs == {"a": 3, "b": 3}


def test_what_was_taken_back_keeps_a_cut_out_of_vectors() -> None:
    world, a, b = pair()
    both(a, b, 2)
    coordinator = world.coordinator()
    assert coordinator.cut(1).epochs == {"a": 1, "b": 1}
    # The sender goes back, and its channel does not know it yet.
    a.commit(act_source=0)
    coordinator.poll()
    made = coordinator.cut(1)
    assert made.epochs == {"a": 2, "b": 0}
    of_b = made.member("b")
    assert of_b is not None
    assert "a has gone back behind epoch 1" in str(of_b.why)
    # Then it does, and the act's cut is swept.
    a.take_back(0)
    a.run()
    a.sweep(0, 1, 2)
    assert coordinator.cut(1).epochs == {"a": 3, "b": 0}


def test_what_was_hidden_by_hand_or_by_an_act_that_is_forgotten_does_not_count() -> None:
    for is_noted in (False, True):
        world, a, b = pair()
        both(a, b, 2)
        a.commit(act_source=0)
        if is_noted:
            records = open_records_in(world.bucket)(a.channel)
            assert records.create(act_name(2), encoded({"source": 0}))
        else:
            a.take_back(0)
        a.run()
        a.sweep(0, 1, 2)
        made = world.coordinator().cut(1)
        assert made.epochs == {"a": 3, "b": 0}
        why = "a has gone back behind epoch 1" if is_noted else "epoch 1 was taken back"
        assert why in str(made.member("b"))
        assert [edge.acts for edge in made.edges] == [((2, 0),) if is_noted else ()]


def test_an_epoch_that_was_published_anew_is_not_what_was_consumed() -> None:
    world, a, b = pair()
    both(a, b, 2)
    # As after a restore by other means: the same number, another attempt, nothing remembered.
    key = f"channel/a/_epochs/{1:020d}.json"
    del world.bucket.data[key]
    a.epoch = 0
    a.publish()
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 1, "b": 0}
    assert "epoch 1 was published anew since" in str(made.member("b"))


def test_what_retention_has_deleted_was_consumed_all_the_same() -> None:
    world, a, b = pair()
    for _ in range(3):
        a.run()
    b.consume(a, 0)
    b.run()
    for epoch in (0, 1):
        del world.bucket.data[f"channel/a/_epochs/{epoch:020d}.json"]
    assert world.coordinator().cut(1).epochs == {"a": 2, "b": 0}
    # In the middle nothing is ever deleted.
    a.run()
    b.consume(a, 2)
    b.run()
    a.publish()
    a.publish()
    del world.bucket.data[f"channel/a/_epochs/{2:020d}.json"]
    a.take_back(10)
    del world.bucket.data[f"channel/a/_epochs/{3:020d}.json"]
    world.bucket.data[f"channel/a/_epochs/{1:020d}.json"] = b"none"
    made = world.coordinator().cut(1)
    assert made.epochs["b"] == 0


def test_a_cut_that_is_swept_between_savepoint_and_look_makes_no_vector() -> None:
    world, a, b = pair()
    a.run()
    b.run()
    coordinator = world.coordinator()
    a.run()
    a.run()
    coordinator.poll()

    def sweeping(operation: str, key: str) -> None:
        if operation == "create" and key.startswith("ckpt/a/cleancut/savepoints"):
            world.bucket.after = nothing
            a.sweep(0, 1, 2)
            a.run()

    world.bucket.after = sweeping
    made = coordinator.cut(1, wait=False)
    assert made.epochs == {"a": 3, "b": 0}
    assert len(a.savepoints()) == 1
    assert isinstance(world.machinery, Still)
    assert world.machinery.waited == [BACKOFF_S[0]]


def test_who_finds_no_vector_tries_as_often_as_it_says_and_gives_up() -> None:
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


def test_older_cuts_are_read_as_far_as_it_takes_them() -> None:
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


def test_a_receiver_whose_old_cuts_are_swept_has_what_the_last_vector_keeps() -> None:
    world, a, b = pair()
    both(a, b)
    first = world.coordinator().cut(1)
    a.publish()
    for _ in range(5):
        b.consume(a, 1)
        b.run()
    b.sweep(0, 1)
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
    # What it had kept for its vector is gone again.
    assert len(a.savepoints()) == 1
    assert second.cut(1).epochs == {"a": 1, "b": -1}
    assert [of.epochs["a"] for of in counted(world)] == [0, 1]
    # Nor is it given what was the last one before, which the other may give up.
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
def test_a_coordinator_that_dies_anywhere_leaves_what_the_next_one_removes(
    at: int, is_done: bool
) -> None:
    world, a, b = pair()
    both(a, b)
    before = world.coordinator().cut(1)
    both(a, b)

    class Killed(BaseException):
        pass

    count = 0

    def dying(*_: str) -> None:
        nonlocal count
        count += 1
        if count > at:
            raise Killed

    setattr(world.bucket, "after" if is_done else "before", dying)
    try:
        world.coordinator().cut(1)
    except Killed:
        pass
    finally:
        world.bucket.before = world.bucket.after = nothing
    made = world.coordinator().cut(1)
    assert made.epochs == {"a": 1, "b": 1}
    found = counted(world)
    assert found[0] == before
    assert found[-1] == made
    assert {*a.savepoints(), *b.savepoints()} == {of.pin for one in found for of in one.members}


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
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

    # Where it never comes, nothing else is written in its place.
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
    found = counted(world)
    assert [of.epochs["a"] for of in found] == [0, 1, 2, 3, 4]
    assert [of.number for of in found] == list(range(made.number, made.number + 5))


def test_members_that_attend_close_their_epochs_and_others_are_not_waited_for() -> None:
    world, a, b = pair()
    a.run()
    b.run()
    answered = []

    def close() -> AnswerRecord:
        answered.append(a.run())
        return AnswerRecord(answered[-1], is_closing=True)

    attendant = Attendant(world.store, "a", close)
    attendant.begin()
    coordinator = world.coordinator()
    machinery = world.machinery
    assert isinstance(machinery, Still)
    waited = machinery.wait

    def wait(seconds: float) -> None:
        waited(seconds)
        attendant.look()

    machinery.wait = wait  # type: ignore[method-assign]
    made = coordinator.cut(30)
    assert made.epochs == {"a": 1, "b": 0}
    assert (answered, made.asked) == ([1], {})
    # It answers each request once.
    assert not attendant.look()
    # Who does not answer makes a vector late once, and is not waited for again.
    machinery.wait = waited  # type: ignore[method-assign]
    b.run()
    began = machinery.seconds
    made = coordinator.cut(30)
    assert machinery.seconds - began == pytest.approx(30, abs=1)
    assert made.epochs == {"a": 1, "b": 1}
    assert made.asked == {"a": "it has not answered the request to close its epoch"}
    began = machinery.seconds
    b.run()
    assert coordinator.cut(30).epochs == {"a": 1, "b": 2}
    assert machinery.seconds - began < 1
    attendant.look()
    attendant.end()
    b.run()
    assert coordinator.cut(30).asked == {}
    # Few requests and answers stay.
    assert len(world.store.objects.list(names.REQUESTS)) <= 2


def test_vectors_are_given_up_with_what_they_alone_keep() -> None:
    world, a, b = pair()
    coordinator = world.coordinator()
    b.run()
    numbers = []
    for _ in range(6):
        a.run()
        numbers.append(coordinator.cut(1).number)
    assert world.store.name_vector("good", numbers[1])
    gone = coordinator.expire(2)
    assert [of.number for of in gone] == [numbers[0], numbers[2], numbers[3]]
    assert [of.number for of in counted(world)] == [numbers[1], numbers[4], numbers[5]]
    assert len(a.savepoints()) == 3
    # That of `b` is the first one's, and all need it.
    assert len(b.savepoints()) == 1
    assert coordinator.expire(2) == []


@dataclass
class Rounds(Still):
    """Counts the requests of the longest sequence in which each one waits for the one before it."""

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
    """Ten members in a chain with a loop."""
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
    world.bucket.asked.clear()
    return world, coordinator


def test_the_requests_of_a_vector_depend_on_members_and_edges_alone() -> None:
    counts = []
    for rows in (1, 1_000_000):
        world, coordinator = ten(rows)
        coordinator.cut(1, wait=False)
        counts.append(Counter(operation for operation, _ in world.bucket.asked))
    # A savepoint and a look for each member, two looks for each channel, and the vector.
    assert counts[0] == counts[1] == {"create": 10 + 1, "list": 10 + 2 * 10}
    world, coordinator = ten()
    coordinator.poll()
    # Nothing new is a listing for each member, and three for the dataflow.
    assert Counter(operation for operation, _ in world.bucket.asked) == {"list": 10 + 3}


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


def test_a_damaged_entry_is_named_and_one_of_a_later_release_refused() -> None:
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


def test_a_channel_of_which_nobody_knows_who_sends_binds_its_readers() -> None:
    """It was taken for one from outside where the look for its owner had failed."""
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


def test_what_early_coordinators_have_left_is_forgotten() -> None:
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
