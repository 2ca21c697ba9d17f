"""The loops over groups of PySpark 4.0, which receives a record batch for each group.

Parameters are those of `loops_4_2.py`.
"""

import itertools

from .group_loop import results_of
from .loops_4_1 import result_conversions, result_type
from .loops_4_2 import group_variables
from .pyspark_code import closure

# Groups that are converted together, up to a number of rows and bytes.
MAX_GROUPS, MAX_ROWS, MAX_BYTES = 256, 10_000, 4 << 20


def transform_frames(serializer, mapper, batches):
    """Replaces the loop of `transformWithStateInPandas`."""
    from .group_frames import FrameResults

    variables = closure(mapper)
    # PySpark's function only concatenates columns before it calls this one.
    function = closure(closure(variables["f"])["wrapped"])["f"]
    loop = {
        # This PySpark has no limits for record batches of results.
        "arrow_max_records_per_batch": MAX_ROWS,
        "arrow_max_bytes_per_batch": 2**31 - 1,
        **result_conversions(serializer, mapper),
    }
    groups = ChunkGroups(serializer, variables["parsed_offsets"][0], batches)
    results = results_of(variables["stateful_processor_api_client"], function, groups)
    return FrameResults(loop).batches(results)


def transform_groups(serializer, mapper, batches):
    """Replaces the loop of `applyInPandasWithState`."""
    import pyarrow as pa

    from .group_frames import with_state

    return with_state(
        group_variables(serializer, mapper, batches)
        | {
            "return_type": result_type(mapper),
            "to_pandas": lambda batch: _to_pandas(serializer, pa.Table.from_batches([batch])),
        }
    )


def _to_pandas(serializer, table):
    return [serializer.arrow_to_pandas(column) for column in table.itercolumns()]


class ChunkGroups:
    """The groups of an input that has a record batch for each, or several if it is large.

    Args:
        serializer: PySpark's serializer.
        offsets: those of key and value columns.
        batches: record batches.
    """

    def __init__(self, serializer, offsets, batches):
        self._serializer = serializer
        self._keys, self._values = offsets
        self._batches = iter(batches)
        # Whether the first slice was equal to PySpark's DataFrame.
        self._is_verified = None

    def __iter__(self):
        for key, chunks in itertools.groupby(self._chunks(), key=lambda pair: pair[0]):
            yield key, (frame for _, frame in chunks)

    def _chunks(self):
        """The key and DataFrame of each record batch."""
        import pyarrow as pa

        from .group_frames import copy_of_columns, has_one_type, scalars, slice_of

        while batches := self._read():
            table = pa.Table.from_batches(batches)
            if self._is_verified is False or not all(map(has_one_type, table.columns)):
                yield from map(self._plain, batches)
                continue
            series = _to_pandas(self._serializer, table)
            keys = [scalars(series[i]) for i in self._keys]
            columns = [series[i] for i in self._values]
            frame = copy_of_columns(columns, [column.name for column in columns])
            begin = 0
            for batch in batches:
                end = begin + batch.num_rows
                key = tuple(column[begin] for column in keys)
                chunk = key, slice_of(frame, begin, end)
                yield chunk if self._is_verified else self._verified(batch, chunk)
                begin = end

    def _read(self):
        batches, rows, size = [], 0, 0
        for batch in self._batches:
            batches.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if len(batches) >= MAX_GROUPS or rows >= MAX_ROWS or size >= MAX_BYTES:
                break
        return batches

    def _plain(self, batch):
        """PySpark's key and DataFrame of a record batch."""
        import pandas as pd
        import pyarrow as pa

        series = _to_pandas(self._serializer, pa.Table.from_batches([batch]))
        key = tuple(series[i][0] for i in self._keys)
        return key, pd.concat([series[i] for i in self._values], axis=1)

    def _verified(self, batch, chunk):
        from .group_frames import are_same

        expected = self._plain(batch)
        if self._is_verified is None:
            types = [[type(value) for value in key] for key, _ in (chunk, expected)]
            self._is_verified = types[0] == types[1] and are_same(chunk[1], expected[1])
        return expected
