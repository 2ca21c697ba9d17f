"""Reads the records of drivers about epochs as they are written."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cleancut._checkpoint.read.recorded_epochs import RecordedEpochs
from cleancut._storage.directory import Directory
from cleancut.errors import CorruptedError
from tests.unit.test_history_records import History, record


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def read_epochs(noted: RecordedEpochs) -> list[tuple[int, int]]:
    return [(record.generation, record.epoch) for record in noted.scan()]


def test_an_epoch_recorded_by_a_later_run_is_new(history: History) -> None:
    history.write([record(epoch) for epoch in range(10)])
    noted = RecordedEpochs(history.root, (1, 7))
    assert read_epochs(noted) == [(1, 8), (1, 9)]
    # The query was rolled back.
    history.write([record(epoch, generation=2) for epoch in range(5, 7)])
    assert read_epochs(noted) == [(2, 5), (2, 6)]
    assert read_epochs(noted) == []


def test_a_part_deleted_during_the_read_is_awaited(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later epochs were returned without it, and the epochs of the part never."""
    noted = RecordedEpochs(history.root, (1, -1))
    part = history.write([record(0), record(1)])
    other = history.write([record(2)])
    read = Directory.read

    def merged(self: Directory, name: str) -> bytes:
        if part.exists():
            history.write([record(0), record(1), record(2)])
            part.unlink()
            other.unlink()
        return read(self, name)

    monkeypatch.setattr(Directory, "read", merged)
    assert read_epochs(noted) == []
    assert read_epochs(noted) == [(1, 0), (1, 1), (1, 2)]


def test_a_corrupted_file_is_reported_once(history: History) -> None:
    noted = RecordedEpochs(history.root, (1, -1))
    history.write([record(0)]).write_bytes(b"x")
    with pytest.raises(CorruptedError, match="CLEANCUT_HISTORY_CORRUPTED"):
        noted.scan()
    history.write([record(1)])
    assert read_epochs(noted) == [(1, 1)]


def test_random_histories_are_read_completely_and_once(
    history: History, show: Callable[[str], None]
) -> None:
    """Epochs are recorded, run again, merged at random, and read from time to time."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    show(f"seed {seed}")
    noted = RecordedEpochs(history.root, (1, -1))
    files: list[tuple[Path, list[dict[str, object]]]] = []
    written: list[tuple[int, int]] = []
    reported: list[tuple[int, int]] = []
    generation, epoch = 1, 0
    for _ in range(200):
        act = draw.random()
        if act < 0.05:
            generation, epoch = generation + 1, max(epoch - draw.randrange(5), 0)
        elif act < 0.6:
            count = draw.randint(1, 4)
            records = [record(epoch + at, generation=generation) for at in range(count)]
            files.append((history.write(records), records))
            written += [(generation, epoch + at) for at in range(count)]
            epoch += count
        elif act < 0.75 and len(files) > 1:
            some = [files.pop(0) for _ in range(draw.randint(2, len(files)))]
            merged = sorted(
                (record for _, records in some for record in records),
                key=lambda record: (record["epoch"], record["generation"]),
            )
            files.insert(0, (history.write(merged), merged))
            for path, _ in some:
                path.unlink()
        else:
            reported += read_epochs(noted)
    reported += read_epochs(noted)
    assert reported == written
