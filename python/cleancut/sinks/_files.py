"""Epochs as files: each is written once, and seen as a whole or not at all."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from cleancut._display.brief import Brief
from cleancut._display.info_list import InfoList
from cleancut._display.tables import rank
from cleancut._reading.cut_info import moment
from cleancut._storage.parallel import mapped
from cleancut.errors import error_of
from cleancut.sinks._batch import Batch
from cleancut.sinks._columns import column_names
from cleancut.sinks._directory import PlainRecords, Records, SinkDirectory
from cleancut.sinks._epoch_sink import EpochSink
from cleancut.sinks._going_back import hide, show
from cleancut.sinks._manifest import Manifest, read_manifest
from cleancut.sinks._names import (
    ATTEMPT_COLUMN,
    EPOCHS,
    FILES,
    TAKEN_BACK,
    manifest_epochs,
    taken_back,
    taken_back_name,
)
from cleancut.sinks._publishing import Output, Publishing
from cleancut.sinks._query_side import QuerySide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class PublishedEpoch(Brief):
    """An epoch that readers see.

    Attributes:
        epoch: Spark's batch id.
        rows: how many it has.
        files: how many hold them.
        bytes: the size of all its files.
        format: Spark's name of their format.
        query_id: Spark's id of the query.
        run_id: Spark's id of the run that wrote it.
        published: when it became visible, UTC.
    """

    epoch: int
    rows: int
    files: int
    bytes: int
    format: str
    query_id: str = field(metadata=rank(2))
    run_id: str = field(metadata=rank(3))
    published: datetime


class EpochFiles(EpochSink):
    """Writes each epoch of a query into files of its own; a function for `foreachBatch`.

    An epoch is written by Spark's own writer on the executors, sealed, and then published by one
    small manifest that names its files. However often a driver dies and runs an epoch again, it is
    published once. `read` shows published epochs only; other readers find nothing at the path.

    The path belongs to the query that first writes there, and takes all its epochs. Where the query
    is rolled back, its next run hides what was published of the epochs that it went back behind,
    and shows them again where the rollback was undone.

        counts.writeStream.foreachBatch(EpochFiles("hdfs:///lake/counts")).start()
        EpochFiles("hdfs:///lake/counts").read(spark)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",  # noqa: A002  # the name that all of Spark uses
        *,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            path: `s3://bucket/prefix`, reached as a checkpoint there is, or a directory of a file
                system of Hadoop; it is made when it is written.
            format: a format of files that Spark writes and reads: parquet, orc, json, csv, avro, …
                For reading, each epoch's manifest says what it was written in.
            partition_by: columns by whose values the files of an epoch are put apart.
            options: Spark's options of the format, for writing and for reading.
        """
        self._path = os.fspath(path)
        self._output = Output(format, column_names(partition_by), dict(options or {}))
        self._publishing: Publishing | None = None

    def __repr__(self) -> str:
        return f"EpochFiles({self._path!r}, {self._output.format!r})"

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return f"EpochFiles {self._path}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Goes back with the query, if it has been rolled back; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNED, another query writes to this path.
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        self._publishing = Publishing(SinkDirectory(session, self._path), self._output)
        self._publishing.follow(side)

    def published(self, batch: Batch) -> str | None:
        """The manifest of the epoch; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNED, another query writes to this path;
                CLEANCUT_SINK_EPOCH_TAKEN, the query has published the epoch with other input, and
                was set back since.
            DamagedError: CLEANCUT_SINK_DAMAGED, what is published of the epoch cannot be read.
        """
        found = self._of_run().check(batch)
        return None if found is None else found.encode().decode()

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all files of a manifest are there; see `EpochSink`."""
        return self._of_run().is_usable(handle, published)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the files; gives the manifest that is to name them."""
        return self._of_run().stage(rows, batch).encode().decode()

    def publish(self, handle: str, batch: Batch) -> None:
        """Creates the manifest, unless there is one of the epoch; see `EpochSink`."""
        self._of_run().publish(Manifest.decode(handle.encode(), self._path), batch)

    def sweep(self, batch: Batch) -> None:
        """Deletes what tries up to this epoch have left; see `EpochSink`."""
        self._of_run().sweep(batch.epoch)

    def _of_run(self) -> Publishing:
        assert self._publishing is not None, "a sink begins before it is asked"
        return self._publishing

    def epochs(self, spark: "SparkSession") -> InfoList[PublishedEpoch]:
        """The published epochs, ascending.

        Args:
            spark: any session that can read the path.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        found = _manifests(SinkDirectory(spark, self._path), None)
        return InfoList(_published(manifest) for manifest in found)

    def read(
        self,
        spark: "SparkSession",
        epochs: Iterable[int] | None = None,
        *,
        epoch_column: str | None = None,
    ) -> "DataFrame":
        """The rows of published epochs, as they are now; epochs that come later are not in it.

        Columns are found by their names. Those that an epoch does not have are null in its rows;
        the order is that of the newest epoch, and what only older ones have follows.

        Args:
            spark: any session that can read the path.
            epochs: which ones; None is all of them.
            epoch_column: the name of a column to add, which says what epoch a row is of.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of them is not published, or none is.
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest or a file that it names is missing.
        """
        directory = SinkDirectory(spark, self._path)
        found = _manifests(directory, epochs)
        if not found:
            raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=directory.location, epochs="any")
        alike: dict[tuple[object, ...], list[Manifest]] = {}
        for manifest in reversed(found):
            kind = (manifest.format, manifest.schema, manifest.partition_by)
            alike.setdefault(kind, []).append(manifest)
        frames = [
            self._frame(spark, directory, manifests, epoch_column) for manifests in alike.values()
        ]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)

    def paths(
        self,
        epochs: Iterable[int] | None = None,
        *,
        endpoint: str | None = None,
        region: str | None = None,
    ) -> list[str]:
        """The files of published epochs, as they are now, for whoever reads without Cleancut.

        No Spark and no JVM are needed: the path is reached as `cleancut.Checkpoint` reaches its
        location. Values of `partition_by` are in the paths alone, as `column=value`.

        Args:
            epochs: which ones; None is all of them.
            endpoint: for `s3://`, the URL of the store; None is that of the environment, or AWS.
            region: likewise.

        Returns:
            Whole paths, in the order of the epochs; `s3://bucket/…` for what is in a bucket.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of them is not published; what
                `Checkpoint` raises for a location.
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest cannot be read.
        """
        records = PlainRecords(self._path, endpoint, region)
        found = _manifests(records, epochs)
        return [records.at(file.name) for manifest in found for file in manifest.files]

    def take_back(
        self, after: int, *, endpoint: str | None = None, region: str | None = None
    ) -> InfoList[PublishedEpoch]:
        """Hides the epochs that were published after one, as after a rollback of the query to it.

        The query must not run. Killed, it can be called again: the last epoch goes first, so that
        readers see all epochs up to some one at any moment. The files stay, for `give_back`, until
        `forget` is called.

        Args:
            after: the epoch that stays the last one, and those before it; -1 hides all.
            endpoint: as for `paths`; no Spark and no JVM are needed.
            region: likewise.

        Returns:
            What is not seen any more, ascending.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest cannot be read; nothing was changed.
        """
        records = PlainRecords(self._path, endpoint, region)
        later = [epoch for epoch in manifest_epochs(records.names(EPOCHS)) if epoch > after]
        return InfoList(map(_published, hide(records, _manifests(records, later))))

    def give_back(
        self,
        until: int | None = None,
        *,
        endpoint: str | None = None,
        region: str | None = None,
    ) -> InfoList[PublishedEpoch]:
        """Shows again what was taken back, as after the rollback was undone.

        The query must not run. An epoch whose number was published again meanwhile stays as it is,
        and what was taken back of it stays hidden.

        Args:
            until: no epoch after this one; None is all.
            endpoint: as for `paths`.
            region: likewise.

        Returns:
            What is seen again, ascending.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        records = PlainRecords(self._path, endpoint, region)
        hidden = [
            attempt
            for attempt in taken_back(records.names(TAKEN_BACK))
            if until is None or attempt.epoch <= until
        ]
        return InfoList(map(_published, show(records, hidden)))

    def forget(self, *, endpoint: str | None = None, region: str | None = None) -> int:
        """Gives up for good what was taken back; its files go with the next run of the query.

        Args:
            endpoint: as for `paths`.
            region: likewise.

        Returns:
            How many epochs these were.
        """
        records = PlainRecords(self._path, endpoint, region)
        found = taken_back(records.names(TAKEN_BACK))
        for attempt in found:
            records.delete(taken_back_name(attempt))
        return len(found)

    def _frame(
        self,
        spark: "SparkSession",
        directory: Records,
        manifests: Sequence[Manifest],
        epoch_column: str | None,
    ) -> "DataFrame":
        """The rows of epochs that were written alike."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses
        from pyspark.sql.types import StringType, StructType

        schema = StructType.fromJson(json.loads(manifests[0].schema))
        read = StructType([*schema.fields]).add(ATTEMPT_COLUMN, StringType())
        paths = [directory.at(file.name) for manifest in manifests for file in manifest.files]
        try:
            rows = (
                spark.read.format(manifests[0].format)
                .options(**self._output.options)
                .option("basePath", directory.at(FILES))
                # Names of files, in which a bracket is a bracket.
                .option("__globPaths__", "false")
                .schema(read)
                .load(paths)
                if paths
                else spark.createDataFrame([], read)
            )
        except AnalysisException as failure:
            if failure.getCondition() != "PATH_NOT_FOUND":
                raise
            raise error_of(
                "CLEANCUT_SINK_DAMAGED", path=directory.location, detail=failure
            ) from failure
        columns = [F.col(_quoted(name)) for name in schema.fieldNames()]
        if epoch_column is not None:
            epoch = F.split_part(F.col(ATTEMPT_COLUMN), F.lit("-"), F.lit(1)).cast("long")
            columns.append(epoch.alias(epoch_column))
        return rows.select(columns)


def _manifests(directory: Records, epochs: Iterable[int] | None) -> list[Manifest]:
    """Those of some epochs, or all there are; ascending."""
    wanted = manifest_epochs(directory.names(EPOCHS)) if epochs is None else sorted(set(epochs))
    found = [
        manifest
        for manifest in mapped(lambda epoch: read_manifest(directory, epoch), wanted)
        if manifest is not None
    ]
    missing = sorted(set(wanted) - {manifest.epoch for manifest in found})
    if missing and epochs is not None:
        texts = ", ".join(map(str, missing))
        raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=directory.location, epochs=texts)
    return found


def _published(manifest: Manifest) -> PublishedEpoch:
    return PublishedEpoch(
        epoch=manifest.epoch,
        rows=manifest.rows,
        files=len(manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
        format=manifest.format,
        query_id=manifest.query_id,
        run_id=manifest.run_id,
        published=moment(manifest.published_ms),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
