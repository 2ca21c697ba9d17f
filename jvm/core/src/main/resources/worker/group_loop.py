"""Calls a stateful operator's function for each group, with few conversions.

PySpark 4.3 converts each group and each result separately. These loops convert the batches of the
input once, and the results of many groups together. Functions receive the same arguments in the
same order as from PySpark, and their results have the same types.

PySpark's loop is a generator in `read_udfs` of `pyspark/worker.py`. Its variables, which are read
from its frame, are the input of these loops. A generator with other source text runs unchanged.
"""

import contextlib
import datetime
import decimal
import gc
import inspect
import itertools
from collections import deque

from .pyspark_code import digest, report_unknown
from .state_batches import StateBatches

# Results are converted together up to this number of rows.
MAX_ROWS = 10_000

# Types of values that cannot change.
SCALARS = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        decimal.Decimal,
        datetime.date,
        datetime.datetime,
        datetime.timedelta,
    }
)


def replace(generator):
    """Returns the generator of the results, which replaces PySpark's if that is the expected one.

    Args:
        generator: PySpark's generator of record batches, which has not started.
    """
    if not inspect.isgenerator(generator) or generator.gi_frame is None:
        return generator
    hashed = _digest(generator)
    loop = LOOPS.get(hashed)
    if loop is None:
        report_unknown(generator.gi_code.co_name, hashed)
        return generator
    return loop(generator.gi_frame.f_locals)


def _digest(generator):
    """The hash of the source text of a generator and of the functions of its file that it calls."""
    code = generator.gi_code
    functions = [
        value.__code__
        for name, value in sorted(generator.gi_frame.f_locals.items())
        if name != "udf" and inspect.isfunction(value)
    ]
    return digest([code, *(c for c in functions if c.co_filename == code.co_filename)])


def transform_rows(loop):
    """Replaces the loop of `transformWithState`.

    Args:
        loop: variables of PySpark's generator.
    """
    return row_results(loop["return_type"]).batches(_transform(loop, RowGroups))


def transform_frames(loop):
    """Replaces the loop of `transformWithStateInPandas`.

    Args:
        loop: variables of PySpark's generator.
    """
    from .group_frames import FrameGroups, FrameResults
    from .loops_4_3 import frame_conversions

    loop = {**loop, **frame_conversions(loop)}
    return FrameResults(loop).batches(_transform(loop, FrameGroups))


def transform_groups(loop):
    """Replaces the loop of `applyInPandasWithState`.

    Args:
        loop: variables of PySpark's generator.
    """
    from .group_frames import with_state
    from .loops_4_3 import group_variables

    return with_state({**loop, **group_variables(loop)})


def _transform(loop, groups):
    client, function = loop["stateful_processor_api_client"], loop["udf"]
    return batched_results(client, function, lambda lookahead: groups(loop, lookahead))


def batched_results(client, function, groups):
    """The results of the calls, with `StateBatches`.

    Args:
        client: PySpark's `StatefulProcessorApiClient`.
        function: function that PySpark calls.
        groups: returns keys and values for a `Lookahead`.
    """
    batches = StateBatches(client)
    try:
        yield from results_of(client, function, groups(Lookahead(batches)), batches.end_groups)
    finally:
        batches.close()


def results_of(client, function, groups, end_groups=lambda: None):
    """The results of the calls: one for each group, one for timers, and one for the end.

    Args:
        client: as above.
        function: as above.
        groups: keys and values.
        end_groups: called after the last group.
    """
    from pyspark.sql.streaming.stateful_processor_util import (
        TransformWithStateInPandasFuncMode as Mode,
    )

    for key, values in groups:
        yield function(client, Mode.PROCESS_DATA, key, values)
    end_groups()
    yield function(client, Mode.PROCESS_TIMER, None, iter([]))
    yield function(client, Mode.COMPLETE, None, iter([]))


class NoLookahead:
    """A `Lookahead` for PySpark's own client."""

    def announce(self, keys):
        """Ignores the keys."""

    def begin_group(self, key):
        """Ignores the key."""


class Lookahead:
    """The keys of the next groups, whose state is prefetched.

    Args:
        batches: `StateBatches` of the task.
    """

    def __init__(self, batches):
        self._batches = batches
        self._keys = deque()
        self._begun = self._requested = 0

    def announce(self, keys):
        """Adds keys of groups that follow."""
        self._keys.extend(keys)

    def begin_group(self, key):
        """Must be called before the function is called for the next group.

        Args:
            key: the object that the function receives.
        """
        if self._begun == self._requested:
            self._begun, self._requested = 0, self._batches.prefetch(self._keys)
        self._keys.popleft()
        self._batches.begin_group(key, self._begun)
        self._begun += 1


class RowGroups:
    """The groups of a sorted input, as iterators of rows.

    Args:
        loop: variables of PySpark's generator.
        lookahead: receives the keys.
    """

    def __init__(self, loop, lookahead):
        self._batches = (batch for batch in loop["data"] if batch.num_rows)
        self._key_offsets = loop["key_offsets"]
        self._lookahead = lookahead
        self._keys, self._rows, self._at = [], [], 0

    def __iter__(self):
        while self._at < len(self._keys) or self._fill(None):
            key = self._keys[self._at]
            self._lookahead.begin_group(key)
            rows = self._group(key)
            yield key, rows
            # Rows that the function did not read.
            for _ in rows:
                pass

    def _group(self, key):
        while True:
            keys, rows, at = self._keys, self._rows, self._at
            while at < len(keys) and keys[at] == key:
                self._at = at + 1
                yield rows[at]
                at = self._at
            if at < len(keys) or not self._fill(key):
                return

    def _fill(self, current):
        batch = next(self._batches, None)
        if batch is None:
            return False
        with _no_collection():
            columns = [column.to_pylist() for column in batch.columns]
            self._keys = list(zip(*(columns[i] for i in self._key_offsets), strict=True))
            self._rows = _rows(batch.schema.names, columns)
        self._at = 0
        before = itertools.chain([current], self._keys)
        self._lookahead.announce(
            [key for key, last in zip(self._keys, before, strict=False) if key != last]
        )
        return True


@contextlib.contextmanager
def _no_collection():
    """Without garbage collection, which many new objects start and which frees none of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _rows(names, columns):
    """PySpark's rows, whose constructor takes longer than the rest of a cheap function."""
    from pyspark.sql.types import Row

    fields, new = Row(*names), tuple.__new__
    rows = [new(Row, values) for values in zip(*columns, strict=True)]
    for row in rows:
        row.__dict__["__fields__"] = fields
    return rows


def row_results(return_type):
    """`RowResults` with the conversions of PySpark 4.2 and later.

    Args:
        return_type: Spark's type of the rows.
    """
    from pyspark.sql.conversion import ArrowBatchTransformer
    from pyspark.sql.pandas.types import to_arrow_type

    arrow_type = to_arrow_type(return_type, timezone="UTC", prefers_large_types=False)
    return RowResults(arrow_type, ArrowBatchTransformer.wrap_struct)


class RowResults:
    """Rows of results, which are converted together.

    Args:
        arrow_type: Arrow's type of the rows.
        wrap: wraps a record batch as the only column of another one.
    """

    def __init__(self, arrow_type, wrap):
        import pyarrow as pa

        self._wrap = wrap
        self._schema = pa.schema(list(arrow_type))
        self._names = self._schema.names
        self._has_distinct_names = len(set(self._names)) == len(self._names)
        # As tuples if all rows have the fields of the schema and values that cannot change.
        self._tuples, self._rows = [], []

    def batches(self, results):
        """The record batches of all rows.

        Args:
            results: an iterable of rows for each call.
        """
        for result in results:
            for row in result:
                self._append(row)
                if len(self._rows) + len(self._tuples) >= MAX_ROWS:
                    yield self._take()
        yield self._take()

    def _append(self, row):
        """Adds a row, which may change afterwards."""
        if not self._rows and self._has_same_fields(row) and SCALARS.issuperset(map(type, row)):
            self._tuples.append(tuple(row))
            return
        self._rows += map(self._dict, self._tuples)
        self._tuples = []
        self._rows.append(row.asDict(True))

    def _take(self):
        """Returns the rows as a record batch, and removes them."""
        import pyarrow as pa

        tuples, rows = self._tuples, self._rows
        self._tuples, self._rows = [], []
        if tuples:
            columns = zip(zip(*tuples, strict=True), self._schema, strict=True)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(values, field.type) for values, field in columns], schema=self._schema
            )
        else:
            batch = pa.RecordBatch.from_pylist(rows, schema=self._schema)
        return self._wrap(batch)

    def _has_same_fields(self, row):
        fields = getattr(row, "__fields__", None)
        return (
            self._has_distinct_names
            and type(fields) is list
            and fields == self._names
            and len(row) == len(fields)
        )

    def _dict(self, values):
        return dict(zip(self._names, values, strict=True))


# By the hash of PySpark's source text.
LOOPS = {
    # 4.3.0
    "d113c9e93b52081b": transform_rows,
    "cf806d073d8ef035": transform_frames,
    "32ff668d331cabe0": transform_groups,
}
