"""A table of Delta, as the driver reads its log and commits to it, by the library deltalake."""

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
from cleancut.errors import of as of_call
from cleancut.sinks._core.database import masked
from cleancut.sinks._core.runs import LedgerEpoch, Run, UndoRefusedError
from cleancut.sinks._lakes.delta_files import DeltaWriter, files_at, partition_text, secrets_in
from cleancut.sinks._lakes.delta_merge import DELETES, Merge, Rewriting, TableFile
from cleancut.sinks._lakes.delta_types import (
    arrow_schema,
    bad_partitions,
    has_nulls_within,
    nullable,
    unknown_feature,
)
from cleancut.sinks._lakes.files import ArrowFiles, StagedFile, directory_of
from cleancut.sinks._lakes.lake import unlike
from cleancut.sinks._lakes.log import Entry, PastEpoch, Placed, chain

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The field of a commit's info that has an entry, and the prefix of what numbers it keeps.
_INFO = "cleancut"
_FEATURES_SINCE = 7
_INDEXED = 32
_NOWHERE = -1


@dataclass(frozen=True)
class DeltaOptions:
    """How rows change a table.

    Attributes:
        keys: columns by which a row takes the place of another one; none adds all rows.
        partition_by: columns of partitions, of a table that is made.
        file_bytes: after how many bytes a file is closed.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    file_bytes: int


@dataclass
class DeltaLake:
    """Implements `Lake`.

    Attributes:
        uri: of the table.
        options: of its store.
        how: rows change it.
    """

    uri: str
    how: DeltaOptions
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Of the run, for the tasks that rewrite files.
    session: Any = field(default=None, repr=False)
    # Opened once, because that reads the whole list of files; then only what is new is read.
    _open: Any = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return masked(self.uri)

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
            # Whatever state it is in: the next one is read anew.
            self._open = None
            raise

    def verdict(self, failure: Exception) -> str:
        from deltalake.exceptions import CommitFailedError, DeltaError

        if isinstance(failure, CommitFailedError):
            return "error" if "Unsupported" in str(failure) else "again"
        # Errors of the store come as OSError, or within the words of another one.
        if isinstance(failure, OSError) and not isinstance(failure, PermissionError):
            return "lost"
        told = str(failure).lower()
        of_store = any(of in told for of in ("object store", "error sending request", "timed out"))
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


class DeltaTable:
    """Implements `LakeTable`.

    Where the last entry of a query is, says a transaction of Delta's protocol, whose version is
    that of the table. Such transactions are kept when old commits are deleted, so two more say what
    the last epoch was.
    """

    def __init__(self, lake: DeltaLake, table: Any) -> None:
        self._lake = lake
        self._table = table

    def head(self, query_id: str) -> Placed | None:
        at = self._table.transaction_version(f"{_INFO}:{query_id}")
        if at is None:
            return None
        entry = self.entry(at, query_id)
        return self._remembered(at, query_id) if entry is None else Placed(at, entry)

    def _remembered(self, at: int, query_id: str) -> Placed:
        """What is left of an entry whose commit is deleted, as it is older than the log is kept."""
        last = self._table.transaction_version(f"{_INFO}:{query_id}:epoch")
        planned = self._table.transaction_version(f"{_INFO}:{query_id}:planned")
        run = Run("of an entry that is deleted", last=last)
        epoch = LedgerEpoch(0, last, planned or 0, run.run_id, "", -1, 0)
        latest = None if planned is None else epoch
        return Placed(at, Entry(query_id, "", run, _NOWHERE, latest, latest=latest))

    def entry(self, at: int, query_id: str) -> Entry | None:
        if at == _NOWHERE:
            return None
        found = self._actions(at)
        if found is None:
            return None
        for action in found:
            told = action.get("commitInfo", {}).get(_INFO)
            if told is not None and told.get("queryId") == query_id:
                return Entry.parse(told, f"version {at} of {self._lake.label}")
        raise error_of(
            "CLEANCUT_SINK_DAMAGED",
            path=self._lake.label,
            detail=f"version {at} is no commit of the query {query_id}",
        )

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        """What a commit says; None if it is deleted."""
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
        configuration = self._table.metadata().configuration
        return unknown_feature(features, configuration, self._schema())

    def problem(self, schema: "StructType") -> str | None:
        table = self._schema()
        required = [of.name for of in table.fields if not of.nullable]
        found = unlike(_types(schema), _types(table), required)
        if found is not None:
            return found
        within = [
            of.name
            for of in schema.fields
            if has_nulls_within(of.dataType, table[of.name].dataType)
        ]
        if within:
            return f"there may be nulls within {', '.join(within)}, and the table takes none there"
        wanted = (*self._partitions(), *self._lake.how.keys)
        missing = sorted(set(wanted) - set(schema.names))
        if missing:
            return f"the batch lacks these columns of partitions or keys: {', '.join(missing)}"
        given = self._lake.how.partition_by
        if given and given != self._partitions():
            return f"the table is partitioned by {', '.join(self._partitions()) or 'nothing'}"
        return bad_partitions(table, self._partitions())

    def _schema(self) -> "StructType":
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._table.schema().to_json()))

    def _partitions(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    def sorted_by(self) -> Sequence[str]:
        return () if self._lake.how.keys else self._partitions()

    def writer(self, directory: str, schema: "StructType", sink: str) -> DeltaWriter:
        if not self._lake.how.keys:
            return self._writer_of(directory, schema, self._partitions(), sink)
        # What takes the place of rows is staged as it is, and put apart later.
        found = self._writer_of(directory, schema, (), sink)
        # A row that deletes may have keys alone.
        return replace(found, required=()) if DELETES in schema.names else found

    def _writer_of(
        self, directory: str, schema: "StructType", partitions: tuple[str, ...], sink: str
    ) -> DeltaWriter:
        configuration = self._table.metadata().configuration
        required = {of.name for of in self._schema().fields if not of.nullable}
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
        """What a commit says beside its actions; it fails if the table has changed meanwhile."""
        from deltalake import CommitProperties, Transaction

        query = f"{_INFO}:{entry.query_id}"
        kept = [
            Transaction(query, self._table.version() + 1),
            Transaction(f"{query}:epoch", entry.run.last),
        ]
        if entry.latest is not None:
            kept.append(Transaction(f"{query}:planned", entry.latest.planned_ms))
        return CommitProperties(
            custom_metadata={_INFO: entry.fields()}, max_commit_retries=0, app_transactions=kept
        )

    def _merge(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Has the executors rewrite what the rows that are staged replace, and commits that."""
        # Nobody sweeps there. After a conflict the files stay, too: a commit whose answer was lost
        # is told as one, and then they are those of the table.
        directory = f"{directory_of(entry.query_id)}/{secrets.token_hex(16)}"
        table = self._schema()
        sink = f"DeltaSink {self._lake.label}"
        writer = self._writer_of(directory, table, self._partitions(), sink)
        of = Merge(self._lake.session, table, self._active(), self._lake.how.keys, writer)
        done = self._rewritten(of, files)
        self._write(entry, [*_removals(done.removed), *_additions(done.added)])

    def _rewritten(self, merge: Merge, files: Sequence[StagedFile]) -> Rewriting:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return merge.run(files)
        except (PySparkException, Py4JJavaError) as failure:
            found = of_call(failure)
            if found is not None:
                raise found from failure
            # Executors that are gone, and the like: what is staged is there for another try.
            raise error_of(
                "CLEANCUT_SINK_UNREACHABLE",
                sink=merge.writer.sink,
                seconds=0,
                detail=f"its files could not be rewritten: {masked(str(failure))}",
            ) from failure

    def _active(self) -> list[TableFile]:
        """The files of this version."""
        import pyarrow as pa

        found = []
        for of in pa.table(self._table.get_add_actions(flatten=True)).to_pylist():
            values = {name: partition_text(of[f"partition.{name}"]) for name in self._partitions()}
            bounds = (_below(of, "min."), _below(of, "max."))
            found.append(TableFile(of["path"], of["size_bytes"], values, *bounds))
        return found

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        configuration = self._table.metadata().configuration
        if epochs and configuration.get("delta.appendOnly", "false") == "true":
            raise UndoRefusedError("nothing may be removed from the table (delta.appendOnly)")
        if not epochs:
            self._write(entry, ())
        elif self._lake.how.keys:
            self._restore(entry, epochs[0].at)
        else:
            self._remove(entry, epochs)

    def _restore(self, entry: Entry, first: int) -> None:
        """Puts the version back before an epoch, if only the query has committed since."""
        from deltalake.exceptions import CommitFailedError

        expected = self._table.version()
        for placed in chain(self, self.head(entry.query_id)):
            if placed.at != expected:
                raise UndoRefusedError(f"version {expected} of the table is not the query's")
            if placed.at == first:
                break
            expected -= 1
        try:
            self._table.restore(first - 1, commit_properties=self._properties(entry))
        except CommitFailedError:
            raise
        except Exception as failure:
            problem = f"version {first - 1} cannot be restored: {masked(str(failure))}"
            raise UndoRefusedError(problem) from None

    def _remove(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        """Removes the files of some epochs, if all of them are there still."""
        there = {of.path: of for of in self._active()}
        removed: list[TableFile] = []
        for of in epochs:
            added = [
                action["add"]["path"] for action in self._actions(of.at) or () if "add" in action
            ]
            if not added or any(path not in there for path in added):
                raise UndoRefusedError(
                    f"files of epoch {of.epoch.epoch} have been rewritten or deleted since"
                )
            removed += [there[path] for path in added]
        self._write(entry, _removals(removed))


def _types(schema: "StructType") -> dict[str, str]:
    return {of.name: of.dataType.simpleString() for of in schema.fields}


def _below(of: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): it for name, it in of.items() if name.startswith(prefix)}


def _additions(files: Sequence[StagedFile]) -> list[Any]:
    from deltalake.transaction import AddAction

    now = time.time_ns() // 1_000_000
    found = []
    for file in files:
        detail = json.loads(file.detail)
        values, stats = detail["partitionValues"], detail["stats"]
        found.append(AddAction(file.path, file.bytes, values, now, True, stats))
    return found


def _removals(files: Sequence[TableFile]) -> list[Any]:
    from deltalake.transaction import RemoveAction

    now = time.time_ns() // 1_000_000
    # The library encodes the path that the log has; given that, it would name a file of no version.
    return [
        RemoveAction(unquote(of.path), True, now, size=of.bytes, partition_values=dict(of.values))
        for of in files
    ]


def delta_library() -> Any:
    """The package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package("deltalake", feature="DeltaSink", package="deltalake", extra="delta")
