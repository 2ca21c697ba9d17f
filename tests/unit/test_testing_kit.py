"""The parts of the test kit for queries that need no JVM."""

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cleancut.testing import (
    Block,
    SkewedInput,
    assert_same_rows,
    compare_rows,
    last_rows,
    slow,
)
from tests.support.patience import PATIENCE_S


def rows(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"k": k, "n": n} for k, n in pairs]


ANSWER = rows(("a", 1), ("a", 2), ("b", 1), ("b", 1))


def counts(actual: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    compared = compare_rows(actual, ANSWER, key=["k"], order="n")
    return compared.lost, compared.duplicated, compared.unexpected, compared.out_of_order


@pytest.mark.parametrize(
    ("actual", "lost", "duplicated", "unexpected", "out_of_order"),
    [
        (rows(("a", 1), ("b", 1), ("a", 2), ("b", 1)), 0, 0, 0, 1),
        (rows(("a", 1), ("a", 2), ("b", 1)), 1, 0, 0, 0),
        (rows(("a", 2), ("a", 1), ("b", 1), ("b", 1)), 0, 0, 0, 2),
        (rows(("a", 1), ("a", 2), ("a", 2), ("b", 1)), 1, 1, 0, 1),
        (rows(("c", 1), ("c", 2)), 4, 0, 2, 0),
        ([], 4, 0, 0, 0),
    ],
)
def test_lost_duplicated_unexpected_and_unordered_rows_are_counted(
    actual: list[dict[str, Any]], lost: int, duplicated: int, unexpected: int, out_of_order: int
) -> None:
    assert counts(actual) == (lost, duplicated, unexpected, out_of_order)


def test_equal_rows_pass_in_any_order_by_default() -> None:
    compared = assert_same_rows(ANSWER[::-1], ANSWER)
    assert (compared.is_same, compared.expected, compared.found) == (True, 4, 4)


@pytest.mark.parametrize(
    "actual", [ANSWER[1:], [*ANSWER, ANSWER[0]], rows(("c", 1), *[("a", 1)] * 3)]
)
def test_different_rows_fail_and_are_printed(actual: list[dict[str, Any]]) -> None:
    with pytest.raises(AssertionError, match=r"\d lost, \d duplicated.*(?s:.*)'k': '[abc]'"):
        assert_same_rows(actual, ANSWER)


def test_order_is_checked_only_within_a_key() -> None:
    answer = rows(("a", 1), ("b", 7), ("a", 2))
    assert assert_same_rows(answer, answer, key=["k"], order="n").out_of_order == 0
    with pytest.raises(AssertionError, match="1 out of order"):
        assert_same_rows(answer[::-1], answer, key=["k"], order="n")


def test_a_comparison_that_could_not_fail_is_refused() -> None:
    with pytest.raises(AssertionError, match="nothing is compared"):
        assert_same_rows([], [])
    with pytest.raises(ValueError, match="both"):
        compare_rows(ANSWER, ANSWER, key=["k"])
    with pytest.raises(ValueError, match="columns differ"):
        compare_rows([{"k": "a"}], ANSWER)


def test_nested_values_and_nan_are_equal_to_themselves() -> None:
    row = {"k": float("nan"), "v": [1, {"x": None}], "b": bytearray(b"1")}
    same = {"k": float("nan"), "v": [1, {"x": None}], "b": bytearray(b"1")}
    assert assert_same_rows([row], [same]).is_same
    assert compare_rows([row], [{**same, "v": [1, {"x": 0}]}]).lost == 1


def test_rows_may_be_a_table_of_arrow() -> None:
    assert assert_same_rows(pa.Table.from_pylist(ANSWER), ANSWER).expected == 4


def test_last_rows_has_the_last_update_of_each_key() -> None:
    assert last_rows(ANSWER, key=["k"]) == rows(("a", 2), ("b", 1))


def test_an_input_depends_only_on_its_seed_and_file(tmp_path: Path) -> None:
    first, again, other = (
        SkewedInput(tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    first.write(0, 1)
    again.write(1)
    assert first.rows_of(1) != other.rows_of(1)
    files = [(tmp_path / name / "00001.json").read_bytes() for name in "ab"]
    assert files[0] == files[1]
    lines = files[0].splitlines()
    assert [json.loads(line)["number"] for line in lines] == list(range(200, 400))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["00000.json", "00001.json"]
    assert [path.stat().st_mtime for path in sorted((tmp_path / "a").iterdir())] == [1e9, 1e9 + 1]


@pytest.mark.parametrize("hot", [0.0, 0.5, 1.0])
def test_the_hot_key_has_its_share_of_the_rows(hot: float, tmp_path: Path) -> None:
    rows = SkewedInput(tmp_path, seed=1, rows=2000, hot=hot).rows_of(0)
    part = sum(row["key"] == 0 for row in rows) / len(rows)
    assert part == pytest.approx(hot + (1 - hot) / 50, abs=0.03)


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"keys": 0}, {"hot": 1.5}])
def test_an_impossible_input_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no such input"):
        SkewedInput(tmp_path, seed=1, **wrong)


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        slow("k", per_row_ms=-1)


def test_a_block_holds_its_callers_until_it_is_released(tmp_path: Path) -> None:
    block = Block(tmp_path / "block", timeout_s=PATIENCE_S)
    passed = threading.Event()

    def held() -> None:
        pickle.loads(pickle.dumps(block)).wait()
        passed.set()

    assert not block.is_reached
    thread = threading.Thread(target=held)
    thread.start()
    block.wait_until_reached(PATIENCE_S)
    assert not passed.wait(0.1)
    block.release()
    assert passed.wait(PATIENCE_S)
    thread.join()
    block.wait()


def test_a_block_that_is_not_released_or_not_reached_fails(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match=r"was not released in 0\.05 s"):
        Block(tmp_path / "one", timeout_s=0.05).wait()
    with pytest.raises(TimeoutError, match="was not reached"):
        Block(tmp_path / "two").wait_until_reached(0.05)
