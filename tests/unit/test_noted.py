"""What drivers note of epochs, read as it comes."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cleancut._checkpoint.read.noted import NotedEpochs
from cleancut._storage.directory import Directory
from cleancut.errors import CorruptedError
from tests.unit.test_recorded import History, record


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def seen(noted: NotedEpochs) -> list[tuple[int, int]]:
    return [(of.generation, of.epoch) for of in noted.look()]


def test_what_a_later_run_notes_again_is_new(history: History) -> None:
    history.write([record(epoch) for epoch in range(10)])
    noted = NotedEpochs(history.root, (1, 7))
    assert seen(noted) == [(1, 8), (1, 9)]
    # It was rolled back.
    history.write([record(epoch, generation=2) for epoch in range(5, 7)])
    assert seen(noted) == [(2, 5), (2, 6)]
    assert seen(noted) == []


def test_a_part_that_goes_meanwhile_is_waited_for(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies behind it was told without it, and the epochs of the part never."""
    noted = NotedEpochs(history.root, (1, -1))
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
    assert seen(noted) == []
    assert seen(noted) == [(1, 0), (1, 1), (1, 2)]


def test_a_damaged_file_is_told_of_once(history: History) -> None:
    noted = NotedEpochs(history.root, (1, -1))
    history.write([record(0)]).write_bytes(b"x")
    with pytest.raises(CorruptedError, match="CLEANCUT_HISTORY_CORRUPTED"):
        noted.look()
    history.write([record(1)])
    assert seen(noted) == [(1, 1)]


def test_drawn_histories_are_told_whole_and_once(
    history: History, show: Callable[[str], None]
) -> None:
    """Epochs are noted, run again and put together at random, and looked at now and then."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    show(f"seed {seed}")
    noted = NotedEpochs(history.root, (1, -1))
    files: list[tuple[Path, list[dict[str, object]]]] = []
    written: list[tuple[int, int]] = []
    told: list[tuple[int, int]] = []
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
                (of for _, records in some for of in records),
                key=lambda of: (of["epoch"], of["generation"]),
            )
            files.insert(0, (history.write(merged), merged))
            for path, _ in some:
                path.unlink()
        else:
            told += seen(noted)
    told += seen(noted)
    assert told == written
