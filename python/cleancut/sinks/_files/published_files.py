"""The base of `EpochFiles` and `Channel`: epochs that are published as files."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from cleancut._brief import Brief
from cleancut._display.info_list import InfoList
from cleancut._display.tables import rank
from cleancut._format.ages import moment
from cleancut._storage.access import S3Access, S3Options
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._epoch_log.records import PlainRecords
from cleancut.sinks._epoch_log.retention import expired_until
from cleancut.sinks._epoch_log.rollback import forget, hide, show
from cleancut.sinks._epoch_log.view import visible_manifests
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.publisher import Output, Publisher
from cleancut.sinks._files.rows import RowReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class PublishedEpoch(Brief):
    """An epoch that readers see.

    Attributes:
        epoch: Spark's batch id.
        rows: number of rows.
        files: number of files.
        bytes: size of all files.
        format: Spark's name of the file format.
        query_id: Spark's query id.
        run_id: Spark's id of the run that wrote it.
        published: time at which it became visible, in UTC.
    """

    epoch: int
    rows: int
    files: int
    bytes: int
    format: str
    query_id: str = field(metadata=rank(2))
    run_id: str = field(metadata=rank(3))
    published: datetime


class PublishedFiles(EpochSink):
    """A directory to which one query publishes its epochs, each once and atomically."""

    reads_rows_once = True

    def __init__(self, path: str | os.PathLike[str], output: Output) -> None:
        self._path = os.fspath(path)
        self._output = output
        self._publishing: Publisher | None = None

    @property
    def ledger_key(self) -> str:
        """The path, in Hadoop's form; see `EpochSink`."""
        return f"files {self._of_run().location}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Hides epochs after a rollback of the query; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes to this path.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        self._publishing = self._made(SinkDirectory(session, self._path), session)
        self._publishing.follow(side, self._expected(side.batch))

    def _made(self, directory: SinkDirectory, session: "SparkSession") -> Publisher:
        """The publisher of a run's epochs."""
        return Publisher(directory, self._output)

    def published(self, batch: Batch) -> str | None:
        """The manifest of the epoch; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes to this path;
                CLEANCUT_SINK_EPOCH_CONFLICT, the query has published the epoch with other input,
                and was rolled back since.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, the record of the epoch cannot be read.
        """
        manifest = self._of_run().check(batch)
        return None if manifest is None else manifest.encode().decode()

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all files of a manifest exist; see `EpochSink`."""
        return self._of_run().is_usable(handle, published)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the files; returns the manifest that references them."""
        return self._of_run().stage(rows, batch).encode().decode()

    def publish(self, handle: str, batch: Batch) -> None:
        """Creates the manifest, unless the epoch has one; see `EpochSink`."""
        self._decide(handle, batch)

    def _decide(self, handle: str, batch: Batch) -> Manifest:
        """`publish`; returns the published manifest, which another run may have staged."""
        staged = Manifest.decode(handle.encode(), self._path)
        return self._of_run().publish(staged, batch, self._expected(batch))

    def clean_up(self, batch: Batch) -> None:
        """Deletes leftovers of attempts up to this epoch; see `EpochSink`."""
        self._of_run().clean_up(batch.epoch)

    def _of_run(self) -> Publisher:
        assert self._publishing is not None, "begin() must be called first"
        return self._publishing

    def read(
        self,
        spark: "SparkSession",
        epochs: Iterable[int] | None = None,
        *,
        epoch_column: str | None = None,
    ) -> "DataFrame":
        """The rows of the epochs that are published now; later ones are not included.

        Columns are matched by name. Columns that an epoch does not have are null in its rows. The
        column order is that of the newest epoch, followed by columns of older epochs.

        Args:
            spark: any session that can read the path.
            epochs: the epochs to read; None is all.
            epoch_column: name of an additional column with the epoch of each row.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of `epochs` is not published, or none.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a manifest or a referenced file is missing.
        """
        directory = SinkDirectory(spark, self._path)
        manifests = visible_manifests(directory, expired_until(directory), epochs)
        if not manifests:
            raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=directory.location, epochs="any")
        return RowReader(spark, directory, self._output.options).rows(manifests, epoch_column)

    def paths(
        self,
        epochs: Iterable[int] | None = None,
        **access: Unpack[S3Options],
    ) -> list[str]:
        """The files of the epochs that are published now, for readers without Cleancut.

        It needs neither Spark nor a JVM: it accesses the path as `cleancut.Checkpoint` accesses its
        location. The values of `partition_by` are in the paths only, as `column=value`.

        Args:
            epochs: the epochs; None is all.
            access: for `s3://`: `S3Options`.

        Returns:
            Full paths, ordered by epoch; `s3://bucket/…` for objects in a bucket.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of `epochs` is not published; or an
                error of `Checkpoint` for its location.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a manifest cannot be read.
        """
        records = PlainRecords(self._path, S3Access(access))
        manifests = visible_manifests(records, expired_until(records), epochs)
        return [records.at(file.name) for manifest in manifests for file in manifest.files]

    def hide_epochs(self, after: int, **access: Unpack[S3Options]) -> InfoList[PublishedEpoch]:
        """Hides the epochs that were published after one, as after a rollback of the query to it.

        The query must not run. After a kill it can be called again: the last epoch is hidden first,
        so that readers see a prefix of the epochs at any time. The files remain for `unhide_epochs`
        until `delete_hidden_epochs` is called.

        Args:
            after: the last epoch that remains visible; -1 hides all.
            access: as for `paths`; neither Spark nor a JVM is needed.

        Returns:
            The hidden epochs, ascending.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a manifest cannot be read; nothing was changed.
        """
        return published(hide(PlainRecords(self._path, S3Access(access)), after))

    def unhide_epochs(
        self,
        until: int | None = None,
        **access: Unpack[S3Options],
    ) -> InfoList[PublishedEpoch]:
        """Makes hidden epochs visible again, as after the rollback was undone.

        The query must not run. If an epoch of the same number was published since, it stays visible
        and the hidden one stays hidden.

        Args:
            until: last epoch to unhide; None is all.
            access: as for `paths`.

        Returns:
            The epochs that are visible again, ascending.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        records = PlainRecords(self._path, S3Access(access))
        return published(show(records, lambda epoch: until is None or epoch <= until))

    def delete_hidden_epochs(self, **access: Unpack[S3Options]) -> int:
        """Deletes hidden epochs; the next run of the query deletes their files.

        Args:
            access: as for `paths`.

        Returns:
            Number of epochs.
        """
        return forget(PlainRecords(self._path, S3Access(access)))


def published(manifests: Iterable[Manifest]) -> "InfoList[PublishedEpoch]":
    """The epochs of manifests, for users."""
    return InfoList(
        PublishedEpoch(
            epoch=manifest.epoch,
            rows=manifest.rows,
            files=len(manifest.files),
            bytes=manifest.size_bytes,
            format=manifest.format,
            query_id=manifest.query_id,
            run_id=manifest.run_id,
            published=moment(manifest.published_ms),
        )
        for manifest in manifests
    )
