"""A table of Iceberg, as the driver reads and commits to it, by the library pyiceberg."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cleancut._packages import extra_package
from cleancut.errors import error_of
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._lakes.delta_files import secrets_in
from cleancut.sinks._lakes.files import ArrowStager, StagedFile, directory_of, rewriting
from cleancut.sinks._lakes.iceberg_files import (
    DATA_PATH,
    IcebergFiles,
    IcebergWriter,
    data_directory,
    data_file,
)
from cleancut.sinks._lakes.iceberg_merge import IcebergMerge, RowsWriter, unreadable
from cleancut.sinks._lakes.iceberg_types import (
    arrow_schema,
    has_required_within,
    iceberg_schema,
    iceberg_type,
    name_of,
    partitioned,
)
from cleancut.sinks._lakes.lake import entry_text, unlike
from cleancut.sinks._lakes.log import Entry, PastEpoch, Placed, chain, last_included

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# What the summary of a snapshot has an entry by, and the properties of the table the last ones.
_SUMMARY = "cleancut"
_PROPERTY = "cleancut.query."
_NEWEST_FORMAT = 2
# The library would try a commit again on what others have done meanwhile, and append twice.
_NO_RETRY = {"commit.retry.num-retries": "0"}
_LOST = ("ServiceUnavailableError", "ServerError", "CommitStateUnknownException")
_OF_DRIVERS = ("requests", "sqlalchemy", "urllib3")


@dataclass
class IcebergLake:
    """Implements `Lake`.

    Attributes:
        identifier: of the table, with its namespace.
        catalog: its name.
        partition_by: columns of partitions, of a table that is made.
        chunk_bytes: how much of the rows becomes files at once.
        keys: columns by which a row takes the place of another one; none adds all rows.
        properties: of the catalog, and of the store.
    """

    identifier: str
    catalog: str
    partition_by: tuple[str, ...]
    chunk_bytes: int
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Of the run, for the tasks that rewrite files.
    session: Any = field(default=None, repr=False)
    _loaded: Any = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return f"{self.identifier} of {self.catalog}"

    def _catalog(self) -> Any:
        if self._loaded is None:
            self._loaded = iceberg_library().load_catalog(self.catalog, **self.properties)
        return self._loaded

    @contextmanager
    def transaction(self) -> "Iterator[IcebergTable | None]":
        catalog = self._catalog()
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            table = None
        yield None if table is None else IcebergTable(self, table)

    def verdict(self, failure: Exception) -> str:
        from pyiceberg.exceptions import CommitFailedException

        if isinstance(failure, CommitFailedException):
            return "again"
        kind = type(failure)
        if kind.__name__ in _LOST or isinstance(failure, OSError):
            return "lost"
        of_driver = kind.__module__.partition(".")[0] in _OF_DRIVERS
        words = ("OperationalError", "ConnectionError", "Timeout")
        return "lost" if of_driver and any(of in kind.__name__ for of in words) else "error"

    def secrets(self) -> Sequence[str]:
        return secrets_in(self.properties)

    def create(self, schema: "StructType") -> None:
        missing = [name for name in self.partition_by if name not in schema.names]
        if missing:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=f"IcebergSink {self.label}",
                reason=f"the batch lacks these columns of partitions: {', '.join(missing)}",
            )
        made = iceberg_schema(schema)
        self._catalog().create_table_if_not_exists(
            self.identifier, schema=made, partition_spec=partitioned(made, self.partition_by)
        )


class IcebergTable:
    """Implements `LakeTable`.

    The entry of a commit is in the summary of its snapshot, and the last one of each query in the
    properties of the table, where it is when snapshots expire. Each commit makes a snapshot, also
    one that adds no file: what fails a commit that comes too late is that `main` has moved.
    """

    def __init__(self, lake: IcebergLake, table: Any) -> None:
        self._lake = lake
        self._table = table
        of: Mapping[str, str] = table.metadata.properties
        # Of this handle only.
        table.metadata = table.metadata.model_copy(update={"properties": {**of, **_NO_RETRY}})
        self._metadata = table.metadata

    def head(self, query_id: str) -> Placed | None:
        text = self._metadata.properties.get(f"{_PROPERTY}{query_id}")
        if text is None:
            return None
        found = json.loads(text)
        place = f"the properties of {self._lake.label}"
        head = Placed(found["snapshot"], Entry.parse(found["entry"], place))
        return last_included(self, head, self._includes)

    def _includes(self, at: int) -> bool:
        """Whether the table has what a snapshot has changed: a rollback leaves the properties."""
        snapshot, wanted = self._table.current_snapshot(), self._metadata.snapshot_by_id(at)
        if wanted is None:
            # It has expired. Only old snapshots do.
            return True
        while snapshot is not None and snapshot.snapshot_id != at:
            if snapshot.sequence_number < wanted.sequence_number:
                return False
            before = snapshot.parent_snapshot_id
            if before is None:
                return False
            known = self._metadata.snapshot_by_id(before)
            if known is None:
                # The snapshots between them have expired.
                return True
            snapshot = known
        return snapshot is not None

    def entry(self, at: int, query_id: str) -> Entry | None:
        snapshot = self._metadata.snapshot_by_id(at)
        if snapshot is None or snapshot.summary is None:
            return None
        text = snapshot.summary.additional_properties.get(_SUMMARY)
        if text is None:
            return None
        return Entry.parse(json.loads(text), f"snapshot {at} of {self._lake.label}")

    def unwritable(self) -> str | None:
        metadata = self._metadata
        if metadata.format_version > _NEWEST_FORMAT:
            return f"the table is of version {metadata.format_version} of Iceberg"
        kind = metadata.properties.get("write.format.default", "parquet")
        if kind != "parquet":
            return f"the files of the table are to be {kind}, and Parquet is what is written here"
        return None

    def problem(self, schema: "StructType") -> str | None:
        fields = self._metadata.schema().fields
        batch = {of.name: iceberg_type(of.dataType) or "" for of in schema.fields}
        table = {of.name: name_of(of.field_type) for of in fields}
        found = unlike(batch, table, [of.name for of in fields if of.required])
        if found is not None:
            return found
        within = [of.name for of in fields if has_required_within(of.field_type)]
        if within:
            return f"the table takes no nulls within {', '.join(within)}"
        missing = sorted(set(self._lake.keys) - set(schema.names))
        if missing:
            return f"the batch lacks these keys: {', '.join(missing)}"
        unread = unreadable(self._metadata) if self._lake.keys else None
        return unread or self._partition_problem(schema)

    def _partition_problem(self, schema: "StructType") -> str | None:
        metadata = self._metadata
        sources = self._sources()
        missing = sorted(set(sources) - set(schema.names))
        if missing:
            return f"the batch lacks these columns of partitions: {', '.join(missing)}"
        given = self._lake.partition_by
        if given and list(given) != list(sources):
            return f"the table is partitioned by {', '.join(sources) or 'nothing'}"
        for of in metadata.spec().fields:
            source = metadata.schema().find_field(of.source_id)
            try:
                of.transform.pyarrow_transform(source.field_type)
            except Exception as failure:  # what it takes is not installed, or not there at all
                return f"its partitions by {of.transform} cannot be told here: {failure}"
        return None

    def _sources(self) -> Sequence[str]:
        """Columns by whose values, or what is made of them, rows are put apart."""
        schema = self._metadata.schema()
        return [schema.find_column_name(of.source_id) for of in self._metadata.spec().fields]

    def stager(self, directory: str, schema: "StructType", sink: str) -> ArrowStager:
        if not self._lake.keys:
            return ArrowStager(self._writer(directory, schema, sink), sink, self._sources())
        # What takes the place of rows is staged as it is, and put apart later.
        place = f"{data_directory(self._metadata)}/{directory}"
        columns, keys = arrow_schema(schema), self._lake.keys
        return ArrowStager(RowsWriter(place, columns, keys, self._table.io.properties), sink)

    def _writer(self, directory: str, schema: "StructType", sink: str) -> IcebergWriter:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        metadata = self._small(**{DATA_PATH: f"{data_directory(self._metadata)}/{directory}"})
        return IcebergWriter(
            metadata=metadata,
            schema=schema_to_pyarrow(iceberg_schema(schema), include_field_ids=False),
            required=tuple(of.name for of in metadata.schema().fields if of.required),
            sink=sink,
            chunk_bytes=self._lake.chunk_bytes,
            properties=self._table.io.properties,
        )

    def _small(self, **properties: str) -> Any:
        """The metadata, without what grows with the table, for tasks."""
        metadata = self._metadata
        less: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
        less["properties"] = {**metadata.properties, **properties}
        return metadata.model_copy(update=less)

    def files(self) -> IcebergFiles:
        return IcebergFiles(self._metadata, self._table.io.properties)

    def commit(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        if self._lake.keys and files:
            self._merge(entry, files)
            return
        self._replace(entry, (), self._data_files(entry, files))

    def _data_files(self, entry: Entry, files: Sequence[StagedFile]) -> list[Any]:
        of = [data_file(file, self._metadata) for file in files]
        if None in of:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self._sink,
                epoch=entry.run.last,
                detail="the table is partitioned otherwise than when it was staged",
            )
        return of

    @property
    def _sink(self) -> str:
        return f"IcebergSink {self._lake.label}"

    def _merge(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Has the executors rewrite what the rows that are staged replace, and commits that."""
        # Nobody sweeps there. After a conflict the files stay, too: a commit whose answer was lost
        # is told as one, and then they are those of the table.
        directory = f"{directory_of(entry.query_id)}/{secrets.token_hex(16)}"

        def stager(schema: "StructType") -> ArrowStager:
            writer = self._writer(directory, schema, self._sink)
            return ArrowStager(writer, self._sink, self._sources())

        of = IcebergMerge(
            self._lake.session,
            self._table,
            self._small(),
            self._lake.keys,
            self._lake.chunk_bytes,
            self._sink,
        )
        with rewriting(self._sink):
            done = of.run(files, stager)
        self._replace(entry, done.removed, self._data_files(entry, done.added))

    def _replace(self, entry: Entry, removed: Sequence[Any], added: Sequence[Any]) -> None:
        """Commits files, in the place of others if there are any."""
        transaction = self._table.transaction()
        of = transaction.update_snapshot(snapshot_properties={_SUMMARY: entry_text(entry)})
        # Who reads what was added alone passes over a snapshot that may have replaced some.
        with of.overwrite() if removed else of.fast_append() as snapshot:
            self._note(transaction, snapshot.snapshot_id, entry)
            for file in removed:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        transaction.commit_transaction()

    def _note(self, transaction: Any, snapshot: int, entry: Entry) -> None:
        """Keeps the entry as the last one of its query, in the same commit."""
        text = json.dumps({"snapshot": snapshot, "entry": entry.fields()}, separators=(",", ":"))
        transaction.set_properties({f"{_PROPERTY}{entry.query_id}": text})

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        if not epochs:
            self.commit(entry, ())
            return
        if self._lake.keys:
            self._restore(entry, epochs[0].at)
        else:
            self._replace(entry, self._added(epochs), ())

    def _restore(self, entry: Entry, first: int) -> None:
        """Puts the files back that there were before an epoch, if only the query has committed."""
        now = self._table.current_snapshot()
        expected = now
        for placed in chain(self, self.head(entry.query_id)):
            if expected is None or placed.at != expected.snapshot_id:
                raise UndoRefusedError("others than the query have committed to the table since")
            before = expected.parent_snapshot_id
            expected = None if before is None else self._metadata.snapshot_by_id(before)
            if placed.at == first:
                break
        if expected is None:
            raise UndoRefusedError("the snapshot before them has expired")
        old, new = self._active(expected), self._active(now)
        removed = [new[path] for path in new.keys() - old.keys()]
        self._replace(entry, removed, [old[path] for path in old.keys() - new.keys()])

    def _active(self, snapshot: Any) -> dict[str, Any]:
        """The files of a snapshot by their paths."""
        from pyiceberg.manifest import DataFileContent

        found = {}
        for manifest in snapshot.manifests(self._table.io):
            for of in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if of.data_file.content != DataFileContent.DATA:
                    raise UndoRefusedError("rows of the table are deleted by files of their own")
                found[of.data_file.file_path] = of.data_file
        return found

    def _added(self, epochs: Sequence[PastEpoch]) -> list[Any]:
        """The files of some epochs, all of which are in the table still."""
        found: dict[int, list[Any]] = {of.at: [] for of in epochs}
        current = self._table.current_snapshot()
        for manifest in current.manifests(self._table.io) if current is not None else ():
            for of in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if of.snapshot_id in found:
                    found[of.snapshot_id].append(of.data_file)
        for epoch in epochs:
            summary = self._metadata.snapshot_by_id(epoch.at).summary
            added = int(summary.additional_properties.get("added-data-files", 0))
            if len(found[epoch.at]) != added:
                raise UndoRefusedError(
                    f"files of epoch {epoch.epoch.epoch} have been rewritten or deleted since"
                )
        return [file for files in found.values() for file in files]


def iceberg_library() -> Any:
    """The package's module of catalogs.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package(
        "pyiceberg.catalog", feature="IcebergSink", package="pyiceberg", extra="iceberg"
    )
