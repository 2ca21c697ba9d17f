"""Expiry of cuts: retained states stay complete, and no other object is left or deleted."""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleancut import Checkpoint, CorruptedError, RequestError, RetryableError
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._checkpoint.retain.expiry import collect_garbage, expire
from cleancut._checkpoint.retain.kept_savepoints import last_before
from cleancut._cli import main as _cli
from cleancut._storage.directory import Directory
from cleancut.errors import error_of
from tests.support.documented import blocks, commands
from tests.support.draws import draws
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.conftest import four_epochs
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import S3Server, s3_server
from tests.unit.test_cli import run
from tests.vectors.frame_cases import put
from tests.vectors.frame_encoder import Change
from tests.vectors.segment_cases import delta_of

DAY_S = 86_400


class RotatingPages(CutFiles):
    """Cuts that rewrite one page per epoch, with windows of bounded length."""

    def page_epochs(self, epoch: int) -> dict[int, int]:
        return {} if epoch < 2 else {0: epoch - 1, 1: epoch // 3 * 3 - 1 if epoch > 2 else 1}

    def window(self, epoch: int) -> list[dict[str, Any]]:
        since = min(self.page_epochs(epoch).values(), default=-1)
        return [part for part in super().window(epoch) if part["epoch"] > since]

    def write(self, name: str, data: bytes) -> None:
        """A page that several cuts reference is written once, because another process may be
        reading it.
        """
        if not (name.startswith("pages/") and (self.root / name).exists()):
            super().write(name, data)


@pytest.fixture
def four_cuts(files: CheckpointFiles) -> CutFiles:
    return four_epochs(RotatingPages(files))


# The rows that `four_epochs` leaves in its partitions.
ROWS = [put(1, "ada", 4, 2.5), put(3, "lin", 1, 0.25), put(2, "grace", 1, 0.5)]
EMMY = put(4, "emmy", 2, 8.0)


def replace_all(cuts: CutFiles, *more: Change) -> None:
    """Commits epochs after which no earlier object is referenced, including pages."""
    cuts.base(0, [*ROWS, *more], number=3)
    cuts.base(1, [EMMY], number=4)
    for _ in range(5):
        cuts.commit(([], 3 + len(more)), ([], 1))


def write_owner(cuts: CutFiles, generation: int, *, ended: bool) -> None:
    note = {"generation": generation, "runId": "r-1", "host": "h-1", "startedMs": 1_700_000_000_000}
    cuts.write(f"owners/{generation:020d}.json", json.dumps(note).encode())
    if ended:
        cuts.write(f"owners/{generation:020d}.ended", b"{}")


def orphan(cuts: CutFiles, epoch: int, number: int) -> str:
    """Writes a segment of an attempt that lost or was killed."""
    frame = delta_of(epoch + 1, [put(7, "lost", 1, 1.0)], 1, partition=7)
    return cuts.segment(epoch, [frame], writer="9", number=number)[0].segment


def written(cuts: CutFiles, epoch: int, ago_s: float) -> None:
    then = time.time() - ago_s
    os.utime(cuts.cut_path(epoch), (then, then))


def digests(cuts: CutFiles) -> dict[int | str, str]:
    """Returns the digests of all states, by epoch and by savepoint."""
    there = Checkpoint(cuts.location)
    names = (
        [cut.epoch for cut in there.cuts()],
        [savepoint.name for savepoint in there.savepoints()],
    )
    return {at: there.test_restore(at, read_only=True).digest for kind in names for at in kind}


def named(cuts: CutFiles) -> set[str]:
    """Returns all segments and pages that cuts and savepoints reference."""
    reader = CutReader(open_root(cuts.location).objects)
    there = Checkpoint(cuts.location)
    read = [reader.cut(cut.epoch) for cut in there.cuts()]
    read += [reader.savepoint(savepoint.name) for savepoint in there.savepoints()]
    return {f"cleancut/{name}" for cut in read for name in cut.named()}


def parts(objects: Mapping[str, bytes]) -> set[str]:
    return {name for name in objects if name.startswith(("cleancut/segments/", "cleancut/pages/"))}


def test_old_cuts_expire_with_the_objects_that_they_alone_reference(four_cuts: CutFiles) -> None:
    before, were = four_cuts.objects(), digests(four_cuts)
    plan = Checkpoint(four_cuts.location).expire(retain_last=2)
    assert plan.epochs == (0, 1)
    assert [(cut.epoch, cut.reasons) for cut in plan.retained] == [
        (2, ("number",)),
        (3, ("last", "number")),
    ]
    assert four_cuts.objects() == before
    assert "Nothing is deleted yet." in str(plan)
    done = plan.apply()
    after = four_cuts.objects()
    assert done.is_applied
    assert (done.epochs, done.bytes, done.bytes_left) == (plan.epochs, plan.bytes, plan.bytes_left)
    assert digests(four_cuts) == {epoch: were[epoch] for epoch in (2, 3)}
    assert Checkpoint(four_cuts.location).verify().ok
    gone = before.keys() - after.keys()
    assert sum(len(before[name]) for name in gone) == plan.bytes > 0
    assert {name.split("/")[1] for name in gone} <= {"cuts", "segments", "pages"}
    assert all(after[name] == before[name] for name in after)
    assert parts(after) == named(four_cuts)
    # A repeated call has nothing to delete, and a plan is applied once.
    again = Checkpoint(four_cuts.location).expire(retain_last=2)
    assert (again.epochs, again.segments, again.pages, again.bytes) == ((), 0, 0, 0)
    with pytest.raises(RequestError, match="has been applied before"):
        done.apply()


def test_young_cuts_and_those_between_them_are_retained(four_cuts: CutFiles) -> None:
    for epoch, days in enumerate([9, 8, 6, 5]):
        written(four_cuts, epoch, days * DAY_S)
    there = Checkpoint(four_cuts.location)
    for age in ("7d", " 168h", timedelta(days=7)):
        plan = there.expire(retain_for=age)
        assert plan.epochs == (0, 1)
        assert [(cut.epoch, cut.reasons) for cut in plan.retained] == [
            (2, ("age",)),
            (3, ("last", "age")),
        ]
    assert there.expire(retain_last=3, retain_for="7d").epochs == (0,)
    # Without young cuts, the last one is retained.
    assert there.expire(retain_for="60s").epochs == (0, 1, 2)
    assert there.expire(retain_last=1, retain_for="10d").epochs == ()


@pytest.mark.parametrize(
    ("given_", "reason"),
    [
        ({}, "takes retain_last, retain_for, or both"),
        ({"retain_last": 0}, "must be at least 1"),
        ({"retain_for": "7 weeks"}, "such as 7d"),
    ],
)
def test_options_that_retain_nothing_are_refused(
    four_cuts: CutFiles, given_: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Checkpoint(four_cuts.location).expire(**given_)


def test_a_savepoint_retains_all_referenced_objects(four_cuts: CutFiles) -> None:
    four_cuts.savepoint("good", 3)
    replace_all(four_cuts)
    four_cuts.savepoint("same", 8)
    were = digests(four_cuts)
    there = Checkpoint(four_cuts.location)
    plan = there.expire(retain_last=1)
    assert [(cut.epoch, cut.reasons) for cut in plan.retained] == [
        (3, ("savepoint good",)),
        (8, ("last", "number", "savepoint same")),
    ]
    plan.apply()
    assert digests(four_cuts) == {at: were[at] for at in (8, "good", "same")}
    assert there.verify().ok
    assert parts(four_cuts.objects()) == named(four_cuts)
    # After the savepoint is dropped, garbage collection deletes its objects.
    assert there.drop_savepoint("good")
    collected = there.collect_garbage().apply()
    assert collected.segments > 2
    assert (collected.epochs, collected.pages > 0) == ((), True)
    assert digests(four_cuts) == {at: were[at] for at in (8, "same")}
    assert parts(four_cuts.objects()) == named(four_cuts)


def test_garbage_collection_deletes_orphans_only(four_cuts: CutFiles) -> None:
    four_cuts.write(f"cuts/{3:020d}.{1:020d}.sealed", b"of a committed epoch")
    four_cuts.write(f"cuts/{4:020d}.{1:020d}.sealed", b"of the next one")
    before = four_cuts.objects()
    lost = orphan(four_cuts, 2, 4)
    # Its epoch may still be committed with it.
    begun = orphan(four_cuts, 4, 5)
    four_cuts.write(f"segments/{2:020d}/notes.txt", b"another's")
    plan = Checkpoint(four_cuts.location).collect_garbage()
    assert (plan.segments, plan.seals, plan.pages) == (1, 1, 0)
    plan.apply()
    after = four_cuts.objects()
    assert f"cleancut/{lost}" not in after
    assert after.keys() - before.keys() == {
        f"cleancut/{begun}",
        f"cleancut/segments/{2:020d}/notes.txt",
    }
    assert before.keys() - after.keys() == {f"cleancut/cuts/{3:020d}.{1:020d}.sealed"}


def test_files_of_level_0_expire_with_their_epochs(
    two_partitions: CheckpointFiles,
) -> None:
    # Versions 1 to 3 have no cuts; the first cut is of epoch 3.
    cuts = CutFiles(two_partitions)
    cuts.epoch = 3
    cuts.commit(([put(1, "ada", 3, 1.5)], 1), ([], 0))
    cuts.commit(([], 1), ([], 0))

    def frames() -> list[Path]:
        return sorted((cuts.root / "stores").rglob("*.delta"))

    assert len(frames()) == 5
    there = Checkpoint(cuts.location)
    assert there.collect_garbage().apply().frames == 0
    plan = there.expire(retain_last=1)
    assert plan.frames == 5
    # Killed after the cut and some of the files were deleted.
    cuts.cut_path(3).unlink()
    frames()[0].unlink()
    assert there.collect_garbage().frames == 4
    assert plan.apply().frames == 4
    assert frames() == []


def test_a_checkpoint_without_cuts_is_refused(two_partitions: CheckpointFiles) -> None:
    there = Checkpoint(two_partitions.location)
    with pytest.raises(RequestError, match="minBatchesToRetain") as raised:
        there.expire(retain_last=1)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    with pytest.raises(RequestError, match="minBatchesToRetain"):
        there.collect_garbage()


def test_a_replica_follows_and_cannot_be_expired(four_cuts: CutFiles, tmp_path: Path) -> None:
    source, copy = Checkpoint(four_cuts.location), tmp_path / "copy"
    source.replicate(copy)
    with pytest.raises(RequestError, match=f"it is a replica of {four_cuts.location}"):
        Checkpoint(copy).expire(retain_last=1)
    source.expire(retain_last=1).apply()
    assert source.replicate(copy).deleted > 0
    assert [cut.epoch for cut in Checkpoint(copy).cuts()] == [3]
    assert Checkpoint(copy).verify().ok
    # A replica on which a query was started permanently.
    (copy / "cleancut/replica.json").unlink()
    assert Checkpoint(copy).expire(retain_last=1).epochs == ()


def test_an_expiry_is_refused_while_a_run_may_be_alive(four_cuts: CutFiles) -> None:
    write_owner(four_cuts, 1, ended=True)
    write_owner(four_cuts, 2, ended=False)
    lost = orphan(four_cuts, 2, 4)
    before = four_cuts.objects()
    plan = Checkpoint(four_cuts.location).expire(retain_last=1)
    assert plan.owner == "run r-1 on h-1, generation 2, since 2023-11-14 22:13:20 UTC"
    assert plan.owner in "\n".join(plan.notes)
    with pytest.raises(RequestError, match="has not recorded its end") as raised:
        plan.apply()
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert four_cuts.objects() == before
    # After a takeover its referenced objects are retained: it may be about to commit one more
    # epoch.
    done = plan.apply(fence="retired")
    assert (done.epochs, done.segments, done.pages) == ((0, 1, 2), 0, 0)
    assert parts(four_cuts.objects()) == parts(before)
    assert f"cleancut/{lost}" in parts(before)
    assert json.loads((four_cuts.root / f"owners/{3:020d}.json").read_bytes())["host"] == "retired"
    # A run that has ended does not need them.
    write_owner(four_cuts, 4, ended=True)
    Checkpoint(four_cuts.location).collect_garbage().apply()
    assert parts(four_cuts.objects()) == named(four_cuts)


def test_old_orphans_of_a_fenced_run_are_deleted_after_the_margin(
    four_cuts: CutFiles,
) -> None:
    mary = put(9, "mary", 1, 1.0)
    for _ in range(30):
        four_cuts.commit(([mary], 4), ([], 1))
    replace_all(four_cuts, mary)
    last = four_cuts.epoch - 1
    lost = {epoch: orphan(four_cuts, epoch, 9) for epoch in (1, 2, last - 21, last - 20, last)}
    for name in parts(four_cuts.objects()) - {f"cleancut/{lost[2]}"}:
        os.utime(four_cuts.location / name, (1, 1))
    write_owner(four_cuts, 1, ended=False)
    before = parts(four_cuts.objects())
    known = named(four_cuts)
    Checkpoint(four_cuts.location).expire(retain_last=1).apply(fence="retired")
    after = parts(four_cuts.objects())
    # Objects that no cut has named are kept: the run may be a rollback to an expired epoch.
    gone = before - after
    assert {int(name.split("/")[2]) for name in gone} <= {*range(last - 20)}
    assert gone == {f"cleancut/{lost[epoch]}" for epoch in (1, last - 21)}
    assert known <= after
    # An object of one of the first epochs is young: a base whose upload took long.
    stays = {epoch: f"cleancut/{name}" in after for epoch, name in lost.items()}
    assert stays == {1: False, 2: True, last - 21: False, last - 20: True, last: True}
    assert Checkpoint(four_cuts.location).verify().ok


def test_the_plan_names_the_epoch_that_undo_requires(four_cuts: CutFiles) -> None:
    mark = {"spark.sql.streaming.stateStore.cleancut.offlineLast": "2"}
    offsets = f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': mark})}\n0"
    four_cuts.commit(([], 3), ([], 1), offsets=offsets)
    assert "epoch 2 expires, and rollback with undo" in str(
        Checkpoint(four_cuts.location).expire(retain_last=1)
    )
    assert Checkpoint(four_cuts.location).expire(retain_last=3).notes == ()


def test_corruption_of_retained_objects_is_found_before_any_deletion(four_cuts: CutFiles) -> None:
    plan = Checkpoint(four_cuts.location).expire(retain_last=2)
    four_cuts.change(four_cuts.cut_path(2), lambda data: data[:-1])
    before = four_cuts.objects()
    for act in (plan.apply, Checkpoint(four_cuts.location).collect_garbage):
        with pytest.raises(CorruptedError):
            act()
    assert four_cuts.objects() == before


class CrashingObjects(Directory):
    """Crashes before the given deletion."""

    left = 0

    def delete(self, name: str) -> None:
        if CrashingObjects.left == 0:
            raise KeyboardInterrupt
        CrashingObjects.left -= 1
        super().delete(name)


def rooted(cuts: CutFiles, kind: type[Directory]) -> Root:
    where = kind(pyarrow.fs.LocalFileSystem(), str(cuts.root))
    return Root(str(cuts.location), where)


def restored(cuts: CutFiles, objects: Mapping[str, bytes]) -> None:
    for name, data in objects.items():
        (cuts.location / name).parent.mkdir(parents=True, exist_ok=True)
        (cuts.location / name).write_bytes(data)


def test_an_expiry_killed_at_any_deletion_is_repeated(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One after the other, so that each can be the last.
    monkeypatch.setattr("cleancut._checkpoint.retain.expiry.mapped", map)
    four_cuts.savepoint("good", 0)
    replace_all(four_cuts)
    orphan(four_cuts, 1, 6)
    before, were = four_cuts.objects(), digests(four_cuts)
    Checkpoint(four_cuts.location).expire(retain_last=1).apply()
    wanted = four_cuts.objects()
    deletions = len(before) - len(wanted)
    assert deletions > 4
    for step in range(deletions):
        restored(four_cuts, before)
        CrashingObjects.left = step
        with pytest.raises(KeyboardInterrupt):
            expire(rooted(four_cuts, CrashingObjects), 1, None).apply()
        assert len(four_cuts.objects()) == len(before) - step
        # All cuts that are left are complete.
        assert digests(four_cuts).items() <= were.items()
        expire(rooted(four_cuts, Directory), 1, None).apply()
        assert four_cuts.objects() == wanted


class ConcurrentRun(Directory):
    """Starts a run of the query, which commits an epoch, before the given request."""

    left = 0
    begin: Callable[[], None]

    def _step(self) -> None:
        ConcurrentRun.left -= 1
        if ConcurrentRun.left == 0:
            ConcurrentRun.begin()

    def read(self, name: str) -> bytes:
        self._step()
        return super().read(name)

    def details(self, below: str) -> Mapping[str, Any]:
        self._step()
        return super().details(below)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)


def test_a_run_that_starts_at_any_request_loses_nothing(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleancut._checkpoint.retain.expiry.mapped", map)
    write_owner(four_cuts, 1, ended=True)
    orphan(four_cuts, 1, 4)
    before = four_cuts.objects()
    state = dict(vars(four_cuts))

    def begin() -> None:
        """Writes a base of the last version into an old epoch, and adopts it."""
        write_owner(four_cuts, 2, ended=False)
        four_cuts.base(0, ROWS, number=7)
        four_cuts.commit(([], 3), ([], 1))

    ConcurrentRun.begin = staticmethod(begin)
    refused = done = 0
    for step in range(1, 200):
        vars(four_cuts).update(
            {
                name: dict(entry) if isinstance(entry, dict) else entry
                for name, entry in state.items()
            }
        )
        for name in four_cuts.objects().keys() - before.keys():
            (four_cuts.location / name).unlink()
        restored(four_cuts, before)
        ConcurrentRun.left = 0
        plan = expire(rooted(four_cuts, ConcurrentRun), 1, None)
        ConcurrentRun.left = step
        try:
            plan.apply()
            done += 1
        except RequestError:
            refused += 1
        if ConcurrentRun.left > 0:
            break
        if step <= 3:
            # The owner is compared again after these lists, before anything is deleted.
            assert refused == step
            assert before.items() <= four_cuts.objects().items()
        there = Checkpoint(four_cuts.location)
        assert there.cuts()[-1].epoch == 4
        assert there.verify().ok, (step, there.verify())
    assert refused > 2
    assert done > 2


@settings(
    max_examples=draws(24),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**32),
    epochs=st.integers(4, 14),
    keep=st.integers(1, 5),
    pins=st.lists(st.integers(0, 9), max_size=3, unique=True),
    ended=st.booleans(),
)
def test_retained_states_are_complete_after_random_operations(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    epochs: int,
    keep: int,
    pins: list[int],
    ended: bool,
) -> None:
    chance = random.Random(seed)
    cuts = RotatingPages(CheckpointFiles(tmp_path_factory.mktemp("drawn") / "checkpoint"))
    rows: dict[int, Change] = {}
    for epoch in range(epochs):
        if epoch and chance.random() < 0.4:
            cuts.base(0, list(rows.values()), number=3)
            cuts.base(1, [], number=5)
        if chance.random() < 0.4:
            orphan(cuts, epoch, 4)
        changed = {key: put(key, "ada", epoch, 1.0) for key in chance.sample(range(9), 2)}
        rows |= changed
        cuts.commit((list(changed.values()), len(rows)), ([], 0))
    for epoch in pins:
        if epoch < epochs:
            cuts.savepoint(f"of-{epoch}", epoch)
    write_owner(cuts, 1, ended=ended)
    before = cuts.objects()
    kept = states(cuts)
    plan = Checkpoint(cuts.location).expire(retain_last=keep)
    done = plan.apply(fence=None if ended else "retired")
    after = cuts.objects()
    wanted = {at: rows for at, rows in kept.items() if isinstance(at, str) or at >= epochs - keep}
    assert states(cuts) == wanted
    report = Checkpoint(cuts.location).verify()
    assert report.ok, str(report)
    gone = before.keys() - after.keys()
    assert sum(len(before[name]) for name in gone) == done.bytes == plan.bytes
    below = [len(data) for name, data in after.items() if is_stored(name)]
    assert sum(below) == done.bytes_left == plan.bytes_left
    assert all(before[name] == after[name] for name in before.keys() & after.keys())
    if ended:
        assert parts(after) == named(cuts)
    assert Checkpoint(cuts.location).collect_garbage().bytes == 0


def is_stored(name: str) -> bool:
    kinds = ("cuts", "savepoints", "segments", "pages", "stores")
    return name.startswith(tuple(f"cleancut/{kind}/" for kind in kinds))


def states(cuts: CutFiles) -> dict[int | str, Any]:
    """Returns the rows of all states."""
    there = Checkpoint(cuts.location)
    by_epoch = {cut.epoch: there.state(0, at=cut.epoch) for cut in there.cuts()}
    by_name = {
        savepoint.name: there.state(0, at=savepoint.name) for savepoint in there.savepoints()
    }
    return {at: rows.to_pylist() for at, rows in (by_epoch | by_name).items()}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with s3_server() as running:
        yield running


def test_cuts_in_a_bucket_are_expired(
    four_cuts: CutFiles, server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    four_cuts.savepoint("good", 0)
    were = digests(four_cuts)
    location = server.put(four_cuts.location.parent.name, four_cuts.objects())
    there = ["--endpoint", server.endpoint, "--region", "us-east-1"]
    # Written just now.
    status, out, _ = run(capsys, "expire", location, "--retain-for", "1h", "--json", *there)
    assert (status, json.loads(out)["epochs"]) == (_cli.OK, [])
    status, out, _ = run(
        capsys, "expire", location, "--retain-last", "1", "--apply", "--json", *there
    )
    plan = json.loads(out)
    assert (status, plan["epochs"], plan["is_applied"]) == (_cli.OK, [0, 1, 2], True)
    bucket = Checkpoint(location, endpoint=server.endpoint, region="us-east-1")
    assert [cut.epoch for cut in bucket.cuts()] == [3]
    for at in (3, "good"):
        assert bucket.test_restore(at, read_only=True).digest == were[at]


def test_the_commands_plan_and_apply(
    four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(four_cuts.location)
    before = four_cuts.objects()
    status, out, _ = run(capsys, "expire", location, "--retain-last", "1")
    assert status == _cli.OK
    assert "cuts to go" in out
    assert "Run the command again with --apply to execute it." in out
    assert four_cuts.objects() == before
    for wrong in ([], ["--retain-last", "0"], ["--retain-for", "soon"]):
        status, out, err = run(capsys, "expire", location, *wrong)
        assert (status, out) == (_cli.REFUSED, "")
        assert err.startswith("[CLEANCUT_COMMAND_INVALID]")
    write_owner(four_cuts, 1, ended=False)
    status, out, err = run(capsys, "expire", location, "--retain-last", "1", "--apply")
    assert (status, out) == (_cli.REFUSED, "")
    assert "CLEANCUT_OPERATION_REFUSED" in err
    assert four_cuts.objects().keys() - before.keys() == {f"cleancut/owners/{1:020d}.json"}
    fenced = ["--apply", "--fence", "it was killed"]
    status, out, _ = run(capsys, "expire", location, "--retain-last", "1", *fenced)
    assert status == _cli.OK
    assert "cuts went" in out
    write_owner(four_cuts, 3, ended=True)
    status, out, _ = run(capsys, "gc", location, "--apply", "--json")
    assert (status, json.loads(out)["operation"]) == (_cli.OK, "collect_garbage")
    assert parts(four_cuts.objects()) == named(four_cuts)


def test_the_documented_commands_run(four_cuts: CutFiles) -> None:
    (typed,) = blocks("docs/operate/recovery/expire.md", "sh")
    for command in commands(typed):
        arguments = [str(four_cuts.location) if "/" in part else part for part in command[1:]]
        assert _cli.main(arguments) == _cli.OK, command


def test_a_plan_reads_retained_objects_only(four_cuts: CutFiles) -> None:
    """One request per retained cut, retained page and listing, and none for expired objects."""
    read: list[str] = []

    class Counting(Directory):
        def read(self, name: str) -> bytes:
            read.append(name)
            return super().read(name)

    collect_garbage(rooted(four_cuts, Counting))
    assert len(read) == len(set(read)) <= 4 + 5
    read.clear()
    expire(rooted(four_cuts, Counting), 1, None)
    assert sum(name.startswith("cuts/") for name in read) == 1


def at_times(cuts: CutFiles, first_s: float, step_s: float = 10.0) -> None:
    """Sets the write time of each cut by its epoch."""
    for epoch in range(cuts.epoch):
        os.utime(cuts.cut_path(epoch), (first_s + epoch * step_s,) * 2)


@pytest.mark.parametrize("damage", ["cut", "page"])
def test_an_unreadable_savepoint_retains_the_objects_of_its_time(
    four_cuts: CutFiles, damage: str
) -> None:
    replace_all(four_cuts)
    four_cuts.savepoint("early", 2)
    path = four_cuts.root / "savepoints" / "early.cut"
    at_times(four_cuts, first_s := time.time() - 10_000)
    os.utime(path, (first_s + 55,) * 2)
    late = {epoch: orphan(four_cuts, epoch, 9) for epoch in (1, 5, 6, 7)}
    if damage == "cut":
        four_cuts.change(path, lambda data: data[:-1])
        os.utime(path, (first_s + 55,) * 2)
    else:
        paged = CutReader(open_root(four_cuts.location).objects).savepoint("early").paged
        (four_cuts.root / str(paged.pages[0].name)).unlink()
    before = parts(four_cuts.objects())
    plan = Checkpoint(four_cuts.location).expire(retain_last=1)
    (note,) = plan.notes
    assert note.startswith("Savepoint early cannot be read: [CLEANCUT_CUT_CORRUPTED]")
    assert "cleancut savepoint drop" in note
    assert "up to epoch 5 is deleted" in note
    done = plan.apply()
    assert done.notes == plan.notes
    gone = before - parts(four_cuts.objects())
    assert {int(name.split("/")[2]) for name in gone} <= {6, 7}
    assert {f"cleancut/{late[6]}", f"cleancut/{late[7]}"} <= gone
    assert [cut.epoch for cut in Checkpoint(four_cuts.location).cuts()] == [four_cuts.epoch - 1]
    assert Checkpoint(four_cuts.location).drop_savepoint("early")
    swept = Checkpoint(four_cuts.location).collect_garbage().apply()
    assert swept.notes == ()
    assert parts(four_cuts.objects()) == named(four_cuts)


def test_the_last_epoch_before_a_savepoint_follows_from_write_times() -> None:
    regular = {5: 50, 6: 60, 7: 70, 8: 80}
    assert [last_before(at, regular) for at in (40, 59, 60, 65, 79)] == [4, 5, 6, 6, 7]
    assert last_before(80, regular) is None
    assert last_before(90, regular) is None
    # A fenced run wrote a cut late, so a cut before a gap is no evidence.
    assert last_before(40, {2: 55, **regular}) == 4
    assert last_before(65, {2: 66, **regular}) == 6
    assert last_before(1, {}) is None


def test_a_failing_object_store_is_no_unreadable_savepoint(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_cuts.savepoint("good", 1)
    before = four_cuts.objects()

    def savepoint(self: CutReader, name: str) -> None:
        raise error_of(
            "CLEANCUT_OBJECT_STORE_UNAVAILABLE",
            operation="Get",
            target=name,
            attempts=1,
            waitedMs=0,
            detail="time out",
        )

    monkeypatch.setattr(CutReader, "savepoint", savepoint)
    with pytest.raises(RetryableError):
        Checkpoint(four_cuts.location).expire(retain_last=1)
    assert four_cuts.objects() == before


def test_objects_of_a_fenced_run_are_young_by_the_clock_of_the_store(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        four_cuts.commit(([], 3), ([], 1))
    young, old = orphan(four_cuts, 1, 9), orphan(four_cuts, 2, 9)
    os.utime(four_cuts.root / old, (1, 1))
    write_owner(four_cuts, 1, ended=False)
    # The host is a day ahead of the store.
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + DAY_S)
    Checkpoint(four_cuts.location).expire(retain_last=1).apply(fence="retired")
    stays = parts(four_cuts.objects())
    assert f"cleancut/{young}" in stays
    assert f"cleancut/{old}" not in stays
