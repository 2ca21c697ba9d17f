"""The files of an epoch in a lake's table: what executors write, and where it lies until then."""

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

# What a task reports of each file.
_REPORT = "path string, bytes bigint, rows bigint, detail string"


# As a lake tells a file of a table.
File = TypeVar("File")


@dataclass(frozen=True)
class StagedFile:
    """A file of rows that is whole.

    Attributes:
        path: in the directory of the table, or the whole of it, as the format has it.
        bytes: its size.
        rows: how many it has.
        detail: JSON of what the format's log says of it: values of partitions, statistics.
    """

    path: str
    bytes: int
    rows: int
    detail: str


@dataclass(frozen=True)
class Staged:
    """The handle of an epoch.

    Attributes:
        token: of the try that wrote it.
        files: what it wrote; none in the handle of an epoch that is published.
    """

    token: str
    files: tuple[StagedFile, ...] = ()

    @property
    def rows(self) -> int:
        """Of all files together."""
        return sum(file.rows for file in self.files)

    def encode(self) -> str:
        """As a text, for the seal."""
        files = [[of.path, of.bytes, of.rows, of.detail] for of in self.files]
        return json.dumps({"token": self.token, "files": files})

    @staticmethod
    def decode(handle: str) -> "Staged":
        """Reads what `encode` gave."""
        fields = json.loads(handle)
        return Staged(fields["token"], tuple(StagedFile(*of) for of in fields["files"]))


class TableFiles(Protocol):
    """The directory of a table, as the driver reaches it."""

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The size of each file; -1 where there is none."""

    def directories(self, directory: str) -> list[str]:
        """The directories in one, below the table; none where it is not there."""

    def delete(self, directory: str) -> None:
        """Removes a directory with all that is in it."""


class PartitionWriter(Protocol):
    """Writes the rows of one task; it is pickled, and goes to the executors."""

    @property
    def chunk_bytes(self) -> int:
        """How much of a partition is in memory at once, as Arrow has it."""

    def write(self, chunks: "Iterator[pa.Table]") -> Iterator[StagedFile]:
        """Writes rows into files of their own, which are whole when they are given."""

    def secrets(self) -> Sequence[str]:
        """What may stand in no text."""


class Stager(Protocol):
    """Has the executors write the rows of an epoch."""

    def __call__(self, rows: "DataFrame") -> Sequence[StagedFile]:
        """Writes them; gives the files of the tasks that Spark counts."""


@dataclass(frozen=True)
class ArrowStager:
    """Implements `Stager` by what writes a partition as Arrow has it.

    Attributes:
        writer: of the files.
        sink: for errors.
        sorted_by: columns by which rows that go into the same files are brought together.
    """

    writer: PartitionWriter
    sink: str
    sorted_by: Sequence[str] = ()

    def __call__(self, rows: "DataFrame") -> Sequence[StagedFile]:
        if self.sorted_by:
            rows = rows.sortWithinPartitions(*map(quoted, self.sorted_by))
        return staging(rows, self.writer, self.sink)


def directory_of(query_id: str) -> str:
    """Where a query stages, below the directory for data of a table."""
    return f"cleancut-{hashlib.sha256(query_id.encode()).hexdigest()[:12]}"


def epoch_directory(batch: Batch) -> str:
    """Where all tries of an epoch are."""
    return f"{directory_of(batch.query_id)}/{batch.epoch:020d}"


def staging(rows: "DataFrame", writer: PartitionWriter, sink: str) -> list[StagedFile]:
    """Has the executors write rows; gives the files of the tasks that Spark counts."""
    # Columns go by their places: Spark takes a point in a name there for one of a path.
    places = [f"column_{at}" for at in range(len(rows.columns))]
    work = functools.partial(_stage_files, writer, sink, tuple(rows.columns))
    found = rows.toDF(*places).mapInArrow(work, _REPORT).collect()
    return [StagedFile(of["path"], of["bytes"], of["rows"], of["detail"]) for of in found]


@contextmanager
def rewriting(sink: str) -> Iterator[None]:
    """Around jobs that rewrite files of a table.

    Raises:
        CleancutError: what a task has failed with; CLEANCUT_SINK_UNREACHABLE for whatever else:
            what is staged is there for another try.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as failure:
        found = find_error(failure)
        if found is not None:
            raise found from failure
        # Executors that are gone, and the like.
        raise error_of(
            "CLEANCUT_SINK_UNREACHABLE",
            sink=sink,
            seconds=0,
            detail=f"its files could not be rewritten: {masked(str(failure))}",
        ) from failure


@contextmanager
def in_task(sink: str, secrets: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Around what a task does with files.

    Args:
        sink: for errors.
        secrets: what may stand in no text.

    Raises:
        CleancutError: as it is raised within; CLEANCUT_SINK_UNREACHABLE for whatever else.
    """
    try:
        yield
    except CleancutError:
        raise
    except Exception as failure:
        # Not chained: a client's own exception may show how it was configured.
        detail = scrubbed(failure, secrets())
        raise error_of("CLEANCUT_SINK_UNREACHABLE", sink=sink, seconds=0, detail=detail) from None


@dataclass(frozen=True)
class Rewriting(Generic[File]):
    """How an epoch changes the files of a table.

    Attributes:
        removed: the files of the table in which rows were replaced or deleted.
        added: files with the rows that are left of these, and with those of the epoch.
    """

    removed: tuple[File, ...]
    added: tuple[StagedFile, ...]


def _stage_files(
    writer: PartitionWriter, sink: str, names: Sequence[str], batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Writes a partition, in a task; gives what it has written.

    Of a task that runs twice both have files. Spark counts one of them, and only what that one
    gives comes to be in the handle.
    """
    import pyarrow as pa

    with in_task(sink, writer.secrets):
        chunks = _chunked(batches, writer.chunk_bytes)
        for of in writer.write(chunk.rename_columns(list(names)) for chunk in chunks):
            yield pa.RecordBatch.from_pydict(
                {
                    "path": pa.array([of.path]),
                    "bytes": pa.array([of.bytes], pa.int64()),
                    "rows": pa.array([of.rows], pa.int64()),
                    "detail": pa.array([of.detail]),
                }
            )


def _chunked(batches: "Iterator[pa.RecordBatch]", size: int) -> "Iterator[pa.Table]":
    """Puts batches together until they are of some size; Spark's are of 10,000 rows."""
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
    """Refuses nulls where the target takes none, before they are in a file.

    Raises:
        RequestError: CLEANCUT_SINK_REFUSED.
    """
    found = [name for name in required if table[name].null_count]
    if found:
        reason = f"these columns of the table take no nulls: {', '.join(found)}"
        raise error_of("CLEANCUT_SINK_REFUSED", sink=sink, reason=reason)


class ArrowFiles:
    """Implements `TableFiles` on a file system of pyarrow."""

    def __init__(self, filesystem: Any, base: str) -> None:
        self.filesystem = filesystem
        self._base = f"{base.rstrip('/')}/" if base else ""

    def at(self, path: str) -> str:
        """As the file system names it."""
        return f"{self._base}{path}"

    def sizes(self, paths: Sequence[str]) -> list[int]:
        found = self.filesystem.get_file_info([self.at(path) for path in paths])
        return [-1 if of.size is None else of.size for of in found]

    def directories(self, directory: str) -> list[str]:
        import pyarrow.fs as fs

        # Stores of objects have no directories, only the names of files.
        selector = fs.FileSelector(self.at(directory), allow_not_found=True, recursive=True)
        found = self.filesystem.get_file_info(selector)
        start = len(self.at(directory)) + 1
        files = [of.path[start:] for of in found if of.type == fs.FileType.File]
        names = {path.partition("/")[0] for path in files}
        return [f"{directory}/{name}" for name in sorted(filter(None, names))]

    def delete(self, directory: str) -> None:
        self.filesystem.delete_dir(self.at(directory))
