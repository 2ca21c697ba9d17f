"""An Iceberg table as the driver reads and commits to it, through the library pyiceberg."""

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

# Key of an entry in the summary of a snapshot, and prefix of the last entries in table properties.
_SUMMARY = "cleancut"
_PROPERTY = "cleancut.query."
_NEWEST_FORMAT = 2
# The library would retry a commit on top of concurrent changes, and so append twice.
_NO_RETRY = {"commit.retry.num-retries": "0"}
_LOST = ("ServiceUnavailableError", "ServerError", "CommitStateUnknownException")
_OF_DRIVERS = ("requests", "sqlalchemy", "urllib3")


@dataclass
class IcebergLake:
    """Implements `Lake`.

    Attributes:
        identifier: identifier of the table, with its namespace.
        catalog: name of the catalog.
        partition_by: partition columns of a new table.
        chunk_bytes: size of the rows that become files together.
        keys: key columns, by which a row replaces another one; empty if all rows are appended.
        properties: properties of the catalog and the object store.
    """

    identifier: str
    catalog: str
    partition_by: tuple[str, ...]
    chunk_bytes: int
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The session of the run, for tasks that rewrite files.
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
        return "lost" if of_driver and any(word in kind.__name__ for word in words) else "error"

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

    The entry of a commit is in the summary of its snapshot. The table properties have the last
    entry of each query, because snapshots expire. Each commit creates a snapshot, even without
    files: a late commit fails because `main` has moved.
    """

    def __init__(self, lake: IcebergLake, table: Any) -> None:
        self._lake = lake
        self._table = table
        properties: Mapping[str, str] = table.metadata.properties
        # Only for this handle.
        table.metadata = table.metadata.model_copy(
            update={"properties": {**properties, **_NO_RETRY}}
        )
        self._metadata = table.metadata

    def head(self, query_id: str) -> Placed | None:
        text = self._metadata.properties.get(f"{_PROPERTY}{query_id}")
        if text is None:
            return None
        stored = json.loads(text)
        place = f"the properties of {self._lake.label}"
        head = Placed(stored["snapshot"], Entry.parse(stored["entry"], place))
        return last_included(self, head, self._includes)

    def _includes(self, at: int) -> bool:
        """Whether the table includes a snapshot: a rollback leaves the properties unchanged."""
        snapshot, wanted = self._table.current_snapshot(), self._metadata.snapshot_by_id(at)
        if wanted is None:
            # It has expired. Only old snapshots expire.
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
            return f"the files of the table are {kind}; the sink writes Parquet only"
        return None

    def problem(self, schema: "StructType") -> str | None:
        fields = self._metadata.schema().fields
        batch = {field.name: iceberg_type(field.dataType) or "" for field in schema.fields}
        table = {field.name: name_of(field.field_type) for field in fields}
        problem = unlike(batch, table, [field.name for field in fields if field.required])
        if problem is not None:
            return problem
        within = [field.name for field in fields if has_required_within(field.field_type)]
        if within:
            return f"the table accepts no nulls within {', '.join(within)}"
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
            return f"the batch lacks these partition columns: {', '.join(missing)}"
        given = self._lake.partition_by
        if given and list(given) != list(sources):
            return f"the table is partitioned by {', '.join(sources) or 'nothing'}"
        for partition in metadata.spec().fields:
            source = metadata.schema().find_field(partition.source_id)
            try:
                partition.transform.pyarrow_transform(source.field_type)
            except Exception as failure:  # a missing package, or an unsupported transform
                return f"its partitions by {partition.transform} cannot be computed: {failure}"
        return None

    def _sources(self) -> Sequence[str]:
        """The source columns of the table's partitioning."""
        schema = self._metadata.schema()
        return [
            schema.find_column_name(partition.source_id)
            for partition in self._metadata.spec().fields
        ]

    def stager(self, directory: str, schema: "StructType", sink: str) -> ArrowStager:
        if not self._lake.keys:
            return ArrowStager(self._writer(directory, schema, sink), sink, self._sources())
        # Replacing rows are staged unchanged, and partitioned later.
        place = f"{data_directory(self._metadata)}/{directory}"
        columns, keys = arrow_schema(schema), self._lake.keys
        return ArrowStager(RowsWriter(place, columns, keys, self._table.io.properties), sink)

    def _writer(self, directory: str, schema: "StructType", sink: str) -> IcebergWriter:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        metadata = self._small(**{DATA_PATH: f"{data_directory(self._metadata)}/{directory}"})
        return IcebergWriter(
            metadata=metadata,
            schema=schema_to_pyarrow(iceberg_schema(schema), include_field_ids=False),
            required=tuple(field.name for field in metadata.schema().fields if field.required),
            sink=sink,
            chunk_bytes=self._lake.chunk_bytes,
            properties=self._table.io.properties,
        )

    def _small(self, **properties: str) -> Any:
        """The metadata without parts that grow with the table, for tasks."""
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
        data_files = [data_file(file, self._metadata) for file in files]
        if None in data_files:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self._sink,
                epoch=entry.run.last,
                detail="the table is partitioned otherwise than when it was staged",
            )
        return data_files

    @property
    def _sink(self) -> str:
        return f"IcebergSink {self._lake.label}"

    def _merge(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Has the executors rewrite the files that staged rows change, and commits the result."""
        # No cleanup touches this directory. After a conflict its files stay, too: a commit with a
        # lost response is reported as a conflict, and then they belong to the table.
        directory = f"{directory_of(entry.query_id)}/{secrets.token_hex(16)}"

        def stager(schema: "StructType") -> ArrowStager:
            writer = self._writer(directory, schema, self._sink)
            return ArrowStager(writer, self._sink, self._sources())

        merge = IcebergMerge(
            self._lake.session,
            self._table,
            self._small(),
            self._lake.keys,
            self._lake.chunk_bytes,
            self._sink,
        )
        with rewriting(self._sink):
            done = merge.run(files, stager)
        self._replace(entry, done.removed, self._data_files(entry, done.added))

    def _replace(self, entry: Entry, removed: Sequence[Any], added: Sequence[Any]) -> None:
        """Commits added files, and the removal of others if there are any."""
        transaction = self._table.transaction()
        update = transaction.update_snapshot(snapshot_properties={_SUMMARY: entry_text(entry)})
        # Readers of appends skip a snapshot that may have replaced files.
        with update.overwrite() if removed else update.fast_append() as snapshot:
            self._note(transaction, snapshot.snapshot_id, entry)
            for file in removed:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        transaction.commit_transaction()

    def _note(self, transaction: Any, snapshot: int, entry: Entry) -> None:
        """Records the entry as the last one of its query, in the same commit."""
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
        """Restores the files before an epoch, if only the query has committed since."""
        now = self._table.current_snapshot()
        expected = now
        for placed in chain(self, self.head(entry.query_id)):
            if expected is None or placed.at != expected.snapshot_id:
                raise UndoRefusedError("another writer has committed to the table since")
            before = expected.parent_snapshot_id
            expected = None if before is None else self._metadata.snapshot_by_id(before)
            if placed.at == first:
                break
        if expected is None:
            raise UndoRefusedError("the earlier snapshot has expired")
        old, new = self._active(expected), self._active(now)
        removed = [new[path] for path in new.keys() - old.keys()]
        self._replace(entry, removed, [old[path] for path in old.keys() - new.keys()])

    def _active(self, snapshot: Any) -> dict[str, Any]:
        """The files of a snapshot, by path."""
        from pyiceberg.manifest import DataFileContent

        files = {}
        for manifest in snapshot.manifests(self._table.io):
            for item in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if item.data_file.content != DataFileContent.DATA:
                    raise UndoRefusedError("the table has delete files")
                files[item.data_file.file_path] = item.data_file
        return files

    def _added(self, epochs: Sequence[PastEpoch]) -> list[Any]:
        """The files of some epochs, if all are still in the table."""
        added_by: dict[int, list[Any]] = {item.at: [] for item in epochs}
        current = self._table.current_snapshot()
        for manifest in current.manifests(self._table.io) if current is not None else ():
            for item in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                if item.snapshot_id in added_by:
                    added_by[item.snapshot_id].append(item.data_file)
        for epoch in epochs:
            summary = self._metadata.snapshot_by_id(epoch.at).summary
            added = int(summary.additional_properties.get("added-data-files", 0))
            if len(added_by[epoch.at]) != added:
                raise UndoRefusedError(
                    f"files of epoch {epoch.epoch.epoch} have been rewritten or deleted since"
                )
        return [file for files in added_by.values() for file in files]


def iceberg_library() -> Any:
    """Imports the module of catalogs.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package(
        "pyiceberg.catalog", feature="IcebergSink", package="pyiceberg", extra="iceberg"
    )
