"""Kafka: the rows of an epoch, and the note that it is written, in one transaction."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from cleancut._display.info_list import InfoList
from cleancut.errors import RequestError, error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import by_name
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import LedgerEpoch
from cleancut.sinks._core.ledger_errors import UndoRefusedError, fenced
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._kafka.cluster import KafkaCluster
from cleancut.sinks._kafka.producing import (
    NoTopicError,
    commit,
    give_up,
    produce,
    send,
    too_long,
)
from cleancut.sinks._kafka.records import PackedRows, Record
from cleancut.sinks._ledgers.document import LedgerDocument, document_ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Result = TypeVar("Result")

_LOG = logging.getLogger("cleancut.sinks")
_BYTES = ("StringType", "CharType", "VarcharType", "BinaryType")


class KafkaSink(EpochSink):
    """Writes each epoch of a query exactly once to Kafka topics, in one transaction.

    The driver fetches rows from the executors in small parts and passes them to one producer. The
    transaction also writes a record of the epoch and the run to a compacted topic
    (`control_topic`). So readers with `isolation.level=read_committed` see each epoch once, and no
    incomplete one.

        rows = counts.selectExpr("k AS key", "to_json(struct(*)) AS value")
        rows.writeStream.outputMode("update").foreachBatch(
            KafkaSink("broker:9092", topic="counts")
        ).start()

    A batch has the columns of Spark's Kafka sink: `value` (string or binary), and optionally `key`,
    `topic`, `headers` and `partition`. Only the driver needs the extra `cleancut[kafka]` and access
    to the brokers.
    """

    reads_rows_once = True

    def __init__(
        self,
        servers: str,
        *,
        topic: str = "",
        options: Mapping[str, Any] | None = None,
        control_topic: str = "cleancut-epochs",
        epoch_header: str = "",
        retry_for_s: float = 60.0,
    ) -> None:
        """Creates the sink; it connects at the first epoch.

        Args:
            servers: bootstrap servers, such as `host:9092,other:9092`.
            topic: topic of all records; "" uses the column `topic`.
            options: librdkafka configuration, such as `{"security.protocol": "SASL_SSL", …}`.
                Secrets in it are in no log, error and `repr`.
            control_topic: topic of the ledger; created with one partition if it does not exist.
            epoch_header: name of a header with the epoch of each record, as text; "" adds none.
            retry_for_s: seconds for which a lost connection is retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, an option is reserved for the sink.
        """
        self._topic = topic
        self._epoch_header = epoch_header
        self._retry_for_s = retry_for_s
        self._cluster = KafkaCluster(servers, dict(options or {}), control_topic)
        self._ledger = document_ledger(f"KafkaSink {topic or 'of the column topic'}")
        self._rows: PackedRows | None = None
        # Of the run that has begun.
        self._query = self._noted_run = ""
        # Of this run, until it fails; and what was last noted, which nobody changes meanwhile.
        self._producer: Any = None
        self._noted = LedgerDocument()
        problem = self._cluster.not_its_own()
        if problem is not None:
            raise self._refusal(problem)

    def __repr__(self) -> str:
        return f"KafkaSink({self._cluster.servers!r}, topic={self._topic!r})"

    @property
    def name(self) -> str:
        """The topic, and the brokers."""
        return f"{self._ledger.sink} of {self._cluster.servers}"

    @property
    def ledger_key(self) -> str:
        """The key of the ledger; see `EpochSink`."""
        return self._ledger.sink

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts a loss of epochs; see `EpochSink`."""
        super().accept_gap(first, last)
        self._ledger = replace(self._ledger, gaps=self._gaps)

    def accept_move(self, checkpoint: str) -> None:
        """Accepts a former location of the checkpoint; see `EpochSink`."""
        super().accept_move(checkpoint)
        self._ledger = replace(self._ledger, moves=self._moves)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Fences older runs, and refuses a query that was rolled back; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED; CLEANCUT_SINK_UNDO_REFUSED, epochs after the one
                that the query went back to are published.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        # The object may have served another query.
        self._give_up()
        self._let_go()
        self._noted = LedgerDocument()
        self._query, self._noted_run = side.batch.query_id, ""
        owner = side.generation() or 0

        def cannot(_: LedgerDocument, epochs: Sequence[LedgerEpoch]) -> None:
            if any(epoch.rows for epoch in epochs):
                raise UndoRefusedError("records cannot be taken back from a topic of Kafka")

        def once() -> None:
            problem = self._cluster.make_control(self._retry_for_s)
            if problem is not None:
                raise self._refusal(problem)
            # First without a producer, which would have the one of a newer run begin again.
            self._ledger.begin(self._glance(), side, owner, cannot)
            noted = self._ready(side.batch)
            self._ledger.begin(noted, side, owner, cannot)
            self._in_transaction(side.batch, noted, None)

        self._within(once)
        self._noted_run = side.batch.run_id

    def published(self, batch: Batch) -> str | None:
        """Returns the ledger entry of the epoch; see `EpochSink`."""
        found = self._within(lambda: self._find(batch))
        return None if found is None else found.handle

    def _find(self, batch: Batch) -> LedgerEpoch | None:
        noted = self._ready(batch)
        try:
            return self._ledger.find(noted, batch)
        except RequestError:
            # What this run has noted may lack epochs that a newer run has published.
            self._check_owner(batch)
            raise

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Only what is published: a transaction does not outlive its producer."""
        return published is not None

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the rows computed, and kept on the executors until they are published.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, they lack a column, or one has another type.
        """
        problem = _column_problem(rows.schema, bool(self._topic))
        if problem is not None:
            raise self._refusal(problem)
        self._let_go()
        self._rows = PackedRows(rows)
        return ""

    def _let_go(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.let_go()

    def publish(self, handle: str, batch: Batch) -> None:
        """Writes the rows and the note in one transaction; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, also where the epoch takes longer than a
                transaction may.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        rows = self._rows
        if rows is None:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self.name,
                epoch=batch.epoch,
                detail="records are written from where their rows were computed",
            )

        def once() -> None:
            noted = self._ready(batch)
            # Also after the answer to a commit was lost: the note tells whether it took effect.
            if self._ledger.lock(noted, batch) is None:
                self._in_transaction(batch, noted, rows)

        try:
            self._within(once)
        finally:
            self._let_go()

    def _in_transaction(
        self, batch: Batch, noted: LedgerDocument, rows: Iterable[Record] | None
    ) -> None:
        """Writes rows, and what is noted then, or nothing.

        Args:
            batch: the epoch.
            noted: what is to be noted; changed by the epoch, where there are rows.
            rows: of the epoch; None where something else is noted, as the begin of a run.
        """
        producer, began = self._producer, time.monotonic()

        try:
            producer.begin_transaction()
            if rows is not None:
                self._ledger.publish(noted, batch, "", self._send(producer, rows, batch))
            to = {"topic": self._cluster.control, "partition": 0}
            self._produce(producer, **to, key=self._key(self._query), value=noted.encode())
            self._commit(producer)
        except BaseException as failure:
            self._give_up()
            problem = too_long(failure, time.monotonic() - began, self._cluster)
            if problem is not None:
                # A run that was paused is no large epoch, if a newer one has begun meanwhile.
                self._check_owner(batch)
                raise self._refusal(f"epoch {batch.epoch} {problem}") from None
            raise
        self._noted = noted

    def _send(self, producer: Any, rows: Iterable[Record], batch: Batch) -> int:
        try:
            return send(rows, self._topic, self._header(batch), producer, self._produce)
        except NoTopicError:
            raise self._refusal(f"epoch {batch.epoch} has a row without a topic") from None

    def _header(self, batch: Batch) -> tuple[str, bytes] | None:
        name = self._epoch_header
        return (name, str(batch.epoch).encode()) if name else None

    def _produce(self, producer: Any, **record: Any) -> None:
        produce(producer, **record)

    def _commit(self, producer: Any) -> None:
        commit(producer, self._retry_for_s)

    def _ready(self, batch: Batch) -> LedgerDocument:
        """What is noted of the query, to be changed; nobody but this run changes it there.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
        """
        if self._producer is None:
            # Before a producer is made, which would have that of a newer run begin again.
            self._check_owner(batch)
            self._producer = self._cluster.producer(self._id(self._query), self._retry_for_s)
            try:
                self._noted = self._read()
            except BaseException:
                self._give_up()
                raise
        return LedgerDocument.decode(self._noted.encode(), self.name)

    def _check_owner(self, batch: Batch) -> None:
        mine = self._noted_run
        run = self._glance().run if mine else None
        if run is not None and run.run_id != mine:
            raise fenced(batch, run, self._ledger.sink)

    def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        give_up(producer)

    def _read(self, query_id: str = "") -> LedgerDocument:
        return self._last_note(query_id or self._query, is_settled=True)

    def _glance(self) -> LedgerDocument:
        # What a run of this query has left open ends only when a producer is made.
        return self._last_note(self._query, is_settled=False)

    def _last_note(self, query_id: str, *, is_settled: bool) -> LedgerDocument:
        found = self._cluster.last_note(
            self._key(query_id), self._retry_for_s, is_settled=is_settled
        )
        return LedgerDocument.decode(found, f"the topic {self._cluster.control}")

    def _key(self, query_id: str) -> bytes:
        return f"{self._ledger.sink}/{query_id}".encode()

    def _id(self, query_id: str) -> str:
        told = hashlib.sha256(self._key(query_id)).hexdigest()[:12]
        return f"cleancut-{query_id}-{told}"

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The epochs of a query that the topic has taken, as far as they are remembered.

        Args:
            query_id: Spark's id of it.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        found = self._within(lambda: self._read(query_id))
        return InfoList(self._ledger.published(found, query_id))

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Takes the epochs after one for not published, whose records your readers pass over.

        For a query that was rolled back. The query must not run.

        Args:
            query_id: Spark's id of it.
            after: the epoch that stays the last one; -1 forgets all.

        Returns:
            How many epochs these were.
        """
        self._query, self._noted_run = query_id, ""
        nobody = Batch(epoch=after, query_id=query_id, run_id="", checkpoint="", planned_ms=0)

        def once() -> int:
            noted = self._ready(nobody)
            found = self._ledger.mark_unpublished_in(noted, query_id, after)
            self._in_transaction(nobody, noted, None)
            return found

        return self._within(once)

    def _within(self, once: Callable[[], Result]) -> Result:
        return self._cluster.within(once, self._retry_for_s, self._ledger.sink)

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self._ledger.sink, reason=reason)


def _column_problem(schema: "StructType", has_topic: bool) -> str | None:
    """Why rows are no records; the columns are those of Spark's own sink."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        return "the batch has no column value"
    if not has_topic and "topic" not in kinds:
        return "neither was a topic given, nor has the batch a column topic"
    wanted = dict.fromkeys(("key", "value"), _BYTES) | {
        "topic": _BYTES[:3],
        "partition": ("IntegerType",),
    }
    for name, names in wanted.items():
        if name in kinds and by_name(kinds[name]) not in names:
            return f"the column {name} is of type {kinds[name].simpleString()}"
    told = kinds["headers"].simpleString() if "headers" in kinds else None
    if told not in (None, "array<struct<key:string,value:binary>>"):
        return f"the column headers is of type {told}"
    return None
