"""The files of an epoch in a lake table: how executors write them, and where they are staged."""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cleancut.errors import CleancutError, error_of, find_error
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._core.database import masked, scrubbed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# The report of a task about each file.
_REPORT = "path string, bytes bigint, rows bigint, detail string"


# A file of a table, in the format's own representation.
File = TypeVar("File")


@dataclass(frozen=True)
class StagedFile:
    """A completely written file of rows.

    Attributes:
        path: path below the table, or the full path, depending on the format.
        bytes: size of the file.
        rows: number of rows.
        detail: JSON of the file's entry in the format's log: partition values, statistics.
    """

    path: str
    bytes: int
    rows: int
    detail: str


@dataclass(frozen=True)
class Staged:
    """The handle of an epoch.

    Attributes:
        token: token of the attempt that wrote it.
        files: the files of the attempt; empty in the handle of a published epoch.
    """

    token: str
    files: tuple[StagedFile, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.rows for file in self.files)

    def encode(self) -> str:
        """The handle as a text, for the seal."""
        files = [[file.path, file.bytes, file.rows, file.detail] for file in self.files]
        return json.dumps({"token": self.token, "files": files})

    @staticmethod
    def decode(handle: str) -> "Staged":
        """Parses the result of `encode`."""
        fields = json.loads(handle)
        return Staged(fields["token"], tuple(StagedFile(*values) for values in fields["files"]))


class TableFiles(Protocol):
    """The directory of a table, as the driver accesses it."""

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The size of each file; -1 if it does not exist."""

    def directories(self, directory: str) -> list[str]:
        """The subdirectories of a directory below the table; empty if it does not exist."""

    def delete(self, directory: str) -> None:
        """Deletes a directory with all its files."""


class PartitionWriter(Protocol):
    """Writes the rows of one task; it is pickled and sent to the executors."""

    @property
    def chunk_bytes(self) -> int:
        """Size of the rows in memory at a time, in Arrow's format."""

    def write(self, chunks: "Iterator[pa.Table]") -> Iterator[StagedFile]:
        """Writes rows into new files, and returns each file when it is complete."""

    def secrets(self) -> Sequence[str]:
        """Texts that must not appear in errors and logs."""


class Stager(Protocol):
    """Has the executors write the rows of an epoch."""

    def __call__(self, rows: "DataFrame") -> Sequence[StagedFile]:
        """Writes the rows; returns the files of the task attempts that Spark counts."""


@dataclass(frozen=True)
class ArrowStager:
    """Implements `Stager` by a writer of Arrow data.

    Attributes:
        writer: writer of the files.
        sink: name of the sink, for errors.
        sorted_by: columns by which rows of the same files are grouped.
    """

    writer: PartitionWriter
    sink: str
    sorted_by: Sequence[str] = ()

    def __call__(self, rows: "DataFrame") -> Sequence[StagedFile]:
        if self.sorted_by:
            rows = rows.sortWithinPartitions(*map(quoted, self.sorted_by))
        return staging(rows, self.writer, self.sink)


def directory_of(query_id: str) -> str:
    """The staging directory of a query, below the data directory of a table."""
    return f"cleancut-{hashlib.sha256(query_id.encode()).hexdigest()[:12]}"


def epoch_directory(batch: Batch) -> str:
    """The directory of all attempts of an epoch."""
    return f"{directory_of(batch.query_id)}/{batch.epoch:020d}"


def staging(rows: "DataFrame", writer: PartitionWriter, sink: str) -> list[StagedFile]:
    """Has the executors write rows; returns the files of the task attempts that Spark counts."""
    # Columns are named by position: Spark interprets a dot in a name as a path.
    places = [f"column_{at}" for at in range(len(rows.columns))]
    work = functools.partial(_stage_files, writer, sink, tuple(rows.columns))
    reported = rows.toDF(*places).mapInArrow(work, _REPORT).collect()
    return [StagedFile(row["path"], row["bytes"], row["rows"], row["detail"]) for row in reported]


@contextmanager
def rewriting(sink: str) -> Iterator[None]:
    """Wraps jobs that rewrite files of a table.

    Raises:
        CleancutError: the error of a task; CLEANCUT_SINK_UNREACHABLE for other failures: the staged
            files exist for another attempt.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        error = find_error(failure)
        if error is not None:
            raise error from failure
        # For example, lost executors.
        raise error_of(
            "CLEANCUT_SINK_UNREACHABLE",
            sink=sink,
            seconds=0,
            detail=f"its files could not be rewritten: {masked(str(failure))}",
        ) from failure


@contextmanager
def in_task(sink: str, secrets: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Wraps the work of a task on files.

    Args:
        sink: name of the sink, for errors.
        secrets: returns texts that must not appear in errors.

    Raises:
        CleancutError: an error of the work; CLEANCUT_SINK_UNREACHABLE for other failures.
    """
    try:
        yield
    except CleancutError:
        raise
    except Exception as failure:
        # Not chained: a client's own exception may contain its configuration.
        detail = scrubbed(failure, secrets())
        raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=0, detail=detail) from None


@dataclass(frozen=True)
class Rewriting(Generic[File]):
    """The changes of an epoch to the files of a table.

    Attributes:
        removed: the files of the table in which rows were replaced or deleted.
        added: files with the remaining rows of the removed files and the rows of the epoch.
    """

    removed: tuple[File, ...]
    added: tuple[StagedFile, ...]


def _stage_files(
    writer: PartitionWriter, sink: str, names: Sequence[str], batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Writes a partition in a task; returns its files.

    If Spark runs a task twice, both attempts write files. Spark counts one attempt, and only the
    files of that one are in the handle.
    """
    import pyarrow as pa

    with in_task(sink, writer.secrets):
        chunks = _chunked(batches, writer.chunk_bytes)
        for file in writer.write(chunk.rename_columns(list(names)) for chunk in chunks):
            yield pa.RecordBatch.from_pydict(
                {
                    "path": pa.array([file.path]),
                    "bytes": pa.array([file.bytes], pa.int64()),
                    "rows": pa.array([file.rows], pa.int64()),
                    "detail": pa.array([file.detail]),
                }
            )


def _chunked(batches: "Iterator[pa.RecordBatch]", size: int) -> "Iterator[pa.Table]":
    """Combines batches up to a size; Spark's batches have 10,000 rows."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= size:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def check_nulls(table: "pa.Table", required: Sequence[str], sink: str) -> None:
    """Refuses nulls in required columns before they are written.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED.
    """
    nulls = [name for name in required if table[name].null_count]
    if nulls:
        reason = f"these columns of the table accept no nulls: {', '.join(nulls)}"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)


class ArrowFiles:
    """Implements `TableFiles` on a file system of pyarrow."""

    def __init__(self, filesystem: Any, base: str) -> None:
        self.filesystem = filesystem
        self._base = f"{base.rstrip('/')}/" if base else ""

    def at(self, path: str) -> str:
        """The path in the file system."""
        return f"{self._base}{path}"

    def sizes(self, paths: Sequence[str]) -> list[int]:
        infos = self.filesystem.get_file_info([self.at(path) for path in paths])
        return [-1 if info.size is None else info.size for info in infos]

    def directories(self, directory: str) -> list[str]:
        import pyarrow.fs as fs

        # Object stores have no directories, only object names.
        selector = fs.FileSelector(self.at(directory), allow_not_found=True, recursive=True)
        infos = self.filesystem.get_file_info(selector)
        start = len(self.at(directory)) + 1
        files = [info.path[start:] for info in infos if info.type == fs.FileType.File]
        names = {path.partition("/")[0] for path in files}
        return [f"{directory}/{name}" for name in sorted(filter(None, names))]

    def delete(self, directory: str) -> None:
        self.filesystem.delete_dir(self.at(directory))
