"""Groups of an input in the Python worker: the keys that functions and prefetched reads receive."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.conversion import ArrowBatchTransformer

from tests.support.worker_modules import worker_module

_UNLIMITED = 2**31 - 1
Key = tuple[float]


class _Lookahead:
    """Records the announced key and the key of each group."""

    def __init__(self) -> None:
        self.announced: list[Key] = []
        self.begun: list[Key] = []

    def announce(self, keys: Iterable[Key]) -> None:
        self.announced.extend(keys)

    def begin_group(self, key: Key) -> None:
        self.begun.append(key)


def _groups(form: str, batches: list[list[float]]) -> tuple[_Lookahead, list[tuple[Key, int]]]:
    """The lookahead, and the key and number of rows of each group."""
    arrow: Iterator[Any] = (
        pa.RecordBatch.from_pydict({"k": keys, "n": list(range(len(keys)))}) for keys in batches
    )
    loop: dict[str, Any] = {"key_offsets": [0], "value_offsets": [0, 1]}
    lookahead = _Lookahead()
    if form == "rows":
        groups = worker_module("group_loop").RowGroups({**loop, "data": arrow}, lookahead)
        return lookahead, [(key, len(list(rows))) for key, rows in groups]
    loop |= {
        "batches": arrow,
        "arrow_max_records_per_batch": 10_000,
        "arrow_max_bytes_per_batch": _UNLIMITED,
        "to_pandas": lambda batch: ArrowBatchTransformer.to_pandas(batch, timezone="UTC"),
    }
    groups = worker_module("group_frames").FrameGroups(loop, lookahead)
    return lookahead, [(key, sum(map(len, frames))) for key, frames in groups]


@pytest.mark.parametrize("form", ["rows", "frames"])
def test_the_key_of_a_group_is_that_of_its_first_row(form: str) -> None:
    # Spark sorts 0.0 and -0.0 as equal, and has a state for each of them.
    lookahead, groups = _groups(form, [[-1.0, 0.0], [-0.0, 0.0, 2.0], [2.0]])
    assert [(str(key[0]), rows) for key, rows in groups] == [("-1.0", 1), ("0.0", 3), ("2.0", 2)]
    assert list(map(str, lookahead.begun)) == list(map(str, lookahead.announced))


@pytest.mark.parametrize("form", ["rows", "frames"])
def test_rows_with_a_nan_in_their_key_are_separate_groups(form: str) -> None:
    lookahead, groups = _groups(form, [[1.0, math.nan], [math.nan, math.nan]])
    assert [(str(key[0]), rows) for key, rows in groups] == [("1.0", 1), *[("nan", 1)] * 3]
    assert list(map(str, lookahead.begun)) == list(map(str, lookahead.announced))
