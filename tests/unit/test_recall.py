"""The code in a Python worker of a stateful operator, with its task in the same process."""

import importlib.util
import mmap
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.support.draws import draws

TEXT = Path(__file__).parents[2] / "jvm/core/src/main/resources/worker/recall.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recall", TEXT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recall = _loaded()


class Clock:
    """A clock that advances only with simulated work."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Task:
    """The task's side: rows by number, and the shared page."""

    def __init__(self, *, splits_groups: bool = True) -> None:
        self.page = recall.Page(mmap.mmap(-1, 4096))
        self.page.write(recall.WHOLE, 0 if splits_groups else 1)
        self.page.write(recall.SKIPPED, -1)

    def decide(self, stop: int, resume: int) -> None:
        self.page.write(recall.STOP, stop)
        self.page.write(recall.RESUME, resume)
        self.page.write(recall.DECIDED, 1)

    def overtake(self) -> None:
        self.page.write(recall.OVERTAKEN, 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(recall, "time", clock)
    return clock


def test_a_slow_group_is_passed_in_portions_of_tens_of_milliseconds(clock: Clock) -> None:
    row_filter = recall.RowFilter(Task().page, lambda: None)
    sizes = []
    for frame in recall.portions(row_filter, [pd.DataFrame({"n": range(1000)})]):
        assert list(frame.index) == list(range(len(frame)))
        sizes.append(len(frame))
        clock.now += 0.005 * len(frame)
    assert sum(sizes) == row_filter.seen == 1000
    assert max(sizes) <= 5


def test_a_fast_group_is_hardly_divided(clock: Clock) -> None:
    row_filter = recall.RowFilter(Task().page, lambda: None)
    frames = [pd.DataFrame({"n": range(10_000)}) for _ in range(3)]
    given = []
    for frame in recall.portions(row_filter, frames):
        given.append(frame)
        clock.now += 0.0002 + 1e-7 * len(frame)
    assert len(given) <= 5
    assert given[-1] is frames[-1], "a copy was made for nothing"


@pytest.mark.parametrize("seed", range(draws(50)))
def test_the_function_sees_all_rows_but_those_that_may_stay(seed: int) -> None:
    drawn = random.Random(seed)
    task = Task()
    rows = 400
    stop = drawn.randrange(rows)
    resume = drawn.randrange(rows) if drawn.random() < 0.5 else rows
    source = _input(drawn, rows)
    taken_at = drawn.randrange(rows)
    seen: list[int] = []
    batches = recall.Batches(_deciding(source, task, stop, resume), task.page, recall.split_rows)
    # Like PySpark, which reads one row ahead to find the end of a group.
    for batch in batches:
        for group in _groups(batch, drawn):
            for frame in recall.portions(batches.row_filter, [group]):
                seen.extend(frame["n"])
                if len(seen) > taken_at:
                    task.overtake()
    skipped = task.page.read(recall.SKIPPED)
    if skipped < 0:
        assert seen == list(range(rows))
        return
    assert skipped >= max(stop, 1)
    assert seen == [n for n in range(rows) if not skipped <= n < resume]


@pytest.mark.parametrize("seed", range(draws(50)))
def test_the_function_sees_all_rows_of_a_group_or_none(seed: int) -> None:
    drawn = random.Random(seed)
    task = Task(splits_groups=False)
    sizes = [drawn.choice([1, 2, 40]) for _ in range(100)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    rows = sum(sizes)
    stop = drawn.choice(starts)
    taken_at = drawn.randrange(rows)
    seen: list[int] = []
    slices = recall.Batches(
        _deciding(_input(drawn, rows), task, stop, rows), task.page, recall.split_rows
    )
    # The rows of a group are in several frames where batches end within it.
    frames = (part.to_pandas() for part in slices)
    left = next(frames)
    for size in sizes:
        pieces = []
        while size > 0:
            if len(left) == 0:
                # Skipped rows are not sent.
                left = next(frames, pd.DataFrame({"n": []}))
                if len(left) == 0:
                    break
            pieces.append(left.iloc[:size])
            left, size = left.iloc[size:], size - len(pieces[-1])
        for frame in recall.portions(slices.row_filter, pieces):
            seen.extend(frame["n"])
            if len(seen) > taken_at:
                task.overtake()
    skipped = task.page.read(recall.SKIPPED)
    if skipped < 0:
        assert seen == list(range(rows))
        return
    assert skipped in starts, "a group is seen in part"
    assert skipped >= stop
    assert seen == list(range(skipped))


def _input(drawn: random.Random, rows: int) -> Iterator[pa.RecordBatch]:
    at = 0
    while at < rows:
        size = min(drawn.randrange(1, 120), rows - at)
        yield pa.RecordBatch.from_pydict({"n": range(at, at + size)})
        at += size


def _deciding(
    batches: Iterator[pa.RecordBatch], task: Task, stop: int, resume: int
) -> Iterator[pa.RecordBatch]:
    """The task decides after it has sent its rows, or when it has no more."""
    sent = 0
    for batch in batches:
        yield batch
        sent += batch.num_rows
        if sent >= resume:
            task.decide(stop, resume)
    task.decide(stop, resume)


def _groups(batch: pa.RecordBatch, drawn: random.Random) -> Iterator[pd.DataFrame]:
    frame = batch.to_pandas()
    at = 0
    while at < len(frame):
        size = drawn.randrange(1, 20)
        yield frame.iloc[at : at + size]
        at += size


def test_skipped_rows_form_no_groups() -> None:
    task = Task()
    batches = recall.Batches(_input(random.Random(1), 1000), task.page, recall.split_rows)
    came = 0
    for batch in batches:
        came += batch.num_rows
        for _ in recall.portions(batches.row_filter, [batch.to_pandas()]):
            if not task.page.is_overtaken:
                task.decide(1, 1000)
                task.overtake()
    assert came < 200, "skipped rows were sent"


STATE = pa.struct(
    [("properties", pa.string()), ("startOffset", pa.int32()), ("numRows", pa.int32())]
)


def _with_states(sizes: list[int]) -> pa.RecordBatch:
    rows = sum(sizes)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    pieces: list[dict[str, Any] | None] = [
        {"properties": str(i), "startOffset": starts[i], "numRows": size}
        for i, size in enumerate(sizes)
    ]
    pieces += [None] * (rows - len(sizes))
    columns = [pa.array(range(rows)), pa.array(pieces, STATE)]
    return pa.RecordBatch.from_arrays(columns, names=["n", "__state"])


@pytest.mark.parametrize("wanted", [1, 2, 7, 100])
def test_slices_of_groups_contain_complete_pieces(wanted: int) -> None:
    sizes = [1, 3, 1, 1, 10, 2, 2, 1]
    batch = _with_states(sizes)
    at, slices = 0, []
    while at < batch.num_rows:
        part = recall.split_groups(batch, at, min(wanted, batch.num_rows - at))
        assert part.schema == batch.schema
        pieces = [piece for piece in part.column(1).to_pylist() if piece is not None]
        assert len(pieces) == 1 or part.num_rows <= wanted
        for piece in pieces:
            start, size = piece["startOffset"], piece["numRows"]
            slices.append((piece["properties"], part.column(0).slice(start, size).to_pylist()))
        at += part.num_rows
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    assert slices == [
        (str(i), list(range(start, start + size)))
        for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]


class State:
    hasTimedOut = False  # noqa: N815


def test_rows_that_a_function_leaves_unread_are_skipped() -> None:
    task = Task()
    calls: list[Any] = []

    def function(key: Any, frames: Iterator[pd.DataFrame], state: State) -> Iterator[Any]:
        calls.append(key)
        yield next(frames)

    made = recall.Recall(function, "groups")
    batches = recall.Batches(iter(()), task.page, recall.split_groups)
    made._row_filter = batches.row_filter
    frame = pd.DataFrame({"n": range(50)})
    list(made.with_state(1, iter([frame, frame]), State()))
    assert batches.row_filter.seen == 100
    task.decide(1, 1000)
    task.overtake()
    assert list(made.with_state(2, iter([frame]), State())) == []
    assert calls == [1], "the function was called for a group of which it sees nothing"
    assert task.page.read(recall.SKIPPED) == 100


def test_progress_is_the_number_of_rows_that_the_function_has_received() -> None:
    task = Task()
    batches = recall.Batches(_input(random.Random(1), 300), task.page, recall.split_rows)
    received = 0
    for batch in batches:
        assert task.page.read(recall.TAKEN) == received
        for frame in recall.portions(batches.row_filter, [batch.to_pandas()]):
            received += len(frame)
    assert task.page.read(recall.TAKEN) == received == 300


def test_rows_of_one_group_are_divided_where_their_treatment_changes() -> None:
    task = Task()
    row_filter = recall.RowFilter(task.page, lambda: None)
    task.overtake()
    task.decide(2, 5)
    treated = []
    while row_filter.seen < 8:
        rows, is_seen = row_filter.classify(8 - row_filter.seen, row_filter.seen == 0)
        treated.append((rows, is_seen))
        row_filter.seen += rows
    assert treated == [(2, True), (3, False), (3, True)]
