"""`verify` reports each problem of cuts, segments and their frames, and no other."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from cleancut import Checkpoint
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.verify import cuts as cut_checks
from cleancut._checkpoint.verify.segments import check_segments
from cleancut.types import VerifyReport
from tests.support.draws import draws
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.test_cuts import after_level_0
from tests.vectors.cut_writer import Stored, cut_name, segment_name
from tests.vectors.frame_cases import put
from tests.vectors.segment_cases import delta_of, flipped

CUT_CORRUPTED = "CLEANCUT_CUT_CORRUPTED"
CORRUPTED = "CLEANCUT_FRAME_CORRUPTED"
MISPLACED = "CLEANCUT_FRAME_MISPLACED"
MISSING = "CLEANCUT_FRAME_MISSING"


def verify(files: CutFiles | CheckpointFiles) -> VerifyReport:
    return Checkpoint(files.location).verify()


def problems_of(report: VerifyReport, root: Path) -> list[tuple[str, str, tuple[int, ...]]]:
    return [
        (Path(p.object).relative_to(root).as_posix(), p.error_id, p.affects)
        for p in report.problems
    ]


def flip_frame(cuts: CutFiles, stored: Stored) -> None:
    place = stored.entry["offset"] + stored.entry["length"] // 2
    cuts.change(cuts.segment_path(stored), lambda data: flipped(data, place))


def test_an_intact_checkpoint_has_no_problems(four_cuts: CutFiles) -> None:
    report = verify(four_cuts)
    assert report.ok, report
    assert (report.cuts, report.segments, report.unreferenced) == (4, 5, 0)
    assert (report.stores, report.frames, report.loadable, report.retired) == (2, 9, 8, 0)
    tables = [path.stat().st_size for path in four_cuts.root.glob("segments/*/*")]
    assert 0 < report.bytes < sum(tables)


def test_a_corrupted_frame_affects_later_versions(four_cuts: CutFiles) -> None:
    stored = four_cuts.chains[1][1]
    flip_frame(four_cuts, stored)
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(stored.segment, CORRUPTED, (2, 3, 4))]
    assert "operator=0 partition=1" in report.problems[0].message
    assert f"offset={stored.entry['offset']}" in report.problems[0].message
    assert (report.frames, report.loadable) == (8, 5)


def test_a_corrupted_base_affects_later_versions(four_cuts: CutFiles) -> None:
    base = four_cuts.chains[0][0]
    flip_frame(four_cuts, base)
    assert problems_of(verify(four_cuts), four_cuts.root) == [(base.segment, CORRUPTED, (4,))]


def test_a_corrupted_cut_affects_only_its_version(four_cuts: CutFiles) -> None:
    four_cuts.change(four_cuts.cut_path(1), lambda data: flipped(data, 50))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(cut_name(1), CUT_CORRUPTED, (2,))]
    assert (report.cuts, report.loadable) == (3, 6)


def test_exchanged_segments_are_both_named(four_cuts: CutFiles) -> None:
    one, other = (four_cuts.root / segment_name(epoch) for epoch in (1, 2))
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    report = verify(four_cuts)
    assert {problem.object for problem in report.problems} == {str(one), str(other)}
    affected = {version for problem in report.problems for version in problem.affects}
    assert affected == {2, 3, 4}


def test_a_frame_of_another_partition_is_named(four_cuts: CutFiles) -> None:
    foreign = delta_of(5, [put(9, "x", 9, 9.0)], 4, partition=1)
    delta = delta_of(5, [], 3, partition=0)
    frames = [replace(delta, data=foreign.data), foreign]
    stored = four_cuts.segment(4, frames)
    for partition in (0, 1):
        four_cuts.chains[partition] = [*four_cuts.chains[partition], stored[partition]]
    four_cuts.cut(4)
    misplaced, keys_differ = problems_of(verify(four_cuts), four_cuts.root)
    assert misplaced == (stored[0].segment, MISPLACED, (5,))
    assert keys_differ == (stored[1].segment, CORRUPTED, (5,))


def test_a_base_that_differs_from_its_deltas_is_named(four_cuts: CutFiles) -> None:
    base = four_cuts.base(1, [put(4, "emmy", 2, -8.0)])
    four_cuts.commit(([], 3), ([], 1))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(base.segment, CORRUPTED, (5,))]
    assert "not those of the deltas" in report.problems[0].message


def test_a_base_that_replaces_a_delta_is_compared_with_it(four_cuts: CutFiles) -> None:
    """The cut names a base of its own version, and its segment still has the delta."""
    four_cuts.segment(4, [delta_of(5, [put(4, "emmy", 3, 9.0)], 1, partition=1)])
    four_cuts.segment(4, [delta_of(5, [], 3, partition=0)], number=3)
    four_cuts.epoch = 5
    four_cuts.base(0, [put(1, "ada", 4, 2.5), put(3, "lin", 1, 0.25), put(2, "grace", 1, 0.5)])
    wrong = four_cuts.base(1, [put(4, "emmy", 3, -9.0)], number=4)
    four_cuts.cut(4)
    assert problems_of(verify(four_cuts), four_cuts.root) == [(wrong.segment, CORRUPTED, (5,))]


def test_unreferenced_frames_are_checked_too(four_cuts: CutFiles) -> None:
    (stored,) = four_cuts.segment(4, [delta_of(5, [put(9, "x", 9, 9.0)], 1)], writer="3")
    report = verify(four_cuts)
    assert report.ok
    assert (report.unreferenced, report.segments, report.frames, report.stores) == (1, 6, 10, 2)
    flip_frame(four_cuts, stored)
    assert problems_of(verify(four_cuts), four_cuts.root) == [(stored.segment, CORRUPTED, ())]


def test_savepoints_are_verified_as_cuts_are(four_cuts: CutFiles) -> None:
    path = four_cuts.savepoint("before", 1)
    four_cuts.savepoint("latest", 3)
    report = verify(four_cuts)
    assert report.ok
    assert (report.cuts, report.savepoints, report.loadable, report.unreferenced) == (4, 2, 8, 0)
    four_cuts.cut_path(1).unlink()
    assert verify(four_cuts).loadable == 8
    four_cuts.change(path, lambda data: flipped(data, 50))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [("savepoints/before.cut", CUT_CORRUPTED, ())]
    assert (report.savepoints, report.loadable) == (1, 6)


def test_both_levels_are_verified_in_one_report(files: CheckpointFiles) -> None:
    cuts = after_level_0(files)
    report = verify(files)
    assert report.ok, report
    # Two partitions with versions 1 and 2 in files and 3 and 4 in cuts.
    assert (report.cuts, report.stores, report.loadable, report.frames) == (2, 2, 8, 10)
    flip_frame(cuts, cuts.chains[0][0])
    path = next(files.directory(0, 1).glob("*2-*"))
    path.write_bytes(path.read_bytes()[:-1])
    assert problems_of(verify(files), files.root) == [
        (path.relative_to(files.root).as_posix(), CORRUPTED, (2, 3)),
        (cuts.chains[0][0].segment, CORRUPTED, (3, 4)),
    ]


def test_a_concurrent_deletion_by_retention_is_no_problem(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Root.epochs
    seen: list[int] = []

    def late(root: Root) -> list[int]:
        listed = epochs(root)
        if not seen:
            seen.append(1)
            four_cuts.cut_path(0).unlink()
        return listed

    monkeypatch.setattr(Root, "epochs", late)
    report = verify(four_cuts)
    assert report.ok, report
    assert report.cuts == 3


def test_segments_deleted_with_their_cut_are_no_problem(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage collection deletes a cut and its segment between the reads of cuts and frames."""
    four_cuts.base(0, [put(1, "ada", 4, 2.5)])

    def late(*arguments: object) -> object:
        four_cuts.cut_path(3).unlink()
        (four_cuts.root.parent / "commits/3").unlink()
        (four_cuts.root / segment_name(3)).unlink()
        return check_segments(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("cleancut._checkpoint.verify.cuts.check_segments", late)
    report = verify(four_cuts)
    assert report.ok, report
    assert report.loadable == 6


def test_stores_are_read_in_groups_of_limited_size(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = verify(four_cuts)
    monkeypatch.setattr(cut_checks, "_WINDOW_BYTES", 1)
    assert verify(four_cuts) == expected


def test_every_flipped_byte_of_a_checkpoint_is_found(four_cuts: CutFiles) -> None:
    chance = random.Random(11)
    paths = [*four_cuts.root.glob("cuts/*"), *four_cuts.root.glob("segments/*/*")]
    assert len(paths) == 9
    for path in sorted(paths):
        sound = path.read_bytes()
        for place in chance.sample(range(len(sound)), draws(40)):
            path.write_bytes(flipped(sound, place))
            report = verify(four_cuts)
            assert str(path) in {problem.object for problem in report.problems}, (path, place)
            path.write_bytes(sound)
    assert verify(four_cuts).ok


def test_a_report_counts_cuts(four_cuts: CutFiles) -> None:
    report = str(verify(four_cuts))
    assert "4 cuts, 3 pages, 5 segments (0 unreferenced), 2 state stores" in report


def test_a_report_of_level_0_counts_no_cuts(two_partitions: CheckpointFiles) -> None:
    assert ": intact; 2 state stores" in str(verify(two_partitions))
