"""Consistent vectors compared with all vectors: closed under maximum, and the newest is found."""

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleancut.dataflow._model.facts import Lineage, consumed_in, place_of
from cleancut.dataflow._model.vector import (
    NOT_BEGUN,
    Candidate,
    History,
    Received,
    Vector,
    newest,
)
from tests.support.draws import draws
from tests.support.flow_places import offsets_with


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Generates histories of queries: consumed positions never decrease; with loops and gaps."""
    names = "abcd"[: draw(st.integers(1, 4))]
    edges = draw(
        st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=6, unique=True)
    )
    histories: dict[str, list[Candidate]] = {}
    for name in names:
        epochs = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=5)))
        at = dict.fromkeys(range(len(edges)), NOT_BEGUN)
        cuts = []
        for epoch in epochs:
            received = []
            for number, (sender, receiver) in enumerate(edges):
                if receiver != name:
                    continue
                at[number] = draw(st.integers(at[number], 10))
                received.append(Received(str(number), f"of-{sender}", sender, at[number]))
            cuts.append(Candidate(epoch, tuple(received)))
        histories[name] = cuts
    return histories


def is_consistent(history: History, vector: Vector) -> bool:
    """Whether no member of a vector is ahead of a sender."""
    received = [
        each
        for member, cuts in history.items()
        for cut in cuts
        if cut.epoch == vector[member]
        for each in cut.received
    ]
    return all(each.epoch <= vector.get(str(each.sender), each.epoch) for each in received)


def all_consistent(history: History) -> Iterator[Vector]:
    epochs = [[cut.epoch for cut in cuts] for cuts in history.values()]
    for chosen in itertools.product(*epochs):
        vector = dict(zip(history, chosen, strict=True))
        if is_consistent(history, vector):
            yield vector


@given(histories())
def test_consistent_vectors_are_closed_under_maximum(history: History) -> None:
    vectors = list(all_consistent(history))
    for one, other in itertools.combinations(vectors, 2):
        assert is_consistent(history, {name: max(one[name], other[name]) for name in history})


@given(histories())
def test_the_newest_is_the_maximum_of_all(history: History) -> None:
    vectors, outcome = list(all_consistent(history)), newest(history)
    if not vectors:
        assert outcome.vector is None
        assert outcome.exhausted
        return
    assert outcome.vector == {name: max(vector[name] for vector in vectors) for name in history}
    # A member below its last cut has the edge as reason, and the reason is true.
    older = {name for name in history if outcome.vector[name] < history[name][-1].epoch}
    assert set(outcome.why) == older
    for name, why in outcome.why.items():
        sender = why.received.sender
        assert sender is not None
        assert why.received.epoch > why.sender_epoch == outcome.vector[sender]
        assert why.epoch > outcome.vector[name]


def test_a_receiver_that_is_ahead_is_lowered_with_its_own_receivers() -> None:
    def cut(epoch: int, *received: Received) -> Candidate:
        return Candidate(epoch, received)

    def read(channel: str, sender: str | None, epoch: int) -> Received:
        return Received("0", channel, sender, epoch)

    history = {
        "a": [cut(1), cut(2)],
        "b": [cut(5, read("x", "a", 1)), cut(6, read("x", "a", 3))],
        "c": [cut(8, read("y", "b", 5)), cut(9, read("y", "b", 6))],
        "d": [cut(4, read("z", None, 99))],
    }
    outcome = newest(history)
    assert outcome.vector == {"a": 2, "b": 5, "c": 8, "d": 4}
    assert str(outcome.why["b"]) == (
        "epoch 6 has consumed epoch 3 of a through source 0, and a is at epoch 2"
    )
    assert "epoch 9 has consumed epoch 6 of b" in str(outcome.why["c"])


def test_a_loop_is_lowered_repeatedly() -> None:
    """Each member lowers the other; a loop with a marker would wait for itself."""
    head = [Candidate(e, (Received("1", "back", "body", e - 1),)) for e in range(10)]
    body = [Candidate(e, (Received("0", "forth", "head", e + 1),)) for e in range(10)]
    outcome = newest({"head": head, "body": body})
    assert outcome.vector == {"head": 9, "body": 8}
    # The body lacks its last cuts: only a cut of the head that consumed none of them is consistent.
    outcome = newest({"head": head, "body": body[:5]})
    assert outcome.vector == {"head": 5, "body": 4}


def test_a_query_that_has_not_begun_has_sent_nothing() -> None:
    none = [Candidate(NOT_BEGUN)]
    reading = [Candidate(3, (Received("0", "x", "a", 0),))]
    assert newest({"a": none, "b": [Candidate(2), *reading]}).vector == {"a": -1, "b": 2}
    outcome = newest({"a": none, "b": reading})
    assert outcome.vector is None
    assert "a is at its beginning" in str(outcome.exhausted["b"])


@pytest.mark.parametrize("seed", range(draws(20)))
def test_rolled_back_epochs_do_not_count(seed: int) -> None:
    """Compares with a replayed query, whose state is a list that an operation truncates."""
    draw = random.Random(seed)
    state: dict[int, list[int]] = {}
    operations, now, epoch = [], list[int](), -1
    for _ in range(30):
        epoch += 1
        if state and draw.random() < 0.25:
            source = draw.choice(sorted(state))
            operations.append((epoch, source))
            now = [*state[source], epoch]
        else:
            now = [*now, epoch]
        state[epoch] = list(now)
    for until, epochs in state.items():
        lineage = Lineage(until, tuple(operations))
        assert [epoch for epoch in range(until + 1) if lineage.counts(epoch)] == epochs


def test_offsets_of_channels_are_distinguished_from_others() -> None:
    attempt = "0123456789abcdef" * 2
    consumed = {"0": ("file:/c", 7, attempt), "2": ("file:///d/", -1, None)}
    positions = list(consumed_in(offsets_with(4, consumed)))
    assert [
        (position.source, position.channel, position.epoch, position.attempt)
        for position in positions
    ] == [
        ("0", "file:/c", 7, attempt),
        ("2", "file:/d", -1, None),
    ]
    for other in ('{"logOffset":7}', "41", '{"channel":"c","epoch":"7","attempt":null}', "{", "[]"):
        assert list(consumed_in(f"v1\n{{}}\n{other}\n-")) == []


def test_locations_have_one_form() -> None:
    assert place_of("/a/b/") == place_of("file:///a/b") == place_of("file:/a/b") == "file:/a/b"
    assert place_of("s3a://b/p/") == place_of("s3://b/p") == "s3://b/p"


def test_an_operation_of_several_records_has_the_earliest_source() -> None:
    lineage = Lineage(9, ((5, 3),))
    assert lineage.also([(5, 1)]).operations == ((5, 1),)
    assert lineage.also([(5, 4), (8, 7)]).operations == ((5, 3), (8, 7))


def test_the_lineage_of_a_cut_has_no_later_operations() -> None:
    lineage = Lineage(9, ((5, 3), (8, 6)))
    assert lineage.at(6) == Lineage(6, ((5, 3),))
    assert lineage.at(8) == Lineage(8, ((5, 3), (8, 6)))
