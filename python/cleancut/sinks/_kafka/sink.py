"""Kafka: the rows of an epoch, and the note that it is written, in one transaction."""

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cleancut._display.info_list import InfoList
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import by_name
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._core.runs import LedgerEpoch, UndoRefusedError, fenced
from cleancut.sinks._kafka.cluster import KafkaCluster, confluent_kafka, is_fenced
from cleancut.sinks._ledgers.document import DocumentRules, LedgerDocument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("cleancut.sinks")
_COLUMNS = ("key", "value", "topic", "headers", "partition")
_BYTES = ("StringType", "CharType", "VarcharType", "BinaryType")
_COMMIT_S = 20.0
_ABORT_S = 5.0
# For room in the producer's queue.
_ROOM_S = 0.1
# Librdkafka's own settings which decide what the sink promises.
_OWN = ("transactional.id", "enable.idempotence", "bootstrap.servers", "acks", "error_cb")


class KafkaSink(EpochSink):
    """Writes each epoch of a query to topics of Kafka, once, in one transaction.

    The driver takes the rows from the executors, some at a time, and hands them to one producer.
    The transaction also has a record in a compacted topic (`control_topic`), which notes the epoch
    and the run. So readers with `isolation.level=read_committed` see each epoch once, and none that
    was broken off.

        rows = counts.selectExpr("k AS key", "to_json(struct(*)) AS value")
        rows.writeStream.outputMode("update").foreachBatch(
            KafkaSink("broker:9092", topic="counts")
        ).start()

    A batch has the columns that Spark's own sink for Kafka takes: `value` (string or binary), and,
    if there are such, `key`, `topic`, `headers` and `partition`. The driver needs the extra
    `cleancut[kafka]` and the way to the brokers; executors need neither.
    """

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
        """Names the topic; nothing is connected to yet.

        Args:
            servers: brokers to begin with, as `host:9092,other:9092`.
            topic: of all records; "" takes the column `topic`.
            options: librdkafka's configuration, as `{"security.protocol": "SASL_SSL", …}`. What is
                secret there is in no log, error and `repr`.
            control_topic: the topic of what is noted of queries; made, with one partition, if it is
                not there.
            epoch_header: a header that each record gets, with the number of its epoch as a text; ""
                adds none.
            retry_for_s: for how many seconds a lost connection is made again.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, an option is the sink's own.
        """
        self._topic = topic
        self._epoch_header = epoch_header
        self._retry_for_s = retry_for_s
        self._cluster = KafkaCluster(servers, dict(options or {}), control_topic)
        self._rules = DocumentRules(f"KafkaSink {topic or 'of the column topic'}")
        self._rows: DataFrame | None = None
        # Of the run that has begun.
        self._query = self._noted_run = ""
        # Of this run, until it fails; and what was last noted, which nobody changes meanwhile.
        self._producer: Any = None
        self._noted = LedgerDocument()
        own = sorted(set(self._cluster.options) & set(_OWN))
        if own:
            raise self._refusal(f"it sets these options itself: {', '.join(own)}")

    def __repr__(self) -> str:
        return f"KafkaSink({self._cluster.servers!r}, topic={self._topic!r})"

    @property
    def name(self) -> str:
        """The topic, and the brokers."""
        return f"{self._rules.sink} of {self._cluster.servers}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Fences older runs, and refuses a query that was rolled back; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED; CLEANCUT_SINK_UNDO_REFUSED, epochs after the one
                that the query went back to are published.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
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
            self._rules.begin_in(self._glance(), side, owner, cannot)
            noted = self._ready(side.batch)
            self._rules.begin_in(noted, side, owner, cannot)
            self._in_transaction(side.batch, noted, None)

        self._within(once)
        self._noted_run = side.batch.run_id

    def published(self, batch: Batch) -> str | None:
        """What is noted of the epoch; see `EpochSink`."""
        found = self._within(lambda: self._rules.find(self._ready(batch), batch))
        return None if found is None else found.handle

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Only what is published: a transaction does not outlive its producer."""
        return published is not None

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Keeps the rows until they are published.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, they lack a column, or one has another type.
        """
        problem = _column_problem(rows.schema, bool(self._topic))
        if problem is not None:
            raise self._refusal(problem)
        self._rows = rows
        return ""

    def publish(self, handle: str, batch: Batch) -> None:
        """Writes the rows and the note in one transaction; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, also where the epoch takes longer than a
                transaction may.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        rows, self._rows = self._rows, None
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
            if self._rules.lock(noted, batch) is None:
                # By partitions, of which one is fetched while another one is sent.
                chosen = _selected(rows).toLocalIterator(prefetchPartitions=True)
                self._in_transaction(batch, noted, chosen)

        self._within(once)

    def _in_transaction(
        self, batch: Batch, noted: LedgerDocument, rows: Iterable[Any] | None
    ) -> None:
        """Writes rows, and what is noted then, or nothing.

        Args:
            batch: the epoch.
            noted: what is to be noted; changed by the epoch.
            rows: of the epoch; None where something else is noted, as the begin of a run.
        """
        kafka, producer = confluent_kafka(), self._producer
        began = time.monotonic()
        try:
            producer.begin_transaction()
            if rows is not None:
                count = self._send(producer, rows, batch)
                self._rules.publish(noted, batch, "", count)
            self._produce(producer, topic=self._cluster.control, partition=0, **self._note(noted))
            self._commit(producer)
        except BaseException as failure:
            self._give_up()
            took_ms = (time.monotonic() - began) * 1000
            is_over = took_ms >= self._cluster.transaction_ms
            if isinstance(failure, kafka.KafkaException) and is_over and _may_be_ended(failure):
                raise self._refusal(
                    f"epoch {batch.epoch} took longer than a transaction may be open"
                    f" ({self._cluster.transaction_ms} ms), and the broker has ended it; set"
                    " transaction.timeout.ms in options, up to the broker's"
                    " transaction.max.timeout.ms, or give the source smaller epochs"
                    " (maxOffsetsPerTrigger, maxFilesPerTrigger)"
                ) from None
            raise
        self._noted = noted

    def _note(self, noted: LedgerDocument) -> dict[str, bytes]:
        return {"key": self._key(self._query), "value": noted.encode()}

    def _send(self, producer: Any, rows: Iterable[Any], batch: Batch) -> int:
        count = 0
        own = [(self._epoch_header, str(batch.epoch).encode())] if self._epoch_header else []
        for row in rows:
            key, value, topic, headers, partition = row
            topic = self._topic or topic
            if topic is None:
                raise self._refusal(f"epoch {batch.epoch} has a row without a topic")
            placed = {} if partition is None else {"partition": partition}
            told = [(of["key"], of["value"]) for of in headers or ()] + own
            self._produce(
                producer, topic=topic, key=_raw(key), value=_raw(value), headers=told, **placed
            )
            count += 1
        return count

    def _produce(self, producer: Any, **record: Any) -> None:
        """Hands a record over, and waits for room in the queue, which is bounded."""
        while True:
            try:
                producer.produce(**record)
                producer.poll(0)
                return
            except BufferError:
                # A server that is away does not make room; its records fail when they time out.
                producer.poll(_ROOM_S)

    def _commit(self, producer: Any) -> None:
        deadline = time.monotonic() + self._retry_for_s
        while True:
            try:
                producer.commit_transaction(min(self._retry_for_s, _COMMIT_S))
                return
            except confluent_kafka().KafkaException as failure:
                # It goes on where it was.
                if not failure.args[0].retriable() or time.monotonic() > deadline:
                    raise

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
            raise fenced(batch, run, self._rules.sink)

    def _give_up(self) -> None:
        """Leaves the producer, of which nobody knows how far it has come."""
        producer, self._producer = self._producer, None
        with suppress(Exception):
            producer.purge()
            producer.abort_transaction(_ABORT_S)

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
        return f"{self._rules.sink}/{query_id}".encode()

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
        return InfoList(self._rules.published(found, query_id))

    def forget(self, query_id: str, after: int) -> int:
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
            found = self._rules.forget_in(noted, query_id, after)
            self._in_transaction(nobody, noted, None)
            return found

        return int(self._within(once))

    def _within(self, once: Any) -> Any:
        return self._cluster.within(once, self._retry_for_s, self._rules.sink)

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self._rules.sink, reason=reason)


def _may_be_ended(failure: Exception) -> bool:
    codes = confluent_kafka().KafkaError
    ended = {codes.INVALID_TXN_STATE, codes._TIMED_OUT, codes._STATE}
    return is_fenced(failure) or failure.args[0].code() in ended


def _raw(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value


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


def _selected(rows: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

    void = {"partition": "int", "headers": "array<struct<key:string,value:binary>>"}
    return rows.select(
        *(
            F.col(name)
            if name in rows.columns
            else F.lit(None).cast(void.get(name, "string")).alias(name)
            for name in _COLUMNS
        )
    )
