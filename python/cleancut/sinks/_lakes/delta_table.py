"""A Delta table as the driver reads and commits to it, through the library deltalake."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from cleancut._packages import extra_package
from cleancut.errors import error_of
from cleancut.sinks._core.database import masked
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._lakes.delta_files import DeltaWriter, files_at, partition_text, secrets_in
from cleancut.sinks._lakes.delta_log import (
    INFO,
    Action,
    DeltaLog,
    DeltaOptions,
    columns_problem,
    missing_files,
    transactions_of,
)
from cleancut.sinks._lakes.delta_merge import Merge
from cleancut.sinks._lakes.delta_pruning import TableFile, key_partitions
from cleancut.sinks._lakes.delta_types import (
    arrow_schema,
    bad_partitions,
    nullable,
    unknown_feature,
)
from cleancut.sinks._lakes.files import ArrowFiles, ArrowStager, StagedFile, directory_of, rewriting
from cleancut.sinks._lakes.keys import DELETES
from cleancut.sinks._lakes.log import Entry, PastEpoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_FEATURES_SINCE = 7
_INDEXED = 32


@dataclass
class DeltaLake:
    """Implements `Lake`.

    Attributes:
        uri: URI of the table.
        options: options of its object store.
        how: options of writes to the table.
    """

    uri: str
    how: DeltaOptions
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The session of the run, for tasks that rewrite files.
    session: Any = field(default=None, repr=False)
    # Opened once, because that reads the whole list of files; later only new commits are read.
    _open: Any = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return masked(self.uri)

    def connect(self, session: "SparkSession") -> None:
        """Sets the session of a run."""
        self.session = session

    @contextmanager
    def transaction(self) -> "Iterator[DeltaTable | None]":
        deltalake = delta_library()
        try:
            if self._open is not None:
                self._open.update_incremental()
            elif deltalake.DeltaTable.is_deltatable(self.uri, dict(self.options)):
                self._open = deltalake.DeltaTable(self.uri, storage_options=dict(self.options))
            yield None if self._open is None else DeltaTable(self, self._open)
        except BaseException:
            # Its state is unknown: the next transaction opens the table again.
            self._open = None
            raise

    def verdict(self, failure: Exception) -> str:
        from deltalake.exceptions import CommitFailedError, DeltaError

        if isinstance(failure, CommitFailedError):
            return "error" if "Unsupported" in str(failure) else "again"
        # Errors of the object store are OSError, or part of the text of another error.
        if isinstance(failure, OSError) and not isinstance(failure, PermissionError):
            return "lost"
        message = str(failure).lower()
        of_store = any(
            phrase in message for phrase in ("object store", "error sending request", "timed out")
        )
        return "lost" if isinstance(failure, DeltaError) and of_store else "error"

    def secrets(self) -> Sequence[str]:
        return secrets_in(self.options)

    def create(self, schema: "StructType") -> None:
        deltalake = delta_library()
        problem = bad_partitions(schema, self.how.partition_by)
        if problem is not None:
            raise error_of("CLEANCUT_SINK_REFUSED", sink=f"DeltaSink {self.label}", reason=problem)
        deltalake.DeltaTable.create(
            self.uri,
            schema=deltalake.Schema.from_json(nullable(schema).json()),
            mode="ignore",
            partition_by=list(self.how.partition_by),
            storage_options=dict(self.options),
        )


class DeltaTable(DeltaLog):
    """Implements `LakeTable`."""

    def __init__(self, lake: DeltaLake, table: Any) -> None:
        self._lake = lake
        self._table = table

    @property
    def label(self) -> str:
        return self._lake.label

    def version(self) -> int:
        return int(self._table.version())

    def transaction_version(self, application: str) -> int | None:
        transaction_version: int | None = self._table.transaction_version(application)
        return transaction_version

    def configuration(self) -> Mapping[str, str]:
        configuration: Mapping[str, str] = self._table.metadata().configuration
        return configuration

    def actions(self, version: int) -> list[Action] | None:
        files = self._files()
        try:
            with files.filesystem.open_input_file(f"_delta_log/{version:020d}.json") as opened:
                body: bytes = opened.read()
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in body.splitlines() if line.strip()]

    def unwritable(self) -> str | None:
        protocol = self._table.protocol()
        features = list(protocol.writer_features or [])
        if protocol.min_writer_version > _FEATURES_SINCE:
            features.append(f"writer version {protocol.min_writer_version}")
        return unknown_feature(features, self.configuration(), self._schema())

    def problem(self, schema: "StructType") -> str | None:
        table, partitions = self._schema(), self._partitions()
        problem = columns_problem(schema, table, partitions, self._lake.how)
        return problem or bad_partitions(table, partitions)

    def _schema(self) -> "StructType":
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._table.schema().to_json()))

    def _partitions(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    def stager(self, directory: str, schema: "StructType", sink: str) -> ArrowStager:
        if not self._lake.how.keys:
            writer = self._writer_of(directory, schema, self._partitions(), sink)
            return ArrowStager(writer, sink, self._partitions())
        # Replacing rows are staged unchanged, and partitioned later.
        writer = self._writer_of(directory, schema, (), sink)
        parted = key_partitions(self._lake.how.keys, self._partitions())
        writer = replace(writer, key_partitions=parted)
        if DELETES in schema.names:
            # A row that deletes may have only its keys.
            writer = replace(writer, required=())
        return ArrowStager(writer, sink)

    def _writer_of(
        self, directory: str, schema: "StructType", partitions: tuple[str, ...], sink: str
    ) -> DeltaWriter:
        configuration = self.configuration()
        required = {field.name for field in self._schema().fields if not field.nullable}
        return DeltaWriter(
            uri=self._lake.uri,
            directory=directory,
            schema=arrow_schema(schema),
            partitions=partitions,
            required=tuple(name for name in schema.names if name in required),
            indexed=int(configuration.get("delta.dataSkippingNumIndexedCols", _INDEXED)),
            file_bytes=self._lake.how.file_bytes,
            sink=sink,
            options=self._lake.options,
        )

    def files(self) -> ArrowFiles:
        return self._files()

    def _files(self) -> ArrowFiles:
        return files_at(self._lake.uri, self._lake.options)

    def commit(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        if self._lake.how.keys and files:
            self._merge(entry, files)
            return
        self._write(entry, _additions(files))

    def _write(self, entry: Entry, actions: "Sequence[Any]") -> None:
        self._table.create_write_transaction(
            list(actions),
            "append",
            self._table.schema(),
            partition_by=list(self._partitions()),
            commit_properties=self._properties(entry),
        )

    def _properties(self, entry: Entry) -> Any:
        """The properties of a commit; a concurrent change of the table fails the commit."""
        from deltalake import CommitProperties, Transaction

        kept = transactions_of(entry, self.version() + 1)
        return CommitProperties(
            custom_metadata={INFO: entry.fields()},
            max_commit_retries=0,
            app_transactions=[Transaction(*item) for item in kept.items()],
        )

    def _merge(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Has the executors rewrite the files that staged rows change, and commits the result."""
        # No cleanup touches this directory. After a conflict its files stay, too: a commit with a
        # lost response is reported as a conflict, and then they belong to the table.
        directory = f"{directory_of(entry.query_id)}/{secrets.token_hex(16)}"
        table = self._schema()
        sink = f"DeltaSink {self._lake.label}"
        writer = self._writer_of(directory, table, self._partitions(), sink)
        merge = Merge(self._lake.session, table, self._active(), self._lake.how.keys, writer)
        with rewriting(sink):
            done = merge.run(files)
        self._write(entry, [*_removals(done.removed), *_additions(done.added)])

    def _active(self) -> list[TableFile]:
        """The files of this version."""
        import pyarrow as pa

        files = []
        for action in pa.table(self._table.get_add_actions(flatten=True)).to_pylist():
            values = {
                name: partition_text(action[f"partition.{name}"]) for name in self._partitions()
            }
            bounds = (_below(action, "min."), _below(action, "max."))
            files.append(TableFile(action["path"], action["size_bytes"], values, *bounds))
        return files

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        self.check_may_undo(epochs)
        if not epochs:
            self._write(entry, ())
        elif self._lake.how.keys:
            self._restore(entry, epochs[0].at)
        else:
            self._remove(entry, epochs)

    def _restore(self, entry: Entry, first: int) -> None:
        """Restores the version before an epoch, if only the query has committed since."""
        from deltalake.exceptions import CommitFailedError

        self.check_goes_back(entry.query_id, first)
        try:
            self._table.restore(first - 1, commit_properties=self._properties(entry))
        except CommitFailedError:
            raise
        except Exception as failure:
            problem = f"version {first - 1} cannot be restored: {masked(str(failure))}"
            raise UndoRefusedError(problem) from None

    def _remove(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        """Removes the files of some epochs, if all of them still exist."""
        there = {file.path: file for file in self._active()}
        removed: list[TableFile] = []
        for file, added in self.added_by(epochs):
            paths = [action["add"]["path"] for action in added]
            if any(path not in there for path in paths):
                raise missing_files(file)
            removed += [there[path] for path in paths]
        self._write(entry, _removals(removed))


def _below(action: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): it for name, it in action.items() if name.startswith(prefix)}


def _additions(files: Sequence[StagedFile]) -> list[Any]:
    from deltalake.transaction import AddAction

    now = time.time_ns() // 1_000_000
    actions = []
    for file in files:
        detail = json.loads(file.detail)
        values, stats = detail["partitionValues"], detail["stats"]
        actions.append(AddAction(file.path, file.bytes, values, now, True, stats))
    return actions


def _removals(files: Sequence[TableFile]) -> list[Any]:
    from deltalake.transaction import RemoveAction

    now = time.time_ns() // 1_000_000
    # The library encodes the path of the log; given that path, it would name a missing file.
    return [
        RemoveAction(
            unquote(file.path), True, now, size=file.bytes, partition_values=dict(file.values)
        )
        for file in files
    ]


def delta_library() -> Any:
    """Imports the package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package("deltalake", feature="DeltaSink", package="deltalake", extra="delta")
