"""Replaces rows of a Delta table: the executors rewrite the files that contain their keys.

No row passes through the driver, which has only file names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cleancut.sinks._core.columns import quoted
from cleancut.sinks._lakes.delta_files import DeltaWriter, files_at, secrets_in
from cleancut.sinks._lakes.delta_pruning import EpochKeys, TableFile, typed_value
from cleancut.sinks._lakes.delta_types import arrow_schema
from cleancut.sinks._lakes.files import Rewriting, StagedFile, in_task, staging
from cleancut.sinks._lakes.keys import DELETES, replaced, touched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PATH = "cleancut_path"
_BATCH_ROWS = 16_384
# One task may read this number of files, and still all executors have some.
_FILES_PER_TASK = 4


@dataclass(frozen=True)
class FileReader:
    """Reads files in a task; it is pickled, and goes to the executors.

    Attributes:
        uri: URI of the table.
        schema: columns of the result; columns that a file lacks are null.
        path: whether the last column of each row has the path of its file.
        sink: name of the sink, for errors.
        options: options of the object store.
    """

    uri: str
    schema: "pa.Schema"
    path: bool
    sink: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The rows of files, which are given by path and partition values as JSON."""
        with in_task(self.sink, lambda: secrets_in(self.options)):
            for batch in batches:
                for file in batch.to_pylist():
                    yield from self._rows(file["path"], json.loads(file["partition"]))

    def _rows(self, path: str, values: Mapping[str, str | None]) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.parquet as pq

        filesystem = files_at(self.uri, self.options).filesystem
        with filesystem.open_input_file(unquote(path)) as opened:
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            there = set(file.schema_arrow.names)
            wanted = [name for name in self.schema.names if name in there]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                size = batch.num_rows
                columns = [
                    batch.column(field.name).cast(field.type)
                    if field.name in there
                    else pa.repeat(typed_value(values.get(field.name), field.type), size)
                    for field in self.schema
                ]
                names = list(self.schema.names)
                if self.path:
                    columns.append(pa.repeat(pa.scalar(path, pa.string()), size))
                    names.append(_PATH)
                yield pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True)
class Merge:
    """Staged rows, and the version of a table that they change.

    Attributes:
        spark: a session.
        table: the columns of the table.
        files: the files of the version.
        keys: key columns, by which a row replaces another one.
        writer: writer of the added files.
    """

    spark: "SparkSession"
    table: "StructType"
    files: Sequence[TableFile]
    keys: tuple[str, ...]
    writer: DeltaWriter

    def run(self, staged: Sequence[StagedFile]) -> Rewriting[TableFile]:
        """Has the executors find and rewrite the files that contain rows with these keys."""
        names = self._columns_of(staged[0])
        rows = self._rows([(file.path, "{}") for file in staged], self._with(names))
        schema, partitions = arrow_schema(self.table), self.writer.partitions
        candidates = EpochKeys(staged, schema, self.keys, partitions).candidates(self.files)
        paths: set[str] = set()
        if candidates:
            there = self._rows(self._named(candidates), self._with(self.keys), path=True)
            paths = touched(rows, there, self.keys, _PATH)
        removed = tuple(file for file in candidates if file.path in paths)
        before = self._rows(self._named(removed), self.table) if removed else None
        after = replaced(rows, before, self.keys)
        return Rewriting(removed, self._written(after, removed, staged))

    def _written(
        self, rows: "DataFrame", removed: Sequence[TableFile], staged: Sequence[StagedFile]
    ) -> tuple[StagedFile, ...]:
        size = sum(file.bytes for file in removed) + sum(file.bytes for file in staged)
        names = [name for name in self.table.names if name in rows.columns]
        rows = rows.select(*map(quoted, names))
        rows = rows.coalesce(max(1, -(-size // self.writer.file_bytes)))
        if self.writer.partitions:
            rows = rows.sortWithinPartitions(*map(quoted, self.writer.partitions))
        writer = self.writer.for_columns(arrow_schema(rows.schema))
        return tuple(staging(rows, writer, self.writer.sink))

    def _columns_of(self, staged: StagedFile) -> list[str]:
        import pyarrow.parquet as pq

        filesystem = files_at(self.writer.uri, self.writer.options).filesystem
        with filesystem.open_input_file(staged.path) as opened:
            return list(pq.read_schema(opened).names)

    def _with(self, names: Sequence[str]) -> "StructType":
        from pyspark.sql.types import BooleanType, StructField, StructType

        deletes = [StructField(DELETES, BooleanType())] if DELETES in names else []
        return StructType(
            [*(field for field in self.table.fields if field.name in names), *deletes]
        )

    def _named(self, files: Sequence[TableFile]) -> list[tuple[str, str]]:
        return [(file.path, json.dumps(dict(file.values))) for file in files]

    def _rows(
        self, named: Sequence[tuple[str, str]], schema: "StructType", *, path: bool = False
    ) -> "DataFrame":
        """The rows of files, which the executors read."""
        from pyspark.sql.types import StringType, StructField, StructType

        read = FileReader(
            self.writer.uri, arrow_schema(schema), path, self.writer.sink, self.writer.options
        ).read
        fields = [StructField(field.name, field.dataType) for field in schema.fields]
        given = StructType([*fields, *([StructField(_PATH, StringType())] if path else [])])
        names = self.spark.createDataFrame(list(named), "path string, partition string")
        tasks = max(1, -(-len(named) // _FILES_PER_TASK))
        return names.repartition(tasks).mapInArrow(read, given)
