"""Clients of a Kafka cluster: the fencing producer, and the topic with the ledger."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cleancut._packages import extra_package
from cleancut.sinks._core.database import retried, scrubbed

_LOG = logging.getLogger("cleancut.sinks.kafka")
# Timeout of one request. Callers check their own deadline between requests.
_REQUEST_S = 20.0
_POLL_S = 0.5
_SECRET_WORDS = ("password", "secret", "pem", "oauthbearer.config", "token")
_OPEN = (
    "a transaction of another producer is open there; kafka-transactions.sh find-hanging lists"
    " hanging transactions, and kafka-transactions.sh abort ends one"
)
# The default of librdkafka.
_TRANSACTION_MS = 60_000
# Settings of librdkafka on which the guarantees of the sink depend.
_RESERVED = ("transactional.id", "enable.idempotence", "bootstrap.servers", "acks", "error_cb")

Result = TypeVar("Result")


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster and the topic of its ledgers.

    Attributes:
        servers: value of `bootstrap.servers`.
        options: further configuration of librdkafka.
        control: name of the compacted topic with a ledger record for each query.
    """

    servers: str
    options: Mapping[str, Any] = field(repr=False)
    control: str

    @property
    def transaction_ms(self) -> int:
        """The limit for an open transaction, in milliseconds."""
        return int(self.options.get("transaction.timeout.ms", _TRANSACTION_MS))

    def option_problem(self) -> str | None:
        """Names the options that are reserved for the sink; None if there are none."""
        reserved = sorted(set(self.options) & set(_RESERVED))
        return f"the sink sets these options itself: {', '.join(reserved)}" if reserved else None

    def secrets(self) -> Sequence[str]:
        """Values that must not appear in logs and errors."""
        return [
            value
            for name, value in self.options.items()
            if isinstance(value, str) and any(word in name for word in _SECRET_WORDS)
        ]

    def conf(self, errors: list[str], **more: Any) -> dict[str, Any]:
        """The configuration of a client.

        Args:
            errors: receives the client's last connection error; earlier ones are removed.
            more: further settings, with underscores instead of dots.
        """

        def record(error: Any) -> None:
            errors[:] = [scrubbed(error.str(), self.secrets())]

        dotted = {name.replace("_", "."): value for name, value in more.items()}
        return {**self.options, "bootstrap.servers": self.servers, "error_cb": record, **dotted}

    def producer(self, transactional_id: str, seconds: float) -> Any:
        """Creates a producer, which fences older producers with the same id.

        A transaction of an older producer is aborted, unless its commit has begun.
        """
        kafka, errors = confluent_kafka(), list[str]()
        created = kafka.Producer(
            # The partitioner of Java clients, and so of Spark's sink.
            {"partitioner": "murmur2_random"}
            | self.conf(
                errors,
                transactional_id=transactional_id,
                transaction_timeout_ms=self.transaction_ms,
            ),
            logger=_LOG,
        )
        wait = min(seconds, _REQUEST_S)
        self._call(created, lambda: created.init_transactions(wait), errors)
        return created

    def create_control(self, seconds: float) -> str | None:
        """Creates the ledger topic if it does not exist; describes why a topic is unsuitable."""
        kafka, errors = confluent_kafka(), list[str]()
        admin = kafka.admin
        client = self.admin(errors)
        topic = admin.NewTopic(self.control, num_partitions=1, config={"cleanup.policy": "compact"})
        wait = min(seconds, _REQUEST_S)
        response = client.create_topics([topic], request_timeout=wait)[self.control]
        try:
            self._call(client, lambda: response.result(wait), errors)
            return None
        except kafka.KafkaException as problem:
            if problem.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        policy = self.cleanup_policy(self.control, seconds)
        if policy not in (None, "compact"):
            return (
                f"the topic {self.control} has cleanup.policy {policy}, which would delete ledger"
                " records; set it to compact, or name another control_topic"
            )
        return None

    def cleanup_policy(self, topic: str, seconds: float) -> str | None:
        """The cleanup policy of a topic; None if the client may not read it."""
        kafka, errors = confluent_kafka(), list[str]()
        admin, wait = kafka.admin, min(seconds, _REQUEST_S)
        client = self.admin(errors)
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        response = client.describe_configs([resource], request_timeout=wait)[resource]
        try:
            settings = self._call(client, lambda: response.result(wait), errors)
            return str(settings["cleanup.policy"].value)
        except kafka.KafkaException as problem:
            # A principal may have the right to write to a topic and not to describe it.
            _LOG.warning("Could not read cleanup.policy of topic %s: %s", topic, problem)
            return None

    def control_id(self, client: Any, errors: list[str], seconds: float) -> str | None:
        """The id of the ledger topic, which is new if the topic is created again.

        Args:
            client: an admin client of this cluster.
            errors: the connection errors of the client; see `admin`.
            seconds: the time limit.

        Returns:
            The id; None if the topic does not exist. Brokers before 2.8 give each topic the same.

        Raises:
            KafkaException: no broker answered.
        """
        kafka = confluent_kafka()
        topics, wait = kafka.TopicCollection([self.control]), min(seconds, _REQUEST_S)
        response = client.describe_topics(topics, request_timeout=wait)[self.control]
        try:
            return str(self._call(client, lambda: response.result(wait), errors).topic_id)
        except kafka.KafkaException as problem:
            if problem.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return None

    def admin(self, errors: list[str]) -> Any:
        """An admin client, which writes its last connection error to `errors`."""
        return confluent_kafka().admin.AdminClient(self.conf(errors), logger=_LOG)

    def last_record(self, key: bytes, seconds: float, *, is_settled: bool) -> bytes | None:
        """The value of the last committed record with a key in the ledger topic.

        Args:
            key: the key of the record.
            seconds: the time limit.
            is_settled: whether to wait for transactions that are open at the end of the topic.
                They end by a commit, by an abort or by their timeout.
        """
        kafka, errors = confluent_kafka(), list[str]()
        admin = kafka.admin
        partition = kafka.TopicPartition(self.control, 0)
        client = self.admin(errors)
        latest = client.list_offsets(
            {partition: admin.OffsetSpec.latest()},
            isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=min(seconds, _REQUEST_S),
        )[partition]
        end = self._call(client, lambda: latest.result(min(seconds, _REQUEST_S)), errors).offset
        reader = kafka.Consumer(
            self.conf(
                errors,
                # Required by the client; the consumer joins no group.
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
        last: bytes | None = None
        while time.monotonic() < deadline:
            message = reader.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                last = message.value() if message.key() == key else last
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                if message.offset() >= end:
                    return last
            elif error.code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                # A topic that was created a moment ago may be unknown to some brokers.
                raise kafka.KafkaException(error)
        detail = errors[0] if errors else _OPEN
        raise kafka.KafkaException(
            kafka.KafkaError(
                kafka.KafkaError._TIMED_OUT, f"could not read {self.control}: {detail}"
            )
        )

    def _call(self, client: Any, call: Callable[[], Result], errors: list[str]) -> Result:
        """Returns the result of a call; a timeout carries the client's connection error."""
        kafka = confluent_kafka()
        try:
            return call()
        except TimeoutError:
            code, text = kafka.KafkaError._TIMED_OUT, "no broker answered"
        except kafka.KafkaException as failure:
            code, text = failure.args[0].code(), failure.args[0].str()
            if code != kafka.KafkaError._TIMED_OUT:
                raise
        # The error callback runs within `poll`.
        client.poll(0)
        detail = f"{text}: {errors[0]}" if errors else text
        raise kafka.KafkaException(kafka.KafkaError(code, detail))

    def within(self, once: Callable[[], Result], seconds: float, sink: str) -> Result:
        """Runs a function, again while brokers are unreachable.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED.
        """
        return retried(once, verdict, self.secrets(), seconds, sink)


def verdict(failure: Exception) -> str:
    """Classifies a failure for `retried`; "foreign" is a failure of Spark, which computes rows."""
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
        # The repetition reads the ledger, which shows whether a newer run has begun.
        return "again"
    lost = {codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._MSG_TIMED_OUT}
    lost |= {codes._RESOLVE, codes._TIMED_OUT_QUEUE, codes.BROKER_NOT_AVAILABLE}
    # A topic that was created a moment ago.
    lost |= {codes._NOENT}
    lost |= {codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR}
    lost |= {codes.COORDINATOR_LOAD_IN_PROGRESS, codes.LEADER_NOT_AVAILABLE}
    return "lost" if error.retriable() or error.code() in lost else "error"


def is_fenced(failure: Exception) -> bool:
    """Whether a newer producer has begun, or the broker has ended the transaction."""
    codes = confluent_kafka().KafkaError
    fenced = {codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED}
    return failure.args[0].code() in fenced | {codes.INVALID_PRODUCER_ID_MAPPING}


def confluent_kafka() -> Any:
    """The package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    extra = {"feature": "Kafka", "package": "confluent-kafka", "extra": "kafka"}
    # The submodule has to be imported by name.
    extra_package("confluent_kafka.admin", **extra)
    return extra_package("confluent_kafka", **extra)
