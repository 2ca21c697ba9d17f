"""Writes files of an Iceberg table in tasks, and describes them for its manifests."""

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cleancut.sinks._lakes.delta_files import secrets_in
from cleancut.sinks._lakes.files import ArrowFiles, StagedFile, check_nulls

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
DATA_PATH = "write.data.path"


def data_directory(metadata: "TableMetadata") -> str:
    """The data directory of a table."""
    path = metadata.properties.get(DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    return path.rstrip("/")


class IcebergFiles(ArrowFiles):
    """Implements `TableFiles`: the data directory, through the client of pyarrow for its store."""

    def __init__(self, metadata: "TableMetadata", properties: Mapping[str, str]) -> None:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        self._parse = PyArrowFileIO.parse_location
        scheme, host, base = self._parse(data_directory(metadata))
        super().__init__(PyArrowFileIO(dict(properties)).fs_by_scheme(scheme, host), base)

    def at(self, path: str) -> str:
        # Files have full locations, directories are relative to the data directory.
        return self._parse(path)[2] if "://" in path or path.startswith("/") else super().at(path)


@dataclass(frozen=True)
class IcebergWriter:
    """Implements `PartitionWriter` by the functions of pyiceberg's own appends.

    Attributes:
        metadata: metadata of the table, without snapshots, and with the directory of these files.
        properties: properties of the object store.
        schema: schema of the rows.
        required: columns that accept no nulls.
        sink: name of the sink, for errors.
        chunk_bytes: size of the rows that become files together.
    """

    metadata: "TableMetadata"
    schema: "pa.Schema"
    required: tuple[str, ...]
    sink: str
    chunk_bytes: int
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def secrets(self) -> Sequence[str]:
        return secrets_in(self.properties)

    def write(self, chunks: "Iterator[pa.Table]") -> Iterator[StagedFile]:
        # Not public: the public function also commits, and runs in one process.
        from pyiceberg.io.pyarrow import PyArrowFileIO, _dataframe_to_data_files

        io = PyArrowFileIO(dict(self.properties))
        for chunk in chunks:
            rows = chunk.select(self.schema.names).cast(self.schema)
            check_nulls(rows, self.required, self.sink)
            # A unique id, because two tasks number their files in the same way.
            for file in _dataframe_to_data_files(self.metadata, rows, io, uuid.uuid4()):
                detail = json.dumps(manifest_fields(file, self.metadata))
                yield StagedFile(file.file_path, file.file_size_in_bytes, file.record_count, detail)


def manifest_fields(file: "DataFile", metadata: "TableMetadata") -> dict[str, Any]:
    """The manifest entry of a file, as JSON values."""
    from pyiceberg.conversions import to_bytes

    kinds = metadata.spec().partition_type(metadata.schema()).fields
    values = [
        None if file.partition[at] is None else _text(to_bytes(_plain(kind), file.partition[at]))
        for at, kind in enumerate(kinds)
    ]
    counts = {name: list((getattr(file, name) or {}).items()) for name in _COUNTS}
    bounds = {
        name: [(column, _text(bound)) for column, bound in (getattr(file, name) or {}).items()]
        for name in _BOUNDS
    }
    spec = {"spec": metadata.default_spec_id, "partition": values}
    return spec | counts | bounds | {"split_offsets": file.split_offsets}


def data_file(file: StagedFile, metadata: "TableMetadata") -> "DataFile | None":
    """The manifest entry of a staged file; None if the partitioning of the table has changed."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    detail = json.loads(file.detail)
    if detail["spec"] != metadata.default_spec_id:
        return None
    kinds = metadata.spec().partition_type(metadata.schema()).fields
    values = (
        None if value is None else from_bytes(_plain(kind), b64decode(value))
        for kind, value in zip(kinds, detail["partition"], strict=True)
    )
    statistics: dict[str, Any] = {name: dict(detail[name]) for name in _COUNTS}
    for name in _BOUNDS:
        statistics[name] = {at: b64decode(bound) for at, bound in detail[name]}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.bytes,
        record_count=file.rows,
        split_offsets=detail["split_offsets"],
        **statistics,
    )


def _plain(kind: "NestedField") -> Any:
    """The type of a partition value, which is never nested."""
    return kind.field_type


def _text(value: bytes) -> str:
    return b64encode(value).decode()
