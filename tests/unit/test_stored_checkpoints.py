"""Reads checkpoints that real queries have written, which are stored in the repository."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

import cleancut
from cleancut import Checkpoint
from tests.support.releases import (
    BATCHES,
    PAGED_EPOCHS,
    PAGED_RUNS,
    PAGES,
    STORED,
    expected,
    kind_of,
    names,
    unpacked,
)


@pytest.fixture(scope="module")
def paged() -> Checkpoint:
    """A checkpoint whose cuts have pages and merged frames."""
    return Checkpoint(STORED / cleancut.__version__ / PAGES)


def counted(files: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Returns number and sum of the values by key after some files; see tests/checkpoints."""
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file in files:
        for value in range(60):
            key = f"k{(7 * value + file) % 23}"
            count, total = totals[key]
            totals[key] = (count + 1, total + value)
    return dict(totals)


@pytest.mark.parametrize("name", names())
def test_the_checkpoint_of_a_release_is_intact_and_has_its_rows(name: str, tmp_path: Path) -> None:
    checkpoint, kind = Checkpoint(unpacked(name, tmp_path)), kind_of(name)
    report = checkpoint.verify()
    assert report.ok, report.problems
    if kind == "aggregation":
        for batch in range(BATCHES):
            rows = checkpoint.state(0, version=batch + 1).to_pylist()
            there = [(row["key"]["k"], *row["value"].values()) for row in rows]
            totals = [(k, total, n) for k, n, total in expected(kind, batch)]
            assert sorted(there) == sorted(totals)


def test_every_epoch_of_cuts_with_pages_has_its_rows(paged: Checkpoint) -> None:
    epochs = [cut.epoch for cut in paged.cuts()]
    assert epochs[-1] == PAGED_EPOCHS - 1
    assert epochs == list(range(epochs[0], PAGED_EPOCHS))
    for epoch in epochs:
        table = paged.state(0, at=epoch)
        rows = {row["key"]["k"]: tuple(row["value"].values()) for row in table.to_pylist()}
        assert rows == counted(range(epoch + 1))
        assert set(table.column("partition").to_pylist()) == {0, 1, 2}


def test_cuts_with_pages_are_intact(paged: Checkpoint) -> None:
    report = paged.verify()
    # It is stored for its state, so no query continues from it.
    assert [problem.error_id for problem in report.problems] == ["CLEANCUT_METADATA_MISSING"]
    assert (report.spark_files, report.stores) == (0, 3)
    assert report.loadable == 3 * report.cuts
    assert report.pages > 1


def test_the_cuts_name_their_runs(paged: Checkpoint) -> None:
    cuts = paged.cuts()
    first = PAGED_RUNS[0]
    assert [cut.generation for cut in cuts] == [1 if cut.epoch < first else 2 for cut in cuts]
    assert len({cut.run_id for cut in cuts}) == 2
    last = paged.cut()
    assert last.offsets == {"0": f'{{"logOffset":{PAGED_EPOCHS - 1}}}'}
    assert "nextBatchWatermarkMs" in last.commit_entry
