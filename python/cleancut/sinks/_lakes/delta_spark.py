"""A table of Delta that Delta's connector for Spark writes, with all that it may have.

Rows that are added are written by the connector into files that no version of the table names, and
one commit names them. Rows with keys are kept as Parquet files, and one MERGE puts them in the
place of others. Either commit has the entry of the query, and does not come about where the query
has committed since the table was looked at:

- A commit of ours is a transaction of Delta's that has read what is noted of the query, in the
  version that was looked at. Delta gives it up if a commit that came first notes that anew.
- MERGE makes a transaction of its own, and leaves out what the table has: it looks whether the
  number noted of the query has reached that of this commit. That number is one above the version
  of the last entry, so whoever has looked at the same entry has the same number, and whoever has
  looked at an older one has a smaller number.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from cleancut.errors import error_of
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._core.database import masked
from cleancut.sinks._core.runs import UndoRefusedError
from cleancut.sinks._files.directory import written
from cleancut.sinks._lakes.delta_connector import Connector, ConnectorFailedError
from cleancut.sinks._lakes.delta_log import (
    INFO,
    Action,
    DeltaLog,
    DeltaOptions,
    columns_problem,
    gone,
    noted,
    pointer,
)
from cleancut.sinks._lakes.delta_types import FORGETS, nullable
from cleancut.sinks._lakes.files import StagedFile, Stager
from cleancut.sinks._lakes.keyed import DELETES
from cleancut.sinks._lakes.lake import entry_text
from cleancut.sinks._lakes.log import Entry, PastEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_GENERATED = "delta.generationExpression"
_IDENTITY = "delta.identity.start"
# Tables whose commits are not those in the log's directory.
_MANAGED = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")


@dataclass
class SparkDeltaLake:
    """Implements `Lake`.

    Attributes:
        uri: of the table.
        how: rows change it.
        session: that of the run; that of the caller where there is none.
    """

    uri: str
    how: DeltaOptions
    session: Any = field(default=None, repr=False)
    _connector: Connector | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return masked(self.uri)

    @property
    def sink(self) -> str:
        """The name of the sink, for errors."""
        return f"DeltaSink {self.label}"

    def connect(self, session: "SparkSession | None") -> None:
        """Begins anew with another session."""
        self.session, self._connector = session, None

    def connector(self) -> Connector:
        """The connector in the session.

        Raises:
            RequestError: CLEANCUT_SINK_CONNECTOR_MISSING; CLEANCUT_CONNECT_UNSUPPORTED.
        """
        if self._connector is None:
            from pyspark.sql import SparkSession

            session = self.session or SparkSession.getActiveSession()
            if session is None:
                reason = "Delta's connector takes a session, and there is none"
                raise error_of("CLEANCUT_SINK_REFUSED", sink=self.sink, reason=reason)
            self._connector = Connector(session, self.sink)
        return self._connector

    @contextmanager
    def transaction(self) -> "Iterator[SparkDeltaTable | None]":
        connector = self.connector()
        with connector.failing(), connector.active():
            yield self.looked_at()

    def looked_at(self) -> "SparkDeltaTable | None":
        """The table as it is now."""
        connector = self.connector()
        log = connector.log(self.uri)
        snapshot = log.update(False, connector.nothing, connector.nothing)
        return SparkDeltaTable(self, log, snapshot) if snapshot.version() >= 0 else None

    def verdict(self, failure: Exception) -> str:
        return failure.verdict if isinstance(failure, ConnectorFailedError) else "foreign"

    def secrets(self) -> Sequence[str]:
        return ()

    def create(self, schema: "StructType") -> None:
        connector = self.connector()
        jvm = connector.jvm
        columns = jvm.org.apache.spark.sql.types.DataType.fromJson(nullable(schema).json())
        partitions = connector.sequence(self.how.partition_by)
        made = jvm.io.delta.tables.DeltaTable.createIfNotExists(connector.own)
        made.location(self.uri).addColumns(columns).partitionedBy(partitions).execute()


class SparkDeltaTable(DeltaLog):
    """Implements `LakeTable`."""

    def __init__(self, lake: SparkDeltaLake, log: Any, snapshot: Any) -> None:
        self._lake = lake
        self._connector = lake.connector()
        self._log = log
        self._snapshot = snapshot

    @property
    def label(self) -> str:
        return self._lake.label

    def version(self) -> int:
        return int(self._snapshot.version())

    def transaction_version(self, application: str) -> int | None:
        found = self._snapshot.transactions().get(application)
        return int(found.get()) if found.isDefined() else None

    def actions(self, version: int) -> list[Action] | None:
        log = self._log
        name = self._connector.path(log.logPath().toString(), f"{version:020d}.json")
        try:
            with self._connector.failing():
                lines = log.store().read(name, log.newDeltaHadoopConf()).mkString("\n")
        except ConnectorFailedError:
            filesystem = name.getFileSystem(log.newDeltaHadoopConf())
            if filesystem.exists(name):
                raise
            return None
        return [json.loads(line) for line in lines.splitlines() if line.strip()]

    def configuration(self) -> Mapping[str, str]:
        found: dict[str, str] = self._metadata()["configuration"]
        return found

    def _metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._snapshot.metadata().json())["metaData"]
        return found

    def _protocol(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._snapshot.protocol().json())["protocol"]
        return found

    def _schema(self) -> "StructType":
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._metadata()["schemaString"]))

    def _partitions(self) -> tuple[str, ...]:
        return tuple(self._metadata()["partitionColumns"])

    def unwritable(self) -> str | None:
        found = [of for of in self._protocol().get("writerFeatures", ()) if of in _MANAGED]
        if FORGETS in self.configuration():
            found.append(f"a time after which it forgets queries ({FORGETS})")
        if not self._lake.how.keys and self._columns_with(_IDENTITY):
            # What numbers are taken is noted by the transaction that writes the rows.
            found.append("identity columns, which rows without keys do not get")
        if found:
            return f"the table has {', '.join(found)}, which is not written here"
        if not self._connector.keeps_drivers_apart(self._log):
            return (
                f"commits go through {self._connector.log_store(self._log)}, by which two drivers "
                "may commit one version; set another log store for the scheme (as "
                "io.delta.storage.S3DynamoDBLogStore), or leave out writer='spark'"
            )
        return None

    def _columns_with(self, field_of_metadata: str) -> list[str]:
        return [of.name for of in self._schema().fields if field_of_metadata in of.metadata]

    def problem(self, schema: "StructType") -> str | None:
        computed = [*self._columns_with(_GENERATED), *self._columns_with(_IDENTITY)]
        how = self._lake.how
        return columns_problem(schema, self._schema(), self._partitions(), how, computed)

    def stager(self, directory: str, schema: "StructType", sink: str) -> Stager:
        return partial(self._keep if self._lake.how.keys else self._write_files, directory)

    def _write_files(self, directory: str, rows: "DataFrame") -> list[StagedFile]:
        """Has the connector write the files of the table, of which it names none."""
        connector = self._connector
        given: Any = rows
        try:
            with connector.failing(), connector.active():
                transaction = self._log.startTransaction(
                    connector.nothing, self._jvm_option(self._snapshot)
                )
                added = transaction.writeFiles(given._jdf)
        except ConnectorFailedError as failure:
            if failure.verdict != "error":
                raise
            raise error_of(
                "CLEANCUT_SINK_REFUSED", sink=self._lake.sink, reason=failure
            ) from failure
        return [self._staged(added.apply(at)) for at in range(added.size())]

    def _staged(self, action: Any) -> StagedFile:
        rows = action.numLogicalRecords()
        detail = json.dumps({"action": str(action.json()), "for": self._written_for()})
        # Where a session collects no statistics, nobody has counted them.
        count = int(rows.get()) if rows.isDefined() else -1
        return StagedFile(unquote(action.path()), int(action.size()), count, detail)

    def _written_for(self) -> str:
        """Tells tables apart for which files are to be written differently."""
        told = json.dumps([self._metadata(), self._protocol()], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def _keep(self, directory: str, rows: "DataFrame") -> list[StagedFile]:
        """Has the executors write rows into files of their own, to be merged later."""
        count, found = written(rows, "parquet", {}, (), f"{self._place()}/{directory}")
        # Spark counts the rows of all of them.
        counts = [count, *[0] * len(found)]
        return [
            StagedFile(f"{directory}/{name}", size, of, "")
            for (name, size), of in zip(found if count else (), counts, strict=False)
        ]

    def _place(self) -> str:
        """The directory of the table, as Hadoop names it."""
        return str(self._log.dataPath().toString()).rstrip("/")

    def fits(self, files: Sequence[StagedFile]) -> bool:
        wanted = self._written_for()
        return self._lake.how.keys != () or all(
            json.loads(of.detail)["for"] == wanted for of in files
        )

    def files(self) -> "HadoopFiles":
        return HadoopFiles(self._connector, self._lake.uri, self._log.newDeltaHadoopConf())

    def commit(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        if self._lake.how.keys and files:
            self._merge(entry, files)
            return
        if not self.fits(files):
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self._lake.sink,
                epoch=entry.run.last,
                detail="the table's columns or properties were changed after they were written",
            )
        lines = [json.loads(of.detail)["action"] for of in files]
        self._write(entry, [self._connector.action(line) for line in lines])

    def _write(self, entry: Entry, actions: Sequence[Any]) -> None:
        """Commits, unless the query has since the table was looked at."""
        connector = self._connector
        with connector.active(entry=_told(entry)):
            transaction = self._log.startTransaction(
                connector.nothing, self._jvm_option(self._snapshot)
            )
            # By which it depends on that.
            transaction.txnVersion(pointer(entry.query_id))
            notes = noted(entry, self.version() + 1)
            of = [connector.transaction(*note) for note in notes.items()]
            operation = connector.operation(entry.query_id, entry.run.last)
            transaction.commit(connector.sequence([*of, *actions]), operation)

    def _merge(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Has the connector put rows in the place of others, unless the query has committed."""
        before = entry.previous
        assert before is not None, "a run has begun"
        settings = {
            "entry": _told(entry),
            "application": pointer(entry.query_id),
            "version": str(before + 1),
        }
        try:
            with self._connector.failing(), self._connector.active(**settings):
                self._merged(files).execute()
        except ConnectorFailedError as failure:
            # A run that has followed this one sweeps what this one has staged.
            if self._head_now(entry.query_id) != before:
                raise ConnectorFailedError("again", str(failure)) from failure
            raise
        now = self._lake.looked_at()
        head = None if now is None else now.head(entry.query_id)
        if head is None or head.entry != entry:
            # MERGE does not say that it was not to commit.
            raise ConnectorFailedError("again", "the query has committed meanwhile")

    def _head_now(self, query_id: str) -> int | None:
        """Where the last entry of a query is by now."""
        now = self._lake.looked_at()
        head = None if now is None else now.head(query_id)
        return None if head is None else head.at

    def _merged(self, files: Sequence[StagedFile]) -> Any:
        """The connector's MERGE of rows that are kept in files."""
        connector, keys = self._connector, self._lake.how.keys
        rows = (
            connector.session.read.format("parquet")
            # Names of files, in which a bracket is a bracket.
            .option("__globPaths__", "false")
            .load([f"{self._place()}/{of.path}" for of in files])
        )
        given: Any = rows
        tables = connector.jvm.io.delta.tables.DeltaTable
        table = tables.forPath(connector.own, self._lake.uri).alias("kept")
        same = " AND ".join(f"kept.{quoted(key)} = given.{quoted(key)}" for key in keys)
        merge = table.merge(given._jdf.alias("given"), same)
        values = self._values(rows.columns)
        if DELETES not in rows.columns:
            merge = merge.whenMatched().updateExpr(values)
            return merge.whenNotMatched().insertExpr(values)
        deletes = f"given.{quoted(DELETES)}"
        merge = merge.whenMatched(deletes).delete()
        merge = merge.whenMatched().updateExpr(values)
        return merge.whenNotMatched(f"NOT {deletes}").insertExpr(values)

    def _values(self, given: Sequence[str]) -> Any:
        """What each column of the table gets, but for those that it computes."""
        computed = {*self._columns_with(_GENERATED), *self._columns_with(_IDENTITY)}
        found = self._connector.jvm.java.util.HashMap()
        for name in self._schema().names:
            if name in given:
                found.put(quoted(name), f"given.{quoted(name)}")
            elif name not in computed:
                found.put(quoted(name), "NULL")
        return found

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        self.check_may_undo(epochs)
        if not epochs:
            self._write(entry, ())
        elif self._lake.how.keys:
            self._restore(entry, epochs[0].at)
        else:
            self._remove(entry, epochs)

    def _remove(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        """Removes the files of some epochs, if all of them are there still, with all their rows."""
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        lines: list[str] = []
        for of, added in self.added_by(epochs):
            paths = [action["add"]["path"] for action in added]
            now = self._active(self._snapshot).where(F.col("path").isin(paths))
            whole = now.where(F.col("deletionVector").isNull()).count()
            if whole != len(paths):
                raise gone(of)
            lines += [json.dumps(action) for action in added]
        self._write(entry, [self._connector.action(line).remove() for line in lines])

    def _restore(self, entry: Entry, first: int) -> None:
        """Puts the files of the version back before an epoch, if only the query has committed."""
        self.check_goes_back(entry.query_id, first)
        connector = self._connector
        try:
            with connector.failing():
                old = self._log.getSnapshotAt(
                    first - 1, connector.nothing, connector.nothing, False
                )
                before, now = self._active(old), self._active(self._snapshot)
                lost = _lines(_unlike(before, now))
                more = _lines(_unlike(now, before))
        except ConnectorFailedError as failure:
            problem = f"version {first - 1} cannot be restored: {failure}"
            raise UndoRefusedError(problem) from None
        paths = [unquote(json.loads(line)["add"]["path"]) for line in lost]
        if -1 in self.files().sizes(paths):
            raise UndoRefusedError(f"files of version {first - 1} are deleted")
        removed = [connector.action(line).remove() for line in more]
        self._write(entry, [*map(connector.action, lost), *removed])

    def _active(self, snapshot: Any) -> "DataFrame":
        """The files of a version, of which nothing but the names is taken to the driver."""
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(snapshot.allFiles().toDF(), self._connector.session)

    def _jvm_option(self, of: Any) -> Any:
        return self._connector.jvm.scala.Option.apply(of)


class HadoopFiles:
    """Implements `TableFiles` on a file system of Hadoop."""

    def __init__(self, connector: Connector, base: str, settings: Any) -> None:
        self._connector = connector
        self._base = base
        self._filesystem = connector.path(base, ".").getFileSystem(settings)

    def sizes(self, paths: Sequence[str]) -> list[int]:
        places = [self._connector.path(self._base, path) for path in paths]
        return [
            int(self._filesystem.getFileStatus(of).getLen()) if self._filesystem.exists(of) else -1
            for of in places
        ]

    def directories(self, directory: str) -> list[str]:
        place = self._connector.path(self._base, directory)
        if not self._filesystem.exists(place):
            return []
        found = [of for of in self._filesystem.listStatus(place) if of.isDirectory()]
        return sorted(f"{directory}/{of.getPath().getName()}" for of in found)

    def delete(self, directory: str) -> None:
        self._filesystem.delete(self._connector.path(self._base, directory), True)


def _told(entry: Entry) -> str:
    """An entry as `userMetadata`."""
    return f'{{"{INFO}":{entry_text(entry)}}}'


def _unlike(these: "DataFrame", those: "DataFrame") -> "DataFrame":
    """Files of one version that are not in another one with the same rows."""
    from pyspark.sql import functions as F  # noqa: N812

    a, b = these.alias("a"), those.alias("b")
    same = F.col("a.path") == F.col("b.path")
    vectors = (F.to_json(F.col(f"{of}.deletionVector")) for of in ("a", "b"))
    return a.join(b, same & F.equal_null(*vectors), "left_anti")


def _lines(files: "DataFrame") -> list[str]:
    """Additions of files, as they stand in a log."""
    from pyspark.sql import functions as F  # noqa: N812

    whole = files.withColumn("dataChange", F.lit(True))
    found = whole.select(F.to_json(F.struct(F.struct(*map(quoted, whole.columns)).alias("add"))))
    return [of[0] for of in found.collect()]
