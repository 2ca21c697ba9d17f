"""`verify` reports each problem of a checkpoint, and no other."""

import random
from pathlib import Path
from zlib import crc32

import pytest

from cleancut import Checkpoint
from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.store_reader import StoreReader
from cleancut.types import VerifyReport
from tests.unit.checkpoint_files import CheckpointFiles, name_of
from tests.vectors.frame_cases import put, remove, version_id
from tests.vectors.frame_encoder import encode_trailer

DAMAGED = "CLEANCUT_FRAME_CORRUPTED"
MISSING = "CLEANCUT_FRAME_MISSING"
MISPLACED = "CLEANCUT_FRAME_MISPLACED"


def flip(path: Path, place: int = -50) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def problems_of(report: VerifyReport) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(Path(p.object).name, p.error_id, p.affects) for p in report.problems]


@pytest.fixture
def chain(files: CheckpointFiles) -> CheckpointFiles:
    """Versions 1 to 6, with a base at 4."""
    files.delta(1, [put(1, "ada", 1, 1.0)], 1)
    files.delta(2, [put(2, "grace", 2, 2.0)], 2)
    files.delta(3, [remove(1, "ada")], 1)
    files.delta(4, [put(3, "lin", 3, 3.0)], 2)
    files.base(4, [put(3, "lin", 3, 3.0), put(2, "grace", 2, 2.0)])
    files.delta(5, [], 2)
    files.delta(6, [put(1, "ada", 4, 4.0)], 3)
    return files


def verify(files: CheckpointFiles) -> VerifyReport:
    return Checkpoint(files.location).verify()


def test_an_intact_checkpoint_has_no_problems(chain: CheckpointFiles) -> None:
    report = verify(chain)
    assert report.ok
    assert (report.stores, report.frames, report.loadable, report.retired) == (1, 7, 6, 0)
    assert report.bytes == sum(path.stat().st_size for path in chain.directory(0, 0).iterdir())


def test_a_corrupted_delta_affects_later_versions(chain: CheckpointFiles) -> None:
    flip(chain.directory(0, 0) / name_of(2))
    report = verify(chain)
    assert not report.ok
    assert problems_of(report) == [(name_of(2), DAMAGED, (2, 3))]
    assert report.loadable == 4


def test_a_corrupted_delta_next_to_a_base_affects_nothing(chain: CheckpointFiles) -> None:
    flip(chain.directory(0, 0) / name_of(4))
    assert problems_of(verify(chain)) == [(name_of(4), DAMAGED, ())]


def test_a_corrupted_base_affects_later_versions(chain: CheckpointFiles) -> None:
    flip(chain.directory(0, 0) / name_of(4, "base"))
    assert problems_of(verify(chain)) == [(name_of(4, "base"), DAMAGED, (4, 5, 6))]


def test_a_missing_delta_is_named(chain: CheckpointFiles) -> None:
    (chain.directory(0, 0) / name_of(5)).unlink()
    assert problems_of(verify(chain)) == [(name_of(5), MISSING, (6,))]


def test_exchanged_frames_are_both_named(chain: CheckpointFiles) -> None:
    second, third = (chain.directory(0, 0) / name_of(version) for version in (2, 3))
    data = second.read_bytes()
    second.write_bytes(third.read_bytes())
    third.write_bytes(data)
    assert problems_of(verify(chain)) == [
        (name_of(2), MISPLACED, (2,)),
        (name_of(3), MISPLACED, (3,)),
    ]


def test_a_frame_of_another_partition_is_named(chain: CheckpointFiles) -> None:
    other = chain.delta(1, [put(9, "x", 9, 9.0)], 1, partition=1)
    other.write_bytes((chain.directory(0, 0) / name_of(1)).read_bytes())
    assert problems_of(verify(chain)) == [(name_of(1), MISPLACED, (1,))]


def test_a_base_that_differs_from_its_deltas_is_named(chain: CheckpointFiles) -> None:
    chain.base(4, [put(3, "lin", 3, 3.0), put(2, "grace", 2, 99.0)])
    report = verify(chain)
    assert problems_of(report) == [(name_of(4, "base"), DAMAGED, (4, 5, 6))]
    assert "not those of the deltas" in report.problems[0].message


def test_a_wrong_count_is_named(chain: CheckpointFiles) -> None:
    chain.delta(6, [put(1, "ada", 4, 4.0)], 4)
    report = verify(chain)
    assert problems_of(report) == [(name_of(6), DAMAGED, (6,))]
    assert "3 live keys after it, and its trailer says 4" in report.problems[0].message


def test_remains_of_retention_are_no_problem(chain: CheckpointFiles) -> None:
    (chain.directory(0, 0) / name_of(1)).unlink()
    report = verify(chain)
    assert report.ok
    assert (report.loadable, report.retired) == (3, 2)


def test_missing_frames_are_a_problem_if_nothing_loads(chain: CheckpointFiles) -> None:
    (chain.directory(0, 0) / name_of(1)).unlink()
    (chain.directory(0, 0) / name_of(4, "base")).unlink()
    report = verify(chain)
    assert problems_of(report) == [(name_of(1), MISSING, (2, 3, 4, 5, 6))]
    assert (report.loadable, report.retired) == (0, 0)


def test_discarded_attempts_are_checked_too(chain: CheckpointFiles) -> None:
    directory = chain.directory(0, 0)
    retry = "f" * 32
    data = (directory / name_of(6)).read_bytes()
    (directory / name_of(6, own_id=retry)).write_bytes(data)
    assert problems_of(verify(chain)) == [(name_of(6, own_id=retry), MISPLACED, (6,))]


def add_later_attempt_at_version_5(files: CheckpointFiles) -> None:
    """Version 6 then builds on the lesser id of version 5."""
    directory = files.directory(0, 0)
    data = (directory / name_of(5)).read_bytes()
    old, new = version_id(5).encode(), b"e" * 32
    assert data.count(old) == 1
    (directory / name_of(5, own_id=new.decode())).write_bytes(resealed(data.replace(old, new)))


def test_an_attempt_with_successors_is_loaded(chain: CheckpointFiles) -> None:
    add_later_attempt_at_version_5(chain)
    report = verify(chain)
    assert report.ok
    assert (report.frames, report.loadable) == (8, 6)


def test_a_frame_deleted_during_verification_is_reported(
    chain: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_later_attempt_at_version_5(chain)

    def gone(reader: StoreReader, version: int, version_id: str | None = None) -> State:
        raise reader.missing(version, f"{version_id} is gone")

    monkeypatch.setattr(StoreReader, "load", gone)
    affected = {version for problem in verify(chain).problems for version in problem.affects}
    assert affected == {5, 6}


def resealed(frame: bytes) -> bytes:
    """Recomputes the checksums of an empty frame."""
    size = int.from_bytes(frame[8:12], "little")
    crc = crc32(frame[:12] + frame[16 : 16 + size])
    head = frame[:12] + crc.to_bytes(4, "little") + frame[16 : 16 + size]
    return head + encode_trailer(crc, 0, 0, 2, len(frame))


def test_every_flipped_byte_of_a_checkpoint_is_found(chain: CheckpointFiles) -> None:
    chance = random.Random(7)
    for path in sorted(chain.directory(0, 0).iterdir()):
        sound = path.read_bytes()
        for place in chance.sample(range(len(sound)), 12):
            flip(path, place)
            report = verify(chain)
            assert [problem.object for problem in report.problems] == [str(path)], (path, place)
            path.write_bytes(sound)
    assert verify(chain).ok


def test_problems_of_all_stores_are_in_one_report(two_partitions: CheckpointFiles) -> None:
    for partition in (0, 1):
        flip(two_partitions.directory(0, partition) / name_of(1))
    report = verify(two_partitions)
    assert [problem.affects for problem in report.problems] == [(1, 2, 3), (1, 2)]


def test_a_report_shows_itself(chain: CheckpointFiles) -> None:
    assert str(verify(chain)).endswith(
        "7 intact frames of " + str(verify(chain).bytes) + " bytes, 6 versions loadable, 0 retired"
    )
    assert "<table>" not in verify(chain)._repr_html_()
    flip(chain.directory(0, 0) / name_of(2))
    report = verify(chain)
    assert report.problems[0].message in str(report)
    assert "1 problem(s)" in str(report)
    assert "<td>2-3</td>" in report._repr_html_()
    assert report.to_dict()["ok"] is False
    assert report.to_dict()["problems"][0]["affects"] == (2, 3)
