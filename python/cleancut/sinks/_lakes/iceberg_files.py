"""What executors do for a table of Iceberg, and how the driver hears of their files."""

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
    """Where a table keeps its data."""
    found = metadata.properties.get(DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    return found.rstrip("/")


class IcebergFiles(ArrowFiles):
    """Implements `TableFiles`: the directory for data, by the client of pyarrow for its store."""

    def __init__(self, metadata: "TableMetadata", properties: Mapping[str, str]) -> None:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        self._parse = PyArrowFileIO.parse_location
        scheme, host, base = self._parse(data_directory(metadata))
        super().__init__(PyArrowFileIO(dict(properties)).fs_by_scheme(scheme, host), base)

    def at(self, path: str) -> str:
        # Files have whole locations, directories names below the one for data.
        return self._parse(path)[2] if "://" in path or path.startswith("/") else super().at(path)


@dataclass(frozen=True)
class IcebergWriter:
    """Implements `PartitionWriter`, by what pyiceberg does for its own appends.

    Attributes:
        metadata: of the table, without snapshots, and with the directory for these files.
        properties: how the store is reached.
        schema: of the columns that are written.
        required: columns that take no nulls.
        sink: for errors.
        chunk_bytes: how much becomes files at once.
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
        # Not public: what is would commit, too, and in one process.
        from pyiceberg.io.pyarrow import PyArrowFileIO, _dataframe_to_data_files

        io = PyArrowFileIO(dict(self.properties))
        for chunk in chunks:
            rows = chunk.select(self.schema.names).cast(self.schema)
            check_nulls(rows, self.required, self.sink)
            # Names of its own: two tasks number their files alike.
            for of in _dataframe_to_data_files(self.metadata, rows, io, uuid.uuid4()):
                detail = json.dumps(told(of, self.metadata))
                yield StagedFile(of.file_path, of.file_size_in_bytes, of.record_count, detail)


def told(of: "DataFile", metadata: "TableMetadata") -> dict[str, Any]:
    """What a manifest says of a file, as values of JSON."""
    from pyiceberg.conversions import to_bytes

    kinds = metadata.spec().partition_type(metadata.schema()).fields
    values = [
        None if of.partition[at] is None else _text(to_bytes(_plain(kind), of.partition[at]))
        for at, kind in enumerate(kinds)
    ]
    counts = {name: list((getattr(of, name) or {}).items()) for name in _COUNTS}
    bounds = {
        name: [(column, _text(bound)) for column, bound in (getattr(of, name) or {}).items()]
        for name in _BOUNDS
    }
    spec = {"spec": metadata.default_spec_id, "partition": values}
    return spec | counts | bounds | {"split_offsets": of.split_offsets}


def data_file(file: StagedFile, metadata: "TableMetadata") -> "DataFile | None":
    """What a manifest is to say of a staged file; None if the table is parted otherwise now."""
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
    told: dict[str, Any] = {name: dict(detail[name]) for name in _COUNTS}
    for name in _BOUNDS:
        told[name] = {at: b64decode(of) for at, of in detail[name]}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.bytes,
        record_count=file.rows,
        split_offsets=detail["split_offsets"],
        **told,
    )


def _plain(kind: "NestedField") -> Any:
    """The type of a value of a partition, which is never a nested one."""
    return kind.field_type


def _text(value: bytes) -> str:
    return b64encode(value).decode()
