"""Rows that take the place of others in a table of Delta: the executors rewrite the files in touch.

No row passes through the driver, which has the names of files alone.
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
from cleancut.sinks._lakes.keyed import DELETES, replaced, touched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PATH = "cleancut_path"
_BATCH_ROWS = 16_384
# Few enough files that one task may read each, many enough that all executors have some.
_FILES_PER_TASK = 4


@dataclass(frozen=True)
class FileReader:
    """Reads files in a task; it is pickled, and goes to the executors.

    Attributes:
        uri: of the table.
        schema: of the columns to give; those that a file lacks are null.
        path: whether each row says of which file it is, in a column that comes last.
        sink: for errors.
        options: of the store.
    """

    uri: str
    schema: "pa.Schema"
    path: bool
    sink: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The rows of files that are named with the values of their partitions, as JSON."""
        with in_task(self.sink, lambda: secrets_in(self.options)):
            for batch in batches:
                for of in batch.to_pylist():
                    yield from self._rows(of["path"], json.loads(of["partition"]))

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
                    batch.column(of.name).cast(of.type)
                    if of.name in there
                    else pa.repeat(typed_value(values.get(of.name), of.type), size)
                    for of in self.schema
                ]
                names = list(self.schema.names)
                if self.path:
                    columns.append(pa.repeat(pa.scalar(path, pa.string()), size))
                    names.append(_PATH)
                yield pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True)
class Merge:
    """Rows that are staged, and the version of a table that they are to change.

    Attributes:
        spark: a session.
        table: the columns of the table.
        files: those of the version.
        keys: columns by which a row takes the place of another one.
        writer: of the files that are added.
    """

    spark: "SparkSession"
    table: "StructType"
    files: Sequence[TableFile]
    keys: tuple[str, ...]
    writer: DeltaWriter

    def run(self, staged: Sequence[StagedFile]) -> Rewriting[TableFile]:
        """Has the executors find and rewrite the files in which there are rows with these keys."""
        names = self._columns_of(staged[0])
        rows = self._rows([(of.path, "{}") for of in staged], self._with(names))
        schema, partitions = arrow_schema(self.table), self.writer.partitions
        candidates = EpochKeys(staged, schema, self.keys, partitions).candidates(self.files)
        found: set[str] = set()
        if candidates:
            there = self._rows(self._named(candidates), self._with(self.keys), path=True)
            found = touched(rows, there, self.keys, _PATH)
        removed = tuple(of for of in candidates if of.path in found)
        before = self._rows(self._named(removed), self.table) if removed else None
        after = replaced(rows, before, self.keys)
        return Rewriting(removed, self._written(after, removed, staged))

    def _written(
        self, rows: "DataFrame", removed: Sequence[TableFile], staged: Sequence[StagedFile]
    ) -> tuple[StagedFile, ...]:
        size = sum(of.bytes for of in removed) + sum(of.bytes for of in staged)
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
        return StructType([*(of for of in self.table.fields if of.name in names), *deletes])

    def _named(self, files: Sequence[TableFile]) -> list[tuple[str, str]]:
        return [(of.path, json.dumps(dict(of.values))) for of in files]

    def _rows(
        self, named: Sequence[tuple[str, str]], schema: "StructType", *, path: bool = False
    ) -> "DataFrame":
        """The rows of files, which are read by the executors."""
        from pyspark.sql.types import StringType, StructField, StructType

        read = FileReader(
            self.writer.uri, arrow_schema(schema), path, self.writer.sink, self.writer.options
        ).read
        fields = [StructField(of.name, of.dataType) for of in schema.fields]
        given = StructType([*fields, *([StructField(_PATH, StringType())] if path else [])])
        names = self.spark.createDataFrame(list(named), "path string, partition string")
        tasks = max(1, -(-len(named) // _FILES_PER_TASK))
        return names.repartition(tasks).mapInArrow(read, given)
