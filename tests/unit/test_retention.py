"""Retention of `EpochFiles`: random operations against a model, crashes, and concurrency."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleancut import CorruptedError, RequestError
from cleancut.errors import CleancutError
from cleancut.sinks import EpochFiles
from cleancut.sinks._epoch_log.manifest import Manifest, Owner
from cleancut.sinks._epoch_log.names import (
    OWNER,
    Attempt,
    attempts,
    expiry_name,
    expiry_numbers,
    hidden_attempts,
    manifest_name,
)
from cleancut.sinks._epoch_log.retention import (
    ExpiryRecord,
    Kept,
    collect,
    expire,
    expired_until,
    published_epochs,
)
from cleancut.sinks._epoch_log.rollback import forget, hide, show
from cleancut.sinks._files.publisher import Output, Publisher
from tests.support.draws import draws
from tests.support.seeds import fixed
from tests.unit.sink_records import BATCH, MANIFEST, Directory, manifest

SEED = fixed(31)


class Place(Directory):
    """A directory in memory that runs another process or crashes between two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.before: Callable[[int], None] = lambda step: None

    def _step(self) -> None:
        self.steps += 1
        self.before(self.steps)

    def read(self, name: str) -> bytes | None:
        self._step()
        return super().read(name)

    def names(self, directory: str) -> list[str]:
        self._step()
        return super().names(directory)

    def create(self, name: str, body: bytes) -> bool:
        self._step()
        return super().create(name, body)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)

    def remove(self, directory: str) -> None:
        self._step()
        super().remove(directory)

    def publish(self, epoch: int, token: str) -> Manifest:
        made = manifest(epoch, token)
        self.present[manifest_name(epoch)] = made.encode()
        self.present |= {file.name: b"" for file in made.files}
        return made

    def seen(self) -> dict[int, Attempt]:
        """Returns the epochs that readers see, and checks that all of their files exist."""
        there = self.present
        attempts_by_epoch = {}
        for published in published_epochs(self):
            names = {file.name for file in published.files}
            assert names <= set(there), f"files of {published.epoch} are gone"
            attempts_by_epoch[published.epoch] = published.attempt
        return attempts_by_epoch


class Model:
    """The epochs that readers should see."""

    def __init__(self) -> None:
        self.shown: dict[int, Attempt] = {}
        self.hidden: dict[int, Attempt] = {}

    def hide(self, after: int) -> None:
        gone = {epoch: attempt for epoch, attempt in self.shown.items() if epoch > after}
        self.hidden |= gone
        self.shown = {epoch: attempt for epoch, attempt in self.shown.items() if epoch not in gone}

    def show(self, counts: Callable[[int], bool]) -> None:
        again = {epoch: attempt for epoch, attempt in self.hidden.items() if counts(epoch)}
        self.shown |= again
        self.hidden = {
            epoch: attempt for epoch, attempt in self.hidden.items() if epoch not in again
        }

    def expire(self, keep: int) -> None:
        last = max(sorted(self.shown)[:-keep], default=-1)
        self.shown = {epoch: attempt for epoch, attempt in self.shown.items() if epoch > last}
        self.hidden = {epoch: attempt for epoch, attempt in self.hidden.items() if epoch > last}


Operation = Callable[["History"], None]


def random_operation(kind: str, draw: random.Random) -> Operation:
    """Returns a random operation on a sink and on its model."""
    keep, at = draw.randrange(1, 6), draw.random()

    def act(history: "History") -> None:
        place, model = history.place, history.model
        epoch = int(at * (history.next + 1)) - 1
        match kind:
            case "collect":
                collect(place, 0)
            case "expire":
                expire(place, Kept(keep, None))
                model.expire(keep)
            case "hide":
                hide(place, epoch)
                model.hide(epoch)
            case "show":
                show(place, lambda number: number <= epoch)
                model.show(lambda number: number <= epoch)
            case "forget":
                forget(place)
                model.hidden.clear()

    return act


KEEPING = ["expire", "collect"]
GOING_BACK = ["hide", "show", "forget"]


class History:
    """Random operations on a sink, and their expected results."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)
        self.place = Place()
        self.model = Model()
        self.next = 0
        self.done: list[str] = []

    def publish(self) -> None:
        for _ in range(self.draw.randrange(1, 5)):
            made = self.place.publish(self.next, self.draw.choice("abcdef"))
            self.model.shown[self.next] = made.attempt
            # Operations use up numbers, too.
            self.next += self.draw.choice([1, 1, 1, 2])

    def act(self) -> None:
        self.done.append(self.draw.choice([*KEEPING, *GOING_BACK]))
        random_operation(self.done[-1], self.draw)(self)

    def grown(self) -> "History":
        for _ in range(8):
            self.publish()
            self.act()
        self.publish()
        return self

    def copy(self) -> "History":
        """Returns a copy of the current state."""
        other = History("")
        other.place.present = dict(self.place.present)
        other.model.shown, other.model.hidden = dict(self.model.shown), dict(self.model.hidden)
        other.next = self.next
        return other

    def hidden(self) -> dict[int, Attempt]:
        """Returns the hidden epochs that can be unhidden, and unhides them; call it last."""
        before = self.place.seen()
        show(self.place, lambda epoch: True)
        after = self.place.seen()
        assert before.items() <= after.items()
        return {epoch: attempt for epoch, attempt in after.items() if epoch not in before}


@pytest.mark.parametrize("run", range(draws(30)))
def test_readers_see_the_published_epochs_that_are_not_hidden(run: int) -> None:
    history = History(f"{SEED}/{run}")
    for _ in range(30):
        history.publish()
        history.act()
        assert history.place.seen() == history.model.shown, history.done
    assert set(history.done) >= {"expire", "hide"}
    assert history.hidden() == history.model.hidden, history.done


@pytest.mark.parametrize("other", [*KEEPING, *GOING_BACK])
@pytest.mark.parametrize("kind", [*KEEPING, *GOING_BACK])
def test_concurrent_operations_equal_sequential_ones(kind: str, other: str) -> None:
    """Between any two steps of an operation, another one runs completely."""
    if kind in GOING_BACK and other in GOING_BACK:
        pytest.skip("the query does not run, and they are called one after the other")
    struck = 0
    for run in range(4):
        seed = f"{SEED}/{kind}/{other}/{run}"
        draw = random.Random(seed)
        operations = [random_operation(kind, draw), random_operation(other, draw)]
        grown = History(seed).grown()
        either = []
        for order in (operations, operations[::-1]):
            plain = grown.copy()
            for act in order:
                act(plain)
            either.append((plain.model.shown, plain.model.hidden))
        step = 0
        while (states := interrupt(grown.copy(), operations, step)) is not None:
            if "expire" in (kind, other):
                # `hide_epochs` may read the last numbers while another call hides some of these
                # epochs.
                for state, (one, two) in zip(states, zip(*either, strict=True), strict=True):
                    assert one.keys() & two.keys() <= state.keys(), step
                    assert state.keys() <= one.keys() | two.keys(), step
            else:
                assert states in either, step
            step += 1
        struck += step
    assert struck > 10


def interrupt(history: History, operations: list[Operation], step: int) -> Any:
    """Returns the visible and hidden epochs if a second operation runs after a step of the first.

    None if the first operation has fewer steps.
    """
    place, at = history.place, history.place.steps + step + 1
    is_reached = False

    def between(now: int) -> None:
        nonlocal is_reached
        if now == at:
            is_reached = True
            operations[1](history)

    place.before = between
    operations[0](history)
    return (history.place.seen(), history.hidden()) if is_reached else None


class Death(BaseException):
    """The process crashes."""


@pytest.mark.parametrize("kind", [*KEEPING, *GOING_BACK])
def test_a_crash_anywhere_is_repaired_by_the_next_call(
    kind: str,
) -> None:
    for run in range(2):
        grown = History(f"{SEED}/death/{kind}/{run}").grown()
        step, died = 0, True
        while died:
            history = grown.copy()
            place, before = history.place, dict(history.model.shown)
            act = random_operation(kind, random.Random(f"{SEED}/{kind}/{run}"))
            at = place.steps + step + 1
            died = False

            def between(now: int, at: int = at) -> None:
                if now >= at:
                    raise Death

            place.before = between
            try:
                act(history)
            except Death:
                died = True
            place.before = lambda step: None
            if kind == "collect":
                assert place.seen() == before
            act(history)
            assert place.seen() == history.model.shown, step
            assert_clean(history)
            step += 1


def assert_clean(history: History) -> None:
    """Checks that only visible and hidden epochs are left after all grace periods."""
    place = history.place
    collect(place, 0)
    until = expired_until(place)
    needed = {*history.model.shown.values(), *history.model.hidden.values()}
    assert {
        attempt for attempt in attempts(place.names("_files")) if attempt.epoch <= until
    } == set()
    assert needed <= set(attempts(place.names("_files")))
    assert all(hidden.epoch > until for hidden in hidden_attempts(place.names("_taken_back")))
    assert len(expiry_numbers(place.names("_expired"))) <= 1


def test_expired_files_stay_for_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr("time.time_ns", lambda: now_ms[0] * 1_000_000)
    place: Any = Place()
    made = [place.publish(epoch, "a") for epoch in range(6)]
    expire(place, Kept(2, None))
    assert list(place.seen()) == [4, 5]
    before = dict(place.present)
    now_ms[0] += 500
    collect(place, 501)
    assert place.present == before
    collect(place, 500)
    gone = before.keys() - place.present.keys()
    assert gone == {
        name
        for manifest in made[:4]
        for name in (manifest_name(manifest.epoch), manifest.files[0].name)
    }
    assert list(place.seen()) == [4, 5]


def run_of(place: Any) -> Publisher:
    side: Any = type("Side", (), {"batch": BATCH, "operations": lambda self, after: ()})()
    run = Publisher(place, Output("parquet", (), {}))
    run.follow(side)
    return run


def test_a_run_refuses_expired_epochs() -> None:
    place: Any = Place()
    place.present[OWNER] = Owner(BATCH.query_id, BATCH.checkpoint).encode()
    for epoch in range(6):
        place.publish(epoch, "a")
    run = run_of(place)
    run.publish(place.publish(6, "a"), dataclasses.replace(BATCH, epoch=6))
    expire(place, Kept(2, None))
    with pytest.raises(RequestError) as raised:
        run_of(place).check(dataclasses.replace(BATCH, epoch=3))
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCH_EXPIRED"
    assert "up to 4" in str(raised.value)
    # A run that began before the expiry publishes an epoch that no reader sees.
    collect(place, 0)
    run.publish(manifest(3, "b"), dataclasses.replace(BATCH, epoch=3))
    assert list(place.seen()) == [5, 6]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"until":9', b'"until":"9"'),
        lambda body: body.replace(b'"number":4,', b""),
        lambda body: body[:30],
    ],
)
def test_an_incomplete_expiry_record_is_an_error(change: Callable[[bytes], bytes]) -> None:
    record = ExpiryRecord(number=4, until=9, made_ms=5)
    body = record.encode()
    assert ExpiryRecord.decode(body, "p") == record
    place: Any = Place()
    place.present[expiry_name(4)] = change(body)
    assert place.present[expiry_name(4)] != body
    with pytest.raises(CorruptedError, match="mem:/sink/_expired") as raised:
        published_epochs(place)
    assert raised.value.error_id == "CLEANCUT_SINK_CORRUPTED"


def test_expiry_ends_if_other_processes_always_win() -> None:
    class Contended(Place):
        def create(self, name: str, body: bytes) -> bool:
            return False

    place: Any = Contended()
    for epoch in range(4):
        place.publish(epoch, "a")
    with pytest.raises(CleancutError) as raised:
        expire(place, Kept(1, None))
    assert raised.value.error_id == "CLEANCUT_SINK_CONCURRENT_CHANGE"
    assert list(place.seen()) == [0, 1, 2, 3]


def test_no_epoch_after_the_limit_expires() -> None:
    place: Any = Directory(manifests=tuple(manifest(epoch, "a") for epoch in range(6)))
    assert [gone.epoch for gone in expire(place, Kept(1, None), until=2)] == [0, 1, 2]
    assert expired_until(place) == 2


def test_ages_and_numbers_that_keep_epochs() -> None:
    published = {1: 10, 2: 20, 5: 30, 6: 40}
    assert Kept(1, None).before(published) == 5
    assert Kept(3, None).before(published) == 1
    assert Kept(9, None).before(published) == -1
    assert Kept(1, 20).before(published) == 1
    assert Kept(1, 99).before(published) == 5
    assert Kept(1, 5).before(published) == -1
    assert Kept(1, None).before({}) == -1


def test_epochs_expire_without_a_session(tmp_path: Path) -> None:
    for epoch in range(5):
        made = dataclasses.replace(MANIFEST, attempt=Attempt(epoch, f"{epoch:032x}"))
        place = tmp_path / manifest_name(epoch)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(made.encode())
        files = tmp_path / made.attempt.directory
        files.mkdir(parents=True)
        (files / "part-0").write_bytes(b"x")
    sink = EpochFiles(tmp_path)
    assert [manifest.epoch for manifest in sink.expire(retain_last=2)] == [0, 1, 2]
    assert len(sink.paths()) == 4
    assert len(list((tmp_path / "_files").iterdir())) == 5
    assert sink.expire(retain_last=2, grace="0s") == []
    assert len(list((tmp_path / "_files").iterdir())) == 2
    assert len(list((tmp_path / "_epochs").iterdir())) == 2
    for wrong in ({}, {"keep": 0}, {"retain_for": "soon"}):
        with pytest.raises(ValueError, match=r"retain_last|age"):
            sink.expire(**wrong)
