"""What one query sends to others: epochs that each of them reads once, and nobody has to mark."""

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
from cleancut.sinks._files.published import PublishedEpoch, PublishedFiles, published
from cleancut.sinks._files.publishing import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "cleancut-channel"
# Columns by which Spark tells files apart; rows have none of these names.
_RESERVED = ("cleancut_epoch", "cleancut_file", "cleancut_sender", "cleancut_attempt")
_ROWS_FORMAT = "parquet"


class Channel(PublishedFiles):
    """A channel from one query to others: a function for `foreachBatch`, and a stream to read.

    Each epoch of the query that sends is published once and as a whole, however often its driver
    dies; each reader takes each epoch once, in their order. A reader's place stands in its own
    offset log, hence in its cuts. So what lies in the channel between two cuts is known from the
    cuts alone: nothing is marked, stopped or counted.

        orders.writeStream.foreachBatch(Channel("s3://bucket/orders")).start()
        Channel("s3://bucket/orders").stream(spark).groupBy("customer").count()

    An epoch names the one that was published before it, so that a reader notices if its sender was
    set back behind what it has read, and fails with CLEANCUT_CHANNEL_ROLLED_BACK. Epochs stay until
    `expire` finds that no reader needs them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        schema: "StructType | str | None" = None,
    ) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            path: `s3://bucket/prefix`, reached as a checkpoint there is, or a directory of a file
                system of Hadoop; it is made when it is written.
            schema: of the rows, as Spark's type or as DDL such as "key STRING, n BIGINT". It lets
                readers start before anything was sent, and is checked when rows are. None is that
                of what was sent last.
        """
        super().__init__(path, Output(_ROWS_FORMAT, (), {}, self._check))
        self._schema = schema

    def __repr__(self) -> str:
        return f"Channel({self._path!r})"

    @property
    def name(self) -> str:
        """Tells it from other sinks of a batch: its path, as it was given."""
        return f"Channel {self._path}"

    @property
    def path(self) -> str:
        """Where it lies, as it was given."""
        return self._path

    @property
    def schema(self) -> "StructType | str | None":
        """Of the rows, as it was given."""
        return self._schema

    def _check(self, rows: "StructType", last: Manifest | None, batch: Batch) -> None:
        """Whether rows have the columns that were promised, and those that were sent before.

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
        found = StructType.fromDDL(given) if isinstance(given, str) else given
        if not isinstance(found, StructType):
            raise TypeError(f"the schema of {self!r} has no columns: {given}")
        return found

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
        """The rows as a stream, from the oldest epoch that there is.

        The same as `spark.readStream.format("cleancut-channel")`. A batch has whole epochs, and one
        that has rows at least. Rows of one epoch and partition of the sender come in its order
        within a file; where that matters across epochs, take the tag, or `in_sequence`. With
        Spark's trigger `availableNow` the query ends with what is there when it starts.

        Args:
            spark: the session, of either kind.
            tag_column: the name of a column to add: a struct of `sender` (Spark's id of the query),
                `epoch`, `partition` (which of the epoch's files) and `sequence` (which row of it,
                from 0 on). No two rows of a channel have the same.
            max_epochs: no more of them with rows in one batch; None is no bound.
            max_rows: likewise, in rows, unless the first epoch has more.
            max_bytes: likewise, in bytes of files, or a text such as "64m".
            poll_interval: how often the store is asked for more, at most: a timedelta, or a text
                such as "100ms". None is 5 ms for files, and 100 ms for a bucket.
            feedback: whether what this query sends comes round to it by this channel. Then it ends,
                with the trigger `availableNow`, only when its other sources have ended and nothing
                is left of what it has sent itself.
            yields_to: another channel that the query reads, such as that of a loop: nothing is
                taken of this one while more waits of that than `yields_above`, in bytes, or a text
                such as "64m", which None is.
            yields_above: see there.

        Raises:
            RequestError: CLEANCUT_CHANNEL_EMPTY, nothing was sent yet and no schema is given;
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
        """What the channel holds, by epochs of its sender.

        Args:
            access: for `s3://`: `S3Options`.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        return published(published_epochs(PlainRecords(self._path, S3Access(access))))

    def readers(self, **access: Unpack[S3Options]) -> InfoList[ChannelReader]:
        """Who reads the channel, and how far back the cuts and savepoints of each go.

        Args:
            access: as for `epochs`; the readers' checkpoints are reached so, too.

        Raises:
            RequestError: CLEANCUT_CHANNEL_READER_LOST, the checkpoint of one is not there.
        """
        records = PlainRecords(self._path, S3Access(access))
        return InfoList(readers_of(records, S3Access(access)))

    def remove_reader(self, query_id: str, **access: Unpack[S3Options]) -> bool:
        """Lets go of a reader that will never run again: `expire` keeps nothing for it any more.

        Args:
            query_id: Spark's id of the query, as `readers` tells it.
            access: as for `epochs`.

        Returns:
            Whether there was one.
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
        found = readers_of(records, S3Access(access))
        collect(records, age_ms(grace))
        if not found:
            return InfoList()
        read = min(-1 if of.oldest is None else of.oldest for of in found)
        return published(expire(records, kept, until=read))


def misfit(rows: "StructType", known: "list[StructType]") -> str | None:
    """What rows lack of the columns that readers know; None if nothing.

    Args:
        rows: their schema.
        known: what was declared, and what was sent before.
    """
    for name in _RESERVED:
        if name in rows.fieldNames():
            return f"the name {name} is taken, by what tells files apart"
    types = {field.name: field.dataType.simpleString() for field in rows.fields}
    for schema in known:
        for field in schema.fields:
            wanted = field.dataType.simpleString()
            found = types.get(field.name)
            if found is None:
                return f"they have no column {field.name}, which is {wanted}"
            if found != wanted:
                return f"their column {field.name} is {found}, and was {wanted}"
    return None


def _millis(interval: timedelta | str | None) -> str | None:
    if interval is None or isinstance(interval, str):
        return interval
    return f"{interval // timedelta(milliseconds=1)}ms"
