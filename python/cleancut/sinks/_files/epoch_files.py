"""Epochs as files: each is written once, and seen as a whole or not at all."""

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
from cleancut.sinks._files.published import PublishedEpoch, PublishedFiles, published
from cleancut.sinks._files.publishing import Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EpochFiles(PublishedFiles):
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
        super().__init__(path, Output(format, column_names(partition_by), dict(options or {})))

    def __repr__(self) -> str:
        return f"EpochFiles({self._path!r}, {self._output.format!r})"

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return f"EpochFiles {self._path}"

    def epochs(self, spark: "SparkSession") -> InfoList[PublishedEpoch]:
        """The published epochs, ascending.

        Args:
            spark: any session that can read the path.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        return published(published_epochs(SinkDirectory(spark, self._path)))

    def expire(
        self,
        *,
        keep: int | None = None,
        younger_than: timedelta | str | None = None,
        grace: timedelta | str = "1d",
        **access: Unpack[S3Options],
    ) -> InfoList[PublishedEpoch]:
        """Gives all epochs up for good but the last ones, and the young ones.

        The last epoch stays, and with both arguments an epoch stays for either. It may run beside
        the query. What was taken back of the epochs that go can be given back no more.

        Args:
            keep: how many of the last epochs stay; from 1 on.
            younger_than: epochs that were published in this time stay, too: a timedelta, or a text
                such as "7d", "36h", "30m" or "90s".
            grace: for how long the files of expired epochs stay, for readers that have begun to
                read them; a later call deletes them.
            access: as for `paths`; no Spark and no JVM are needed.

        Returns:
            What is not seen any more, ascending.

        Raises:
            RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
            ValueError: neither is given, or what is given keeps nothing or is no age.
        """
        if keep is None and younger_than is None:
            raise ValueError("expire takes keep, younger_than, or both")
        kept = Kept.of(1 if keep is None else keep, younger_than)
        records = PlainRecords(self._path, S3Access(access))
        collect(records, age_ms(grace))
        return published(expire(records, kept))
