"""`KafkaSink`: the rows of an epoch and its ledger record in one Kafka transaction."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from cleancut._display.info_list import InfoList
from cleancut.errors import CleancutError, RequestError, error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import by_name
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import LedgerEpoch
from cleancut.sinks._core.ledger_errors import UndoRefusedError, fenced
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._kafka.cluster import KafkaCluster
from cleancut.sinks._kafka.records import PackedRows, Record
from cleancut.sinks._kafka.transactions import (
    NoTopicError,
    commit,
    discard,
    produce,
    send,
    timeout_problem,
)
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
        # The run that has begun.
        self._query = self._begun_run = ""
        # The producer fences other runs, so the ledger that was read with it stays current while
        # the topic is the same one.
        self._producer: Any = None
        self._admin: Any = None
        self._admin_errors: list[str] = []
        self._control_id: str | None = None
        self._document = LedgerDocument()
        problem = self._cluster.option_problem()
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
                that the query was rolled back to are published.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        # The object may have served another query.
        self._discard_producer()
        self._release_rows()
        self._document = LedgerDocument()
        self._query, self._begun_run = side.batch.query_id, ""
        owner = side.generation() or 0

        def refuse(_: LedgerDocument, epochs: Sequence[LedgerEpoch]) -> None:
            if any(epoch.rows for epoch in epochs):
                raise UndoRefusedError("records cannot be removed from a Kafka topic")

        def once() -> None:
            problem = self._cluster.create_control(self._retry_for_s)
            if problem is not None:
                raise self._refusal(problem)
            # First without a producer, because a new one would fence the producer of a newer run.
            self._ledger.begin(self._peek(), side, owner, refuse)
            document = self._prepare(side.batch)
            self._ledger.begin(document, side, owner, refuse)
            self._in_transaction(side.batch, document, None)

        self._within(once)
        self._begun_run = side.batch.run_id

    def published(self, batch: Batch) -> str | None:
        """Returns the ledger entry of the epoch; see `EpochSink`."""
        epoch = self._in_run(batch, lambda: self._find(batch))
        return None if epoch is None else epoch.handle

    def _find(self, batch: Batch) -> LedgerEpoch | None:
        document = self._prepare(batch)
        try:
            return self._ledger.find(document, batch)
        except RequestError:
            # The document of this run may lack epochs that a newer run has published.
            self._check_owner(batch)
            raise

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether the epoch is published; a transaction does not outlive its producer."""
        return published is not None

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Computes the rows and persists them on the executors until the epoch is published.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, a column is missing or has another type.
        """
        problem = _column_problem(rows.schema, bool(self._topic))
        if problem is not None:
            raise self._refusal(problem)
        self._release_rows()
        self._rows = PackedRows(rows)
        return ""

    def _release_rows(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.release()

    def publish(self, handle: str, batch: Batch) -> None:
        """Writes the rows and the ledger record in one transaction; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_EPOCHS_LOST, the ledger topic was deleted or restored;
                CLEANCUT_SINK_REFUSED, also if the epoch takes longer than a transaction may.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        rows = self._rows
        if rows is None:
            raise error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self.name,
                epoch=batch.epoch,
                detail="a Kafka transaction ends with the run that began it",
            )

        def once() -> None:
            document = self._prepare(batch)
            # If the response to a commit was lost, the ledger shows whether it succeeded.
            if self._ledger.lock(document, batch) is None:
                self._in_transaction(batch, document, rows)

        try:
            self._in_run(batch, once)
        finally:
            self._release_rows()

    def _in_transaction(
        self, batch: Batch, document: LedgerDocument, rows: Iterable[Record] | None
    ) -> None:
        """Writes rows and the ledger document in one transaction.

        Args:
            batch: the epoch.
            document: the document to write. If there are rows, the epoch is added to it.
            rows: the rows of the epoch; None if only the document changes.
        """
        producer, began = self._producer, time.monotonic()

        try:
            producer.begin_transaction()
            if rows is not None:
                self._ledger.publish(document, batch, "", self._send(producer, rows, batch))
            record = {"key": self._key(self._query), "value": document.encode()}
            self._produce(producer, topic=self._cluster.control, partition=0, **record)
            self._commit(producer)
        except BaseException as failure:
            self._discard_producer()
            problem = timeout_problem(failure, time.monotonic() - began, self._cluster)
            if problem is not None:
                # The driver may have been paused, and a newer run may have begun since.
                self._check_owner(batch)
                raise self._refusal(f"epoch {batch.epoch} {problem}") from None
            raise
        self._document = document

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

    def _prepare(self, batch: Batch) -> LedgerDocument:
        """Returns a copy of the ledger document; creates a producer if there is none.

        The producer and the document are created again if the ledger topic is another one: brokers
        create topics that a producer writes to, so that the loss of the ledger would go unnoticed.

        Raises:
            FencedError: CLEANCUT_FENCED, a newer run has begun.
        """
        control_id = self._find_control_id()
        if self._producer is not None and control_id != self._control_id:
            self._discard_producer()
        if self._producer is None:
            # Before a producer is created, because it would fence the producer of a newer run.
            self._check_owner(batch)
            self._producer = self._cluster.producer(self._id(self._query), self._retry_for_s)
            try:
                self._document = self._read()
            except BaseException:
                self._discard_producer()
                raise
            self._control_id = control_id
        return LedgerDocument.decode(self._document.encode(), self.name)

    def _find_control_id(self) -> str | None:
        if self._admin is None:
            self._admin = self._cluster.admin(self._admin_errors)
        return self._cluster.control_id(self._admin, self._admin_errors, self._retry_for_s)

    def _check_owner(self, batch: Batch) -> None:
        run = self._peek().run if self._begun_run else None
        if run is not None and run.run_id != self._begun_run:
            raise fenced(batch, run, self._ledger.sink)

    def _discard_producer(self) -> None:
        producer, self._producer = self._producer, None
        discard(producer)

    def _read(self, query_id: str = "") -> LedgerDocument:
        return self._last_document(query_id or self._query, is_settled=True)

    def _peek(self) -> LedgerDocument:
        # An open transaction of an earlier run ends only when a new producer fences it.
        return self._last_document(self._query, is_settled=False)

    def _last_document(self, query_id: str, *, is_settled: bool) -> LedgerDocument:
        if self._find_control_id() is None:
            return LedgerDocument()
        body = self._cluster.last_record(
            self._key(query_id), self._retry_for_s, is_settled=is_settled
        )
        return LedgerDocument.decode(body, f"the topic {self._cluster.control}")

    def _key(self, query_id: str) -> bytes:
        return f"{self._ledger.sink}/{query_id}".encode()

    def _id(self, query_id: str) -> str:
        digest = hashlib.sha256(self._key(query_id)).hexdigest()[:12]
        return f"cleancut-{query_id}-{digest}"

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The published epochs of a query that the ledger records, at most the last 100.

        Args:
            query_id: Spark's id of the query.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        document = self._within(lambda: self._read(query_id))
        return InfoList(self._ledger.published(document, query_id))

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Marks the epochs after one as unpublished; their records stay in the topic.

        Use it for a query that was rolled back, if your readers skip those records. The query must
        not run.

        Args:
            query_id: Spark's id of the query.
            after: the epoch that stays the last one; -1 marks all.

        Returns:
            The number of marked epochs.
        """
        self._query, self._begun_run = query_id, ""
        batch = Batch(epoch=after, query_id=query_id, run_id="", checkpoint="", planned_ms=0)

        def once() -> int:
            document = self._prepare(batch)
            count = self._ledger.mark_unpublished_in(document, query_id, after)
            self._in_transaction(batch, document, None)
            return count

        return self._within(once)

    def _within(self, once: Callable[[], Result]) -> Result:
        return self._cluster.within(once, self._retry_for_s, self._ledger.sink)

    def _in_run(self, batch: Batch, once: Callable[[], Result]) -> Result:
        """Does what `_within` does; if it fails, checks whether the ledger has lost epochs.

        Brokers report a deleted topic as an error of the record or as a timeout.
        """
        try:
            return self._within(once)
        except CleancutError as failure:
            if failure.error_id in ("CLEANCUT_SINK_REFUSED", "CLEANCUT_SINK_UNREACHABLE"):
                self._check_lost(batch)
            raise

    def _check_lost(self, batch: Batch) -> None:
        try:
            document = self._peek()
        except Exception as problem:
            # The first failure is the one to report.
            _LOG.debug("Could not read the ledger after a failure: %s", problem)
            return
        self._ledger.check_lost(document, batch)

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self._ledger.sink, reason=reason)


def _column_problem(schema: "StructType", has_topic: bool) -> str | None:
    """Describes a missing or mistyped column; the columns are those of Spark's Kafka sink."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        return "the batch has no column value"
    if not has_topic and "topic" not in kinds:
        return "the sink has no topic, and the batch has no column topic"
    expected = dict.fromkeys(("key", "value"), _BYTES) | {
        "topic": _BYTES[:3],
        "partition": ("IntegerType",),
    }
    for name, names in expected.items():
        if name in kinds and by_name(kinds[name]) not in names:
            return f"the column {name} is of type {kinds[name].simpleString()}"
    headers = kinds["headers"].simpleString() if "headers" in kinds else None
    if headers not in (None, "array<struct<key:string,value:binary>>"):
        return f"the column headers is of type {headers}"
    return None
