"""Writes Parquet files for a Delta table in tasks, separately for each partition of the table."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of
from cleancut.sinks._lakes.delta_pruning import MAX_PARTITIONS, PARTITIONS
from cleancut.sinks._lakes.delta_stats import statistics
from cleancut.sinks._lakes.files import ArrowFiles, StagedFile, check_nulls

if TYPE_CHECKING:
    import pyarrow as pa

# Size of a row group in bytes, in Arrow's format.
_GROUP_BYTES = 64 << 20


def files_at(uri: str, options: Mapping[str, str]) -> ArrowFiles:
    """The directory of a table, through the client of deltalake for its store."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return ArrowFiles(PyFileSystem(DeltaStorageHandler(uri, dict(options))), "")


def secrets_in(options: Mapping[str, str]) -> list[str]:
    """The values of options that may be secret."""
    words = ("secret", "key", "token", "password", "credential", "sas")
    return [value for name, value in options.items() if any(word in name.lower() for word in words)]


@dataclass(frozen=True)
class DeltaWriter:
    """Implements `PartitionWriter`.

    Attributes:
        uri: URI of the table.
        options: options of its object store.
        directory: directory of the files, below the table.
        schema: schema of the rows, partition columns included.
        partitions: partition columns; they are in no file.
        required: columns that accept no nulls.
        indexed: number of columns with statistics.
        file_bytes: size in bytes at which a file is closed.
        sink: name of the sink, for errors.
        key_partitions: key columns of staged rows that are partition columns of the target table.
    """

    uri: str
    directory: str
    schema: "pa.Schema"
    partitions: tuple[str, ...]
    required: tuple[str, ...]
    indexed: int
    file_bytes: int
    sink: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    chunk_bytes: int = _GROUP_BYTES
    key_partitions: tuple[str, ...] = ()

    def secrets(self) -> Sequence[str]:
        return secrets_in(self.options)

    def for_columns(self, schema: "pa.Schema") -> "DeltaWriter":
        """A writer for other columns."""
        return replace(self, schema=schema)

    def write(self, chunks: "Iterator[pa.Table]") -> Iterator[StagedFile]:
        files = files_at(self.uri, self.options)
        open_one: _File | None = None
        for chunk in chunks:
            rows = chunk.select(self.schema.names).cast(self.schema)
            check_nulls(rows, self.required, self.sink)
            for values, part in self._parted(rows):
                # Rows are sorted by partition, so each partition comes once.
                if open_one is not None and open_one.values != values:
                    yield open_one.closed()
                    open_one = None
                if open_one is None:
                    open_one = _File(self, files, values, part.schema)
                if open_one.write(part) >= self.file_bytes:
                    yield open_one.closed()
                    open_one = None
        if open_one is not None:
            yield open_one.closed()

    def _parted(self, rows: "pa.Table") -> "Iterator[tuple[dict[str, str | None], pa.Table]]":
        """The rows of each partition, without the partition columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.partitions:
            yield {}, rows
            return
        names = list(self.partitions)
        combinations = rows.group_by(names, use_threads=False).aggregate([]).to_pylist()
        for values in combinations:
            mask = None
            for name in names:
                value = rows[name]
                same = (
                    pc.is_null(value)
                    if values[name] is None
                    else pc.fill_null(pc.equal(value, pa.scalar(values[name], value.type)), False)
                )
                mask = same if mask is None else pc.and_(mask, same)
            texts = {name: partition_text(values[name]) for name in names}
            yield texts, rows.filter(mask).drop_columns(names)


class _File:
    """A file being written."""

    def __init__(
        self,
        writer: DeltaWriter,
        files: ArrowFiles,
        values: dict[str, str | None],
        schema: "pa.Schema",
    ) -> None:
        import pyarrow.parquet as pq

        self.values = values
        self._schema = schema
        self._indexed = writer.indexed
        self._path = f"{writer.directory}/part-{secrets.token_hex(8)}.snappy.parquet"
        self._stream: Any = files.filesystem.open_output_stream(files.at(self._path))
        self._parquet = pq.ParquetWriter(
            self._stream,
            schema,
            compression="snappy",
            coerce_timestamps="us",
            store_schema=False,
        )
        self._footers: list[Any] = []
        self._unordered = _floats_within(schema)
        self._sink = writer.sink
        self._key_partitions = writer.key_partitions
        self._seen: set[tuple[str | None, ...]] = set()

    def write(self, rows: "pa.Table") -> int:
        """Adds a row group; returns the size of the file so far."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in rows.schema.names:
            column = rows[name]
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._unordered.add(name)
        self._note_partitions(rows)
        self._parquet.write_table(rows, row_group_size=max(rows.num_rows, 1))
        return int(self._stream.tell())

    def _note_partitions(self, rows: "pa.Table") -> None:
        names = list(self._key_partitions)
        if not names:
            return
        combinations = rows.group_by(names, use_threads=False).aggregate([]).to_pylist()
        for values in combinations:
            empty = [name for name in names if values[name] == ""]
            if empty:
                # The table would store null, and no later row would have the same key.
                reason = f"{empty[0]} is a key and a partition, where an empty text becomes null"
                raise error_of("CLEANCUT_SINK_REFUSED", sink=self._sink, reason=reason)
            if len(self._seen) <= MAX_PARTITIONS:
                self._seen.add(tuple(partition_text(values[name]) for name in names))

    def closed(self) -> StagedFile:
        """Closes the file."""
        self._parquet.close()
        size = self._stream.tell()
        self._stream.close()
        footer = self._parquet.writer.metadata
        stats = statistics(footer, self._schema, self._indexed, self._unordered)
        detail: dict[str, Any] = {"partitionValues": self.values, "stats": stats}
        if self._key_partitions and len(self._seen) <= MAX_PARTITIONS:
            detail[PARTITIONS] = [*self._seen]
        return StagedFile(self._path, size, footer.num_rows, json.dumps(detail))


def _floats_within(schema: "pa.Schema") -> set[str]:
    """Structs with floating-point fields: their values are not checked for NaN."""
    import pyarrow as pa

    def has(kind: "pa.DataType") -> bool:
        if pa.types.is_struct(kind):
            return any(has(field.type) for field in kind)
        return bool(pa.types.is_floating(kind))

    return {field.name for field in schema if pa.types.is_struct(field.type) and has(field.type)}


def partition_text(value: Any) -> str | None:
    """A partition value as it is in Delta's log, where an empty text is null."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "utcoffset"):
        return str(value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds"))
    return str(value)
