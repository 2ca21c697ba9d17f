"""A sink that writes files: each epoch is published once and atomically."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from cleancut._display.info_list import InfoList
from cleancut._format.ages import age_ms
from cleancut._storage.access import S3Access, S3Options
from cleancut.sinks._core.columns import column_names
from cleancut.sinks._epoch_log.records import PlainRecords
from cleancut.sinks._epoch_log.retention import Kept, collect, expire, published_epochs
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.published_files import PublishedEpoch, PublishedFiles, published
from cleancut.sinks._files.publisher import Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EpochFiles(PublishedFiles):
    """Writes each epoch of a query as files; a function for `foreachBatch`.

    Spark's writer writes an epoch on the executors, the epoch is sealed, and one manifest that
    lists the files publishes it. An epoch that runs again after a failure is published once. `read`
    reads published epochs only; other readers find no data files at the path.

    The path belongs to the first query that writes there, which must write all its epochs. After a
    rollback of the query, its next run hides the epochs after the target, and unhides them if the
    rollback is undone.

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
        """Creates the sink; nothing is read or written yet.

        Args:
            path: `s3://bucket/prefix`, reached like a checkpoint there, or a directory of a Hadoop
                file system, which the first epoch creates.
            format: a file format of Spark: parquet, orc, json, csv, avro, … Reads use the format of
                each epoch's manifest.
            partition_by: columns by which to partition the files of an epoch.
            options: Spark's options of the format, for writing and reading.
        """
        super().__init__(path, Output(format, column_names(partition_by), dict(options or {})))

    def __repr__(self) -> str:
        return f"EpochFiles({self._path!r}, {self._output.format!r})"

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return f"EpochFiles {self._path}"

    def epochs(
        self, *, session: "SparkSession | None" = None, **access: Unpack[S3Options]
    ) -> InfoList[PublishedEpoch]:
        """The published epochs, ascending.

        Args:
            session: reads the path as this session does, instead of `access`.
            access: as for `paths`; neither Spark nor a JVM is needed.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        if session is not None:
            return published(published_epochs(SinkDirectory(session, self._path)))
        return published(published_epochs(PlainRecords(self._path, S3Access(access))))

    def expire(
        self,
        *,
        retain_last: int | None = None,
        retain_for: timedelta | str | None = None,
        grace: timedelta | str = "1d",
        **access: Unpack[S3Options],
    ) -> InfoList[PublishedEpoch]:
        """Expires old epochs: readers do not see them any more.

        The last epoch is always retained; with both arguments, an epoch is retained if either
        holds. The query may run. Hidden epochs that expire cannot be unhidden any more.

        Args:
            retain_last: number of epochs to retain, at least 1.
            retain_for: retain epochs that were published later: a timedelta, or a text such as
                "7d", "36h", "30m" or "90s".
            grace: how long the files of expired epochs remain, for readers that have opened them; a
                later call deletes them.
            access: as for `paths`; neither Spark nor a JVM is needed.

        Returns:
            The expired epochs, ascending.

        Raises:
            RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
            ValueError: no argument is given, or one is invalid.
        """
        if retain_last is None and retain_for is None:
            raise ValueError("expire takes retain_last, retain_for, or both")
        kept = Kept.of(1 if retain_last is None else retain_last, retain_for)
        records = PlainRecords(self._path, S3Access(access))
        collect(records, age_ms(grace))
        return published(expire(records, kept))
