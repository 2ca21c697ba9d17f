"""How an epoch is published whose rows lie in a topic."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from cleancut._dataflow.json_rows import as_json, not_in_json
from cleancut._dataflow.kafka_topic import KafkaTopic
from cleancut._dataflow.topic_sender import TopicSender
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.manifest import Manifest, claim
from cleancut.sinks._files.names import TAKEN_BACK, Attempt, taken_back
from cleancut.sinks._files.publishing import Output, Publishing
from cleancut.sinks._files.topic_rows import TopicRows
from cleancut.sinks._kafka.records import PackedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TopicPublishing(Publishing):
    """`Publishing` whose rows go into a topic when the epoch is sealed.

    Sent and noted they are in one transaction; the manifest follows. Whoever dies in between leaves
    rows that no manifest names, and a note by which the next run makes the manifest.
    """

    def __init__(
        self,
        directory: SinkDirectory,
        output: Output,
        topic: KafkaTopic,
        session: "SparkSession",
    ) -> None:
        super().__init__(directory, output)
        self._topic = topic
        self._session = session
        self._sender = TopicSender(topic, directory.location)
        # What is staged, until it is published; None of an epoch without rows.
        self._rows: PackedRows | None = None
        self._without_rows: Attempt | None = None

    def follow(self, side: QuerySide) -> None:
        # First: another query's place is not to be taken over.
        self._is_ours(side.batch)
        self._sender.begin(side, self._session)
        super().follow(side)

    def check(self, batch: Batch) -> Manifest | None:
        found = super().check(batch)
        if found is None:
            back = taken_back(self._directory.names(TAKEN_BACK))
            sent = self._sender.sent(batch, back)
            found = None if sent is None else super().publish(sent, batch)
        return found

    def is_usable(self, handle: str, published: str | None) -> bool:
        # What a producer has begun does not outlive it.
        return published is not None and super().is_usable(handle, published)

    def stage(self, df: "DataFrame", batch: Batch) -> Manifest:
        problem = not_in_json(df.schema)
        if problem is not None:
            location = self._directory.location
            raise error_of(
                "CLEANCUT_FLOW_SCHEMA", epoch=batch.epoch, channel=location, detail=problem
            )
        link = self._linked(df.schema, batch)
        self._prepare()
        self._let_go()
        rows = PackedRows(as_json(df))
        attempt = Attempt(batch.epoch, secrets.token_hex(16))
        if rows.is_empty:
            rows.let_go()
            self._without_rows = attempt
        else:
            self._rows = rows
        found = self._manifest(attempt, df.schema, link, batch)
        return replace(found, topic=TopicRows(self._topic.servers, self._topic.name, ()))

    def publish(self, staged: Manifest, batch: Batch) -> Manifest:
        if staged.attempt == self._without_rows:
            return super().publish(staged, batch)
        if self._rows is None:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=f"Channel {self._directory.location}",
                epoch=batch.epoch,
                detail="records are sent from where their rows were computed",
            )
        try:
            if not self._is_ours(batch):
                # Before anything is sent for it.
                claim(self._directory, batch)
                self._is_claimed = True
            return super().publish(self._sender.send(staged, self._rows, batch), batch)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.let_go()

    def _delete(self, attempt: Attempt) -> None:
        """There are no files."""
