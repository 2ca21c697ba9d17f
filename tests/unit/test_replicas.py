"""A replica is a valid checkpoint at any moment, whatever happens to the pass that writes it."""

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


def is_complete(cuts: CutFiles, copy: Path) -> bool:
    source, replica = Checkpoint(cuts.location), Checkpoint(copy)
    assert replica.verify().ok, replica.verify()
    same = [cut.epoch for cut in source.cuts()] == [cut.epoch for cut in replica.cuts()]
    return (
        same
        and source.test_restore(read_only=True).digest
        == replica.test_restore(read_only=True).digest
    )


def grown(cuts: CutFiles) -> None:
    cuts.commit(([put(9, "mary", cuts.epoch, 1.0)], 4), ([], 1))


def test_a_replica_has_all_files_for_a_restart_and_follows(four_cuts: CutFiles, copy: Path) -> None:
    four_cuts.savepoint("keep", 1)
    first = again(four_cuts, copy)
    assert (first.epoch, first.lag_epochs, first.lag_ms) == (3, 0, 0)
    assert is_complete(four_cuts, copy)
    assert [savepoint.name for savepoint in Checkpoint(copy).savepoints()] == ["keep"]
    nothing = again(four_cuts, copy)
    assert (nothing.objects, nothing.bytes, nothing.deleted) == (0, 0, 0)
    grown(four_cuts)
    more = again(four_cuts, copy)
    assert more.epoch == 4
    assert 0 < more.objects < first.objects
    assert is_complete(four_cuts, copy)


def test_expired_cuts_are_deleted_from_the_replica(four_cuts: CutFiles, copy: Path) -> None:
    four_cuts.savepoint("drop", 0)
    again(four_cuts, copy)
    (four_cuts.root / "savepoints/drop.cut").unlink()
    four_cuts.cut_path(0).unlink()
    (four_cuts.location / "offsets/0").unlink()
    old = four_cuts.root / "segments" / f"{0:020d}" / f"driver-{'0' * 32}.seg"
    assert not old.exists()
    report = again(four_cuts, copy)
    assert report.deleted >= 2
    assert [cut.epoch for cut in Checkpoint(copy).cuts()] == [1, 2, 3]
    assert Checkpoint(copy).savepoints() == []


class CrashingObjects(Directory):
    """Crashes before the given change."""

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
    """Yields one pass for each of its changes, which crashes before it; the last pass completes."""
    for step in range(1000):
        CrashingObjects.left = step
        try:
            replicate(
                open_root(cuts.location), place(copy, CrashingObjects), str(copy), read_only=False
            )
            return
        except KeyboardInterrupt:
            yield step


def last_cut_of_replica(copy: Path, expected: Mapping[int, str]) -> int | None:
    """Returns the last cut, which is unchanged; at most one epoch was begun after it."""
    if not (copy / "cleancut" / "cuts").exists():
        return None
    checkpoint = Checkpoint(copy)
    last = checkpoint.cuts()[-1].epoch
    assert checkpoint.test_restore(last, read_only=True).digest == expected[last]
    offsets = [int(file.name) for file in (copy / "offsets").iterdir()]
    assert last <= max(offsets) <= last + 1
    commits = (
        [int(file.name) for file in (copy / "commits").iterdir()]
        if (copy / "commits").exists()
        else []
    )
    assert max(commits, default=0) <= last
    return last


def test_a_pass_that_crashes_at_any_change_leaves_a_checkpoint(
    four_cuts: CutFiles, copy: Path
) -> None:
    source = Checkpoint(four_cuts.location)
    expected = {
        cut.epoch: source.test_restore(cut.epoch, read_only=True).digest for cut in source.cuts()
    }
    # The first pass, each time from an empty replica.
    dead = 0
    for _ in steps(four_cuts, copy):
        last_cut_of_replica(copy, expected)
        shutil.rmtree(copy, ignore_errors=True)
        dead += 1
    assert dead > 15
    assert is_complete(four_cuts, copy)
    # A pass that continues, deletes expired objects, and starts where the previous one crashed.
    for _ in range(2):
        grown(four_cuts)
    four_cuts.cut_path(0).unlink()
    expected |= {
        cut.epoch: source.test_restore(cut.epoch, read_only=True).digest for cut in source.cuts()
    }
    restarts = [last_cut_of_replica(copy, expected) for _ in steps(four_cuts, copy)]
    assert restarts == sorted(restarts, key=lambda epoch: epoch or 0)
    assert restarts[0] == 3
    assert is_complete(four_cuts, copy)


class ConcurrentCollection(Directory):
    """Deletes the oldest cut and the objects that it alone references before one of the reads."""

    left = 0
    sweep: Callable[[], None]

    def above(self) -> "ConcurrentCollection":
        return ConcurrentCollection(self.filesystem, self.root.rpartition("/")[0])

    def read(self, name: str) -> bytes:
        type(self).left -= 1
        if type(self).left == 0:
            type(self).sweep()
        return super().read(name)


def test_garbage_collection_at_any_read_leaves_complete_cuts(
    four_cuts: CutFiles, copy: Path
) -> None:
    source = open_root(four_cuts.location)
    kept = four_cuts.objects()
    gone = [name for name in kept if f"/{0:020d}" in name]
    assert any(name.endswith(".seg") for name in gone)
    assert any(name.endswith(".cut") for name in gone)

    def sweep() -> None:
        # Of the later cuts, only the snapshot of partition 0 ends its chain.
        for epoch in range(3):
            four_cuts.cut_path(epoch).unlink()
        needed = {
            frame.segment
            for store in Checkpoint(four_cuts.location).cut().stores
            for frame in store.chain
        }
        for path in list((four_cuts.root / "segments").rglob("*.seg")):
            if path.relative_to(four_cuts.root).as_posix() not in needed:
                path.unlink()

    ConcurrentCollection.sweep = staticmethod(sweep)
    swept = 0
    for read in range(1, 200):
        ConcurrentCollection.left = read
        objects = ConcurrentCollection(
            pyarrow.fs.LocalFileSystem(), f"{four_cuts.location}/cleancut"
        )
        replicate(Root(source.location, objects), place(copy), str(copy), read_only=False)
        is_over = ConcurrentCollection.left > 0
        if not is_over:
            swept += 1
        report = Checkpoint(copy).verify()
        assert not [problem for problem in report.problems if "FRAME" in problem.error_id], (
            read,
            report,
        )
        assert Checkpoint(copy).test_restore(read_only=True).rows > 0
        shutil.rmtree(copy)
        for name, data in kept.items():
            (four_cuts.location / name).parent.mkdir(parents=True, exist_ok=True)
            (four_cuts.location / name).write_bytes(data)
        if is_over:
            break
    assert swept > 10


class ConcurrentEpoch(Directory):
    """Commits an epoch before the offset log is listed, which is after the cuts were."""

    commit: Callable[[], None]

    def above(self) -> "ConcurrentEpoch":
        return ConcurrentEpoch(self.filesystem, self.root.rpartition("/")[0])

    def list(self, below: str) -> Mapping[str, int]:
        if below == "offsets":
            type(self).commit()
        return super().list(below)


def test_entries_of_an_epoch_that_is_committed_meanwhile_are_not_copied(
    four_cuts: CutFiles, copy: Path
) -> None:
    ConcurrentEpoch.commit = staticmethod(lambda: grown(four_cuts))
    objects = ConcurrentEpoch(pyarrow.fs.LocalFileSystem(), f"{four_cuts.location}/cleancut")
    source = Root(open_root(four_cuts.location).location, objects)
    assert replicate(source, place(copy), str(copy), read_only=True).lag_epochs == 1
    for log in ("offsets", "commits"):
        names = {path.name for path in (four_cuts.location / log).iterdir()}
        assert {path.name for path in (copy / log).iterdir()} == names - {"4"} == set("0123")


def refused(cuts: CutFiles, copy: Path) -> str:
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with pytest.raises(RequestError) as raised:
        again(cuts, copy)
    assert raised.value.error_id == "CLEANCUT_REPLICA_DIVERGED"
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before
    return str(raised.value.params["reason"])


def test_a_target_that_is_no_replica_is_refused(four_cuts: CutFiles, copy: Path) -> None:
    (copy / "offsets").mkdir(parents=True)
    (copy / "offsets" / "0").write_text("v1", encoding="utf-8")
    assert refused(four_cuts, copy) == "it contains other objects than a replica"
    shutil.rmtree(copy)
    again(four_cuts, copy)
    # A query that was started on the replica reports this before it does anything.
    note = copy / "cleancut" / "owners" / f"{9:020d}.json"
    note.parent.mkdir(exist_ok=True)
    note.write_text("{}", encoding="utf-8")
    assert refused(four_cuts, copy) == "a query has been started on it"
    note.unlink()
    # The next run of each side has the same generation.
    for side in (four_cuts.location, copy):
        owner = side / "cleancut" / "owners" / f"{4:020d}.json"
        owner.parent.mkdir(exist_ok=True)
        owner.write_text(f'{{"host": "{side}"}}', encoding="utf-8")
    assert refused(four_cuts, copy) == "a query has been started on it"
    shutil.rmtree(copy / "cleancut" / "owners")
    four_cuts.cut_path(3).unlink()
    assert refused(four_cuts, copy) == "it has a cut of epoch 3, and this of 2"
    (copy / "cleancut" / "replica.json").write_text('{"queryId": "other"}', encoding="utf-8")
    assert refused(four_cuts, copy) == "it is a copy of the query other"


def test_a_replica_with_another_cut_of_its_last_epoch_is_refused(
    four_cuts: CutFiles, copy: Path
) -> None:
    again(four_cuts, copy)
    cut = copy / "cleancut" / four_cuts.cut_path(3).relative_to(four_cuts.root)
    cut.write_bytes(four_cuts.cut_path(2).read_bytes())
    assert refused(four_cuts, copy) == "its cut of epoch 3 is another one"


def test_a_checkpoint_without_cuts_is_not_replicated(tmp_path: Path, copy: Path) -> None:
    root = tmp_path / "plain" / "cleancut"
    root.mkdir(parents=True)
    (root / "format.json").write_text(
        '{"format": "cleancut", "version": 1, "queryId": null}', encoding="utf-8"
    )
    with pytest.raises(RequestError, match="CLEANCUT_STATE_NOT_FOUND"):
        Checkpoint(tmp_path / "plain").replicate(copy)
    assert not copy.exists()


def test_schemas_are_recorded_with_their_path_in_the_replica(
    four_cuts: CutFiles, copy: Path
) -> None:
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


def test_a_pass_records_the_lag_of_the_replica(
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
    replicas = {replica.location: replica for replica in source.replicas()}
    assert {location: at.epoch for location, at in replicas.items()} == {
        str(copy): 3,
        str(other): 4,
    }
    assert {location: at.lag_epochs for location, at in replicas.items()} == {
        str(copy): 1,
        str(other): 0,
    }
    cuts = source.cuts()
    later = cuts[-1].written - cuts[-2].written
    assert replicas[str(copy)].lag_ms == later.total_seconds() * 1000
    assert replicas[str(copy)].written == cuts[-2].written
    assert replicas[str(other)].lag_ms == 0
    # One record per replica, and none in the replica itself.
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


def test_a_directory_is_replicated_to_a_bucket_and_back(
    four_cuts: CutFiles, server: S3Server, copy: Path
) -> None:
    location = f"s3://bucket/{copy.parent.name}"
    source, region = Checkpoint(four_cuts.location), "us-east-1"
    source.replicate(location, endpoint=server.endpoint, region=region)
    there = Checkpoint(location, endpoint=server.endpoint, region=region)
    assert there.verify().ok
    assert there.replicate(copy).epoch == 3
    assert is_complete(four_cuts, copy)


def test_a_fence_takes_the_next_generation(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    first = checkpoint.fence("moved to the other region")
    assert checkpoint.fence("again") == first + 1
    note = (four_cuts.root / "owners" / f"{first:020d}.json").read_text(encoding="utf-8")
    assert '"host": "moved to the other region"' in note


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_replicates_and_prints_the_lag(
    form: list[str], four_cuts: CutFiles, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main(["replicate", str(four_cuts.location), str(copy), *form]) == _cli.OK
    assert "lag" in capsys.readouterr().out
    assert is_complete(four_cuts, copy)
    four_cuts.cut_path(3).unlink()
    assert _cli.main(["replicate", str(four_cuts.location), str(copy), *form]) == _cli.REFUSED
    assert "CLEANCUT_REPLICA_DIVERGED" in capsys.readouterr().err
    assert _cli.main(["fence", str(four_cuts.location), "--reason", "moved", *form]) == _cli.OK
    assert "generation" in capsys.readouterr().out.lower()


def test_the_documented_commands_run(four_cuts: CutFiles, copy: Path) -> None:
    (typed,) = blocks("docs/operate/recovery/replicate.md", "sh")
    there = {"checkpoints/orders": four_cuts.location, "checkpoints/orders-copy": copy}
    for command in commands(typed):
        arguments = [str(there.get(part, part)) for part in command[1:]]
        assert _cli.main(arguments) == _cli.OK, command
    assert is_complete(four_cuts, copy)


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


def test_a_replica_continues_its_checkpoint_and_its_origins(
    four_cuts: CutFiles, copy: Path, tmp_path: Path
) -> None:
    again(four_cuts, copy)
    further = tmp_path / "further"
    Checkpoint(copy).replicate(further)
    origin = {"checkpoint": str(four_cuts.location), "generation": 1}
    for place, origins in (
        (copy, [origin]),
        (further, [origin, origin | {"checkpoint": str(copy)}]),
    ):
        assert lineage_of((place / "cleancut" / "origin.json").read_bytes()) == origins
        assert Checkpoint(place).verify().ok
    with pytest.raises(ValueError, match="version 2"):
        lineage_of(b'{"formatVersion":2,"lineage":[]}')
