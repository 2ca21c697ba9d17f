"""Kafka by partition: executors send the parts of an epoch beside each other."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from cleancut._display.info_list import InfoList
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._core.runs import LedgerEpoch
from cleancut.sinks._files.compacting import Kept, collect, expire
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.epoch_files import EpochFiles
from cleancut.sinks._files.manifest import Manifest
from cleancut.sinks._kafka.parts import REPORT, PartSender, reading_session, rows_of_files
from cleancut.sinks._kafka.records import COLUMNS
from cleancut.sinks._kafka.sink import DECIDED, KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("cleancut.sinks")
# What is noted of an epoch whose parts are sent.
_SENT = "sent"
# Epochs whose files lie there before they are deleted.
_LEFT = 16


class KafkaPartsSink(KafkaSink):
    """Writes each epoch of a query to topics of Kafka, once, each part of it in a transaction.

    Executors write an epoch as files, of which each task makes some. When it is sealed, tasks send
    the files beside each other, each in a transaction that also notes it. So a reader with
    `isolation.level=read_committed` sees each record once, but may see a part of an epoch before
    another one: for a moment as a rule, and until the query is started again after its driver has
    died in between. `KafkaSink` has no such moment, and sends all records through the driver.

        KafkaPartsSink("broker:9092", "s3://bucket/parts", topic="counts")

    Columns are those of `KafkaSink`. Driver and executors need the extra `cleancut[kafka]` and the
    way to the brokers. It cannot be used over Spark Connect.
    """

    def __init__(
        self,
        servers: str,
        parts: str | os.PathLike[str],
        *,
        topic: str = "",
        options: Mapping[str, Any] | None = None,
        control_topic: str = "cleancut-epochs",
        epoch_header: str = "",
        retry_for_s: float = 60.0,
    ) -> None:
        """Names the topic and the place; nothing is looked at yet.

        Args:
            servers: as for `KafkaSink`; likewise all that is not named here.
            parts: where the files of epochs lie until they are sent: `s3://bucket/prefix`, or a
                directory of a file system of Hadoop that driver and executors share. It belongs to
                one query, and holds the last epochs.
            topic: of all records; "" takes the column `topic`.
            options: librdkafka's configuration; it goes to the executors.
            control_topic: the topic of what is noted of queries, and of the parts of their epochs.
            epoch_header: a header that each record gets.
            retry_for_s: for how many seconds a lost connection is made again.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, an option is the sink's own.
        """
        super().__init__(
            servers,
            topic=topic,
            options=options,
            control_topic=control_topic,
            epoch_header=epoch_header,
            retry_for_s=retry_for_s,
        )
        self._files = EpochFiles(parts)
        self._parts = os.fspath(parts)
        # Of the run that has begun: what reads the files, and what deletes them.
        self._reader: SparkSession | None = None
        self._directory: SinkDirectory | None = None
        # Epochs, by this run.
        self._taken = 0

    def __repr__(self) -> str:
        return f"KafkaPartsSink({self._cluster.servers!r}, {self._parts!r}, topic={self._topic!r})"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """As `KafkaSink`, and takes the files over.

        Raises:
            CleancutError: as `KafkaSink`, and as `EpochFiles`; CLEANCUT_CONNECT_UNSUPPORTED.
        """
        self._reader = reading_session(session, self.name)
        super().begin(side, session)
        self._directory = SinkDirectory(session, self._parts)
        self._files.begin(side, session)

    def published(self, batch: Batch) -> str | None:
        """What is noted of the epoch, if all its parts are sent; see `EpochSink`."""
        found = self._noted_of(batch)
        return None if found is None or found.handle == DECIDED else found.handle

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the files are there; see `EpochSink`."""
        if published is not None:
            return True
        return self._files.can_publish(handle, batch, self._files.published(batch))

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the files; gives what names them.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, they lack a column, or one has another type.
        """
        self._check_columns(rows)
        there = [name for name in COLUMNS if name in rows.columns]
        return self._files.stage(rows.select(*there), batch)

    def publish(self, handle: str, batch: Batch) -> None:
        """Decides which files are the epoch, sends them, and notes it; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, also where a part takes longer than a transaction
                may.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        manifest, since = self._within(lambda: self._decided(handle, batch))
        if manifest is None:
            return
        self._send_parts(manifest, batch, since)

        def noted() -> None:
            found = self._ready(batch)
            epoch = self._rules.lock(found, batch)
            if epoch is not None and epoch.handle == DECIDED:
                self._note_as(_SENT, found, batch)

        self._within(noted)

    def _decided(self, handle: str, batch: Batch) -> tuple[Manifest | None, int]:
        """Which files are to be sent, and where in the topic of notes those of them may begin.

        A run that computes an epoch again has files of its own, of which none may be sent where
        parts of others were.
        """
        noted = self._ready(batch)
        found = self._rules.lock(noted, batch)
        if found is not None and found.handle != DECIDED:
            return None, 0
        manifest = self._files._decide(handle, batch)
        if found is not None:
            # By a run before this one, or before a connection was lost.
            return manifest, 0
        self._rules.publish(noted, batch, DECIDED, manifest.rows)
        if not manifest.files:
            self._note_as(_SENT, noted, batch)
            return None, 0
        self._in_transaction(batch, noted, None)
        return manifest, self._noted_at

    def _note_as(self, handle: str, noted: Any, batch: Batch) -> None:
        noted.epochs = [
            (replace(of, handle=handle) if of.epoch == batch.epoch and not undone else of, undone)
            for of, undone in noted.epochs
        ]
        self._in_transaction(batch, noted, None)

    def _send_parts(self, manifest: Manifest, batch: Batch, since: int) -> None:
        reader, directory = self._reader, self._directory
        assert reader is not None, "a sink begins before it publishes"
        assert directory is not None, "likewise"
        names = sorted(file.name for file in manifest.files)
        sender = self._sender(
            PartSender(
                cluster=self._cluster,
                topic=self._topic,
                header=self._header(batch),
                key=self._key(self._query),
                transactional_id=self._id(self._query),
                epoch=batch.epoch,
                since=since,
                slots={PurePosixPath(name).name: slot for slot, name in enumerate(names)},
                seconds=self._retry_for_s,
                sink=self._rules.sink,
            )
        )
        rows = rows_of_files(reader, [directory.at(name) for name in names])
        sent = sum(row["rows"] for row in rows.mapInArrow(sender, REPORT).collect())
        if sent != manifest.rows:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self.name,
                epoch=batch.epoch,
                detail=f"its files have {sent} of {manifest.rows} rows",
            )

    def _sender(self, sender: PartSender) -> PartSender:
        return sender

    def sweep(self, batch: Batch) -> None:
        """Deletes the files of epochs that are sent, some epochs after; see `EpochSink`."""
        self._files.sweep(batch)
        self._taken += 1
        if self._taken % _LEFT:
            return
        assert self._directory is not None, "a sink begins before it sweeps"
        try:
            expire(self._directory, Kept(_LEFT, None))
            # No reader has begun with them.
            collect(self._directory, 0)
        except CleancutError as failure:
            _LOG.warning("%s: what is sent could not be deleted: %s", self._parts, failure)

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The epochs of a query that are sent whole, as far as they are remembered.

        Args:
            query_id: Spark's id of it.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        return InfoList(of for of in super().epochs(query_id) if of.handle != DECIDED)
