"""Rows that take the place of others in a table of Iceberg: the executors rewrite files in touch.

No row passes through the driver, which has the names of files alone.
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
from cleancut.sinks._lakes.keyed import replaced, touched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FILE = "cleancut_file"
_BATCH_ROWS = 16_384
_GROUP_BYTES = 64 << 20
# Few enough files that one task may read each, many enough that all executors have some.
_FILES_PER_TASK = 4


@dataclass(frozen=True)
class RowsWriter:
    """Implements `PartitionWriter`: files that are no part of the table, to be merged later.

    Attributes:
        directory: where, with the store.
        schema: of the columns.
        keys: columns whose bounds are told.
        properties: how the store is reached.
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
    """The least and the greatest value, of types whose values JSON has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    is_time = pa.types.is_date(kind) or kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_time or is_text or pa.types.is_integer(kind)):
        return None
    found = pc.min_max(column).as_py()
    if is_time:
        return [found["min"].isoformat(), found["max"].isoformat()]
    return [found["min"], found["max"]]


@dataclass(frozen=True)
class FilesReader:
    """Reads files in a task; it is pickled, and goes to the executors.

    Attributes:
        metadata: of the table, without snapshots.
        schema: of the columns to give.
        is_numbered: whether each row says of which file it is, in a column that comes last.
        sink: for errors.
        properties: how the store is reached.
    """

    metadata: "TableMetadata"
    schema: "pa.Schema"
    is_numbered: bool
    sink: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The rows of files that are named: those of the table as its scans name them."""
        import pyarrow as pa

        with in_task(self.sink, lambda: secrets_in(self.properties)):
            for batch in batches:
                for of in batch.to_pylist():
                    rows = self._staged if of["task"] is None else self._of_table
                    for found in rows(of["path"], of["task"]):
                        columns = [found.column(it.name).cast(it.type) for it in self.schema]
                        names = list(self.schema.names)
                        if self.is_numbered:
                            columns.append(pa.repeat(pa.scalar(of["number"]), found.num_rows))
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
        """Without rows that were deleted by their places, and by the columns' ids."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO

        schema = self.metadata.schema().select(*self.schema.names)
        io = PyArrowFileIO(dict(self.properties))
        scan = ArrowScan(self.metadata, io, schema, AlwaysTrue())
        # It has the whole file in memory.
        for batch in scan.to_record_batches([pickle.loads(base64.b64decode(task))]):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)


@dataclass(frozen=True)
class IcebergMerge:
    """Rows that are staged, and the table that they are to change.

    Attributes:
        spark: a session.
        table: as pyiceberg has it, at the snapshot that is changed.
        metadata: the same without snapshots, for tasks.
        keys: columns by which a row takes the place of another one.
        file_bytes: how large files are to be, about.
        sink: for errors.
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
        """Has the executors find and rewrite the files in which there are rows with these keys.

        Args:
            staged: the files of the epoch.
            stager: makes what writes files of the table with some columns.
        """
        given = self._columns_of(staged[0])
        rows = self._rows([(of.path, None) for of in staged], given)
        candidates = self._candidates(staged)
        found: set[int] = set()
        if candidates:
            keys = self._columns(self.keys)
            there = self._rows([self._named(of) for of in candidates], keys, is_numbered=True)
            found = touched(rows, there, self.keys, _FILE)
        removed = tuple(of for at, of in enumerate(candidates) if at in found)
        whole = self._columns(of.name for of in self.metadata.schema().fields)
        before = self._rows([self._named(of) for of in removed], whole) if removed else None
        after = replaced(rows, before, self.keys)
        size = sum(of.file.file_size_in_bytes for of in removed) + sum(of.bytes for of in staged)
        after = after.coalesce(max(1, -(-size // self.file_bytes)))
        added = stager(after.schema)(after)
        return Rewriting(tuple(of.file for of in removed), tuple(added))

    def _named(self, task: Any) -> tuple[str, str]:
        return task.file.file_path, base64.b64encode(pickle.dumps(task)).decode("ascii")

    def _candidates(self, staged: Sequence[StagedFile]) -> list[Any]:
        """The files in which there may be rows with these keys, by what manifests tell of them."""
        from pyiceberg.expressions import (
            AlwaysTrue,
            And,
            BooleanExpression,
            GreaterThanOrEqual,
            LessThanOrEqual,
            Reference,
        )
        from pyiceberg.table import FileScanTask

        # Their types do not say how they are made.
        at_least: Any = GreaterThanOrEqual
        at_most: Any = LessThanOrEqual
        told = [json.loads(of.detail) for of in staged]
        wanted: BooleanExpression = AlwaysTrue()
        for key in self.keys:
            bounds = [of[key] for of in told]
            if None in bounds:
                continue
            low, high = min(of[0] for of in bounds), max(of[1] for of in bounds)
            wanted = And(wanted, at_least(Reference(key), low), at_most(Reference(key), high))
        tasks = self.table.scan(row_filter=wanted).plan_files()
        # All rows of a file are wanted, of which some have the keys.
        return [FileScanTask(of.file, of.delete_files) for of in tasks]

    def _columns_of(self, staged: StagedFile) -> "pa.Schema":
        import pyarrow.parquet as pq

        with self.table.io.new_input(staged.path).open() as opened:
            return pq.read_schema(opened)

    def _columns(self, names: Iterable[str]) -> "pa.Schema":
        """Columns of the table, as Spark takes them."""
        return arrow_schema(spark_schema(self.metadata.schema(), [*names]))

    def _rows(
        self,
        files: Sequence[tuple[str, str | None]],
        schema: "pa.Schema",
        *,
        is_numbered: bool = False,
    ) -> "DataFrame":
        """The rows of files, which are read by the executors."""
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import LongType, StructType

        properties = self.table.io.properties
        reader = FilesReader(self.metadata, schema, is_numbered, self.sink, properties)
        given = StructType(from_arrow_schema(schema, prefer_timestamp_ntz=True).fields)
        if is_numbered:
            given = given.add(_FILE, LongType())
        names = self.spark.createDataFrame(
            [(at, *of) for at, of in enumerate(files)], "number long, path string, task string"
        )
        tasks = max(1, -(-len(files) // _FILES_PER_TASK))
        return names.repartition(tasks).mapInArrow(reader.read, given)


def unreadable(metadata: "TableMetadata") -> str | None:
    """Which columns of a table Spark has no type for, so that their rows are not rewritten."""
    lost = []
    for of in metadata.schema().fields:
        try:
            spark_schema(metadata.schema(), [of.name])
        except Exception:  # whichever of both does not know it
            lost.append(f"{of.name} ({of.field_type})")
    return f"rows are not rewritten here with columns {', '.join(lost)}" if lost else None
