"""Concurrent reads of parts of objects."""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from cleancut._storage import parallel
from cleancut._storage.parallel import Range, mapped, read_ranges, windows
from tests.support.patience import PATIENCE_S


@dataclass
class Memory:
    """Objects in memory that record their requests."""

    content: Mapping[str, bytes]
    requests: list[Range] = field(default_factory=list)

    def path(self, name: str) -> str:
        return name

    def list(self, below: str) -> Mapping[str, int]:
        return {name: len(data) for name, data in self.content.items() if name.startswith(below)}

    def read(self, name: str) -> bytes:
        return self.read_range(name, 0, len(self.content.get(name, b"")))

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        self.requests.append(Range(name, offset, length))
        if name not in self.content:
            raise FileNotFoundError(name)
        return self.content[name][offset : offset + length]


DATA = random.Random(1).randbytes(1000)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_PIECE_BYTES", 100)
    monkeypatch.setattr(parallel, "_MAX_GAP_BYTES", 10)


def test_near_parts_are_read_in_one_request() -> None:
    objects = Memory({"a": DATA})
    parts = [Range("a", 0, 20), Range("a", 20, 5), Range("a", 35, 5), Range("a", 60, 5)]
    assert read_ranges(objects, parts) == {p: DATA[p.offset : p.end] for p in parts}
    assert sorted(objects.requests) == [Range("a", 0, 40), Range("a", 60, 5)]


def test_a_long_part_is_read_in_several_requests() -> None:
    objects = Memory({"a": DATA})
    whole, inner = Range("a", 3, 250), Range("a", 90, 30)
    assert read_ranges(objects, [whole, inner]) == {whole: DATA[3:253], inner: DATA[90:120]}
    assert sorted(objects.requests) == [
        Range("a", 3, 100),
        Range("a", 103, 100),
        Range("a", 203, 50),
    ]


def test_a_part_beyond_the_end_is_shorter() -> None:
    objects = Memory({"a": DATA[:130]})
    parts = [Range("a", 0, 250), Range("a", 125, 20), Range("a", 140, 5)]
    assert list(read_ranges(objects, parts).values()) == [DATA[:130], DATA[125:130], b""]


def test_an_object_that_is_not_there_is_none() -> None:
    objects = Memory({"a": DATA})
    parts = [Range("a", 0, 1), Range("b", 0, 1)]
    assert read_ranges(objects, parts) == {parts[0]: DATA[:1], parts[1]: None}


def test_any_parts_are_read_unchanged() -> None:
    chance = random.Random(5)
    for _ in range(200):
        size = chance.randrange(1000)
        objects = Memory({"a": DATA[:size], "b": DATA})
        parts = [
            Range(chance.choice("ab"), chance.randrange(990), chance.randrange(1, 300))
            for _ in range(chance.randrange(1, 12))
        ]
        parts_read = read_ranges(objects, parts)
        assert parts_read == {p: objects.content[p.name][p.offset : p.end] for p in parts}
        assert max(request.length for request in objects.requests) <= 100


def test_other_errors_are_raised() -> None:
    class Broken(Memory):
        def read_range(self, name: str, offset: int, length: int) -> bytes:
            raise PermissionError(name)

    with pytest.raises(PermissionError):
        read_ranges(Broken({}), [Range("a", 0, 1)])


def test_results_are_ordered_and_not_too_far_ahead() -> None:
    begun: list[int] = []

    def negated(item: int) -> int:
        begun.append(item)
        return -item

    results = mapped(negated, range(100), ahead=4)
    assert next(results) == 0
    assert len(begun) <= 5
    assert list(results) == [-item for item in range(1, 100)]


def test_items_are_mapped_concurrently() -> None:
    together = threading.Barrier(4, timeout=PATIENCE_S)
    assert list(mapped(lambda _: together.wait() >= 0, range(4), ahead=4)) == [True] * 4


def test_an_error_is_raised_at_its_turn() -> None:
    results = mapped(lambda item: 1 // item, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_groups_keep_to_the_limit_unless_one_item_is_larger() -> None:
    assert list(windows([3, 3, 3, 9, 1, 2], int, 6)) == [[3, 3], [3], [9], [1, 2]]
    assert list(windows([], int, 6)) == []
