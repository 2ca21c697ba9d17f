"""Savepoints that are made and given up beside a query, by this package alone."""

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


def test_a_cut_is_kept_under_a_name_until_that_is_given_up(four_cuts: CutFiles) -> None:
    there = Checkpoint(four_cuts.location)
    assert there.create_savepoint("good", 1) == 1
    assert there.create_savepoint("last") == there.cuts()[-1].epoch
    assert [of.name for of in there.savepoints()] == ["good", "last"]
    # Once more changes nothing, another cut under the name is refused.
    assert there.create_savepoint("good", 1) == 1
    with pytest.raises(RequestError, match="has this name already") as raised:
        there.create_savepoint("good", 2)
    assert raised.value.error_id == INVALID
    cut_of(four_cuts, 1).unlink()
    assert there.cut(at="good").info.version == 2
    home = Path(four_cuts.location) / "cleancut/savepoints"
    assert sorted(path.name for path in home.iterdir()) == ["good.cut", "last.cut"]
    # What Hadoop keeps beside its own.
    (home / ".good.cut.crc").write_bytes(b"")
    assert there.drop_savepoint("good")
    assert not there.drop_savepoint("good")
    assert not there.drop_savepoint("../cuts/00000000000000000002")
    assert [path.name for path in home.iterdir()] == ["last.cut"]


def test_what_cannot_be_kept_is_refused_and_leaves_nothing(four_cuts: CutFiles) -> None:
    there = Checkpoint(four_cuts.location)
    for name, epoch, reason in [
        ("good", 99, "there is no cut of epoch 99"),
        ("no/good", 1, "a name has 1 to 64 letters"),
        ("x" * 65, 1, "a name has 1 to 64 letters"),
    ]:
        with pytest.raises(RequestError, match=reason) as raised:
            there.create_savepoint(name, epoch)
        assert raised.value.error_id == INVALID
    cut_of(four_cuts, 1).write_bytes(b"none")
    with pytest.raises(CorruptedError):
        there.create_savepoint("good", 1)
    assert there.savepoints() == []


class Swept(MemoryObjects):
    """A driver that sweeps a cut as soon as something is written."""

    def create(self, name: str, data: bytes) -> bool:
        created = super().create(name, data)
        self.data = {name: of for name, of in self.data.items() if not name.startswith("cuts/")}
        return created


def test_a_cut_that_is_swept_meanwhile_is_no_savepoint(four_cuts: CutFiles) -> None:
    data = {
        name.removeprefix("cleancut/"): of
        for name, of in four_cuts.objects().items()
        if name.startswith("cleancut/")
    }
    objects = Swept(data)
    with pytest.raises(RequestError, match="was deleted meanwhile"):
        create_savepoint(Root("memory", objects), "good", 1)
    assert not [name for name in objects.data if name.startswith("savepoints/")]


def test_a_file_is_created_whole_and_once(tmp_path: Path) -> None:
    there = Directory(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert there.create("a/b", b"one")
    assert not there.create("a/b", b"two")
    assert there.read("a/b") == b"one"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    there.delete("a/b")
    there.delete("a/b")
    assert there.list("a") == {}


def test_the_commands_make_and_drop_savepoints(
    four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(four_cuts.location)

    def said(*arguments: str) -> str:
        status, out, _ = run(capsys, *arguments)
        assert status == _cli.OK
        return out

    first = ("savepoint", "create", location, "good", "--epoch", "1")
    assert said(*first) == "savepoint good retains the cut of epoch 1\n"
    told = json.loads(said(*first, "--json"))
    assert told == {"savepoint": "good", "epoch": 1}
    assert _cli.main(["savepoint", "create", location, "good", "--epoch", "2"]) == _cli.REFUSED
    assert "has this name already" in capsys.readouterr().err
    assert said("savepoint", "drop", location, "good") == "good is dropped\n"
    assert _cli.main(["savepoint", "drop", location, "good"]) == _cli.REFUSED
    assert "there is no savepoint good" in capsys.readouterr().out
