"""The order of rows that the kill tests require where one epoch has read several files."""

from typing import Any

from cleancut.testing import compare_rows
from tests.support.in_flight_queries import ROWS, epochs_of_files, in_file_order

# Files 1 and 2 are read by one epoch.
OFFSETS: dict[int, str | None] = {
    0: '{"logOffset":0}',
    1: '{"logOffset":2}',
    2: '{"logOffset":3}',
}


def rows(*files: int) -> list[dict[str, Any]]:
    """Two rows of each file, counted in order of arrival."""
    numbers = [file * ROWS + row for file in files for row in range(2)]
    return [{"k": 7, "n": n, "c": count} for count, n in enumerate(numbers, start=1)]


def is_same(arrived: list[dict[str, Any]]) -> bool:
    ordered = in_file_order(arrived, epochs_of_files(OFFSETS))
    return compare_rows(ordered, rows(0, 1, 2, 3), key=["k"], order="n").is_same


def test_files_of_one_epoch_may_come_in_any_order() -> None:
    assert epochs_of_files(OFFSETS) == {0: 0, 1: 1, 2: 1, 3: 2}
    assert is_same(rows(0, 1, 2, 3))
    assert is_same(rows(0, 2, 1, 3))


def test_epochs_have_to_come_in_order() -> None:
    assert not is_same(rows(0, 1, 3, 2))
    assert not is_same(rows(1, 2, 0, 3))


def test_rows_of_a_file_have_to_come_in_order() -> None:
    arrived = rows(0, 2, 1, 3)
    arrived[2]["n"], arrived[3]["n"] = arrived[3]["n"], arrived[2]["n"]
    assert not is_same(arrived)


def test_each_row_has_to_come_once() -> None:
    arrived = rows(0, 2, 1, 3)
    assert not is_same(arrived[:2] + arrived[3:])
    assert not is_same([*arrived[:2], arrived[1], *arrived[2:]])
