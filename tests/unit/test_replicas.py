"""A copy of a checkpoint is one at any moment, whatever happens to the pass that makes it."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.root import Root, open_root
from cleancut._checkpoint.replicate.replicas import ReplicaInfo, replicate
from cleancut._cli import main as _cli
from cleancut._format.cut.lineage import lineage_of
from cleancut._storage.directory import Directory
from cleancut._storage.objects import Place
from cleancut.errors import error_of
from tests.support.documented import blocks, commands
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import S3Server, s3_server
from tests.vectors.frame_cases import put


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def again(cuts: CutFiles, copy: Path) -> ReplicaInfo:
    return Checkpoint(cuts.location).replicate(copy)


def all_is_copied(cuts: CutFiles, copy: Path) -> bool:
    source, replica = Checkpoint(cuts.location), Checkpoint(copy)
    assert replica.verify().ok, replica.verify()
    same = [of.epoch for of in source.cuts()] == [of.epoch for of in replica.cuts()]
    return (
        same
        and source.test_restore(read_only=True).digest
        == replica.test_restore(read_only=True).digest
    )


def grown(cuts: CutFiles) -> None:
    cuts.commit(([put(9, "mary", cuts.epoch, 1.0)], 4), ([], 1))


def test_a_copy_has_all_that_a_restart_needs_and_follows(four_cuts: CutFiles, copy: Path) -> None:
    four_cuts.savepoint("keep", 1)
    first = again(four_cuts, copy)
    assert (first.epoch, first.lag_epochs, first.lag_ms) == (3, 0, 0)
    assert all_is_copied(four_cuts, copy)
    assert [of.name for of in Checkpoint(copy).savepoints()] == ["keep"]
    nothing = again(four_cuts, copy)
    assert (nothing.objects, nothing.bytes, nothing.deleted) == (0, 0, 0)
    grown(four_cuts)
    more = again(four_cuts, copy)
    assert more.epoch == 4
    assert 0 < more.objects < first.objects
    assert all_is_copied(four_cuts, copy)


def test_what_the_checkpoint_gives_up_goes(four_cuts: CutFiles, copy: Path) -> None:
    four_cuts.savepoint("drop", 0)
    again(four_cuts, copy)
    (four_cuts.root / "savepoints/drop.cut").unlink()
    four_cuts.cut_path(0).unlink()
    (four_cuts.location / "offsets/0").unlink()
    old = four_cuts.root / "segments" / f"{0:020d}" / f"driver-{'0' * 32}.seg"
    assert not old.exists()
    found = again(four_cuts, copy)
    assert found.deleted >= 2
    assert [of.epoch for of in Checkpoint(copy).cuts()] == [1, 2, 3]
    assert Checkpoint(copy).savepoints() == []


class Dying(Directory):
    """Dies before one of the changes that it is asked for."""

    left = 0

    def _step(self) -> None:
        if type(self).left == 0:
            raise KeyboardInterrupt
        type(self).left -= 1

    def create(self, name: str, data: bytes) -> bool:
        self._step()
        return super().create(name, data)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)


def place(copy: Path, kind: type[Directory] = Directory) -> Place:
    return kind(pyarrow.fs.LocalFileSystem(), str(copy))


def steps(cuts: CutFiles, copy: Path) -> Iterator[int]:
    """A pass for each of its changes, which dies before it; ends with one that does not."""
    for step in range(1000):
        Dying.left = step
        try:
            replicate(open_root(cuts.location), place(copy, Dying), str(copy), read_only=False)
            return
        except KeyboardInterrupt:
            yield step


def what_a_restart_finds(copy: Path, expected: Mapping[int, str]) -> int | None:
    """The last cut, which is as it was; no more than one epoch was begun after it."""
    if not (copy / "cleancut" / "cuts").exists():
        return None
    checkpoint = Checkpoint(copy)
    last = checkpoint.cuts()[-1].epoch
    assert checkpoint.test_restore(last, read_only=True).digest == expected[last]
    offsets = [int(of.name) for of in (copy / "offsets").iterdir()]
    assert last <= max(offsets) <= last + 1
    commits = (
        [int(of.name) for of in (copy / "commits").iterdir()] if (copy / "commits").exists() else []
    )
    assert max(commits, default=0) <= last
    return last


def test_a_pass_that_dies_at_any_change_leaves_a_checkpoint(
    four_cuts: CutFiles, copy: Path
) -> None:
    source = Checkpoint(four_cuts.location)
    expected = {
        of.epoch: source.test_restore(of.epoch, read_only=True).digest for of in source.cuts()
    }
    # The first pass, from nothing each time.
    dead = 0
    for _ in steps(four_cuts, copy):
        what_a_restart_finds(copy, expected)
        shutil.rmtree(copy, ignore_errors=True)
        dead += 1
    assert dead > 15
    assert all_is_copied(four_cuts, copy)
    # One that goes on, and takes away what was given up; and from where the one before died.
    for _ in range(2):
        grown(four_cuts)
    four_cuts.cut_path(0).unlink()
    expected |= {
        of.epoch: source.test_restore(of.epoch, read_only=True).digest for of in source.cuts()
    }
    found = [what_a_restart_finds(copy, expected) for _ in steps(four_cuts, copy)]
    assert found == sorted(found, key=lambda of: of or 0)
    assert found[0] == 3
    assert all_is_copied(four_cuts, copy)


class Sweeping(Directory):
    """Sweeps the oldest cut, with what it alone leads to, before one of the reads."""

    left = 0
    sweep: Callable[[], None]

    def above(self) -> "Sweeping":
        return Sweeping(self.filesystem, self.root.rpartition("/")[0])

    def read(self, name: str) -> bytes:
        type(self).left -= 1
        if type(self).left == 0:
            type(self).sweep()
        return super().read(name)


def test_a_sweep_at_any_moment_leaves_no_cut_without_its_parts(
    four_cuts: CutFiles, copy: Path
) -> None:
    source = open_root(four_cuts.location)
    kept = four_cuts.objects()
    gone = [name for name in kept if f"/{0:020d}" in name]
    assert any(name.endswith(".seg") for name in gone)
    assert any(name.endswith(".cut") for name in gone)

    def sweep() -> None:
        # Of the cuts after it: only the base of partition 0 leads no further back.
        for epoch in range(3):
            four_cuts.cut_path(epoch).unlink()
        needed = {
            of.segment
            for store in Checkpoint(four_cuts.location).cut().stores
            for of in store.chain
        }
        for path in list((four_cuts.root / "segments").rglob("*.seg")):
            if path.relative_to(four_cuts.root).as_posix() not in needed:
                path.unlink()

    Sweeping.sweep = staticmethod(sweep)
    swept = 0
    for read in range(1, 200):
        Sweeping.left = read
        objects = Sweeping(pyarrow.fs.LocalFileSystem(), f"{four_cuts.location}/cleancut")
        replicate(Root(source.location, objects), place(copy), str(copy), read_only=False)
        is_over = Sweeping.left > 0
        if not is_over:
            swept += 1
        report = Checkpoint(copy).verify()
        assert not [of for of in report.problems if "FRAME" in of.error_id], (read, report)
        assert Checkpoint(copy).test_restore(read_only=True).rows > 0
        shutil.rmtree(copy)
        for name, data in kept.items():
            (four_cuts.location / name).parent.mkdir(parents=True, exist_ok=True)
            (four_cuts.location / name).write_bytes(data)
        if is_over:
            break
    assert swept > 10


def refused(cuts: CutFiles, copy: Path) -> str:
    before = {of: of.read_bytes() for of in copy.rglob("*") if of.is_file()}
    with pytest.raises(RequestError) as found:
        again(cuts, copy)
    assert found.value.error_id == "CLEANCUT_REPLICA_DIVERGED"
    assert {of: of.read_bytes() for of in copy.rglob("*") if of.is_file()} == before
    return str(found.value.params["reason"])


def test_what_is_no_copy_is_left_alone(four_cuts: CutFiles, copy: Path) -> None:
    (copy / "offsets").mkdir(parents=True)
    (copy / "offsets" / "0").write_text("v1", encoding="utf-8")
    assert refused(four_cuts, copy) == "something else is there, which is no copy"
    shutil.rmtree(copy)
    again(four_cuts, copy)
    # A query that was started on it says so before it does anything.
    note = copy / "cleancut" / "owners" / f"{9:020d}.json"
    note.parent.mkdir(exist_ok=True)
    note.write_text("{}", encoding="utf-8")
    assert refused(four_cuts, copy) == "a query has been started on it"
    note.unlink()
    # The next run of each side takes the same number.
    for side in (four_cuts.location, copy):
        own = side / "cleancut" / "owners" / f"{4:020d}.json"
        own.parent.mkdir(exist_ok=True)
        own.write_text(f'{{"host": "{side}"}}', encoding="utf-8")
    assert refused(four_cuts, copy) == "a query has been started on it"
    shutil.rmtree(copy / "cleancut" / "owners")
    four_cuts.cut_path(3).unlink()
    assert refused(four_cuts, copy) == "it has a cut of epoch 3, and this of 2"
    (copy / "cleancut" / "replica.json").write_text('{"queryId": "other"}', encoding="utf-8")
    assert refused(four_cuts, copy) == "it is a copy of the query other"


def test_what_has_no_cuts_is_not_copied(tmp_path: Path, copy: Path) -> None:
    root = tmp_path / "plain" / "cleancut"
    root.mkdir(parents=True)
    (root / "format.json").write_text(
        '{"format": "cleancut", "version": 1, "queryId": null}', encoding="utf-8"
    )
    with pytest.raises(RequestError, match="CLEANCUT_STATE_NOT_FOUND"):
        Checkpoint(tmp_path / "plain").replicate(copy)
    assert not copy.exists()


def test_schemas_are_noted_where_the_copy_has_them(four_cuts: CutFiles, copy: Path) -> None:
    metadata = four_cuts.location / "state/0/_metadata/v2/3"
    metadata.parent.mkdir(parents=True)
    path = f"file:{four_cuts.location}/state/0/_stateSchema/default/0_x"
    store = '{"storeName":"default","stateSchemaFilePaths":["%s"]}'
    info = '"operatorInfo":{"operatorId":0,"operatorName":"dedupe"}'
    text = "{" + info + ',"stateStoreInfo":[' + store + "]}"
    metadata.write_text("v2\n" + text % path, encoding="utf-8")
    schema = four_cuts.location / "state/0/_stateSchema/default/0_x"
    schema.parent.mkdir(parents=True)
    schema.write_bytes(b"\0\2v3")
    again(four_cuts, copy)
    assert (copy / "state/0/_stateSchema/default/0_x").read_bytes() == b"\0\2v3"
    moved = text % f"{copy}/state/0/_stateSchema/default/0_x"
    assert (copy / "state/0/_metadata/v2/3").read_text(encoding="utf-8") == "v2\n" + moved


def test_a_pass_notes_how_far_the_copy_is(
    four_cuts: CutFiles, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Checkpoint(four_cuts.location)
    assert source.replicas() == []
    source.replicate(copy, read_only=True)
    assert source.replicas() == []
    assert not (four_cuts.root / "replicas").exists()
    other = copy.parent / "other"
    for _ in range(2):
        source.replicate(copy)
        source.replicate(other)
    grown(four_cuts)
    source.replicate(other)
    found = {of.location: of for of in source.replicas()}
    assert {of: at.epoch for of, at in found.items()} == {str(copy): 3, str(other): 4}
    assert {of: at.lag_epochs for of, at in found.items()} == {str(copy): 1, str(other): 0}
    cuts = source.cuts()
    later = cuts[-1].written - cuts[-2].written
    assert found[str(copy)].lag_ms == later.total_seconds() * 1000
    assert found[str(copy)].written == cuts[-2].written
    assert found[str(other)].lag_ms == 0
    # One for each copy, and none of the copy's own.
    assert len(list((four_cuts.root / "replicas").iterdir())) == 2
    assert Checkpoint(copy).replicas() == []
    (four_cuts.root / "replicas/notes.txt").write_text("no note", encoding="utf-8")
    assert len(source.replicas()) == 2
    assert _cli.main(["ls", str(four_cuts.location), "--replicas", "--json"]) == _cli.OK
    assert str(other) in capsys.readouterr().out


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with s3_server() as running:
        running.client.create_bucket(Bucket="bucket")
        yield running


def test_a_directory_goes_to_a_bucket_and_back(
    four_cuts: CutFiles, server: S3Server, copy: Path
) -> None:
    location = f"s3://bucket/{copy.parent.name}"
    source, region = Checkpoint(four_cuts.location), "us-east-1"
    source.replicate(location, endpoint=server.endpoint, region=region)
    there = Checkpoint(location, endpoint=server.endpoint, region=region)
    assert there.verify().ok
    assert there.replicate(copy).epoch == 3
    assert all_is_copied(four_cuts, copy)


def test_who_fences_a_query_takes_its_next_generation(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    first = checkpoint.fence("moved to the other region")
    assert checkpoint.fence("again") == first + 1
    note = (four_cuts.root / "owners" / f"{first:020d}.json").read_text(encoding="utf-8")
    assert '"host": "moved to the other region"' in note


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_copies_and_says_how_far_it_is(
    form: list[str], four_cuts: CutFiles, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main(["replicate", str(four_cuts.location), str(copy), *form]) == _cli.OK
    assert "lag" in capsys.readouterr().out
    assert all_is_copied(four_cuts, copy)
    four_cuts.cut_path(3).unlink()
    assert _cli.main(["replicate", str(four_cuts.location), str(copy), *form]) == _cli.REFUSED
    assert "CLEANCUT_REPLICA_DIVERGED" in capsys.readouterr().err
    assert _cli.main(["fence", str(four_cuts.location), "--reason", "moved", *form]) == _cli.OK
    assert "generation" in capsys.readouterr().out.lower()


def test_the_documented_commands_run(four_cuts: CutFiles, copy: Path) -> None:
    _, typed, _ = blocks("docs/guides/recovery.md", "sh")
    there = {"checkpoints/orders": four_cuts.location, "checkpoints/orders-copy": copy}
    for command in commands(typed):
        asked = [str(there.get(part, part)) for part in command[1:]]
        assert _cli.main(asked) == _cli.OK, command
    assert all_is_copied(four_cuts, copy)


def test_repeated_passes_continue_after_transient_errors(
    four_cuts: CutFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replicate = Checkpoint.replicate
    results: list[Any] = [
        error_of("CLEANCUT_SINK_UNREACHABLE", sink="s", seconds=1, detail="the store is away"),
        None,
        ConnectionResetError("the network is away"),
        None,
        error_of("CLEANCUT_REPLICA_DIVERGED", location="l", replica="r", reason="other"),
    ]
    waits: list[float] = []

    def failing(self: Checkpoint, *arguments: Any, **options: Any) -> Any:
        result = results.pop(0)
        if result is not None:
            raise result
        return replicate(self, *arguments, **options)

    monkeypatch.setattr(Checkpoint, "replicate", failing)
    monkeypatch.setattr("cleancut._cli.passes.time.sleep", waits.append)
    command = ["replicate", str(four_cuts.location), str(tmp_path / "copy"), "--json"]
    assert _cli.main([*command, "--every", "30"]) == _cli.REFUSED
    assert results == []
    assert waits == [30.0] * 4
    printed = capsys.readouterr()
    assert len([line for line in printed.out.splitlines() if '"epoch"' in line]) == 2
    assert "the store is away" in printed.err
    assert "the network is away" in printed.err
    # Without --every the first error ends the command.
    results.append(ConnectionResetError("the network is away"))
    assert _cli.main(command) == _cli.REFUSED


def test_a_copy_continues_its_checkpoint_and_those_that_it_continues(
    four_cuts: CutFiles, copy: Path, tmp_path: Path
) -> None:
    again(four_cuts, copy)
    further = tmp_path / "further"
    Checkpoint(copy).replicate(further)
    own = {"checkpoint": str(four_cuts.location), "generation": 1}
    for place, origins in ((copy, [own]), (further, [own, own | {"checkpoint": str(copy)}])):
        assert lineage_of((place / "cleancut" / "origin.json").read_bytes()) == origins
        assert Checkpoint(place).verify().ok
    with pytest.raises(ValueError, match="version 2"):
        lineage_of(b'{"formatVersion":2,"lineage":[]}')
