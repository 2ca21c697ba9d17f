"""Sends records and ends transactions of a producer."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cleancut.sinks._kafka.cluster import KafkaCluster, confluent_kafka, is_fenced
from cleancut.sinks._kafka.records import Record

_COMMIT_S = 20.0
_ABORT_S = 5.0
# Wait for room in the producer's queue.
_QUEUE_FULL_S = 0.1
# Records between two polls of delivery reports.
_POLL_EVERY = 1000


def produce(producer: Any, **record: Any) -> None:
    """Queues a record; waits while the queue is full."""
    while True:
        try:
            producer.produce(**record)
            return
        except BufferError:
            # If a broker is unreachable, its records leave the queue by their timeout.
            producer.poll(_QUEUE_FULL_S)


def send(
    rows: Iterable[Record],
    topic: str,
    header: tuple[str, bytes] | None,
    producer: Any,
    enqueue: Callable[..., None] = produce,
) -> int:
    """Queues records.

    Args:
        rows: the records.
        topic: topic of all records; "" uses the topic of each record.
        header: additional header of each record.
        producer: a producer with an open transaction.
        enqueue: queues one record, as `produce` does.

    Returns:
        The number of records.

    Raises:
        NoTopicError: a record has no topic.
    """
    count, added = 0, [] if header is None else [header]
    for key, value, row_topic, headers, partition in rows:
        record = {"topic": topic or row_topic, "key": key, "value": value}
        if record["topic"] is None:
            raise NoTopicError
        if headers or added:
            given = [(one["key"], one["value"]) for one in headers or ()]
            record["headers"] = given + added
        if partition is not None:
            record["partition"] = partition
        enqueue(producer, **record)
        count += 1
        if count % _POLL_EVERY == 0:
            producer.poll(0)
    return count


class NoTopicError(Exception):
    """Neither the record nor the sink names a topic."""


def commit(producer: Any, seconds: float) -> None:
    """Commits the transaction; repeats the request after timeouts, for `seconds`.

    Raises:
        KafkaException: the broker's error. It is `_TIMED_OUT` if the broker ended the transaction
            while the commit waited, so that the caller can repeat the transaction.
    """
    kafka = confluent_kafka()
    deadline = time.monotonic() + seconds
    waited = False
    while True:
        try:
            producer.commit_transaction(min(seconds, _COMMIT_S))
            return
        except kafka.KafkaException as failure:
            error = failure.args[0]
            if not error.retriable():
                if not waited:
                    raise
                detail = f"brokers did not answer a commit, and then: {error.str()}"
                timeout = kafka.KafkaError(kafka.KafkaError._TIMED_OUT, detail)
                raise kafka.KafkaException(timeout) from failure
            if time.monotonic() > deadline:
                raise
            waited = True


def discard(producer: Any) -> None:
    """Purges a producer's queue and aborts its transaction, whatever its state is."""
    with suppress(Exception):
        producer.purge()
        producer.abort_transaction(_ABORT_S)


def timeout_problem(failure: BaseException, took_s: float, cluster: KafkaCluster) -> str | None:
    """Describes a failure by the transaction timeout; None if the failure has another cause."""
    kafka = confluent_kafka()
    if not isinstance(failure, kafka.KafkaException) or took_s * 1000 < cluster.transaction_ms:
        return None
    codes = kafka.KafkaError
    # A client timeout does not count: a broker may be unreachable for longer than that.
    ended = {codes.INVALID_TXN_STATE, codes._STATE}
    if not is_fenced(failure) and failure.args[0].code() not in ended:
        return None
    return (
        f"took longer than a transaction may be open ({cluster.transaction_ms} ms), and the broker"
        " has ended it; set transaction.timeout.ms in options, up to the broker's"
        " transaction.max.timeout.ms, or give the source smaller epochs (maxOffsetsPerTrigger,"
        " maxFilesPerTrigger)"
    )
