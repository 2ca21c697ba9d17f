"""How a sink reaches Kafka: a producer that fences older ones, and what is noted of a query."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cleancut._packages import extra_package
from cleancut.sinks._core.database import retried, scrubbed

_LOG = logging.getLogger("cleancut.sinks.kafka")
# For one answer, so that whoever waits for a server that is away looks at its deadline in between.
_ANSWER_S = 20.0
_POLL_S = 0.5
_SECRET_WORDS = ("password", "secret", "pem", "oauthbearer.config", "token")
_OPEN = (
    "a transaction is open there, of another query, or one that a broker has forgotten"
    " (kafka-transactions.sh find-hanging tells, and can abort it)"
)
# Librdkafka's own default.
_TRANSACTION_MS = 60_000
# Librdkafka's own settings which decide what a sink promises.
_OWN = ("transactional.id", "enable.idempotence", "bootstrap.servers", "acks", "error_cb")

Result = TypeVar("Result")


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster.

    Attributes:
        servers: to begin with, as `bootstrap.servers` has them.
        options: more of librdkafka's configuration.
        control: the compacted topic with what is noted of queries.
    """

    servers: str
    options: Mapping[str, Any] = field(repr=False)
    control: str

    @property
    def transaction_ms(self) -> int:
        """How long a transaction may be open."""
        return int(self.options.get("transaction.timeout.ms", _TRANSACTION_MS))

    def not_its_own(self) -> str | None:
        """Why these options cannot be; None if they can."""
        own = sorted(set(self.options) & set(_OWN))
        return f"it sets these options itself: {', '.join(own)}" if own else None

    def secrets(self) -> Sequence[str]:
        """What may stand in no text."""
        return [
            value
            for name, value in self.options.items()
            if isinstance(value, str) and any(word in name for word in _SECRET_WORDS)
        ]

    def conf(self, errors: list[str], **more: Any) -> dict[str, Any]:
        """The configuration of a client.

        Args:
            errors: takes what the client says of servers, in the place of what was there.
            more: with underscores for points.
        """

        def note(error: Any) -> None:
            errors[:] = [scrubbed(error.str(), self.secrets())]

        own = {name.replace("_", "."): value for name, value in more.items()}
        return {**self.options, "bootstrap.servers": self.servers, "error_cb": note, **own}

    def producer(self, transactional_id: str, seconds: float) -> Any:
        """A producer from whose making on older ones of the same id write nothing more.

        What they had begun is committed, if they had come to that, and else aborted.
        """
        kafka, errors = confluent_kafka(), list[str]()
        made = kafka.Producer(
            # A key goes where clients in Java send it, Spark's sink among them.
            {"partitioner": "murmur2_random"}
            | self.conf(
                errors,
                transactional_id=transactional_id,
                transaction_timeout_ms=self.transaction_ms,
            ),
            logger=_LOG,
        )
        wait = min(seconds, _ANSWER_S)
        self._told(made, lambda: made.init_transactions(wait), errors)
        return made

    def make_control(self, seconds: float) -> str | None:
        """Makes the topic of notes, if it is not there; why it cannot be used."""
        kafka, errors = confluent_kafka(), list[str]()
        admin = kafka.admin
        asked = admin.AdminClient(self.conf(errors), logger=_LOG)
        topic = admin.NewTopic(self.control, num_partitions=1, config={"cleanup.policy": "compact"})
        wait = min(seconds, _ANSWER_S)
        made = asked.create_topics([topic], request_timeout=wait)[self.control]
        try:
            self._told(asked, lambda: made.result(wait), errors)
            return None
        except kafka.KafkaException as problem:
            if problem.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        policy = self.cleanup_policy(self.control, seconds)
        if policy not in (None, "compact"):
            return (
                f"the topic {self.control} has cleanup.policy {policy}, by which what is noted"
                " there would be deleted; set compact, or name another control_topic"
            )
        return None

    def cleanup_policy(self, topic: str, seconds: float) -> str | None:
        """How a topic is kept; None if that is not known."""
        kafka, errors = confluent_kafka(), list[str]()
        admin, wait = kafka.admin, min(seconds, _ANSWER_S)
        asked = admin.AdminClient(self.conf(errors), logger=_LOG)
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        found = asked.describe_configs([resource], request_timeout=wait)[resource]
        try:
            return str(
                self._told(asked, lambda: found.result(wait), errors)["cleanup.policy"].value
            )
        except kafka.KafkaException as problem:
            # Who may write to a topic may not always ask how it is kept.
            _LOG.warning("it is not known whether %s is compacted: %s", topic, problem)
            return None

    def partitions(self, client: Any, topic: str, seconds: float) -> int:
        """How many a topic has; 0 if there is none of this name, which does not make it.

        Args:
            client: of this cluster.
            topic: its name.
            seconds: for which an answer is waited for.
        """
        # Asked for one topic, a broker may make it.
        found = client.list_topics(timeout=min(seconds, _ANSWER_S)).topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def last_note(self, key: bytes, seconds: float, *, is_settled: bool) -> bytes | None:
        """The last record of the topic of notes with a key, of what is committed by now.

        Args:
            key: of the record.
            seconds: for which an end of the topic is waited for.
            is_settled: whether nothing may come after it: a transaction that is open at the end of
                the topic is waited for, which is over in a moment, or when its timeout is. Else
                what stands before it is enough.
        """
        kafka, errors = confluent_kafka(), list[str]()
        admin = kafka.admin
        partition = kafka.TopicPartition(self.control, 0)
        asked = admin.AdminClient(self.conf(errors), logger=_LOG)
        latest = asked.list_offsets(
            {partition: admin.OffsetSpec.latest()},
            isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=min(seconds, _ANSWER_S),
        )[partition]
        end = self._told(asked, lambda: latest.result(min(seconds, _ANSWER_S)), errors).offset
        reader = kafka.Consumer(
            self.conf(
                errors,
                # It is asked for, and joins no group.
                group_id="cleancut",
                enable_auto_commit=False,
                enable_partition_eof=True,
                fetch_wait_max_ms=50,
                isolation_level="read_committed",
            ),
            logger=_LOG,
        )
        try:
            reader.assign([kafka.TopicPartition(self.control, 0, kafka.OFFSET_BEGINNING)])
            until = end if is_settled else 0
            return self._read_to(reader, until, key, time.monotonic() + seconds, errors)
        finally:
            reader.close()

    def _read_to(
        self, reader: Any, end: int, key: bytes, deadline: float, errors: list[str]
    ) -> bytes | None:
        kafka = confluent_kafka()
        found: bytes | None = None
        while time.monotonic() < deadline:
            message = reader.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found = message.value() if message.key() == key else found
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                if message.offset() >= end:
                    return found
            elif error.code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                # Nor is a topic that was made a moment ago known to all brokers.
                raise kafka.KafkaException(error)
        detail = errors[0] if errors else _OPEN
        raise kafka.KafkaException(
            kafka.KafkaError(kafka.KafkaError._TIMED_OUT, f"{self.control} was not read: {detail}")
        )

    def _told(self, client: Any, call: Callable[[], Result], errors: list[str]) -> Result:
        """What a call gives; where it is not answered, the reason is what the client has said."""
        kafka = confluent_kafka()
        try:
            return call()
        except TimeoutError:
            code, told = kafka.KafkaError._TIMED_OUT, "there was no answer"
        except kafka.KafkaException as failure:
            code, told = failure.args[0].code(), failure.args[0].str()
            if code != kafka.KafkaError._TIMED_OUT:
                raise
        # What it has heard of servers it tells only now.
        client.poll(0)
        detail = f"{told}: {errors[0]}" if errors else told
        raise kafka.KafkaException(kafka.KafkaError(code, detail))

    def within(self, once: Callable[[], Result], seconds: float, sink: str) -> Result:
        """Does something, and again where servers are not there.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED.
        """
        return retried(once, verdict, self.secrets(), seconds, sink)


def verdict(failure: Exception) -> str:
    """What a failure is, for `retried`: one of Spark, which gives the rows, is none of Kafka."""
    kafka = confluent_kafka()
    if not isinstance(failure, kafka.KafkaException):
        return "foreign"
    error = failure.args[0]
    if "authentication" in error.str().lower():
        return "error"
    codes = kafka.KafkaError
    if is_fenced(failure) or error.code() in {
        codes.INVALID_TXN_STATE,
        codes.CONCURRENT_TRANSACTIONS,
        codes._PURGE_QUEUE,
        codes._PURGE_INFLIGHT,
        codes._STATE,
    }:
        # Whether another run has come the note tells, when it is read again.
        return "again"
    lost = {codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._MSG_TIMED_OUT}
    lost |= {codes._RESOLVE, codes._TIMED_OUT_QUEUE, codes.BROKER_NOT_AVAILABLE}
    # Of a topic that was made a moment ago.
    lost |= {codes._NOENT}
    lost |= {codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR}
    lost |= {codes.COORDINATOR_LOAD_IN_PROGRESS, codes.LEADER_NOT_AVAILABLE}
    return "lost" if error.retriable() or error.code() in lost else "error"


def is_fenced(failure: Exception) -> bool:
    """Whether a producer may not go on: a newer one has begun, or its transaction was ended."""
    codes = confluent_kafka().KafkaError
    fenced = {codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED}
    return failure.args[0].code() in fenced | {codes.INVALID_PRODUCER_ID_MAPPING}


def confluent_kafka() -> Any:
    """The package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    told = {"feature": "Kafka", "package": "confluent-kafka", "extra": "kafka"}
    # It is not there by itself.
    extra_package("confluent_kafka.admin", **told)
    return extra_package("confluent_kafka", **told)
