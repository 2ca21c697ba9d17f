"""The rows of an epoch as records, brought to the driver as Arrow batches."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Those of Spark's own sink.
COLUMNS = ("key", "value", "topic", "headers", "partition")
# What the driver unpacks at a time, roughly.
_PACKED_BYTES = 2**20

# In the order of COLUMNS, with None for what is not there.
Record = tuple[Any, ...]


def packed(rows: "DataFrame") -> "DataFrame":
    """The rows as some rows of bytes, which hold them by columns.

    Rows that Spark brings to Python one by one take it some 50 microseconds each. Here Python on
    the executors packs them as it gets them from Spark, by columns, and the driver unpacks columns.
    Executors need PyArrow for it, as for every function of PySpark's that is of Arrow, and nothing
    of this package.

    Args:
        rows: with some of COLUMNS; other columns are left out.
    """
    there = [name for name in COLUMNS if name in rows.columns]
    return rows.select(*there).mapInArrow(_packing(_PACKED_BYTES), "packed binary")


def records_of(rows: "DataFrame") -> Iterator[Record]:
    """The records, partition by partition, of which one is fetched while another one is sent.

    Args:
        rows: what `packed` gave.
    """
    import pyarrow as pa

    for row in rows.toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(pa.py_buffer(row[0])):
            yield from unpacked(batch)


def unpacked(batch: "pa.RecordBatch") -> Iterator[Record]:
    """The records of a batch, with the names of its columns."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    absent = [None] * batch.num_rows
    yield from zip(*(columns.get(name, absent) for name in COLUMNS), strict=True)


def _packing(most_bytes: int) -> Any:
    """A function for `mapInArrow`, of which executors import nothing but PyArrow."""

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if not batch.num_rows:
                continue
            rows = max(1, min(batch.num_rows, batch.num_rows * most_bytes // (batch.nbytes or 1)))
            for begin in range(0, batch.num_rows, rows):
                to = pa.BufferOutputStream()
                with pa.ipc.new_stream(to, batch.schema) as stream:
                    stream.write_batch(batch.slice(begin, rows))
                piece = pa.array([to.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([piece], ["packed"])

    return pack
