"""Epochs of `EpochFiles` that are put together: drawn histories, deaths, and others in between.

All epochs keep their files here, so that no session is needed: what is tried is which of them
count. tests/spark/test_compaction.py has their rows.
"""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleancut import DamagedError, RequestError
from cleancut.errors import CleancutError
from cleancut.sinks import EpochFiles
from cleancut.sinks._files import compacted, compacting
from cleancut.sinks._files.compacted import (
    NO_VERSION,
    Epochs,
    Member,
    Part,
    PartUse,
    Version,
    newest_version,
    read_part,
    read_version,
)
from cleancut.sinks._files.compacting import Compactor, Kept, collect, expire
from cleancut.sinks._files.going_back import forget, hide, show
from cleancut.sinks._files.manifest import DataFile, Manifest
from cleancut.sinks._files.names import (
    Attempt,
    PartName,
    attempts,
    manifest_name,
    taken_back,
    version_name,
    versions,
)
from cleancut.sinks._files.publishing import Output, Publishing
from cleancut.sinks._files.view import look
from tests.support.draws import draws
from tests.support.seeds import fixed
from tests.unit.sink_records import BATCH, MANIFEST, Directory, manifest

SEED = fixed(31)
NAME = PartName(7, "ab" * 16)
USE = PartUse(
    NAME, Epochs.of([1, 2, 3, 9]), Epochs.of([1, 2]), Epochs.of([9]), bytes=5, in_place=True
)


class Place(Directory):
    """A directory in memory, where others may act between any two steps, or the caller dies."""

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

    def prepare(self) -> None:
        """Nothing has to be sure of memory."""

    def publish(self, epoch: int, token: str) -> Manifest:
        made = manifest(epoch, token)
        self.present[manifest_name(epoch)] = made.encode()
        self.present |= {file.name: b"" for file in made.files}
        return made

    def seen(self) -> dict[int, Attempt]:
        """The epochs that readers see, whose files are all there."""
        there = self.present
        found = {}
        for of in look(self).apart:
            assert all(file.name in there for file in of.files), f"files of {of.epoch} are gone"
            found[of.epoch] = of.attempt
        return found


def compact(place: Any, keep: int = 1) -> None:
    Compactor(place, place, Output("parquet", (), {}), 1).run(Kept(keep, None))


class Model:
    """What should be seen."""

    def __init__(self) -> None:
        self.shown: dict[int, Attempt] = {}
        self.hidden: dict[int, Attempt] = {}

    def hide(self, after: int) -> None:
        gone = {epoch: of for epoch, of in self.shown.items() if epoch > after}
        self.hidden |= gone
        self.shown = {epoch: of for epoch, of in self.shown.items() if epoch not in gone}

    def show(self, counts: Callable[[int], bool]) -> None:
        again = {epoch: of for epoch, of in self.hidden.items() if counts(epoch)}
        self.shown |= again
        self.hidden = {epoch: of for epoch, of in self.hidden.items() if epoch not in again}

    def expire(self, keep: int) -> None:
        last = max(sorted(self.shown)[:-keep], default=-1)
        self.shown = {epoch: of for epoch, of in self.shown.items() if epoch > last}
        self.hidden = {epoch: of for epoch, of in self.hidden.items() if epoch > last}


Act = Callable[["History"], None]


def drawn(kind: str, draw: random.Random) -> Act:
    """An act on a sink, and on what should come of it."""
    keep, at = draw.randrange(1, 6), draw.random()

    def act(history: "History") -> None:
        place, model = history.place, history.model
        epoch = int(at * (history.next + 1)) - 1
        match kind:
            case "compact":
                compact(place, keep)
            case "collect":
                collect(place, 0)
            case "expire":
                expire(place, Kept(keep, None))
                model.expire(keep)
            case "hide":
                hide(place, epoch)
                model.hide(epoch)
            case "show":
                show(place, lambda of: of <= epoch)
                model.show(lambda of: of <= epoch)
            case "forget":
                forget(place)
                model.hidden.clear()

    return act


KEEPING = ["compact", "expire", "collect"]
GOING_BACK = ["hide", "show", "forget"]


class History:
    """Acts on a sink, drawn, and what should come of them."""

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
            # Acts take numbers, too.
            self.next += self.draw.choice([1, 1, 1, 2])

    def act(self) -> None:
        self.done.append(self.draw.choice([*KEEPING, *GOING_BACK, "compact"]))
        drawn(self.done[-1], self.draw)(self)

    def grown(self) -> "History":
        for _ in range(8):
            self.publish()
            self.act()
        self.publish()
        return self

    def copy(self) -> "History":
        """The same, as it stands."""
        other = History("")
        other.place.present = dict(self.place.present)
        other.model.shown, other.model.hidden = dict(self.model.shown), dict(self.model.hidden)
        other.next = self.next
        return other

    def hidden(self) -> dict[int, Attempt]:
        """What can be given back; it is, so that nothing may follow."""
        before = self.place.seen()
        show(self.place, lambda epoch: True)
        after = self.place.seen()
        assert before.items() <= after.items()
        return {epoch: of for epoch, of in after.items() if epoch not in before}


@pytest.mark.parametrize("run", range(draws(30)))
def test_what_is_seen_is_what_was_published_and_not_taken_back(run: int) -> None:
    history = History(f"{SEED}/{run}")
    for _ in range(30):
        history.publish()
        history.act()
        assert history.place.seen() == history.model.shown, history.done
    assert set(history.done) >= {"compact", "hide"}
    assert history.hidden() == history.model.hidden, history.done


@pytest.mark.parametrize("other", [*KEEPING, *GOING_BACK])
@pytest.mark.parametrize("kind", [*KEEPING, *GOING_BACK])
def test_acts_at_once_come_to_one_after_the_other(kind: str, other: str) -> None:
    """Between any two steps of an act another one is done, as a whole."""
    if kind in GOING_BACK and other in GOING_BACK:
        pytest.skip("the query does not run, and they are called one after the other")
    struck = 0
    for run in range(2):
        seed = f"{SEED}/{kind}/{other}/{run}"
        draw = random.Random(seed)
        acts = [drawn(kind, draw), drawn(other, draw)]
        grown = History(seed).grown()
        either = []
        for order in (acts, acts[::-1]):
            plain = grown.copy()
            for act in order:
                act(plain)
            either.append((plain.model.shown, plain.model.hidden))
        step = 0
        while (found := interrupted(grown.copy(), acts, step)) is not None:
            if "expire" in (kind, other):
                # How many are the last ones may be asked while some of them are taken back.
                for of, (one, two) in zip(found, zip(*either, strict=True), strict=True):
                    assert one.keys() & two.keys() <= of.keys(), step
                    assert of.keys() <= one.keys() | two.keys(), step
            else:
                assert found in either, step
            step += 1
        struck += step
    assert struck > 10


def interrupted(history: History, acts: list[Act], step: int) -> Any:
    """What is seen and what is hidden if another act is done after so many steps of one.

    None if it has not so many.
    """
    place, at = history.place, history.place.steps + step + 1
    has_come = False

    def between(now: int) -> None:
        nonlocal has_come
        if now == at:
            has_come = True
            acts[1](history)

    place.before = between
    acts[0](history)
    return (history.place.seen(), history.hidden()) if has_come else None


def test_a_reader_sees_the_same_while_epochs_are_put_together_and_old_files_go() -> None:
    struck = 0
    for run in range(2):
        grown = History(f"{SEED}/reader/{run}").grown()
        step, came = 0, True
        while came:
            history = grown.copy()
            place, at = history.place, history.place.steps + step + 1
            came = False

            def between(now: int, at: int = at, history: History = history) -> None:
                nonlocal came
                if now == at:
                    came = True
                    compact(history.place)
                    collect(history.place, 0)

            place.before = between
            assert {of.epoch for of in look(place).infos} == set(history.model.shown)
            assert place.seen() == history.model.shown
            struck += came
            step += 1
    assert struck > 20


class Death(BaseException):
    """Of the process."""


@pytest.mark.parametrize("kind", [*KEEPING, *GOING_BACK])
def test_a_death_anywhere_changes_nothing_that_another_call_does_not_mend(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is left by a death is deleted at once.
    monkeypatch.setattr(compacting, "_LEFT_MS", -1)
    for run in range(2):
        grown = History(f"{SEED}/death/{kind}/{run}").grown()
        step, died = 0, True
        while died:
            history = grown.copy()
            place, before = history.place, dict(history.model.shown)
            act = drawn(kind, random.Random(f"{SEED}/{kind}/{run}"))
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
            if kind in ("compact", "collect"):
                assert place.seen() == before
            act(history)
            assert place.seen() == history.model.shown, step
            assert_clean(history)
            step += 1


def assert_clean(history: History) -> None:
    """Nothing is there but what is seen, or may be given back."""
    place = history.place
    compact(place)
    collect(place, 0)
    collect(place, 0)
    version = newest_version(place)
    needed = {*history.model.shown.values(), *history.model.hidden.values()}
    assert set(attempts(place.names("_files"))) == needed
    assert all(of.epoch > version.until for of in taken_back(place.names("_taken_back")))
    records = {name for name in place.present if name.startswith("_compacted")}
    if version != NO_VERSION:
        parts = {use.name.record for use in version.parts}
        assert records == {version_name(version.number), *parts}


def test_what_others_name_is_not_deleted_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [1_000_000]
    monkeypatch.setattr("time.time_ns", lambda: now_ms[0] * 1_000_000)
    history = History(f"{SEED}/grace")
    for _ in range(3):
        history.publish()
    place, before = history.place, dict(history.place.present)
    compact(place)
    now_ms[0] += 500
    collect(place, 501)
    assert place.present.items() >= before.items()
    assert len(versions(place.names("_compacted"))) == 1
    collect(place, 500)
    gone = before.keys() - place.present.keys()
    assert gone == {manifest_name(epoch) for epoch in sorted(history.model.shown)[:-1]}
    assert place.seen() == history.model.shown


def test_many_epochs_are_written_a_few_times_each() -> None:
    place: Any = Place()
    named = 0
    for epoch in range(400):
        place.publish(epoch, "a")
        if epoch % 10 == 9:
            before = set(place.present)
            compact(place)
            new = [name for name in place.present if "/part-" in name and name not in before]
            parts = [read_part(place, _name(of)) for of in new]
            named += sum(len(part.members) for part in parts if part is not None)
    version = newest_version(place)
    assert len(version.parts) < 8
    assert sum(len(use.epochs) for use in version.parts) == 399
    # Each epoch about log2(40) times at most.
    assert 399 <= named < 399 * 6


def _name(record: str) -> PartName:
    return PartName.parse(record.removeprefix("_compacted/part-").removesuffix(".json"))


def run_of(place: Any) -> Publishing:
    side: Any = type("Side", (), {"batch": BATCH, "acts": lambda self, after: ()})()
    run = Publishing(place, Output("parquet", (), {}))
    run.follow(side)
    return run


def test_a_run_knows_epochs_that_were_put_together_and_refuses_those_that_are_gone() -> None:
    place: Any = Place()
    published = [place.publish(epoch, "a") for epoch in range(6)]
    run = run_of(place)
    run.publish(place.publish(6, "a"), dataclasses.replace(BATCH, epoch=6))
    compact(place)
    late = run_of(place)
    found = late.check(dataclasses.replace(BATCH, epoch=3))
    assert found is not None
    assert found.attempt == published[3].attempt
    handle = published[3].encode().decode()
    assert late.is_usable(handle, found.encode().decode())
    late.sweep(3)
    assert len(place.seen()) == 7
    other = dataclasses.replace(BATCH, epoch=3, planned_ms=1)
    with pytest.raises(RequestError) as raised:
        late.check(other)
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCH_TAKEN"
    expire(place, Kept(2, None))
    with pytest.raises(RequestError) as raised:
        run_of(place).check(dataclasses.replace(BATCH, epoch=3))
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCH_GONE"
    assert "up to 5" in str(raised.value)
    # One that has looked before publishes what nobody sees.
    assert run.check(dataclasses.replace(BATCH, epoch=3)) is not None
    collect(place, 0)
    run.publish(manifest(3, "b"), dataclasses.replace(BATCH, epoch=3))
    assert list(place.seen()) == [5, 6]


def test_versions_and_parts_say_what_was_put_together() -> None:
    version = Version(number=4, until=9, made_ms=5, parts=(USE,))
    assert Version.decode(version.encode(), "p") == version
    place: Any = Place()
    for epoch in range(4):
        place.publish(epoch, "a")
    compact(place)
    (use,) = newest_version(place).parts
    part = read_part(place, use.name)
    assert part is not None
    assert [member.epoch for member in part.members] == [0, 1, 2]
    assert part.manifest(part.members[1]) == manifest(1, "a")
    assert (str(use.epochs), str(Epochs.of([1, 2, 4]))) == ("0 to 2", "1 to 2, 4")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"until":9', b'"until":"9"'),
        lambda body: body.replace(b"[[1,2]]", b"[[2,1]]"),
        lambda body: body.replace(b"[[1,2]]", b"[[1]]"),
        lambda body: body.replace(NAME.text.encode(), b"7-ab"),
        lambda body: body[:30],
    ],
)
def test_a_version_that_is_not_whole_is_damaged(change: Callable[[bytes], bytes]) -> None:
    body = Version(number=4, until=9, made_ms=5, parts=(USE,)).encode()
    place: Any = Place()
    place.present[version_name(4)] = change(body)
    assert place.present[version_name(4)] != body
    with pytest.raises(DamagedError, match="mem:/sink/_compacted") as raised:
        read_version(place, 4)
    assert raised.value.error_id == "CLEANCUT_SINK_DAMAGED"


def test_a_part_that_is_gone_is_damage() -> None:
    place: Any = Place()
    for epoch in range(4):
        place.publish(epoch, "a")
    compact(place)
    (use,) = newest_version(place).parts
    del place.present[use.name.record]
    with pytest.raises(DamagedError) as raised:
        look(place)
    assert use.name.record in str(raised.value)
    assert [of.epoch for of in look(place, [3]).infos] == [3]


def test_files_with_rows_that_do_not_count_are_not_handed_to_plain_readers(tmp_path: Path) -> None:
    members = tuple(Member.of(manifest(epoch, "a"), in_place=False) for epoch in (1, 2, 3))
    files = (DataFile(f"{NAME.directory}/part-0.parquet", 9),)
    part = Part(NAME, "q-1", members, files, "parquet", (), MANIFEST.schema)
    every = Epochs.of([1, 2, 3])
    use = PartUse(NAME, every, every, Epochs(), bytes=9, in_place=False)
    version = Version(number=0, until=3, made_ms=5, parts=(use,))
    (tmp_path / "_compacted").mkdir()
    (tmp_path / NAME.record).write_bytes(part.encode())
    (tmp_path / version_name(0)).write_bytes(version.encode())
    sink = EpochFiles(tmp_path)
    assert sink.paths() == [str(tmp_path / files[0].name)]
    with pytest.raises(RequestError) as raised:
        sink.paths([1, 3])
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MIXED"
    assert (raised.value.params["epochs"], raised.value.params["others"]) == ("1, 3", "2")
    assert [of.epoch for of in sink.take_back(1)] == [2, 3]
    with pytest.raises(RequestError, match="rows of epochs 2 to 3"):
        sink.paths()


def test_a_sink_that_others_change_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = Place()
    for epoch in range(4):
        place.publish(epoch, "a")
    for module in (compacted, compacting):
        monkeypatch.setattr(module, "follow_with", lambda *of: False)
    errors: list[CleancutError] = []
    for act in (lambda: compact(place), lambda: hide(place, 2)):
        with pytest.raises(CleancutError) as raised:
            act()
        errors.append(raised.value)
    assert {error.error_id for error in errors} == {"CLEANCUT_SINK_CHANGED"}
    # What was made in vain is not left.
    assert not [name for name in place.present if name.startswith("_compacted")]


def test_ages_and_numbers_that_keep_epochs() -> None:
    published = {1: 10, 2: 20, 5: 30, 6: 40}
    assert Kept(1, None).before(published) == 5
    assert Kept(3, None).before(published) == 1
    assert Kept(9, None).before(published) == -1
    assert Kept(1, 20).before(published) == 1
    assert Kept(1, 99).before(published) == 5
    assert Kept(1, 5).before(published) == -1
    assert Kept(1, None).before({}) == -1


def test_epochs_are_given_up_without_a_session(tmp_path: Path) -> None:
    for epoch in range(5):
        made = dataclasses.replace(MANIFEST, attempt=Attempt(epoch, f"{epoch:032x}"))
        place = tmp_path / manifest_name(epoch)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(made.encode())
        files = tmp_path / made.attempt.directory
        files.mkdir(parents=True)
        (files / "part-0").write_bytes(b"x")
    sink = EpochFiles(tmp_path)
    assert [of.epoch for of in sink.expire(keep=2)] == [0, 1, 2]
    assert len(sink.paths()) == 4
    assert len(list((tmp_path / "_files").iterdir())) == 5
    assert sink.expire(keep=2, grace="0s") == []
    assert len(list((tmp_path / "_files").iterdir())) == 2
    assert len(list((tmp_path / "_epochs").iterdir())) == 2
    for wrong in ({}, {"keep": 0}, {"younger_than": "soon"}):
        with pytest.raises(ValueError, match=r"keep|age"):
            sink.expire(**wrong)
