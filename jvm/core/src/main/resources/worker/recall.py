"""Allows a task to recall rows that it has passed to a Python worker.

This code is sent in the command of a stateful operator's function and evaluated in PySpark's
worker, so that executors do not require a package. It passes rows to the function in small
portions, reports the progress, and stops between two portions when the task is overtaken.

Task and worker share a memory page, a file in the executor's local directory, of 8-byte numbers:

    overtaken  task    1 when the epoch no longer waits for this task
    decided    task    1 when `stop` and `resume` are final
    stop       task    number of leading rows that the function processes in any case
    resume     task    number of the row from which it processes all rows again
    armed      worker  1 when the worker uses this page
    taken      worker  number of rows that were passed to the function
    skipped    worker  number of the first row that was not passed to it; -1 for none
    whole      task    1 when the function processes all rows of a group or none

Rows are numbered in the order in which the task sends them. Of the rows in [stop, resume), the
function processes only those before the worker notices that the task is overtaken.
"""

import itertools
import mmap
import os
import struct
import time
from collections import deque
from pathlib import Path

OVERTAKEN, DECIDED, STOP, RESUME, ARMED, TAKEN, SKIPPED, WHOLE = range(0, 64, 8)

# Target duration of a portion of rows. An overtaken task waits for one portion at most.
PORTION_SECONDS = 0.025
# The cost of a group's rows is unknown before the first of them are processed. For many small
# groups, Spark's own cost per group dominates, which is one or two milliseconds.
FIRST_ROWS, FIRST_SLICE = 4, 64
GROWTH = 64


class Page:
    """The shared numbers."""

    # The native layout is written in one step; other formats are written byte by byte.
    _number = struct.Struct("q")

    def __init__(self, memory):
        self._memory = memory

    @property
    def is_overtaken(self):
        """Whether the epoch no longer waits for this task."""
        return self._memory[OVERTAKEN] != 0

    def read(self, field):
        """Reads a number."""
        return self._number.unpack_from(self._memory, field)[0]

    def write(self, field, value):
        """Writes a number of the worker."""
        self._number.pack_into(self._memory, field, value)


class Pace:
    """The size of the next portion, from the cost of the last one.

    Attributes:
        rows: number of rows.
    """

    def __init__(self, rows):
        self.rows = rows

    def measured(self, rows, seconds):
        """Adjusts the size after `rows` have taken `seconds`."""
        fitting = int(PORTION_SECONDS * rows / max(seconds, 1e-9))
        self.rows = max(1, min(fitting, rows * GROWTH))


class RowFilter:
    """Decides which rows the function processes. Must be called for all rows in order.

    Attributes:
        page: page that is shared with the task.
        skip: the rows [first, last) that the function does not process; None before the decision.
        seen: number of rows so far.
    """

    def __init__(self, page, wait):
        # `wait` returns when the task has decided, or its input has ended.
        self.page = page
        self.skip = None
        self.seen = 0
        self._wait = wait
        self._splits_groups = page.read(WHOLE) == 0
        # Rows that were dropped before this filter.
        self._holes = deque()

    def classify(self, count, begins):
        """Returns the number of next rows with the same treatment, and if the function gets them.

        Args:
            count: number of rows of one group.
            begins: whether they are its first rows.
        """
        while self._holes and self._holes[0][0] == self.seen:
            self.seen = self._holes.popleft()[1]
        if self._holes:
            count = min(count, self._holes[0][0] - self.seen)
        if self.skip is None:
            if not self.page.is_overtaken or not (begins or self._splits_groups):
                return count, True
            self._decide()
        first, last = self.skip
        if self.seen < first:
            return min(count, first - self.seen), True
        if self.seen < last:
            return min(count, last - self.seen), False
        return count, True

    def dropped(self, first, last):
        """Records that the skipped rows [first, last) will not be passed to `classify`."""
        if self._holes and self._holes[-1][1] == first:
            first = self._holes.pop()[0]
        self._holes.append((first, last))

    def publish(self):
        """Reports the progress of the function to the task, which reads it until it decides."""
        self.page.write(TAKEN, self.seen)

    def _decide(self):
        self._wait()
        first, last = 0, 0
        if self.page.read(DECIDED):
            first, last = max(self.seen, self.page.read(STOP)), self.page.read(RESUME)
        if first < last:
            self.page.write(SKIPPED, first)
        else:
            first, last = 0, 0
        self.skip = first, last


class Batches:
    """The record batches of the input, in slices that take no longer than a portion.

    Skipped rows are not passed to the function. But Spark's own code would still create a group of
    them, which takes one or two milliseconds.

    Attributes:
        row_filter: filter of the rows for the function.
    """

    def __init__(self, reader, page, split):
        # `split` returns a slice of a batch from a row, of approximately a number of rows.
        self.row_filter = RowFilter(page, self._drain)
        self._reader = iter(reader)
        self._split = split
        self._waiting = deque()
        self._index = 0
        self._pace = Pace(FIRST_SLICE)

    def __iter__(self):
        while (batch := self._next()) is not None:
            at = 0
            while at < batch.num_rows:
                at += yield from self._slice(batch, at)

    def _slice(self, batch, at):
        first, last = self.row_filter.skip or (0, 0)
        is_skipping = first <= self._index < last
        wanted = last - self._index if is_skipping else self._pace.rows
        part = self._split(batch, at, min(wanted, batch.num_rows - at))
        rows, began = part.num_rows, self._index
        self._index += rows
        if is_skipping and self._index <= last:
            self.row_filter.dropped(began, self._index)
        else:
            started = time.monotonic()
            yield part
            self._pace.measured(rows, time.monotonic() - started)
        self.row_filter.publish()
        return rows

    def _next(self):
        return self._waiting.popleft() if self._waiting else next(self._reader, None)

    def _drain(self):
        """Reads the input, because a task that is blocked while it sends rows cannot decide."""
        while not self.row_filter.page.read(DECIDED):
            batch = next(self._reader, None)
            if batch is None:
                break
            self._waiting.append(batch)


def split_rows(batch, at, rows):
    """Slices a batch of rows, as in `transformWithState`."""
    return batch.slice(at, rows)


def split_groups(batch, at, rows):
    """Slices a batch of `applyInPandasWithState`, at the end of a piece of a group.

    The first rows of the last column, one for each piece, contain the positions of its rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces = batch.column(batch.num_columns - 1)
    pieces = pieces.slice(0, len(pieces) - pieces.null_count)
    fields = [pieces.type.field(i).name for i in range(pieces.type.num_fields)]
    starts = pieces.field(fields.index("startOffset"))
    begin = len(pc.filter(starts, pc.less(starts, at)))
    end = max(begin + 1, len(pc.filter(starts, pc.less(starts, at + rows))))
    stop = starts[end].as_py() if end < len(pieces) else batch.num_rows
    # A piece that begins within the rows may end after them.
    if stop > at + rows and end > begin + 1:
        end -= 1
        stop = starts[end].as_py()
    columns = [pieces.field(i).slice(begin, end - begin) for i in range(len(fields))]
    offset = fields.index("startOffset")
    columns[offset] = pc.subtract(columns[offset], pa.scalar(at, columns[offset].type))
    described = pa.StructArray.from_arrays(columns, fields=list(pieces.type))
    padding = pa.nulls(stop - at - len(described), described.type)
    data = [column.slice(at, stop - at) for column in batch.columns[:-1]]
    return pa.RecordBatch.from_arrays(
        [*data, pa.concat_arrays([described, padding])], schema=batch.schema
    )


def portions(row_filter, frames):
    """The rows of a group that the function processes, from pandas DataFrames of any length."""
    pace = Pace(FIRST_ROWS)
    begins = True
    for frame in frames:
        at, end = 0, len(frame)
        while at < end:
            rows, is_seen = row_filter.classify(end - at, begins)
            begins = False
            if is_seen:
                rows = min(rows, pace.rows)
                row_filter.seen += rows
                started = time.monotonic()
                yield frame if rows == end else frame.iloc[at : at + rows].reset_index(drop=True)
                pace.measured(rows, time.monotonic() - started)
            else:
                row_filter.seen += rows
            at += rows


def single_rows(row_filter, rows):
    """The rows of a group that the function processes."""
    begins = True
    for row in rows:
        _, is_seen = row_filter.classify(1, begins)
        begins = False
        row_filter.seen += 1
        if is_seen:
            yield row


class Recall:
    """The function of an operator, and the input of its worker.

    Its kind is `groups` for `applyInPandasWithState`, and `frames` or `rows` for the forms of
    `transformWithState`.
    """

    def __init__(self, function, kind):
        self._function = function
        self._split = split_groups if kind == "groups" else split_rows
        self._portions = single_rows if kind == "rows" else portions
        self._row_filter = None

    def over(self, reader):
        """Wraps the batches that the worker reads."""
        page = self._page()
        if page is None:
            return reader
        batches = Batches(reader, page, self._split)
        self._row_filter = batches.row_filter
        return iter(batches)

    def with_state(self, key, values, state):
        """Replaces a function of `applyInPandasWithState`."""
        if self._row_filter is None or state.hasTimedOut:
            return self._function(key, values, state)
        return self._run(lambda group: self._function(key, group, state), values)

    def transform(self, client, mode, key, values):
        """Replaces a function of `transformWithState`."""
        if self._row_filter is None or mode.name != "PROCESS_DATA":
            return self._function(client, mode, key, values)
        return self._run(lambda group: self._function(client, mode, key, group), values)

    def _run(self, call, values):
        group = self._portions(self._row_filter, values)
        first = next(group, None)
        if first is None:
            return iter(())
        result = call(itertools.chain([first], group))
        # PySpark refuses these results, and must see them unchanged.
        if hasattr(result, "iloc") or not hasattr(result, "__iter__"):
            return result
        return self._to_the_end(result, group)

    @staticmethod
    def _to_the_end(result, group):
        yield from result
        # Rows that the function did not read count as processed.
        for _ in group:
            pass

    @staticmethod
    def _page():
        from pyspark import TaskContext

        attempt = TaskContext.get().taskAttemptId()
        local = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0])
        try:
            with (local / f"cleancut-recall-{attempt}").open("r+b") as file:
                page = Page(mmap.mmap(file.fileno(), 0))
        except FileNotFoundError:
            # The attempt repeats a decision, or its rows may not stay in flight.
            return None
        # The second worker of a task processes timeouts, whose rows are never recalled.
        if page.read(ARMED):
            return None
        page.write(ARMED, 1)
        return page
