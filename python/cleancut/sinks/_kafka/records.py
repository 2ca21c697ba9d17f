"""The rows of an epoch as records, brought to the driver as Arrow batches."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Those of Spark's own sink.
COLUMNS = ("key", "value", "topic", "headers", "partition")
# What is unpacked at a time, and what the driver has at a time, roughly.
_PIECE_BYTES = 2**20
_DRIVER_BYTES = 32 * 2**20

# In the order of COLUMNS, with None for what is not there.
Record = tuple[Any, ...]


class PackedRows:
    """The rows of an epoch, kept on the executors, as pieces that hold them by columns.

    Rows that Spark brings to Python one by one take it some 50 microseconds each. Here Python on
    the executors packs them as it gets them from Spark, by columns, and the driver unpacks columns.
    Executors need PyArrow for it, as for every function of PySpark's that is of Arrow, and nothing
    of this package.
    """

    def __init__(self, rows: "DataFrame") -> None:
        """Computes the rows, in one job.

        Args:
            rows: with some of COLUMNS; other columns are left out.
        """
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        there = [name for name in COLUMNS if name in rows.columns]
        pack = _packing(_PIECE_BYTES)
        self._pieces = rows.select(*there).mapInArrow(pack, "piece int, packed binary").persist()
        # Of each task's pieces, and over all tasks.
        [(last, size)] = self._pieces.agg(F.max("piece"), F.sum(F.length("packed"))).collect()
        self._number = 0 if last is None else last + 1
        of_number = (size or 0) // (self._number or 1)
        self._at_once = max(1, _DRIVER_BYTES // (of_number or 1))

    def __iter__(self) -> Iterator[Record]:
        """The records: of each task's rows in their order, and some of each task at a time.

        The driver has no more than some of them at a time, however many there are.
        """
        import pyarrow as pa
        from pyspark.sql import functions as F  # noqa: N812

        for begin in range(0, self._number, self._at_once):
            chosen = F.col("piece").between(begin, begin + self._at_once - 1)
            for row in self._pieces.where(chosen).select("packed").collect():
                for batch in pa.ipc.open_stream(pa.py_buffer(row[0])):
                    yield from unpacked(batch)

    def let_go(self) -> None:
        """Keeps them no more."""
        self._pieces.unpersist()


def unpacked(batch: "pa.RecordBatch") -> Iterator[Record]:
    """The records of a batch, with the names of its columns."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    absent = [None] * batch.num_rows
    yield from zip(*(columns.get(name, absent) for name in COLUMNS), strict=True)


def _packing(most_bytes: int) -> Any:
    """A function for `mapInArrow`, of which executors import nothing but PyArrow."""

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        number = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = max(1, min(batch.num_rows, batch.num_rows * most_bytes // (batch.nbytes or 1)))
            for begin in range(0, batch.num_rows, rows):
                to = pa.BufferOutputStream()
                with pa.ipc.new_stream(to, batch.schema) as stream:
                    stream.write_batch(batch.slice(begin, rows))
                piece = pa.array([to.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), piece], ["piece", "packed"]
                )
                number += 1

    return pack
