"""Replaces rows of an Iceberg table: the executors rewrite the files that contain their keys.

No row passes through the driver, which has only file names.
"""

import base64
import json
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cleancut.sinks._lakes.delta_files import secrets_in
from cleancut.sinks._lakes.files import Rewriting, StagedFile, Stager, in_task
from cleancut.sinks._lakes.iceberg_types import arrow_schema, spark_schema
from cleancut.sinks._lakes.keys import replaced, touched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE = "cleancut_file"
_BATCH_ROWS = 16_384
_GROUP_BYTES = 64 << 20
# One task may read this number of files, and still all executors have some.
_FILES_PER_TASK = 4


@dataclass(frozen=True)
class RowsWriter:
    """Implements `PartitionWriter` for files outside the table, to be merged later.

    Attributes:
        directory: location of the files.
        schema: schema of the rows.
        keys: columns whose bounds are recorded.
        properties: properties of the object store.
    """

    directory: str
    schema: "pa.Schema"
    keys: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    chunk_bytes: int = _GROUP_BYTES

    def secrets(self) -> Sequence[str]:
        return secrets_in(self.properties)

    def write(self, chunks: "Iterator[pa.Table]") -> Iterator[StagedFile]:
        import pyarrow.parquet as pq
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = PyArrowFileIO(dict(self.properties))
        for chunk in chunks:
            rows = chunk.select(self.schema.names).cast(self.schema)
            place = f"{self.directory}/{secrets.token_hex(8)}.parquet"
            with io.new_output(place).create() as opened:
                pq.write_table(rows, opened, row_group_size=max(rows.num_rows, 1))
            size = len(io.new_input(place))
            bounds = json.dumps({key: _bounds(rows[key]) for key in self.keys})
            yield StagedFile(place, size, rows.num_rows, bounds)


def _bounds(column: "pa.ChunkedArray") -> list[int | str] | None:
    """The least and the greatest value, for types that JSON can represent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    is_time = pa.types.is_date(kind) or kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_time or is_text or pa.types.is_integer(kind)):
        return None
    bounds = pc.min_max(column).as_py()
    if is_time:
        return [bounds["min"].isoformat(), bounds["max"].isoformat()]
    return [bounds["min"], bounds["max"]]


@dataclass(frozen=True)
class FilesReader:
    """Reads files in a task; it is pickled and sent to the executors.

    Attributes:
        metadata: metadata of the table, without snapshots.
        schema: columns of the result.
        is_numbered: whether the last column of each row has the number of its file.
        sink: name of the sink, for errors.
        properties: properties of the object store.
    """

    metadata: "TableMetadata"
    schema: "pa.Schema"
    is_numbered: bool
    sink: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The rows of files: staged ones by path, those of the table by scan task."""
        import pyarrow as pa

        with in_task(self.sink, lambda: secrets_in(self.properties)):
            for batch in batches:
                for file in batch.to_pylist():
                    rows = self._staged if file["task"] is None else self._of_table
                    for rows_read in rows(file["path"], file["task"]):
                        columns = [rows_read.column(it.name).cast(it.type) for it in self.schema]
                        names = list(self.schema.names)
                        if self.is_numbered:
                            columns.append(pa.repeat(pa.scalar(file["number"]), rows_read.num_rows))
                            names.append(_FILE)
                        yield pa.RecordBatch.from_arrays(columns, names=names)

    def _staged(self, path: str, _: None) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = PyArrowFileIO(dict(self.properties))
        with io.new_input(path).open() as opened:
            yield from pq.ParquetFile(opened).iter_batches(
                batch_size=_BATCH_ROWS, columns=list(self.schema.names)
            )

    def _of_table(self, _: str, task: str) -> "Iterator[pa.RecordBatch]":
        """The rows without those that position deletes remove; columns are matched by id."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO

        schema = self.metadata.schema().select(*self.schema.names)
        io = PyArrowFileIO(dict(self.properties))
        scan = ArrowScan(self.metadata, io, schema, AlwaysTrue())
        # It reads the whole file into memory.
        for batch in scan.to_record_batches([pickle.loads(base64.b64decode(task))]):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)


@dataclass(frozen=True)
class IcebergMerge:
    """Staged rows, and the table that they change.

    Attributes:
        spark: a session.
        table: the table of pyiceberg, at the snapshot that is changed.
        metadata: its metadata without snapshots, for tasks.
        keys: key columns, by which a row replaces another one.
        file_bytes: approximate target size of files.
        sink: name of the sink, for errors.
    """

    spark: "SparkSession"
    table: Any
    metadata: "TableMetadata"
    keys: tuple[str, ...]
    file_bytes: int
    sink: str

    def run(
        self, staged: Sequence[StagedFile], stager: Callable[["StructType"], Stager]
    ) -> Rewriting[Any]:
        """Has the executors find and rewrite the files that contain rows with these keys.

        Args:
            staged: the files of the epoch.
            stager: returns a stager for files of the table with some columns.
        """
        given = self._columns_of(staged[0])
        rows = self._rows([(file.path, None) for file in staged], given)
        candidates = self._candidates(staged)
        numbers: set[int] = set()
        if candidates:
            keys = self._columns(self.keys)
            there = self._rows([self._named(file) for file in candidates], keys, is_numbered=True)
            numbers = touched(rows, there, self.keys, _FILE)
        removed = tuple(file for at, file in enumerate(candidates) if at in numbers)
        whole = self._columns(column.name for column in self.metadata.schema().fields)
        before = self._rows([self._named(file) for file in removed], whole) if removed else None
        after = replaced(rows, before, self.keys)
        size = sum(file.file.file_size_in_bytes for file in removed) + sum(
            file.bytes for file in staged
        )
        after = after.coalesce(max(1, -(-size // self.file_bytes)))
        added = stager(after.schema)(after)
        return Rewriting(tuple(file.file for file in removed), tuple(added))

    def _named(self, task: Any) -> tuple[str, str]:
        return task.file.file_path, base64.b64encode(pickle.dumps(task)).decode("ascii")

    def _candidates(self, staged: Sequence[StagedFile]) -> list[Any]:
        """The files that may contain rows with these keys, by their manifest entries."""
        from pyiceberg.expressions import (
            AlwaysTrue,
            And,
            BooleanExpression,
            GreaterThanOrEqual,
            LessThanOrEqual,
            Reference,
        )
        from pyiceberg.table import FileScanTask

        # Their constructors are not typed.
        at_least: Any = GreaterThanOrEqual
        at_most: Any = LessThanOrEqual
        details = [json.loads(detail.detail) for detail in staged]
        wanted: BooleanExpression = AlwaysTrue()
        for key in self.keys:
            bounds = [detail[key] for detail in details]
            if None in bounds:
                continue
            low, high = min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
            wanted = And(wanted, at_least(Reference(key), low), at_most(Reference(key), high))
        tasks = self.table.scan(row_filter=wanted).plan_files()
        # All rows of a file are read, of which some have the keys.
        return [FileScanTask(task.file, task.delete_files) for task in tasks]

    def _columns_of(self, staged: StagedFile) -> "pa.Schema":
        import pyarrow.parquet as pq

        with self.table.io.new_input(staged.path).open() as opened:
            return pq.read_schema(opened)

    def _columns(self, names: Iterable[str]) -> "pa.Schema":
        """Columns of the table, in Spark's types."""
        return arrow_schema(spark_schema(self.metadata.schema(), [*names]))

    def _rows(
        self,
        files: Sequence[tuple[str, str | None]],
        schema: "pa.Schema",
        *,
        is_numbered: bool = False,
    ) -> "DataFrame":
        """The rows of files, which the executors read."""
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import LongType, StructType

        properties = self.table.io.properties
        reader = FilesReader(self.metadata, schema, is_numbered, self.sink, properties)
        given = StructType(from_arrow_schema(schema, prefer_timestamp_ntz=True).fields)
        if is_numbered:
            given = given.add(_FILE, LongType())
        names = self.spark.createDataFrame(
            [(at, *file) for at, file in enumerate(files)], "number long, path string, task string"
        )
        tasks = max(1, -(-len(files) // _FILES_PER_TASK))
        return names.repartition(tasks).mapInArrow(reader.read, given)


def unreadable(metadata: "TableMetadata") -> str | None:
    """The columns of a table that Spark has no type for, so that rows cannot be rewritten."""
    lost = []
    for column in metadata.schema().fields:
        try:
            spark_schema(metadata.schema(), [column.name])
        except Exception:  # of pyiceberg or of Spark
            lost.append(f"{column.name} ({column.field_type})")
    return f"rows cannot be rewritten with columns {', '.join(lost)}" if lost else None
