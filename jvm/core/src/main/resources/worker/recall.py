"""Lets a task take rows back that it has handed to a Python worker.

This text travels in the command of a stateful operator's function, so that executors need no
package of ours, and is evaluated in PySpark's worker. Around the function it hands rows over in
small portions, says how far it has come, and stops between two portions once the task is overtaken.

Both sides share a page of memory, a file in the executor's local directory, with 8-byte numbers:

    overtaken  task    1 when the epoch waits for this task no more
    decided    task    1 when `stop` and `resume` are final
    stop       task    number of rows, from the first, that the function sees in any case
    resume     task    number of rows from which on it sees all again
    armed      worker  1 when the worker follows this page
    taken      worker  number of rows that the function has been given
    skipped    worker  number of rows before the first that it has not been given; -1 for none
    whole      task    1 when the function sees all rows of a group or none

Rows are numbered in the order in which the task hands them over. Of those in [stop, resume) the
function sees the first ones only, up to the moment at which the worker learns of the overtaking.
"""

import itertools
import mmap
import os
import pickle
import struct
import time
from collections import deque
from pathlib import Path

OVERTAKEN, DECIDED, STOP, RESUME, ARMED, TAKEN, SKIPPED, WHOLE = range(0, 64, 8)

# What a portion of rows is to take; an overtaken task waits for one at most.
PORTION_SECONDS = 0.025
# The cost of a group's rows is not known before some have been seen; and of many small groups, it
# is Spark's own cost of a group that counts, of one or two milliseconds.
FIRST_ROWS, FIRST_SLICE = 4, 64
GROWTH = 64


class Page:
    """The shared numbers."""

    # In the layout of C, which is written at once; other formats are written byte by byte.
    _number = struct.Struct("q")

    def __init__(self, memory):
        self._memory = memory

    @property
    def is_overtaken(self):
        """Whether the epoch waits for this task no more."""
        return self._memory[OVERTAKEN] != 0

    def read(self, field):
        """One of the numbers."""
        return self._number.unpack_from(self._memory, field)[0]

    def write(self, field, value):
        """Sets a number of the worker's."""
        self._number.pack_into(self._memory, field, value)


class Pace:
    """How many rows to hand over at once, by what the last ones cost.

    Attributes:
        rows: the number.
    """

    def __init__(self, rows):
        self.rows = rows

    def measured(self, rows, seconds):
        """`rows` have taken `seconds`."""
        fitting = int(PORTION_SECONDS * rows / max(seconds, 1e-9))
        self.rows = max(1, min(fitting, rows * GROWTH))


class Gate:
    """Decides which rows the function sees. It is asked for all rows, in their order.

    Attributes:
        page: shared with the task.
        skip: the rows [first, last) that the function does not see; None while nothing is known.
        seen: number of rows that it was asked for.
    """

    def __init__(self, page, wait):
        # `wait` returns when the task has decided, or its input has ended.
        self.page = page
        self.skip = None
        self.seen = 0
        self._wait = wait
        self._splits_groups = page.read(WHOLE) == 0
        # Rows that were dropped before they came here.
        self._holes = deque()

    def fate(self, count, begins):
        """Of the next `count` rows, at least 1: how many go one way, and if to the function.

        Args:
            count: rows of one group.
            begins: whether they are the first of it.
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
        """The rows [first, last), which would be skipped, will not come."""
        if self._holes and self._holes[-1][1] == first:
            first = self._holes.pop()[0]
        self._holes.append((first, last))

    def publish(self):
        """Tells the task how far the function has come."""
        # Behind the decision the task needs all rows that may be skipped.
        if self.skip is None:
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
    """The record batches of the input, cut into slices that take no longer than a portion.

    The function is not asked for rows that it will not see, but Spark's own code would still make
    a group of them, which takes a millisecond or two.

    Attributes:
        gate: by which the function gets the rows.
    """

    def __init__(self, reader, page, split):
        # `split` gives of a batch, from a row on, about so many rows.
        self.gate = Gate(page, self._drain)
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
        first, last = self.gate.skip or (0, 0)
        is_skipping = first <= self._index < last
        wanted = last - self._index if is_skipping else self._pace.rows
        part = self._split(batch, at, min(wanted, batch.num_rows - at))
        rows, began = part.num_rows, self._index
        self._index += rows
        if is_skipping and self._index <= last:
            self.gate.dropped(began, self._index)
        else:
            started = time.monotonic()
            yield part
            self._pace.measured(rows, time.monotonic() - started)
        self.gate.publish()
        return rows

    def _next(self):
        return self._waiting.popleft() if self._waiting else next(self._reader, None)

    def _drain(self):
        """Reads on, since a task that waits to send its rows cannot decide."""
        while not self.gate.page.read(DECIDED):
            batch = next(self._reader, None)
            if batch is None:
                break
            self._waiting.append(batch)


def split_rows(batch, at, rows):
    """A slice of a batch of rows, as for `transformWithState`."""
    return batch.slice(at, rows)


def split_groups(batch, at, rows):
    """A slice of a batch of `applyInPandasWithState`, which ends where a piece of a group does.

    Its last column says in the first rows, one for each piece, where the rows of it are.
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
    # A piece that begins within the rows may end behind them.
    if stop > at + rows and end > begin + 1:
        end -= 1
        stop = starts[end].as_py()
    columns = [pieces.field(i).slice(begin, end - begin) for i in range(len(fields))]
    own = fields.index("startOffset")
    columns[own] = pc.subtract(columns[own], pa.scalar(at, columns[own].type))
    described = pa.StructArray.from_arrays(columns, fields=list(pieces.type))
    padding = pa.nulls(stop - at - len(described), described.type)
    data = [column.slice(at, stop - at) for column in batch.columns[:-1]]
    return pa.RecordBatch.from_arrays(
        [*data, pa.concat_arrays([described, padding])], schema=batch.schema
    )


def portions(gate, frames):
    """The rows of a group that the function sees, of pandas DataFrames of any length."""
    pace = Pace(FIRST_ROWS)
    begins = True
    for frame in frames:
        at, end = 0, len(frame)
        while at < end:
            rows, is_seen = gate.fate(end - at, begins)
            begins = False
            if is_seen:
                rows = min(rows, pace.rows)
                gate.seen += rows
                started = time.monotonic()
                yield frame if rows == end else frame.iloc[at : at + rows].reset_index(drop=True)
                pace.measured(rows, time.monotonic() - started)
            else:
                gate.seen += rows
            at += rows


def single_rows(gate, rows):
    """The rows of a group that the function sees."""
    begins = True
    for row in rows:
        _, is_seen = gate.fate(1, begins)
        begins = False
        gate.seen += 1
        if is_seen:
            yield row


class Recall:
    """The function of an operator, and the input that its worker reads.

    Its kind is `groups` for `applyInPandasWithState`, and `frames` or `rows` for the forms of
    `transformWithState`.
    """

    def __init__(self, function, kind):
        self._function = function
        self._split = split_groups if kind == "groups" else split_rows
        self._portions = single_rows if kind == "rows" else portions
        self._gate = None

    def over(self, reader):
        """The batches that the worker is to read."""
        page = self._page()
        if page is None:
            return reader
        batches = Batches(reader, page, self._split)
        self._gate = batches.gate
        return iter(batches)

    def with_state(self, key, values, state):
        """In the place of a function of `applyInPandasWithState`."""
        if self._gate is None or state.hasTimedOut:
            return self._function(key, values, state)
        return self._run(lambda group: self._function(key, group, state), values)

    def transform(self, client, mode, key, values):
        """In the place of a function of `transformWithState`."""
        if self._gate is None or mode.name != "PROCESS_DATA":
            return self._function(client, mode, key, values)
        return self._run(lambda group: self._function(client, mode, key, group), values)

    def _run(self, call, values):
        group = self._portions(self._gate, values)
        first = next(group, None)
        if first is None:
            return iter(())
        result = call(itertools.chain([first], group))
        # What PySpark will refuse, it is to see as it is.
        if hasattr(result, "iloc") or not hasattr(result, "__iter__"):
            return result
        return self._to_the_end(result, group)

    @staticmethod
    def _to_the_end(result, group):
        yield from result
        # A function may leave rows unread. They are behind it all the same.
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
            # The attempt repeats a decision, or its rows may not stay.
            return None
        # The second worker of a task processes what has timed out, of which nothing is recalled.
        if page.read(ARMED):
            return None
        page.write(ARMED, 1)
        return page


def load(command, kind):
    """What the command of an operator holds, its function and type, with rows that can go back."""
    from pyspark.core.broadcast import Broadcast
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    loaded = pickle.loads(command)
    if isinstance(loaded, Broadcast):
        loaded = pickle.loads(loaded.value)
    function, returned = loaded
    recall = Recall(function, kind)
    # The next stream that the worker reads is the input of this function.
    plain = getattr(ArrowStreamSerializer.load_stream, "plain", ArrowStreamSerializer.load_stream)

    def load_stream(serializer, stream):
        ArrowStreamSerializer.load_stream = plain
        return recall.over(plain(serializer, stream))

    load_stream.plain = plain
    ArrowStreamSerializer.load_stream = load_stream

    # A function of its own: PySpark's profilers look at its code.
    if kind == "groups":
        return lambda key, values, state: recall.with_state(key, values, state), returned
    return lambda client, mode, key, values: recall.transform(client, mode, key, values), returned
