"""verify finds each fault of cuts, pages and segments, and nothing else."""

from pathlib import Path

import pytest

from cleancut import Checkpoint
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.verify.cuts import CutCheck
from tests.unit.cut_files import CutFiles
from tests.unit.memory_objects import MemoryObjects
from tests.unit.test_verify_cuts import CORRUPTED, CUT_CORRUPTED, MISSING, problems_of, verify
from tests.vectors.chain_writer import THREE, Little, base, delta
from tests.vectors.cut_encoder import encode_cut
from tests.vectors.cut_writer import cut_body, cut_name, segment_name
from tests.vectors.page_encoder import page_body, write_page
from tests.vectors.segment_cases import flipped


def name_of(path: Path, files: CutFiles) -> str:
    return path.relative_to(files.root).as_posix()


def test_an_intact_checkpoint_has_no_problems(four_cuts: CutFiles) -> None:
    report = verify(four_cuts)
    assert report.ok, report
    assert (report.cuts, report.pages, report.segments, report.unreferenced) == (4, 3, 5, 0)
    assert (report.stores, report.frames, report.loadable) == (2, 9, 8)
    assert "4 cuts, 3 pages, 5 segments (0 unreferenced), 2 state stores" in str(report)
    assert report.to_dict()["pages"] == 3


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_lost_page_affects_its_stores_in_the_cuts_that_reference_it(
    four_cuts: CutFiles, is_missing: bool
) -> None:
    path = four_cuts.page_path(0, 1)
    if is_missing:
        path.unlink()
    else:
        four_cuts.change(path, lambda data: data[:-1])
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [
        (name_of(path, four_cuts), CUT_CORRUPTED, (3, 4))
    ]
    assert ("is missing" in report.problems[0].message) == is_missing
    # Partition 1 has versions 1 and 2 by older cuts, partition 0 all four.
    assert (report.cuts, report.pages, report.loadable) == (4, 2, 6)


def test_exchanged_pages_are_both_named(four_cuts: CutFiles) -> None:
    one, other = four_cuts.page_path(1, 0), four_cuts.page_path(2, 0)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    assert problems_of(verify(four_cuts), four_cuts.root) == [
        (name_of(one, four_cuts), CUT_CORRUPTED, (3,)),
        (name_of(other, four_cuts), CUT_CORRUPTED, (4,)),
    ]


def test_an_unreferenced_page_is_checked_too(four_cuts: CutFiles) -> None:
    name, data, _ = write_page(3, [four_cuts.chains[0]], number=7)
    four_cuts.write(name, data)
    report = verify(four_cuts)
    assert report.ok, report
    assert report.pages == 4
    four_cuts.write(name, flipped(data, 30))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(name, CUT_CORRUPTED, ())]
    assert (report.pages, report.loadable) == (3, 8)


def test_a_corrupted_table_affects_the_cuts_that_reference_it(four_cuts: CutFiles) -> None:
    name = segment_name(1)
    four_cuts.change(four_cuts.root / name, lambda data: flipped(data, len(data) - 40))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(name, CUT_CORRUPTED, (2, 3, 4))]
    # Version 1, and versions 3 and 4 of partition 0, whose pages are newer.
    assert (report.loadable, report.segments) == (4, 4)


def test_a_missing_segment_is_one_problem_of_all_its_stores(four_cuts: CutFiles) -> None:
    (four_cuts.root / segment_name(1)).unlink()
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(segment_name(1), CUT_CORRUPTED, (2, 3, 4))]
    assert "is missing" in report.problems[0].message
    # Version 1, and version 4 of partition 0, whose base makes that segment unnecessary.
    assert report.loadable == 3


def test_a_missing_segment_that_only_pages_reference_is_reported(four_cuts: CutFiles) -> None:
    for epoch in (0, 1):
        four_cuts.cut_path(epoch).unlink()
    (four_cuts.root / segment_name(0)).unlink()
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(segment_name(0), MISSING, (3, 4))]


def test_a_truncated_segment_is_one_problem_if_its_table_is_read(
    four_cuts: CutFiles,
) -> None:
    name = segment_name(2)
    four_cuts.change(four_cuts.root / name, lambda data: data[:120])
    problems = problems_of(verify(four_cuts), four_cuts.root)
    assert problems[0] == (name, CUT_CORRUPTED, (3, 4))
    assert {problem[:2] for problem in problems[1:]} <= {(name, CORRUPTED)}


def test_invalid_offsets_are_a_problem_of_the_cut(four_cuts: CutFiles) -> None:
    window = four_cuts.window(3)
    window[-1] = window[-1] | {"uncounted": [17]}
    four_cuts.cut(3, window=window)
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(cut_name(3), CUT_CORRUPTED, (4,))]
    assert (report.cuts, report.loadable) == (4, 6)


def test_an_incomplete_chain_is_a_problem_of_the_cut(four_cuts: CutFiles) -> None:
    segment = four_cuts.segments[segment_name(3)]
    window = [*four_cuts.window(3)[:-1], segment.part(3, uncounted=segment.frames[:1])]
    four_cuts.cut(3, window=window)
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(cut_name(3), CUT_CORRUPTED, (4,))]
    assert "end in version 3, not 4" in report.problems[0].message
    assert report.loadable == 7


@pytest.mark.parametrize("count", [1, 3])
def test_a_cut_with_a_wrong_store_count_is_named(four_cuts: CutFiles, count: int) -> None:
    four_cuts.cut(3, storeCount=count)
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(cut_name(3), CUT_CORRUPTED, (4,))]


def test_a_missing_object_of_a_savepoint_is_a_problem_without_its_cut(four_cuts: CutFiles) -> None:
    four_cuts.savepoint("before", 2)
    four_cuts.cut_path(2).unlink()
    path = four_cuts.page_path(1, 0)
    path.unlink()
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(name_of(path, four_cuts), CUT_CORRUPTED, (3,))]
    assert report.savepoints == 1


@pytest.mark.parametrize("is_page", [True, False])
def test_objects_deleted_with_their_cut_are_no_problem(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch, is_page: bool
) -> None:
    """The sweep deletes a cut and the objects that it alone references after the cut was read."""
    read = CutCheck._read_cuts

    def late(check: CutCheck, reader: object) -> object:
        cuts = read(check, reader)  # type: ignore[arg-type]
        four_cuts.cut_path(3).unlink()
        (four_cuts.root.parent / "commits/3").unlink()
        if is_page:
            four_cuts.page_path(2, 0).unlink()
        else:
            (four_cuts.root / segment_name(3)).unlink()
        return cuts

    monkeypatch.setattr(CutCheck, "_read_cuts", late)
    report = verify(four_cuts)
    assert report.ok, report


def test_a_savepoint_of_a_cut_is_verified(four_cuts: CutFiles) -> None:
    path = four_cuts.savepoint("before", 3)
    assert verify(four_cuts).ok
    four_cuts.change(path, lambda data: flipped(data, 50))
    problems = problems_of(verify(four_cuts), four_cuts.root)
    assert problems == [("savepoints/before.cut", CUT_CORRUPTED, ())]


def test_every_corrupted_byte_of_a_cut_and_of_a_page_is_found() -> None:
    little = Little()
    first = little.segment(0, delta(1))
    second = little.segment(1, delta(2), base(2))
    page = little.page(0, first.frames)
    parts = [second.part(1, uncounted=second.frames[:1])]
    body = cut_body(1, [page], parts, store_count=1, offsets="", commit="", timings={})
    little.objects[cut_name(1)] = encode_cut(body, compress=True)

    def problems() -> set[str]:
        check = CutCheck(Root("memory", MemoryObjects(little.objects)), [1])
        check.run()
        return {finding.path.removeprefix("memory/") for finding in check.findings.values()}

    assert problems() == set()
    assert first.frames[0].store == THREE
    assert len(page_body([first.frames]).joined()) < 200
    for name in (cut_name(1), page["name"]):
        sound = little.objects[name]
        for place in range(len(sound)):
            little.objects[name] = flipped(sound, place)
            assert problems() == {name}, place
            little.objects[name] = sound[:place]
            assert problems() == {name}, place
        little.objects[name] = sound + b"\0"
        assert problems() == {name}
        little.objects[name] = sound
    assert problems() == set()


def test_a_lost_cut_does_not_affect_other_cuts(four_cuts: CutFiles) -> None:
    four_cuts.change(four_cuts.cut_path(2), lambda data: flipped(data, 40))
    report = verify(four_cuts)
    assert problems_of(report, four_cuts.root) == [(cut_name(2), CUT_CORRUPTED, (3,))]
    assert (report.cuts, report.loadable, report.pages) == (3, 6, 3)
    assert Checkpoint(four_cuts.location).state(0).num_rows == 4
