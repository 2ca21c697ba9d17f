"""Savepoints that this package creates and drops while a query runs."""

import json
from pathlib import Path

import pyarrow.fs
import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.retain.savepoints import create_savepoint
from cleancut._cli import main as _cli
from cleancut._storage.directory import Directory
from tests.unit.cut_files import CutFiles
from tests.unit.memory_objects import MemoryObjects
from tests.unit.test_cli import run

INVALID = "CLEANCUT_SAVEPOINT_INVALID"


def cut_of(files: CutFiles, epoch: int) -> Path:
    return Path(files.location) / f"cleancut/cuts/{epoch:020d}.cut"


def test_a_savepoint_retains_a_cut_until_it_is_dropped(four_cuts: CutFiles) -> None:
    there = Checkpoint(four_cuts.location)
    assert there.create_savepoint("good", 1) == 1
    assert there.create_savepoint("last") == there.cuts()[-1].epoch
    assert [savepoint.name for savepoint in there.savepoints()] == ["good", "last"]
    # A repeated call changes nothing; another cut under the same name is refused.
    assert there.create_savepoint("good", 1) == 1
    with pytest.raises(RequestError, match="has this name already") as raised:
        there.create_savepoint("good", 2)
    assert raised.value.error_id == INVALID
    cut_of(four_cuts, 1).unlink()
    assert there.cut(at="good").info.version == 2
    home = Path(four_cuts.location) / "cleancut/savepoints"
    assert sorted(path.name for path in home.iterdir()) == ["good.cut", "last.cut"]
    # A checksum file that Hadoop writes for each of its files.
    (home / ".good.cut.crc").write_bytes(b"")
    assert there.drop_savepoint("good")
    assert not there.drop_savepoint("good")
    assert not there.drop_savepoint("../cuts/00000000000000000002")
    assert [path.name for path in home.iterdir()] == ["last.cut"]


def test_an_invalid_savepoint_is_refused_without_traces(four_cuts: CutFiles) -> None:
    there = Checkpoint(four_cuts.location)
    for name, epoch, reason in [
        ("good", 99, "there is no cut of epoch 99"),
        ("no/good", 1, "a name has 1 to 64 letters"),
        ("x" * 65, 1, "a name has 1 to 64 letters"),
        ("17", 1, "a name of digits only would be read as an epoch"),
    ]:
        with pytest.raises(RequestError, match=reason) as raised:
            there.create_savepoint(name, epoch)
        assert raised.value.error_id == INVALID
    cut_of(four_cuts, 1).write_bytes(b"none")
    with pytest.raises(CorruptedError):
        there.create_savepoint("good", 1)
    assert there.savepoints() == []


class LossyObjects(MemoryObjects):
    """An object store that stores all bytes but the last one."""

    def create(self, name: str, data: bytes) -> bool:
        return super().create(name, data[:-1])


def root_of(files: CutFiles, kind: type[MemoryObjects]) -> Root:
    data = {
        name.removeprefix("cleancut/"): content
        for name, content in files.objects().items()
        if name.startswith("cleancut/")
    }
    return Root("memory", kind(data))


def test_a_savepoint_that_is_stored_with_other_bytes_is_corrupted(four_cuts: CutFiles) -> None:
    with pytest.raises(CorruptedError, match="it is not what was written"):
        create_savepoint(root_of(four_cuts, LossyObjects), "good", 1)


class ConcurrentCollection(MemoryObjects):
    """A driver that deletes a cut as soon as an object is created."""

    def create(self, name: str, data: bytes) -> bool:
        created = super().create(name, data)
        self.data = {at: held for at, held in self.data.items() if not at.startswith("cuts/")}
        return created


def test_a_cut_deleted_during_its_savepoint_is_refused(four_cuts: CutFiles) -> None:
    root = root_of(four_cuts, ConcurrentCollection)
    with pytest.raises(RequestError, match="was deleted meanwhile"):
        create_savepoint(root, "good", 1)
    assert root.savepoints() == []


def test_a_file_is_created_completely_and_once(tmp_path: Path) -> None:
    there = Directory(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert there.create("a/b", b"one")
    assert not there.create("a/b", b"two")
    assert there.read("a/b") == b"one"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    there.delete("a/b")
    there.delete("a/b")
    assert there.list("a") == {}


def test_the_commands_create_and_drop_savepoints(
    four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(four_cuts.location)

    def said(*arguments: str) -> str:
        status, out, _ = run(capsys, *arguments)
        assert status == _cli.OK
        return out

    first = ("savepoint", "create", location, "good", "--epoch", "1")
    assert said(*first) == "savepoint good retains the cut of epoch 1\n"
    savepoint = json.loads(said(*first, "--json"))
    assert savepoint == {"savepoint": "good", "epoch": 1}
    assert _cli.main(["savepoint", "create", location, "good", "--epoch", "2"]) == _cli.REFUSED
    assert "has this name already" in capsys.readouterr().err
    assert said("savepoint", "drop", location, "good") == "good is dropped\n"
    assert _cli.main(["savepoint", "drop", location, "good"]) == _cli.REFUSED
    assert "has no savepoint good; it has no savepoint." in capsys.readouterr().err
