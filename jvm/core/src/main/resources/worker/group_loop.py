"""Calls a stateful operator's function for each group, with few conversions.

PySpark 4.3 converts each group and each result separately. These loops convert the batches of the
input once, and the results of many groups together. Functions receive the same arguments in the
same order as from PySpark, and their results have the same types.

PySpark's loop is a generator in `read_udfs` of `pyspark/worker.py`. Its variables, which are read
from its frame, are the input of these loops. A generator with other source text runs unchanged.
"""

import hashlib
import inspect
import itertools
import logging
from collections import deque

from .state_requests import MAX_PREFETCHED_REQUESTS, StateRequests

# Results are converted together up to this number of rows.
MAX_ROWS = 10_000


def replace(generator):
    """Returns the generator of the results, which replaces PySpark's if that is the expected one.

    Args:
        generator: PySpark's generator of record batches, which has not started.
    """
    if not inspect.isgenerator(generator) or generator.gi_frame is None:
        return generator
    digest = _digest(generator)
    loop = LOOPS.get(digest)
    if loop is None:
        _report(generator, digest)
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
    codes = [code, *(c for c in functions if c.co_filename == code.co_filename)]
    return hashlib.sha256("".join(map(_source, codes)).encode()).hexdigest()[:16]


_sources = {}


def _source(code):
    if code not in _sources:
        try:
            _sources[code] = inspect.getsource(code)
        except (OSError, TypeError):
            _sources[code] = ""
    return _sources[code]


_reported = set()


def _report(generator, digest):
    if digest not in _reported:
        _reported.add(digest)
        logging.getLogger("cleancut").warning(
            "PySpark's loop over groups (%s, %s) is not the expected one, so it runs unchanged. "
            "Results are the same; Python state is slower.",
            generator.gi_code.co_name,
            digest,
        )


def transform_rows(loop):
    """Replaces the loop of `transformWithState`.

    Args:
        loop: variables of PySpark's generator.
    """
    results = RowResults(loop["return_type"])
    for result in _transform(loop, RowGroups):
        for row in result:
            results.append(row)
            if results.is_full:
                yield results.take()
    yield results.take()


def transform_frames(loop):
    """Replaces the loop of `transformWithStateInPandas`.

    Args:
        loop: variables of PySpark's generator.
    """
    from .group_frames import FrameGroups, FrameResults

    results = FrameResults(loop)
    for result in _transform(loop, FrameGroups):
        for frame in result:
            yield from results.append(frame)
    yield from results.take()


def transform_groups(loop):
    """Replaces the loop of `applyInPandasWithState`.

    Args:
        loop: variables of PySpark's generator.
    """
    from .group_frames import with_state

    return with_state(loop)


def _transform(loop, groups):
    """The results of the calls: one for each group, one for timers, and one for the end."""
    from pyspark.sql.streaming.stateful_processor_util import (
        TransformWithStateInPandasFuncMode as Mode,
    )

    client, function = loop["stateful_processor_api_client"], loop["udf"]
    requests = StateRequests(client)
    try:
        for key, values in groups(loop, Lookahead(requests.prefetch)):
            yield function(client, Mode.PROCESS_DATA, key, values)
        yield function(client, Mode.PROCESS_TIMER, None, iter([]))
        yield function(client, Mode.COMPLETE, None, iter([]))
    finally:
        requests.close()


class Lookahead:
    """The keys of the next groups, whose state is prefetched.

    Args:
        prefetch: sends the reads for a list of keys.
    """

    def __init__(self, prefetch):
        self._prefetch = prefetch
        self._keys = deque()
        self._requested = 0

    def announce(self, keys):
        """Adds keys of groups that follow."""
        self._keys.extend(keys)

    def begin_group(self):
        """Must be called before the function is called for the next group."""
        if self._requested == 0:
            keys = list(itertools.islice(self._keys, MAX_PREFETCHED_REQUESTS))
            self._requested = len(keys)
            self._prefetch(keys)
        self._keys.popleft()
        self._requested -= 1


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
            self._lookahead.begin_group()
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
        from pyspark.sql.types import Row

        batch = next(self._batches, None)
        if batch is None:
            return False
        row = Row(*batch.schema.names)
        columns = [column.to_pylist() for column in batch.columns]
        self._keys = list(zip(*(columns[i] for i in self._key_offsets), strict=True))
        self._rows = [row(*values) for values in zip(*columns, strict=True)]
        self._at = 0
        before = itertools.chain([current], self._keys)
        self._lookahead.announce(
            [key for key, last in zip(self._keys, before, strict=False) if key != last]
        )
        return True


class RowResults:
    """Rows of results, which are converted together.

    Args:
        return_type: Spark's type of the rows.
    """

    def __init__(self, return_type):
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        arrow_type = to_arrow_type(return_type, timezone="UTC", prefers_large_types=False)
        self._schema = pa.schema(list(arrow_type))
        self._rows = []

    @property
    def is_full(self):
        """Whether the rows should be taken."""
        return len(self._rows) >= MAX_ROWS

    def append(self, row):
        """Adds a row, which may change afterwards."""
        self._rows.append(row.asDict(True))

    def take(self):
        """Returns the rows as a record batch, and removes them."""
        import pyarrow as pa
        from pyspark.sql.conversion import ArrowBatchTransformer

        rows, self._rows = self._rows, []
        return ArrowBatchTransformer.wrap_struct(
            pa.RecordBatch.from_pylist(rows, schema=self._schema)
        )


# By the hash of PySpark's source text.
LOOPS = {
    # 4.3.0
    "d113c9e93b52081b": transform_rows,
    "cf806d073d8ef035": transform_frames,
    "32ff668d331cabe0": transform_groups,
}
