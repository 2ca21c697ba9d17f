"""Sends the rows of an epoch into a topic, once, and notes what its manifest is to say."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cleancut._dataflow.kafka_topic import KafkaTopic
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.query_side import Act
from cleancut.sinks._core.runs import LedgerEpoch, Run
from cleancut.sinks._files.manifest import Manifest
from cleancut.sinks._files.names import Attempt
from cleancut.sinks._files.topic_rows import TopicRange, TopicRows
from cleancut.sinks._kafka.cluster import confluent_kafka
from cleancut.sinks._kafka.producing import produce
from cleancut.sinks._kafka.records import Record
from cleancut.sinks._kafka.sink import KafkaSink
from cleancut.sinks._ledgers.document import DocumentRules, LedgerDocument

# Headers of each record.
SENDER = "cleancut-sender"
EPOCH = "cleancut-epoch"
ATTEMPT = "cleancut-attempt"
SEQUENCE = "cleancut-sequence"
# Records that go to one partition before the next one has its turn.
_IN_A_ROW = 500
# Records from one look at what the producer has to tell to the next.
_POLLED = 1000
_FLUSH_S = 1.0


class TopicSender(KafkaSink):
    """The records of one run of a query: as `KafkaSink` sends them, with other notes.

    A note has the manifest of the last epoch that was sent, in the very transaction that sent it.
    So whoever finds no manifest of that epoch can make it, and nothing is sent again.
    """

    def __init__(self, topic: KafkaTopic, location: str) -> None:
        self._channel = location
        super().__init__(
            topic.servers,
            topic=topic.name,
            options=topic.options,
            control_topic=topic.control_topic,
            retry_for_s=topic.retry_for_s,
        )
        self._staged: Manifest | None = None
        self._partitions = 0

    def _made_rules(self, sink: str) -> DocumentRules:
        return _Rules(f"Channel {self._channel}")

    def sent(self, batch: Batch, taken_back: Iterable[Attempt]) -> Manifest | None:
        """What was sent of an epoch, though perhaps not published.

        Args:
            batch: the epoch.
            taken_back: attempts that were published, and are not to be again.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        found = self._manifest(self._noted_of(batch))
        if found is None or found.attempt not in set(taken_back):
            return found
        assert isinstance(self._rules, _Rules)
        self._rules.passed_over = found.attempt
        return None

    def send(self, staged: Manifest, rows: Iterable[Record], batch: Batch) -> Manifest:
        """Sends the rows in one transaction, unless that was done; what is to be published.

        Args:
            staged: the manifest, without what is known of rows only then.
            rows: of the epoch, of which there are some; read again for each try.
            batch: the epoch.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, there is no such topic, or it is compacted; or the
                epoch takes longer than a transaction may.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        self._staged = staged

        def once() -> Manifest:
            noted = self._ready(batch)
            # Also after the answer to a commit was lost: the note tells whether it took effect.
            found = self._manifest(self._rules.lock(noted, batch))
            if found is None:
                self._in_transaction(batch, noted, rows)
                found = self._manifest(self._rules.lock(noted, batch))
            assert found is not None, "it is noted"
            return found

        return self._within(once)

    def _manifest(self, noted: LedgerEpoch | None) -> Manifest | None:
        return None if noted is None else manifest_of(noted, self._rules.sink)

    def _write(
        self, producer: Any, noted: LedgerDocument, rows: Iterable[Record], batch: Batch
    ) -> None:
        staged = self._staged
        assert staged is not None, "it is staged before it is sent"
        ranges = self._hand_over(producer, rows, staged, self._count(producer))
        topic = TopicRows(self._cluster.servers, self._topic, ranges)
        manifest = replace(
            staged, topic=topic, rows=topic.rows, published_ms=time.time_ns() // 1_000_000
        )
        self._rules.publish(noted, batch, manifest.encode().decode(), manifest.rows)

    def _count(self, producer: Any) -> int:
        """How many partitions there are, of a topic that loses no record to a later one."""
        if not self._partitions:
            found = self._cluster.partitions(producer, self._topic, self._retry_for_s)
            if not found:
                raise self._refusal(
                    f"there is no topic {self._topic}; make it, and have it keep records for longer"
                    " than any reader is behind (retention.ms, retention.bytes)"
                )
            policy = self._cluster.cleanup_policy(self._topic, self._retry_for_s)
            if policy is not None and "compact" in policy:
                raise self._refusal(
                    f"the topic {self._topic} has cleanup.policy {policy}, by which rows would be"
                    " lost to later ones; set delete"
                )
            self._partitions = found
        return self._partitions

    def _hand_over(
        self, producer: Any, rows: Iterable[Record], staged: Manifest, partitions: int
    ) -> tuple[TopicRange, ...]:
        """Hands the records over, and waits until the broker has told where each of them lies."""
        attempt = staged.attempt
        own = [
            (SENDER, staged.query_id.encode()),
            (EPOCH, str(attempt.epoch).encode()),
            (ATTEMPT, attempt.token.encode()),
        ]
        sent = [_Sent(partition) for partition in range(partitions)]
        failed: list[Any] = []

        def told(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                sent[message.partition()].lies_at(message.offset())

        for count, (_, value, *_) in enumerate(rows):
            # So that epochs of few rows do not all go to the first.
            to = sent[(attempt.epoch + count // _IN_A_ROW) % partitions]
            headers = [*own, (SEQUENCE, str(to.rows).encode())]
            to.rows += 1
            to.bytes += len(value)
            record = {"topic": self._topic, "partition": to.partition, "value": value}
            produce(producer, **record, headers=headers, on_delivery=told)
            if count % _POLLED == 0:
                producer.poll(0)
        self._flush(producer)
        return self._ranges(sent, failed)

    def _flush(self, producer: Any) -> None:
        deadline = time.monotonic() + self._retry_for_s
        while producer.flush(_FLUSH_S):
            if time.monotonic() > deadline:
                raise _failure("_TIMED_OUT", "records were not acknowledged")

    def _ranges(self, sent: Sequence["_Sent"], failed: list[Any]) -> tuple[TopicRange, ...]:
        if failed:
            raise confluent_kafka().KafkaException(failed[0])
        used = [of for of in sent if of.rows]
        if any(len(of.offsets) != 2 or of.acknowledged != of.rows for of in used):
            # A broker that has a record already, from before it was sent again, tells no offset.
            raise _failure("_STATE", "it is not known where all records lie")
        return tuple(
            TopicRange(of.partition, of.offsets[0], of.offsets[1], of.rows, of.bytes) for of in used
        )


@dataclass
class _Sent:
    """What was sent to one partition.

    Attributes:
        partition: its number.
        rows: that were handed over.
        bytes: of them.
        acknowledged: those of which the broker has told where they lie.
        offsets: the first and the last.
    """

    partition: int
    rows: int = 0
    bytes: int = 0
    acknowledged: int = 0
    offsets: list[int] = field(default_factory=list)

    def lies_at(self, offset: int) -> None:
        if offset >= 0:
            self.acknowledged += 1
            known = [*self.offsets, offset]
            self.offsets = [min(known), max(known)]


class _Rules(DocumentRules):
    """Those of a note that has the last epoch alone: what counts, the manifests say.

    Attributes:
        passed_over: an attempt that is noted, and was published and taken back since.
    """

    kept_epochs = 1
    passed_over: Attempt | None = None

    def _gone_back(
        self, of: LedgerDocument, batch: Batch, run: Run, acts: Sequence[Act], undo: Any
    ) -> Run:
        return run

    def _found(self, of: LedgerDocument, batch: Batch, run: Run) -> LedgerEpoch | None:
        for found, _ in of.epochs:
            # Of a query that was set back by hand its number may stand for other rows.
            if (found.epoch, found.planned_ms) == (batch.epoch, batch.planned_ms):
                is_gone = manifest_of(found, self.sink).attempt == self.passed_over
                return None if is_gone else found
        return None

    def _add(self, of: LedgerDocument, batch: Batch, epoch: LedgerEpoch) -> None:
        of.epochs = [(epoch, 0)]


def manifest_of(noted: LedgerEpoch, sink: str) -> Manifest:
    """What a note has of an epoch.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    return Manifest.decode(noted.handle.encode(), f"what is noted of {sink}", noted.epoch)


def _failure(code: str, detail: str) -> Exception:
    kafka = confluent_kafka()
    found: Exception = kafka.KafkaException(
        kafka.KafkaError(getattr(kafka.KafkaError, code), detail)
    )
    return found
