"""A drill proves what a restart would read, and nothing that is wrong passes it."""

import json
from pathlib import Path
from random import Random

import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._cli import main as _cli
from tests.unit.cut_files import CutFiles
from tests.unit.drawn_states import DrawnCheckpoint


def drawn(tmp_path: Path, seed: int = 3) -> DrawnCheckpoint:
    return DrawnCheckpoint(tmp_path / "checkpoint", Random(seed), has_cuts=True)


@pytest.mark.parametrize("seed", range(6))
def test_it_counts_the_rows_of_each_state(seed: int, tmp_path: Path) -> None:
    of = drawn(tmp_path, seed)
    checkpoint = Checkpoint(of.location)
    digests = {}
    for version, families in of.expected.items():
        found = checkpoint.test_restore(version - 1, read_only=True)
        rows = [row for partitions in families.values() for own in partitions for row in own]
        assert (found.epoch, found.rows, found.in_flight_rows) == (version - 1, len(rows), 0)
        state = {name: sorted(r for own in families[name] for r in own) for name in families}
        digests[json.dumps(state, sort_keys=True)] = found.digest
    assert len(set(digests.values())) == len(digests)
    assert checkpoint.restore_tests() == []


def test_history_tells_when_each_epoch_was_proven(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    assert {of.restore_tested for of in checkpoint.history()} == {None}
    checkpoint.test_restore(1)
    checkpoint.test_restore(2, read_only=True)
    last = [checkpoint.test_restore(1), checkpoint.test_restore()]
    proven = {of.epoch: of.restore_tested for of in checkpoint.history()}
    assert proven == {0: None, 1: last[0].tested, 2: None, 3: last[1].tested}


def test_what_it_proves_is_noted_and_the_last_notes_stay(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    first = checkpoint.test_restore(1)
    last = checkpoint.test_restore()
    assert (first.epoch, last.epoch) == (1, 3)
    assert checkpoint.restore_tests() == [first, last]
    assert last.to_dict()["rows"] == checkpoint.state(0).num_rows
    for _ in range(20):
        last = checkpoint.test_restore()
    found = checkpoint.restore_tests()
    assert len(found) <= 16
    assert found[-1] == last
    assert checkpoint.verify().ok
    # Of a later release, or of a hand.
    note = sorted((four_cuts.root / "proofs").iterdir())[-1]
    note.write_text('{"epoch": 3, "surprise": 1}', encoding="utf-8")
    (four_cuts.root / "proofs" / "notes.txt").write_text("mine", encoding="utf-8")
    assert checkpoint.restore_tests() == found[:-1]


def test_every_damaged_byte_of_what_the_cut_needs_is_found(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    proven = checkpoint.test_restore(read_only=True)
    frames = {frame for store in checkpoint.cut().stores for frame in store.chain}
    assert len(frames) > 3
    for frame in frames:
        path = four_cuts.root / frame.segment
        data = path.read_bytes()
        for at in range(frame.offset, frame.offset + frame.length, 3):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises((CorruptedError, RequestError)):
                checkpoint.test_restore()
        path.write_bytes(data)
    assert checkpoint.test_restore(read_only=True).digest == proven.digest
    assert checkpoint.restore_tests() == []


@pytest.mark.parametrize("name", ["metadata", "offsets/3", "state/0/_metadata/metadata"])
def test_a_file_of_sparks_that_is_gone_is_found_for_the_last_cut(
    name: str, four_cuts: CutFiles
) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    checkpoint.test_restore()
    (four_cuts.location / name).unlink()
    with pytest.raises((CorruptedError, RequestError), match=r"METADATA|missing"):
        checkpoint.test_restore()
    # To go back to another one takes what the cut itself holds.
    assert checkpoint.test_restore(1).epoch == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_says_what_was_proven_and_fails_on_damage(
    form: list[str], four_cuts: CutFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(four_cuts.location)
    assert _cli.main(["test-restore", location, *form]) == _cli.OK
    assert "3" in capsys.readouterr().out
    assert _cli.main(["test-restore", location, "--list", *form]) == _cli.OK
    assert "digest" in capsys.readouterr().out
    assert _cli.main(["test-restore", location, "--at", "9", *form]) == _cli.REFUSED
    assert "CLEANCUT_STATE_NOT_FOUND" in capsys.readouterr().err
    segment = next(
        frame.segment for store in Checkpoint(location).cut().stores for frame in store.chain
    )
    (four_cuts.root / segment).unlink()
    assert _cli.main(["test-restore", location, *form]) == _cli.DAMAGED
    error = capsys.readouterr().err
    assert "CLEANCUT_CUT_CORRUPTED" in error
    assert segment in error
