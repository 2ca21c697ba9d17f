"""Channels: published epochs of one query, which other queries read exactly once."""

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from cleancut._display.info_list import InfoList
from cleancut._format.ages import age_ms
from cleancut._storage.access import S3Access, S3Options
from cleancut.dataflow._channel.readers import ChannelReader, forget_reader, readers_of
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._epoch_log.manifest import Manifest
from cleancut.sinks._epoch_log.records import PlainRecords
from cleancut.sinks._epoch_log.retention import Kept, collect, expire, published_epochs
from cleancut.sinks._files.published_files import PublishedEpoch, PublishedFiles, published
from cleancut.sinks._files.publisher import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "cleancut-channel"
# Partition columns of the files; rows must not have these names.
_RESERVED = ("cleancut_epoch", "cleancut_file", "cleancut_sender", "cleancut_attempt")
_ROWS_FORMAT = "parquet"


class Channel(PublishedFiles):
    """A channel from one query to others: a `foreachBatch` function, and a stream to read.

    Each epoch of the sender is published once and atomically, even after failures of its driver.
    Each reader reads each epoch once, in order. A reader's position is in its own offset log, and
    so in its cuts. So the in-flight epochs between two cuts follow from the cuts alone, without
    markers, pauses or counters.

        orders.writeStream.foreachBatch(Channel("s3://bucket/orders")).start()
        Channel("s3://bucket/orders").stream(spark).groupBy("customer").count()

    Each epoch references the previous one. So a reader detects if its sender was rolled back to
    before an epoch that it has read, and fails with CLEANCUT_CHANNEL_ROLLED_BACK. Epochs are
    retained until `expire` finds that no reader needs them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        schema: "StructType | str | None" = None,
    ) -> None:
        """Sets the path; accesses nothing yet.

        Args:
            path: `s3://bucket/prefix`, accessed like a checkpoint there, or a directory of a Hadoop
                file system, which the first epoch creates.
            schema: schema of the rows, as Spark's type or as DDL such as "key STRING, n BIGINT".
                With it, readers can start before the first epoch, and written rows are checked.
                None is the schema of the last epoch.
        """
        super().__init__(path, Output(_ROWS_FORMAT, (), {}, self._check))
        self._schema = schema

    def __repr__(self) -> str:
        return f"Channel({self._path!r})"

    @property
    def name(self) -> str:
        """Name of the sink among those of a batch: its path, as it was given."""
        return f"Channel {self._path}"

    @property
    def path(self) -> str:
        """The path, as it was given."""
        return self._path

    @property
    def schema(self) -> "StructType | str | None":
        """The schema of the rows, as it was given."""
        return self._schema

    def _check(self, rows: "StructType", last: Manifest | None, batch: Batch) -> None:
        """Checks that rows have the declared columns, and those of earlier epochs.

        Raises:
            RequestError: CLEANCUT_CHANNEL_SCHEMA_MISMATCH.
        """
        from pyspark.sql.types import StructType

        known = [] if last is None else [StructType.fromJson(json.loads(last.schema))]
        if self._schema is not None:
            known.append(self._declared())
        detail = misfit(rows, known)
        if detail is not None:
            raise error_of(
                "CLEANCUT_CHANNEL_SCHEMA_MISMATCH",
                epoch=batch.epoch,
                channel=self._path,
                detail=detail,
            )

    def _declared(self) -> "StructType":
        from pyspark.sql.types import StructType

        given = self._schema
        declared = StructType.fromDDL(given) if isinstance(given, str) else given
        if not isinstance(declared, StructType):
            raise TypeError(f"the schema of {self!r} has no columns: {given}")
        return declared

    def stream(
        self,
        spark: "SparkSession",
        *,
        tag_column: str | None = None,
        max_epochs: int | None = None,
        max_rows: int | None = None,
        max_bytes: int | str | None = None,
        poll_interval: timedelta | str | None = None,
        feedback: bool = False,
        yields_to: "Channel | None" = None,
        yields_above: int | str | None = None,
    ) -> "DataFrame":
        """The rows as a stream, from the oldest published epoch.

        The same as `spark.readStream.format("cleancut-channel")`. A batch has whole epochs, at
        least one of them with rows. Rows of one epoch and one partition of the sender keep their
        order within a file; if order across epochs matters, use the tag, or `in_sequence`. With the
        trigger `availableNow` the query ends with the epochs that exist when it starts.

        Args:
            spark: the session, classic or Connect.
            tag_column: name of an additional column: a struct of `sender` (Spark's query id),
                `epoch`, `partition` (number of the file in the epoch) and `sequence` (number of the
                row in the file, from 0). It is unique for each row of a channel.
            max_epochs: maximum number of epochs with rows in one batch; None is unlimited.
            max_rows: maximum number of rows in one batch; the first epoch may exceed it.
            max_bytes: maximum size of files in one batch, in bytes or as text such as "64m"; the
                first epoch may exceed it.
            poll_interval: minimum time between two polls for new epochs: a timedelta, or a text
                such as "100ms". None is 5 ms for files, and 100 ms for a bucket.
            feedback: whether the channel feeds output of this query back to it. With the trigger
                `availableNow`, the query then ends only when its other sources have ended and it
                has read all of its own output.
            yields_to: another channel that the query reads, such as that of a loop: no epoch of
                this channel is read while more than `yields_above` waits in the other one.
            yields_above: limit for `yields_to`, in bytes or as text such as "64m"; None is "64m".

        Raises:
            RequestError: CLEANCUT_CHANNEL_EMPTY, there is no epoch yet and no schema;
                CLEANCUT_CHANNEL_INVALID, another sink writes there; CLEANCUT_CONF_INVALID. The
                query fails with CLEANCUT_CHANNEL_ROLLED_BACK or CLEANCUT_CHANNEL_EXPIRED.
            CorruptedError: CLEANCUT_CHANNEL_CORRUPTED.
        """
        options = {
            "tagColumn": tag_column,
            "maxEpochsPerTrigger": max_epochs,
            "maxRowsPerTrigger": max_rows,
            "maxBytesPerTrigger": max_bytes,
            "pollInterval": _millis(poll_interval),
            "feedback": feedback or None,
            "yieldsTo": None if yields_to is None else yields_to.path,
            "yieldsAbove": yields_above,
        }
        reader = spark.readStream.format(FORMAT)
        for key, value in options.items():
            if value is not None:
                reader = reader.option(key, value)
        if self._schema is not None:
            reader = reader.schema(self._declared())
        return reader.load(self._path)

    def epochs(self, **access: Unpack[S3Options]) -> InfoList[PublishedEpoch]:
        """The published epochs of the channel.

        Args:
            access: for `s3://`: `S3Options`.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        return published(published_epochs(PlainRecords(self._path, S3Access(access))))

    def readers(self, **access: Unpack[S3Options]) -> InfoList[ChannelReader]:
        """The readers of the channel, and the epochs that their cuts and savepoints have read.

        Args:
            access: as for `epochs`; it applies to the readers' checkpoints too.

        Raises:
            RequestError: CLEANCUT_CHANNEL_READER_LOST, a reader's checkpoint does not exist.
        """
        records = PlainRecords(self._path, S3Access(access))
        return InfoList(readers_of(records, S3Access(access)))

    def remove_reader(self, query_id: str, **access: Unpack[S3Options]) -> bool:
        """Removes a reader that will never run again, so that `expire` retains nothing for it.

        Args:
            query_id: Spark's query id, as returned by `readers`.
            access: as for `epochs`.

        Returns:
            Whether the reader existed.
        """
        return forget_reader(PlainRecords(self._path, S3Access(access)), query_id)

    def expire(
        self,
        *,
        retain_last: int = 1,
        retain_for: timedelta | str | None = None,
        grace: timedelta | str = "1d",
        **access: Unpack[S3Options],
    ) -> InfoList[PublishedEpoch]:
        """Expires the epochs that every reader has read in each of its cuts and savepoints.

        The queries may run. Without readers nothing expires. The last epoch is always retained.

        Args:
            retain_last: number of epochs to retain in any case, at least 1.
            retain_for: retain epochs that were published later, too: a timedelta, or a text such as
                "7d", "36h", "30m" or "90s".
            grace: how long the files of expired epochs remain, for readers that have opened them; a
                later call deletes them.
            access: as for `readers`.

        Returns:
            The expired epochs, ascending.

        Raises:
            RequestError: CLEANCUT_CHANNEL_READER_LOST; nothing was changed.
            RetryableError: CLEANCUT_SINK_CONCURRENT_CHANGE.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
            ValueError: an argument is invalid.
        """
        kept = Kept.of(retain_last, retain_for)
        records = PlainRecords(self._path, S3Access(access))
        readers = readers_of(records, S3Access(access))
        collect(records, age_ms(grace))
        if not readers:
            return InfoList()
        read = min(-1 if reader.oldest is None else reader.oldest for reader in readers)
        return published(expire(records, kept, until=read))


def misfit(rows: "StructType", known: "list[StructType]") -> str | None:
    """The columns of known schemas that rows lack; None if there are none.

    Args:
        rows: schema of the rows.
        known: the declared schema, and those of earlier epochs.
    """
    for name in _RESERVED:
        if name in rows.fieldNames():
            return f"the name {name} is reserved for a partition column of files"
    types = {field.name: field.dataType.simpleString() for field in rows.fields}
    for schema in known:
        for field in schema.fields:
            wanted = field.dataType.simpleString()
            actual = types.get(field.name)
            if actual is None:
                return f"they have no column {field.name}, which is {wanted}"
            if actual != wanted:
                return f"their column {field.name} is {actual}, and was {wanted}"
    return None


def _millis(interval: timedelta | str | None) -> str | None:
    if interval is None or isinstance(interval, str):
        return interval
    return f"{interval // timedelta(milliseconds=1)}ms"
