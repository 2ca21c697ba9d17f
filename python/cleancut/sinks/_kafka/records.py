"""Fetches the rows of an epoch to the driver as records, in Arrow batches."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# The columns of Spark's Kafka sink.
COLUMNS = ("key", "value", "topic", "headers", "partition")
# Approximate sizes: one packed piece, and the pieces that the driver holds at once.
_PIECE_BYTES = 2**20
_DRIVER_BYTES = 32 * 2**20

# Values in the order of COLUMNS; None for a column that the rows lack.
Record = tuple[Any, ...]


class PackedRows:
    """The rows of an epoch, persisted on the executors as pieces in Arrow's stream format.

    Fetching rows one by one costs about 50 microseconds a row. Here Python workers pack whole
    column batches, and the driver unpacks them. Executors need PyArrow, as for each Arrow function
    of PySpark, and nothing of this package.
    """

    def __init__(self, rows: "DataFrame") -> None:
        """Computes the rows, in one job.

        Args:
            rows: the rows; columns that are not in COLUMNS are dropped.
        """
        from pyspark.sql import functions as F  # noqa: N812  # PySpark's own alias

        columns = [name for name in COLUMNS if name in rows.columns]
        pack = _packer(_PIECE_BYTES)
        self._pieces = rows.select(*columns).mapInArrow(pack, "piece int, packed binary").persist()
        # Tasks number their pieces from 0.
        [(last, size)] = self._pieces.agg(F.max("piece"), F.sum(F.length("packed"))).collect()
        self._number = 0 if last is None else last + 1
        bytes_per_number = (size or 0) // (self._number or 1)
        self._at_once = max(1, _DRIVER_BYTES // (bytes_per_number or 1))

    def __iter__(self) -> Iterator[Record]:
        """Yields the records; those of one task in order, those of tasks interleaved.

        The driver holds about 32 MiB of them at once.
        """
        import pyarrow as pa
        from pyspark.sql import functions as F  # noqa: N812

        for begin in range(0, self._number, self._at_once):
            chosen = F.col("piece").between(begin, begin + self._at_once - 1)
            for row in self._pieces.where(chosen).select("packed").collect():
                for batch in pa.ipc.open_stream(pa.py_buffer(row[0])):
                    yield from unpacked(batch)

    def release(self) -> None:
        """Releases the rows on the executors."""
        self._pieces.unpersist()


def unpacked(batch: "pa.RecordBatch") -> Iterator[Record]:
    """Yields the records of a batch, by the names of its columns."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    missing = [None] * batch.num_rows
    yield from zip(*(columns.get(name, missing) for name in COLUMNS), strict=True)


def _packer(max_bytes: int) -> Any:
    """Returns a function for `mapInArrow`; executors import only PyArrow for it."""

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        number = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = max(1, min(batch.num_rows, batch.num_rows * max_bytes // (batch.nbytes or 1)))
            for begin in range(0, batch.num_rows, rows):
                buffer = pa.BufferOutputStream()
                with pa.ipc.new_stream(buffer, batch.schema) as stream:
                    stream.write_batch(batch.slice(begin, rows))
                piece = pa.array([buffer.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), piece], ["piece", "packed"]
                )
                number += 1

    return pack
