"""Epochs that are published as files: what `EpochFiles` and `Channel` have in common."""

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
from cleancut.sinks._epoch_log.view import look
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.publishing import Output, Publishing
from cleancut.sinks._files.rows import RowReader

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


class PublishedFiles(EpochSink):
    """A directory into which one query publishes its epochs, each once and as a whole."""

    reads_rows_once = True

    def __init__(self, path: str | os.PathLike[str], output: Output) -> None:
        self._path = os.fspath(path)
        self._output = output
        self._publishing: Publishing | None = None

    @property
    def ledger_key(self) -> str:
        """The path, as Hadoop names it; see `EpochSink`."""
        return f"files {self._of_run().location}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Goes back with the query, if it has been rolled back; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes to this path.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        self._publishing = self._made(SinkDirectory(session, self._path), session)
        self._publishing.follow(side, self._expected(side.batch))

    def _made(self, directory: SinkDirectory, session: "SparkSession") -> Publishing:
        """What publishes the epochs of a run."""
        return Publishing(directory, self._output)

    def published(self, batch: Batch) -> str | None:
        """The manifest of the epoch; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query writes to this path;
                CLEANCUT_SINK_EPOCH_CONFLICT, the query has published the epoch with other input,
                and was set back since.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, what is published of the epoch cannot be read.
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
        self._decide(handle, batch)

    def _decide(self, handle: str, batch: Batch) -> Manifest:
        """`publish`; gives what is published, which may be what another run has staged."""
        staged = Manifest.decode(handle.encode(), self._path)
        return self._of_run().publish(staged, batch, self._expected(batch))

    def clean_up(self, batch: Batch) -> None:
        """Deletes what tries up to this epoch have left; see `EpochSink`."""
        self._of_run().clean_up(batch.epoch)

    def _of_run(self) -> Publishing:
        assert self._publishing is not None, "a sink begins before it is asked"
        return self._publishing

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
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a manifest or a file that it names is missing.
        """
        directory = SinkDirectory(spark, self._path)
        manifests = look(directory, expired_until(directory), epochs)
        if not manifests:
            raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=directory.location, epochs="any")
        return RowReader(spark, directory, self._output.options).rows(manifests, epoch_column)

    def paths(
        self,
        epochs: Iterable[int] | None = None,
        **access: Unpack[S3Options],
    ) -> list[str]:
        """The files of published epochs, as they are now, for whoever reads without Cleancut.

        No Spark and no JVM are needed: the path is reached as `cleancut.Checkpoint` reaches its
        location. Values of `partition_by` are in the paths alone, as `column=value`.

        Args:
            epochs: which ones; None is all of them.
            access: for `s3://`: `S3Options`.

        Returns:
            Whole paths, in the order of the epochs; `s3://bucket/…` for what is in a bucket.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of them is not published; what
                `Checkpoint` raises for a location.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a manifest cannot be read.
        """
        records = PlainRecords(self._path, S3Access(access))
        manifests = look(records, expired_until(records), epochs)
        return [records.at(file.name) for manifest in manifests for file in manifest.files]

    def hide_epochs(self, after: int, **access: Unpack[S3Options]) -> InfoList[PublishedEpoch]:
        """Hides the epochs that were published after one, as after a rollback of the query to it.

        The query must not run. After a kill it can be called again: the last epoch is hidden first,
        so that readers see a prefix of the epochs at any time. The files remain for `unhide_epochs`
        until `delete_hidden_epochs` is called.

        Args:
            after: the last epoch that stays visible; -1 hides all.
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
            epoch=of.epoch,
            rows=of.rows,
            files=len(of.files),
            bytes=of.size_bytes,
            format=of.format,
            query_id=of.query_id,
            run_id=of.run_id,
            published=moment(of.published_ms),
        )
        for of in manifests
    )
