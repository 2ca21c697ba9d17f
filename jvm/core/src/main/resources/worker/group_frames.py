"""The groups of a sorted input as pandas DataFrames, and the conversion of result DataFrames.

PySpark infers the types of each group's DataFrame from its rows. So a slice of the converted batch
has the same types only if its types do not depend on the rows. Other groups are built as in PySpark
(`transform_with_state_func` in `pyspark/worker.py`), which is slower.
"""

import functools
import io
import itertools
import json
import pickle
from collections import namedtuple
from math import ceil

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import infer_dtype, is_object_dtype
from pyspark.errors import PySparkTypeError
from pyspark.serializers import pickle_protocol
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import _parse_datatype_json_string

from .group_loop import SCALARS

# Results are converted together up to this number of rows, or PySpark's limits.
MAX_ROWS = 10_000
# The first conversion is small, because the size of a row is unknown.
FIRST_ROWS = 256
UNLIMITED = 2**31 - 1
# Distinct properties of states, which differ by timeouts.
MAX_PROPERTIES = 1024

# Columns of Python objects that can be concatenated: all objects are of one type.
ONE_TYPE = frozenset({"string", "bytes", "decimal", "date", "datetime", "boolean", "integer"})


class FrameBatch:
    """One batch of the input.

    Attributes:
        keys: the key of each row.
        values: all rows with the value columns, in the types of a group's DataFrame.
    """

    def __init__(self, batch, loop):
        series = loop["to_pandas"](batch)
        self._all = pd.concat(series, axis=1)
        self._offsets = loop["value_offsets"]
        self.keys = list(zip(*(list(series[i]) for i in loop["key_offsets"]), strict=True))
        # PySpark's rows are named tuples, which rename some columns.
        names = namedtuple("Row", map(str, self._all.columns), rename=True)._fields
        columns, self._nulls = [], np.zeros(batch.num_rows + 1, dtype=np.int64)
        for i in self._offsets:
            column = _uniform(series[i], batch.column(i), self._nulls)
            if column is None:
                columns = None
                break
            columns.append(column)
        self.values = None
        if columns is not None:
            self.values = copy_of_columns(columns, [names[i] for i in self._offsets])
            np.cumsum(self._nulls, out=self._nulls)

    def is_uniform(self, begin, end):
        """Whether a slice of `values` is the DataFrame of these rows."""
        return self.values is not None and self._nulls[end] == self._nulls[begin]

    def rows(self, begin, end):
        """PySpark's rows of a group, with all columns."""
        return self._all.iloc[begin:end].itertuples(index=False)

    def slice(self, begin, end):
        """A DataFrame of rows, with a new index. Must be called once for each row."""
        return slice_of(self.values, begin, end)


def copy_of_columns(columns, names):
    """A DataFrame that owns its memory; columns of Arrow are read-only."""
    frame = pd.concat(columns, axis=1).copy()
    frame.columns = pd.Index(names)
    return frame


def slice_of(frame, begin, end):
    """A DataFrame of some rows, with a new index. Must be called once for each row."""
    part = frame.iloc[begin:end]
    part.index = pd.RangeIndex(end - begin)
    # The function may change its rows, which are in no other DataFrame.
    if hasattr(part, "_is_copy"):
        part._is_copy = None
    return part


def _uniform(series, column, nulls):
    """A column in the type of each group's DataFrame, or None if this depends on the rows.

    Adds 1 to `nulls` after each row whose null could change the type.
    """
    kind = getattr(series.dtype, "kind", "O") if isinstance(series.dtype, np.dtype) else None
    if kind == "i":
        return series.astype(np.int64)
    if kind == "f":
        return series.astype(np.float64)
    if kind == "b":
        return series
    if kind == "O":
        if not _has_plain_objects(column.type):
            return None
    elif kind != "M" and not isinstance(series.dtype, (pd.DatetimeTZDtype, pd.StringDtype)):
        return None
    if column.null_count:
        nulls[1:] += series.isnull().to_numpy()
    return series


def _has_plain_objects(kind):
    """Whether the values of an Arrow type are immutable Python objects in pandas."""
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
    )


class FrameGroups:
    """The groups of a sorted input, as iterators of DataFrames.

    Args:
        loop: variables of PySpark's generator.
        lookahead: receives the keys.
    """

    def __init__(self, loop, lookahead):
        self._loop = loop
        self._lookahead = lookahead
        self._max_rows = loop["arrow_max_records_per_batch"]
        self._max_bytes = loop["arrow_max_bytes_per_batch"]
        self._bytes = self._rows = 0
        # Whether the first slice was equal to PySpark's DataFrame.
        self._is_verified = None

    def __iter__(self):
        for key, group in itertools.groupby(self._frames(), key=lambda pair: pair[0]):
            self._lookahead.begin_group(key)
            yield key, (frame for _, frame in group)

    def _frames(self):
        """The key and DataFrame of each group, which has several if it is large."""
        key, pieces, count = None, [], 0
        for arrow in self._loop["batches"]:
            if not arrow.num_rows:
                continue
            limit = self._limit(arrow)
            batch = FrameBatch(arrow, self._loop)
            bounds = _bounds(batch.keys)
            firsts = [batch.keys[begin] for begin, _ in bounds]
            self._lookahead.announce(firsts[1:] if firsts[0] == key else firsts)
            for first, (begin, end) in zip(firsts, bounds, strict=True):
                # A group has the key of its first row. Later ones may differ: 0.0 equals -0.0.
                if first != key:
                    if pieces:
                        yield key, self._frame(pieces)
                        pieces, count = [], 0
                    key = first
                while begin < end:
                    taken = min(end - begin, max(1, limit - count))
                    pieces.append((batch, begin, begin + taken))
                    begin, count = begin + taken, count + taken
                    if count >= limit:
                        yield key, self._frame(pieces)
                        pieces, count = [], 0
        if pieces:
            yield key, self._frame(pieces)

    def _limit(self, batch):
        if self._max_bytes == UNLIMITED:
            return self._max_rows
        buffers = (buffer for column in batch.columns for buffer in column.buffers())
        self._bytes += sum(buffer.size for buffer in buffers if buffer is not None)
        self._rows += batch.num_rows
        return min(self._max_rows, max(1, ceil(self._max_bytes * self._rows / self._bytes)))

    def _frame(self, pieces):
        if self._is_verified is False or not all(b.is_uniform(i, j) for b, i, j in pieces):
            return self._inferred(pieces)
        frames = [batch.slice(begin, end) for batch, begin, end in pieces]
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        if self._is_verified is None:
            expected = self._inferred(pieces)
            self._is_verified = are_same(frame, expected)
            return expected
        return frame

    def _inferred(self, pieces):
        rows = [row for batch, begin, end in pieces for row in batch.rows(begin, end)]
        return pd.DataFrame(rows).iloc[:, self._loop["value_offsets"]]


def _bounds(keys):
    starts = [0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1]), len(keys)]
    return list(itertools.pairwise(starts))


def are_same(frame, other):
    """Whether two DataFrames have the same columns, types and values."""
    return (
        list(frame.columns) == list(other.columns)
        and list(frame.dtypes) == list(other.dtypes)
        and frame.equals(other)
    )


def _dtypes(frame):
    """The types of the columns. The public attribute creates a Series, which takes 30 µs."""
    manager = getattr(frame, "_mgr", None)
    return list(manager.get_dtypes() if hasattr(manager, "get_dtypes") else frame.dtypes)


class FrameResults:
    """Result DataFrames, which are converted together if this does not change a value.

    Args:
        loop: variables of PySpark's generator.
    """

    def __init__(self, loop):
        self._convert = loop["convert"]
        # Nested values can change after the function has returned them.
        self._is_flat = loop["is_flat"]
        self._max_bytes = loop["arrow_max_bytes_per_batch"]
        self._max_rows = min(MAX_ROWS, loop["arrow_max_records_per_batch"])
        self._limit = min(FIRST_ROWS, self._max_rows)
        self._frames, self._rows = [], 0

    def batches(self, results):
        """The record batches of all DataFrames.

        Args:
            results: an iterable of DataFrames for each call.
        """
        for result in results:
            for frame in result:
                yield from self._append(frame)
        yield from self._take()

    def _append(self, frame):
        """Adds a DataFrame, and returns the record batches to emit."""
        if not self._is_flat or not isinstance(frame, pd.DataFrame) or not len(frame):
            return [*self._take(), self._convert(frame)]
        batches = []
        if self._frames and not self._is_like(frame):
            batches = self._take()
        self._frames.append(frame.copy())
        self._rows += len(frame)
        return batches if self._rows < self._limit else [*batches, *self._take()]

    def _take(self):
        """Returns the record batches of all DataFrames, and removes these."""
        frames, self._frames, self._rows = self._frames, [], 0
        if not frames:
            return []
        batches = self._together(frames) or [self._convert(frame) for frame in frames]
        rows = sum(batch.num_rows for batch in batches)
        size = max(1, sum(batch.nbytes for batch in batches))
        self._limit = max(1, min(self._max_rows, self._max_bytes * rows // size))
        return batches

    def _is_like(self, frame):
        first = self._frames[0]
        return frame.columns.equals(first.columns) and _dtypes(frame) == _dtypes(first)

    def _together(self, frames):
        if len(frames) == 1:
            return None
        merged = pd.concat(frames, ignore_index=True)
        objects = [i for i, dtype in enumerate(merged.dtypes) if is_object_dtype(dtype)]
        # The conversion of other objects depends on the others in their column.
        kinds = {infer_dtype(merged.iloc[:, i], skipna=True) for i in objects}
        if not kinds <= ONE_TYPE:
            return None
        try:
            return [self._convert(merged)]
        except Exception:
            # The error of a single DataFrame is the one to report.
            return None


class StateBatch:
    """One batch of the input of `applyInPandasWithState`."""

    def __init__(self, batch, loop, to_pandas):
        self._data = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=_without_last(batch))
        self._to_pandas = to_pandas
        self._keys, self._values = loop["key_offsets"], loop["value_offsets"]
        self._frame = None
        self.states = batch.column(batch.num_columns - 1).to_pylist()
        if all(map(has_one_type, self._data.columns)):
            series = to_pandas(self._data)
            self._key_columns = [scalars(series[i]) for i in self._keys]
            columns = [series[i] for i in self._values]
            self._frame = copy_of_columns(columns, [column.name for column in columns])

    @property
    def is_uniform(self):
        """Whether each slice has the types of the batch."""
        return self._frame is not None

    def expected(self, begin, rows):
        """The key and values of PySpark, as columns."""
        series = self._to_pandas(self._data.slice(begin, rows))
        return [series[i] for i in self._keys], [series[i] for i in self._values]

    def slice(self, begin, rows):
        """The key, as sequences that PySpark accepts, and the values, as a DataFrame."""
        keys = [[column[begin]] for column in self._key_columns]
        return keys, slice_of(self._frame, begin, begin + rows)


def scalars(series):
    """A sequence of the values that a Series returns."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufbO":
        return series.to_numpy()
    return series.iloc


def _without_last(batch):
    return pa.schema([batch.schema.field(i) for i in range(batch.num_columns - 1)])


def has_one_type(column):
    """Whether the type in pandas of each slice of the column is the same."""
    types, kind = pa.types, column.type
    if types.is_floating(kind) or types.is_timestamp(kind) or _has_plain_objects(kind):
        return True
    return (types.is_integer(kind) or types.is_boolean(kind)) and not column.null_count


class StateReader:
    """Creates the states of groups as `construct_state` of PySpark does.

    The pickle of each state contains its schema as JSON, which is parsed once here.

    Args:
        schema: Spark's type of states.
        pickler: PySpark's serializer of state values.
    """

    def __init__(self, schema, pickler):
        self._schema = schema
        self._pickler = pickler
        self._properties = {}

    def state(self, info):
        """The state of a group from PySpark's dictionary."""
        text, pickled = info["properties"], info["object"]
        properties = self._properties.get(text)
        if properties is None:
            if len(self._properties) >= MAX_PROPERTIES:
                self._properties.clear()
            properties = self._properties[text] = json.loads(text)
        value = self._unpickled(pickled) if pickled else None
        return GroupState(
            keyAsUnsafe=info["keyRowAsUnsafe"],
            valueSchema=self._schema,
            **{**properties, "optionalValue": value},
        )

    def _unpickled(self, pickled):
        # Later versions of PySpark restrict the classes.
        if getattr(self._pickler, "allowed_names", None) is not None:
            return self._pickler.loads(pickled)
        return StateUnpickler(io.BytesIO(pickled), encoding="bytes").load()


class StateUnpickler(pickle.Unpickler):
    """Unpickles rows whose schemas are equal."""

    def find_class(self, module, name):
        """Replaces the parser of schemas."""
        if name == "_parse_datatype_json_string":
            return _parsed_schema
        return super().find_class(module, name)


_parsed_schema = functools.lru_cache(maxsize=64)(_parse_datatype_json_string)


class StateGroups:
    """The chunks of groups with their state, as `gen_data_and_state` of PySpark yields them.

    The values of a chunk are PySpark's columns, or a DataFrame.

    Args:
        loop: variables of PySpark's generator.
    """

    def __init__(self, loop):
        self._loop = loop
        self._construct = StateReader(loop["state_schema"], loop["pickler"]).state
        self._to_pandas = loop["to_pandas"]
        self._is_verified = None

    def __iter__(self):
        current = None
        for arrow in self._loop["data"]:
            batch = StateBatch(arrow, self._loop, self._to_pandas)
            for info in batch.states:
                if not info:
                    break
                state = current or self._construct(info)
                current = None if info["isLastChunk"] else state
                yield self._chunk(batch, info["startOffset"], info["numRows"]), state

    def _chunk(self, batch, begin, rows):
        if self._is_verified is False or not batch.is_uniform or not rows:
            return batch.expected(begin, rows)
        keys, values = batch.slice(begin, rows)
        if self._is_verified is None:
            expected_keys, expected = batch.expected(begin, rows)
            self._is_verified = are_same(values, pd.concat(expected, axis=1)) and all(
                type(ours[0]) is type(theirs[0])
                for ours, theirs in zip(keys, expected_keys, strict=True)
            )
            return expected_keys, expected
        return keys, values


def with_state(loop):
    """Replaces the loop of `applyInPandasWithState`.

    Args:
        loop: variables of PySpark's generator.
    """
    apply, construct = Application(loop), loop["construct_record_batch"]
    max_rows = loop["arrow_max_records_per_batch"]
    frames, rows, states = [], 0, States(loop["pickler"])
    for state, group in itertools.groupby(StateGroups(loop), key=lambda pair: pair[1]):
        chunks = (chunk for chunk, _ in group)
        keys, values = next(chunks)
        following = itertools.chain([values], (other for _, other in chunks))
        for frame in apply.results(keys, following, state):
            if len(frame) > 0:
                rows += len(frame)
                frames.append(frame)
                if rows > max_rows:
                    count = len(states)
                    yield construct(frames, rows, loop["return_type"], states.take(), count)
                    frames, rows = [], 0
        states.append(state)
    if rows > 0 or len(states) > 0:
        count = len(states)
        yield construct(frames, rows, loop["return_type"], states.take(), count)


class Application:
    """Calls the function of `applyInPandasWithState` for groups.

    Args:
        loop: `apply_udf_to_group` is PySpark's function for a group, whose values are lists of
            columns. It calls `function`, and `verify_element` for its results.
    """

    def __init__(self, loop):
        self._plain = loop["apply_udf_to_group"]
        self._function, self._verify = loop["function"], loop["verify_element"]

    def results(self, keys, chunks, state):
        """The DataFrames that the function returns.

        Args:
            keys: PySpark's sequences, whose first elements are the key.
            chunks: columns or DataFrames.
            state: of the group.
        """
        if state.hasTimedOut:
            return self._plain(keys, chunks, state)
        key = tuple(column[0] for column in keys)
        values = (
            chunk if isinstance(chunk, pd.DataFrame) else pd.concat(chunk, axis=1)
            for chunk in chunks
        )
        result = self._function(key, values, state)
        if isinstance(result, pd.DataFrame):
            raise _wrong_type(result, "iterable of pandas.DataFrame")
        try:
            iter(result)
        except TypeError:
            raise _wrong_type(result, "iterable") from None
        return map(self._verify, result)


def _wrong_type(result, expected):
    return PySparkTypeError(
        errorClass="UDF_RETURN_TYPE",
        messageParameters={"expected": expected, "actual": type(result).__name__},
    )


class States:
    """States of groups, as one DataFrame of PySpark's four columns.

    Args:
        pickler: PySpark's serializer of state values.
    """

    def __init__(self, pickler):
        self._pickler = pickler
        self._rows = []

    def __len__(self):
        return len(self._rows)

    def append(self, state):
        """Adds the state of a group after its function has ended."""
        value = None
        if state.exists:
            value = self._pickled(state._value_schema.toInternal(state._value))
        properties = state.json().encode("utf-8")
        self._rows.append((properties, state._keyAsUnsafe, value, state.oldTimeoutTimestamp))

    def _pickled(self, values):
        # PySpark's pickler also takes functions, and is slower by 10 µs.
        if type(values) is tuple and SCALARS.issuperset(map(type, values)):
            return pickle.dumps(values, pickle_protocol)
        return self._pickler.dumps(values)

    def take(self):
        """Returns a list of one DataFrame, or of none, and removes the states."""
        rows, self._rows = self._rows, []
        columns = ("properties", "keyRowAsUnsafe", "object", "oldTimeoutTimestamp")
        return [pd.DataFrame(rows, columns=list(columns))] if rows else []
