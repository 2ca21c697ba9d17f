"""A restore test reads the same objects as a restart, and detects each corrupted byte."""

import json
from pathlib import Path
from random import Random

import pytest

from cleancut import Checkpoint, CorruptedError, RequestError
from cleancut._cli import main as _cli
from tests.unit.cut_files import CutFiles
from tests.unit.random_states import RandomCheckpoint


def drawn(tmp_path: Path, seed: int = 3) -> RandomCheckpoint:
    return RandomCheckpoint(tmp_path / "checkpoint", Random(seed), has_cuts=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_restore_test_counts_the_rows_of_each_state(seed: int, tmp_path: Path) -> None:
    states = drawn(tmp_path, seed)
    checkpoint = Checkpoint(states.location)
    digests = {}
    for version, families in states.expected.items():
        restored = checkpoint.test_restore(version - 1, read_only=True)
        rows = [
            row
            for partitions in families.values()
            for partition_rows in partitions
            for row in partition_rows
        ]
        assert (restored.epoch, restored.rows, restored.in_flight_rows) == (
            version - 1,
            len(rows),
            0,
        )
        state = {
            name: sorted(r for partition_rows in families[name] for r in partition_rows)
            for name in families
        }
        digests[json.dumps(state, sort_keys=True)] = restored.digest
    assert len(set(digests.values())) == len(digests)
    assert checkpoint.restore_tests() == []


def test_history_reports_the_restore_test_of_each_epoch(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    assert {epoch.restore_tested for epoch in checkpoint.history()} == {None}
    checkpoint.test_restore(1)
    checkpoint.test_restore(2, read_only=True)
    last = [checkpoint.test_restore(1), checkpoint.test_restore()]
    proven = {epoch.epoch: epoch.restore_tested for epoch in checkpoint.history()}
    assert proven == {0: None, 1: last[0].tested, 2: None, 3: last[1].tested}


def test_the_latest_restore_tests_are_recorded(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    first = checkpoint.test_restore(1)
    last = checkpoint.test_restore()
    assert (first.epoch, last.epoch) == (1, 3)
    assert checkpoint.restore_tests() == [first, last]
    assert last.to_dict()["rows"] == checkpoint.state(0).num_rows
    for _ in range(20):
        last = checkpoint.test_restore()
    tests = checkpoint.restore_tests()
    assert len(tests) <= 16
    assert tests[-1] == last
    assert checkpoint.verify().ok
    # Written by a later release or by hand.
    note = sorted((four_cuts.root / "proofs").iterdir())[-1]
    note.write_text('{"epoch": 3, "surprise": 1}', encoding="utf-8")
    (four_cuts.root / "proofs" / "notes.txt").write_text("mine", encoding="utf-8")
    assert checkpoint.restore_tests() == tests[:-1]


def test_every_corrupted_byte_of_a_referenced_object_is_found(four_cuts: CutFiles) -> None:
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
def test_a_missing_file_of_spark_is_found_for_the_last_cut(name: str, four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    checkpoint.test_restore()
    (four_cuts.location / name).unlink()
    with pytest.raises((CorruptedError, RequestError), match=r"METADATA|missing"):
        checkpoint.test_restore()
    # A rollback to an earlier epoch reads copies of these files from the cut.
    assert checkpoint.test_restore(1).epoch == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_prints_the_result_and_fails_on_corruption(
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
