"""Checkpoints that a query has really written, kept in the repository, are read as ever."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from cleancut import Checkpoint
from tests.support.releases import BATCHES, expected, kind_of, names, unpacked

# As the file source took them: some of them have the same time.
FILES = (1, 0, 2, 4, 3, 5, 6, 7)
LEVEL_1 = Path(__file__).parents[1] / "checkpoints" / "level-1"
ROOTS = Path(__file__).parents[1] / "checkpoints" / "roots"


def counted(files: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Number and sum of the values by key, after some files; tests/checkpoints tells of them."""
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file in files:
        for value in range(60):
            key = f"k{(7 * value + file) % 23}"
            count, total = totals[key]
            totals[key] = (count + 1, total + value)
    return dict(totals)


@pytest.mark.parametrize("epoch", range(9))
def test_every_epoch_of_level_1_has_its_rows(epoch: int) -> None:
    table = Checkpoint(LEVEL_1).state(0, epoch=epoch)
    rows = {row["key"]["k"]: tuple(row["value"].values()) for row in table.to_pylist()}
    assert rows == counted(FILES[: epoch + 1])
    assert set(table.column("partition").to_pylist()) == {0, 1, 2}


@pytest.mark.parametrize("name", names())
def test_what_a_release_has_left_for_a_query_is_sound_and_has_its_rows(
    name: str, tmp_path: Path
) -> None:
    checkpoint, kind = Checkpoint(unpacked(name, tmp_path)), kind_of(name)
    report = checkpoint.verify()
    assert report.ok, report.problems
    if kind == "aggregation":
        for batch in range(BATCHES):
            rows = checkpoint.state(0, version=batch + 1).to_pylist()
            there = [(row["key"]["k"], *row["value"].values()) for row in rows]
            totals = [(k, total, n) for k, n, total in expected(kind, batch)]
            assert sorted(there) == sorted(totals)


def test_level_1_is_sound() -> None:
    report = Checkpoint(LEVEL_1).verify()
    # It was kept for its state: no query is to go on from it.
    assert [problem.error_id for problem in report.problems] == ["CLEANCUT_METADATA_MISSING"]
    assert report.spark_files == 0
    assert (report.cuts, report.segments, report.unnamed) == (9, 27, 2)
    assert (report.stores, report.frames, report.loadable) == (3, 40, 27)


def test_the_cuts_of_level_1_tell_their_runs() -> None:
    cuts = Checkpoint(LEVEL_1).cuts()
    assert [cut.generation for cut in cuts] == [1] * 5 + [2] * 4
    assert len({cut.run_id for cut in cuts}) == 2
    last = Checkpoint(LEVEL_1).cut()
    assert last.offsets == {"0": '{"logOffset":7}'}
    assert last.watermark_ms == last.next_watermark_ms == 1_767_225_479_000
    assert "nextBatchWatermarkMs" in last.commit_entry


@pytest.mark.parametrize("epoch", range(15, 33))
def test_every_epoch_of_roots_has_its_rows(epoch: int) -> None:
    table = Checkpoint(ROOTS).state(0, epoch=epoch)
    rows = {row["key"]["k"]: tuple(row["value"].values()) for row in table.to_pylist()}
    assert rows == counted(range(epoch + 1))
    assert set(table.column("partition").to_pylist()) == {0, 1, 2}


def test_roots_are_sound() -> None:
    report = Checkpoint(ROOTS).verify()
    assert [problem.error_id for problem in report.problems] == ["CLEANCUT_METADATA_MISSING"]
    assert (report.cuts, report.pages, report.stores, report.loadable) == (18, 4, 3, 54)


def test_the_cuts_of_roots_tell_their_runs() -> None:
    cuts = Checkpoint(ROOTS).cuts()
    assert [(cut.epoch, cut.generation) for cut in cuts] == [
        (epoch, 1 if epoch < 20 else 2) for epoch in range(15, 33)
    ]
